"""The project's version, its address, and how to install its extras; publishing the project changes them."""

from __future__ import annotations

__version__ = "0.1.0"
ADDRESS = ""  # of the repository; empty until there is one
_INSTALL = "pip install '.[{extras}]' in a checkout of tfgpu-doctor"
_INSTALL_AGAIN = "install it again, in a checkout of tfgpu-doctor: {python} -m pip install --force-reinstall ."


def install(extras: str) -> str:
    """Return the command that installs extras, and where to run it: `install("bench,gpu")`."""
    return _INSTALL.format(extras=extras)


def install_again(python: str) -> str:
    """Return what to do where the installation of this Python, quoted for a shell, is broken."""
    return _INSTALL_AGAIN.format(python=python)


def report_it(what: str) -> str:
    """Return where to report an error of the doctor, and what to include."""
    place = f" at {ADDRESS}/issues" if ADDRESS else " to the project that provides the doctor"
    return f"report it{place}, and include {what}"
