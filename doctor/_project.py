"""The project's version, its address, and how its extras are installed: what changes on the day it is published."""

from __future__ import annotations

__version__ = "0.1.0"
ADDRESS = ""  # of the repository; empty until there is one
_INSTALL = "pip install '.[{extras}]' in a checkout of tfgpu-doctor"


def install(extras: str) -> str:
    """The command that brings extras, and where it is given: `install("bench,gpu")`."""
    return _INSTALL.format(extras=extras)


def report_it(what: str) -> str:
    """Where to report an error of the doctor's own, and what to send along."""
    place = f" at {ADDRESS}/issues" if ADDRESS else " to the project that you have the doctor from"
    return f"report it{place}, with {what}"
