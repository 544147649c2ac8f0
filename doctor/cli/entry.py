"""The command `tfgpu-doctor`: signals wait while the rest is imported, and what prevents even that is named."""

from __future__ import annotations

import mmap
import os
import sys

from tfgpu_doctor.cli.interrupts import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_NOTHING_JUDGED = 3
_RESERVED_BYTES = 4 << 20  # of addresses: to say so, and to remove temporary files, where there are no more
# Of addresses, from here on: an examination takes up to 34 MiB. Where CPython itself finds none for an exception, it may
# crash, or try again for ever: https://github.com/python/cpython/issues/132508
_NEEDED_BYTES = 48 << 20
_RESERVE: list[mmap.mmap] = []


def main() -> NoReturn:
    """Run the command line, and exit with its code."""
    hold()
    try:
        _RESERVE.append(_mapped(_RESERVED_BYTES))
    except (MemoryError, OSError):
        pass  # what needs more will say so
    try:
        from tfgpu_doctor._exhaustion import exhausted
    except (MemoryError, SystemError, OSError, ImportError):
        _free()
        _end(f"tfgpu-doctor: {_too_little()}\n")
    if not _has_room() and (words := exhausted(MemoryError())):
        _end(f"tfgpu-doctor: {words}\n")
    try:
        from tfgpu_doctor.cli.main import main as run
        from tfgpu_doctor.host.adoption import ADOPTION
    except Exception as error:  # noqa: BLE001 - a broken library may raise anything
        _free()
        _end(f"tfgpu-doctor: {exhausted(error) or _broken(error)}\n")
    try:
        ADOPTION.allow()
        run()
    except (MemoryError, SystemError, OSError, RuntimeError, ImportError) as error:
        _free()
        words = exhausted(error) or _without_folder(error) or (_broken(error) if isinstance(error, ImportError) else "")
        if not words:
            raise
        _end(f"tfgpu-doctor: {words}\n")


def _mapped(size_bytes: int) -> mmap.mmap:
    """Memory of this process alone: what is shared does not count for `ulimit -d`. Raises MemoryError or OSError."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _has_room() -> bool:
    """Whether the limits leave the addresses that the doctor needs."""
    try:
        _mapped(_NEEDED_BYTES).close()
    except (MemoryError, OSError):
        return False
    return True


def _free() -> None:
    """Let go of the reserve."""
    while _RESERVE:
        _RESERVE.pop().close()


def _broken(error: BaseException) -> str:
    """What to say where one of the libraries that the doctor needs is missing or broken."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    if trace and os.path.isabs(file := trace.tb_frame.f_code.co_filename):
        said += f", in {file}"
    if hiding := _hiding(error):  # before what follows: no more is imported than must be
        return f"its own packages cannot be imported ({said}): {hiding}"
    import shlex

    from tfgpu_doctor import _project

    return f"its own packages cannot be imported ({said}); {_project.install_again(shlex.quote(sys.executable))}"


def _hiding(error: BaseException) -> str:
    """What to say where a file hides a module of Python's or of the doctor's; empty if none does.

    It is in a folder that Python searches before its own library, which PYTHONPATH puts there.
    """
    path, library = [os.path.normpath(each) for each in sys.path if os.path.isabs(each)], os.path.dirname(os.__file__)
    first = path[: path.index(library)] if library in path else []
    for file in _files_of(error):
        folder = next((each for each in first if file.startswith(os.path.join(each, ""))), "")
        name = file[len(folder) + 1 :].split(os.sep)[0].partition(".")[0]
        is_module = any(
            os.path.isfile(os.path.join(folder, each)) for each in (f"{name}.py", os.path.join(name, "__init__.py"))
        )
        if folder and is_module and name != "tfgpu_doctor" and _is_also_elsewhere(name, path[path.index(folder) + 1 :]):
            return f"{file} hides the module {name}; rename that file, or take its folder out of PYTHONPATH (`unset PYTHONPATH`)"
    return ""


def _files_of(error: BaseException) -> list[str]:
    """The files that an exception names, and then those of its traceback, the innermost first."""
    named, trace = [getattr(error, "path", None), getattr(error, "filename", None)], error.__traceback__
    words = str(error).split("'")  # "module 'json' has no attribute 'dumps'"
    named += [getattr(sys.modules.get(words[1]), "__file__", None)] if words[0] == "module " and len(words) > 1 else []
    frames = []
    while trace:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return [each for each in (*named, *reversed(frames)) if isinstance(each, str) and os.path.isabs(each)]


def _is_also_elsewhere(name: str, folders: list[str]) -> bool:
    """Whether there is another module of that name: Python's own, or one in these folders."""
    own = {*sys.builtin_module_names, *getattr(sys, "stdlib_module_names", ())}  # the second from Python 3.10 on
    return name in own or any(
        os.path.exists(os.path.join(each, file)) for each in folders for file in (name, f"{name}.py")
    )


def _without_folder(error: BaseException) -> str:
    """What to say where a command needs a temporary folder, and there is none; empty if it failed for another reason."""
    scratch = sys.modules.get("tfgpu_doctor.host.scratch")
    return str(error.strerror) if scratch and isinstance(error, scratch.NoTemporaryFolder) else ""


def _too_little() -> str:
    """What to say where not even the doctor's own module about limits can be imported."""
    try:
        import resource

        soft = {"v": resource.getrlimit(resource.RLIMIT_AS)[0], "n": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
    except (MemoryError, OSError, ImportError):
        return "it gets no memory, or no file, to begin with: raise the limits that `ulimit -v` and `ulimit -n` show"
    present = f"ulimit -v is {soft['v'] // 1024 if soft['v'] >= 0 else 'unlimited'} and ulimit -n is {soft['n']}"
    return f"it gets no memory, or no file, to begin with: {present}; raise the limit in this shell, and run the doctor again"


def _end(line: str) -> NoReturn:
    """Say why nothing could be judged, and exit at once."""
    if scratch := sys.modules.get("tfgpu_doctor.host.scratch"):
        scratch.end_run()
    if sys.stderr is not None:
        sys.stderr.write(line)
        sys.stderr.flush()
    os._exit(_NOTHING_JUDGED)
