"""Run a command, and kill it with all that it started as soon as whoever started this program is gone.

That one holds the other end of standard input, and writes nothing into it: when it ends, however it ends, this sees
the end of the file. Where this itself is killed, the command is told by SIGTERM, on Linux.
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
    """Run what the arguments say; see above."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform.startswith("linux") else None
    # What this was given open (a lock) stays open in the command, so that it is held until that has ended.
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
    kill(child)  # what it left behind
    os._exit(code if code >= 0 else 128 - code)


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the command and what it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


if __name__ == "__main__":
    main()
