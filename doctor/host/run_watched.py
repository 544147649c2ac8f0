"""Run a command, and kill it with all its children as soon as the process that started this program exits.

That process has the other end of standard input: when it exits for any reason, this program reads the end of the file.
A byte before its end says that the process is still there, and only wants an end. If this program itself is killed, the
command receives SIGTERM, on Linux. With the option --with-family before the command, also what it started in a session
of its own is killed, on Linux. With `--remove FOLDER` before that, this folder is removed when that process closes its end of
standard input or exits, also after this program has ended or was killed. With `--tell DESCRIPTOR` before all that,
the number of the error is written there if the command cannot be started; it is closed as soon as it has started.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

JANITOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "janitor.py")
LOOK_EVERY_S = 0.1
PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 1.0  # after SIGKILL; a process that survives is blocked in the kernel


def main() -> None:
    """Run the command in the arguments; see above."""
    prctl = _prctl()
    argv, adopts, folder, tells = sys.argv[1:], False, "", -1
    if argv[0] == "--tell":
        tells, argv = int(argv[1]), argv[2:]
        os.set_inheritable(tells, False)  # the command's start closes it in the child
    if argv[0] == "--remove":
        folder, argv = argv[1], argv[2:]
    if argv[0] == "--with-family":
        argv, adopts = argv[1:], prctl is not None and prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    janitor = _janitor(folder) if folder else None  # before the command: this program may be killed as that begins
    # File descriptors that this program inherited (a lock) stay open in the command, so that it is held until that has ended.
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            close_fds=False,
            start_new_session=True,
            preexec_fn=prctl and (lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)),  # noqa: PLW1509 - there is one thread
        )
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a word
        if tells < 0:
            raise
        os.write(tells, b"%d" % (getattr(error, "errno", 0) or 22))  # EINVAL
        os._exit(127)
    if tells >= 0:
        os.close(tells)
    if janitor and janitor.stdin:
        janitor.stdin.write(b"%d\n" % child.pid)
        janitor.stdin.flush()
    while child.poll() is None:
        ready, _, _ = select.select([0], [], [], LOOK_EVERY_S)
        if ready:
            kill(child)
            break
    code = child.wait()
    kill(child)  # children that it left behind
    if adopts:
        end_adopted()
    if janitor and janitor.stdin:
        janitor.stdin.write(b"done")
        janitor.stdin.flush()
    os._exit(code if code >= 0 else 128 - code)


def _prctl() -> Callable[..., int] | None:
    """The system call; None where there is none, or where this Python was built without ctypes."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes
    except ImportError:
        return None
    return getattr(ctypes.CDLL(None), "prctl", None)


def _janitor(folder: str) -> subprocess.Popen[bytes]:
    """Start the one who removes the folder when the process that started this program closes its end of standard input."""
    until = os.dup(0)
    try:
        argv = [sys.executable, "-B", "-I", JANITOR, "--until-closed", str(until), folder]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=(until,), start_new_session=True)
    finally:
        os.close(until)


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the command and its children."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def end_adopted() -> None:
    """Kill the processes whose parents have ended, and theirs."""
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # nobody is left
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        os.kill(int(name), signal.SIGKILL)
            except OSError:
                continue
        time.sleep(LOOK_EVERY_S / 10)


if __name__ == "__main__":
    main()
