"""The task that Ray runs on each node: the doctor as a separate program, independent of how it ends.

Ray sends this file as it is to nodes that may not have the doctor: it uses only the standard library.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def examine(
    options: list[str], files: dict[str, bytes], deadline_s: float, began: Callable[[], object]
) -> dict[str, object]:
    """Run `fleet node` with these options in a folder that contains these files; return its result, or why there is none.

    `document` is the node's report; `outcome` and `why` are set if there is no report. Calls `began` first.
    """
    began()
    # Where the package lies, without importing it: a broken library of it is the doctor's own to name.
    package = importlib.util.find_spec("tfgpu_doctor")
    places = list(package.submodule_search_locations or ()) if package else []
    if not places:
        return {"outcome": "not started", "why": "tfgpu-doctor is not installed in " + sys.executable}
    watcher = os.path.join(places[0], "host", "run_watched.py")
    with contextlib.ExitStack() as at_last, tempfile.TemporaryDirectory(prefix="tfgpu-doctor-") as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        out = os.path.join(folder, "out")
        os.mkdir(out)
        argv = [sys.executable, "-m", "tfgpu_doctor", "fleet", "node", "--out", out, *options]
        return run([sys.executable, "-I", watcher, "--remove", folder, *argv], folder, out, deadline_s, at_last)


def run(argv: list[str], folder: str, out: str, deadline_s: float, at_last: contextlib.ExitStack) -> dict[str, object]:
    """Run to the end or to the deadline; without Ray's own variables, which hide GPUs from tasks that requested none.

    `at_last` is for what must come after the folder is gone.
    """
    log = os.path.join(folder, "log")
    with open(log, "wb") as file:
        # Its standard input closes when this process ends for any reason: the watcher sees it, and ends the doctor. What
        # the watcher has started removes the folder then: Ray 2.60 kills a worker about 0.1 s after SIGTERM.
        # A separate session: Ray kills its workers by process group, and the watcher survives to end the doctor.
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=file, stderr=file, cwd=folder, start_new_session=True
        )
        at_last.callback(close, process)
        try:
            code = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(process)
    names = os.listdir(out)
    if names:
        with open(os.path.join(out, names[0]), "rb") as file:
            return {"document": file.read()}
    if code is None:
        return {"outcome": "hung", "why": "the doctor did not finish within %g s on the node" % deadline_s}
    return {"outcome": "died" if signal_of(code) else "not started", "why": last_words(log, code)}


def signal_of(code: int) -> int:
    """The signal that ended the doctor, which its watcher tells as 128 and more, or the watcher itself (negative); else 0."""
    return -code if code < 0 else max(0, code - 128)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the watcher and the doctor, if they still run; the folder stays until what they wrote has been read."""
    try:
        if process.stdin:
            os.write(process.stdin.fileno(), b"x")
    except OSError:
        pass  # it has ended
    process.wait()


def close(process: subprocess.Popen[bytes]) -> None:
    """Let go of the folder, which is gone by now unless it could not be removed."""
    if process.stdin:
        process.stdin.close()


def last_words(log: str, code: int) -> str:
    """The last line that the doctor wrote, and how it ended."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        lines = file.read(4096).decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    signal = signal_of(code)
    ended = "signal %d" % signal if signal else "exit code %d" % code
    return ": ".join(["the doctor ended with " + ended, *said[-1:]])
