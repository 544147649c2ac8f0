"""Run a command, and kill it with all its children as soon as the process that started this program exits.

That process has the other end of standard input, and writes nothing to it: when it exits for any reason, this
program reads the end of the file. If this program itself is killed, the command receives SIGTERM, on Linux.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

LOOK_EVERY_S = 0.1
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Run the command in the arguments; see above."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform.startswith("linux") else None
    # File descriptors that this program inherited (a lock) stay open in the command, so that it is held until that has ended.
    child = subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        close_fds=False,
        start_new_session=True,
        preexec_fn=prctl and (lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)),  # noqa: PLW1509 - there is one thread
    )
    while child.poll() is None:
        ready, _, _ = select.select([0], [], [], LOOK_EVERY_S)
        if ready and not os.read(0, 1):
            kill(child)
            break
    code = child.wait()
    kill(child)  # children that it left behind
    os._exit(code if code >= 0 else 128 - code)


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the command and its children."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


if __name__ == "__main__":
    main()
