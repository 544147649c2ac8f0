"""The project's version, its address, and how to install its extras; publishing the project changes them."""

from __future__ import annotations

__version__ = "0.1.0"
ADDRESS = ""  # of the repository; empty until there is one
_INSTALL = "pip install '.[{extras}]' in a checkout of tfgpu-doctor"


def install(extras: str) -> str:
    """Return the command that installs extras, and where to run it: `install("bench,gpu")`."""
    return _INSTALL.format(extras=extras)


def report_it(what: str) -> str:
    """Return where to report an error of the doctor, and what to include."""
    place = f" at {ADDRESS}/issues" if ADDRESS else " to the project that provides the doctor"
    return f"report it{place}, and include {what}"
