"""tfgpu-doctor names the one reason why TensorFlow does not use the GPU."""

from __future__ import annotations

TYPE_CHECKING = False  # nothing may be imported before __main__ removes the working folder from the search path
if TYPE_CHECKING:
    from tfgpu_doctor.model.facts.stress import Level
    from tfgpu_doctor.model.report import Report
    from tfgpu_doctor.tracing import trace
    from tfgpu_doctor.watching import WatchCallback, watch

if __name__ != "tfgpu_doctor":
    # Under the folder's name, every class would exist twice; CONTRIBUTING.md maps folders to packages.
    raise ImportError(
        f"this folder is the package tfgpu_doctor, not {__name__!r}: run `pip install -e .` and `import tfgpu_doctor`"
    )

from tfgpu_doctor._project import __version__  # noqa: E402 - under the folder's name there is no such package

__all__ = ["WatchCallback", "__version__", "check", "trace", "watch"]


def __getattr__(name: str) -> object:
    """Import what records a training when it is used: it needs more than the rest of this module."""
    if name == "trace":
        from tfgpu_doctor.tracing import trace

        return trace
    if name in ("watch", "WatchCallback"):
        from tfgpu_doctor import watching

        return getattr(watching, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check(*, python: str | None = None, quick: bool = False, level: Level = "standard", root: str = "/") -> Report:
    """Diagnose this machine and return the report, as the command `tfgpu-doctor check` does, checks of plugins included.

    `python` is the interpreter to diagnose (this one by default). `quick` does not run TensorFlow, like the level of
    that name. `root` is a folder to read the machine's files under.

    The arguments alone decide: no settings file is read, so every check counts, and TensorFlow has 120 seconds to answer.
    Raises ValueError for a level that there is not and a `root` that is no folder to read, and KeyboardInterrupt on Ctrl-C.
    """
    import time

    from tfgpu_doctor.collect.examination import Interrupted, examine
    from tfgpu_doctor.diagnose.engine import diagnose
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.model.report import Report
    from tfgpu_doctor.render.html_page import render_in_notebook

    _refuse_bad_level(level, quick=quick)
    _refuse_bad_root(root)
    Report.page_maker = render_in_notebook
    started = time.monotonic()
    try:
        facts = examine(python=python, quick=quick, level=level, root=root)
    except Interrupted:
        raise KeyboardInterrupt from None
    checks, broken = load_checks()
    return diagnose(facts, checks=checks, broken=broken, seconds=time.monotonic() - started)


def _refuse_bad_level(level: str, *, quick: bool) -> None:
    """Raise ValueError if there is no such level, or if `quick` means another one."""
    from tfgpu_doctor.model.facts.stress import LEVELS

    if level not in LEVELS:
        raise ValueError(f"there is no level {level!r}: the levels are {', '.join(LEVELS)}")
    if quick and level not in ("quick", "standard"):
        raise ValueError(f"quick=True means level='quick': it cannot be combined with level={level!r}")


def _refuse_bad_root(root: str) -> None:
    """Raise ValueError if that is no folder to read."""
    from tfgpu_doctor.host.files import why_no_root

    if not root:  # it would be read as the working folder
        raise ValueError("the folder `root` is empty: is a variable not set? Without `root` this machine is examined")
    if why := why_no_root(root):
        raise ValueError(f"root {root}: {why}")
