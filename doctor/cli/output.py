"""Output of a command's document, and rejection of wrong usage."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from tfgpu_doctor.host.files import Files, write_whole
from tfgpu_doctor.model.plain_text import one_line

WRONG_USAGE = 2


def note(text: str) -> None:
    """Print one line for the user on standard error, whatever names and messages it quotes."""
    if sys.stderr is not None:
        try:
            print(f"tfgpu-doctor: {one_line(text)}", file=sys.stderr, flush=True)
        except OSError:
            pass  # there is no reader


def refuse(why: str) -> NoReturn:
    """Exit with one line that states what is wrong with the usage or the input."""
    note(f"error: {why}")
    raise SystemExit(WRONG_USAGE)


def refuse_unwritable(path: str) -> None:
    """Exit if a file cannot be written, as far as that shows before: a measurement of minutes would be lost."""
    folder = os.path.dirname(os.path.abspath(path))
    files = Files()
    if not files.exists(folder):
        refuse(f"{path} cannot be written: create the folder {folder} first")
    if files.exists(path) and files.status(path).kind == "folder":
        refuse(f"{path} cannot be written: it is a folder")
    if not files.is_writable(path if files.exists(path) else folder):
        refuse(f"{path} cannot be written: this user may not, or the file system is read-only; choose another place")


def refuse_empty_root(root: str) -> None:
    """Exit if --root is empty: it would be read as the working folder."""
    if not root:
        refuse("the folder of --root is empty: is a variable not set? Without --root this machine is examined")


def deliver(document: str, output: str | None) -> None:
    """Write the document to a file, completely or not at all, or to standard output.

    A closed pipe does not change the verdict; a full disk is an error.
    """
    if output is not None:
        try:
            write_whole(output, document.encode())
        except OSError as error:
            refuse(f"{output} cannot be written: {error.strerror or error}")
        return
    if sys.stdout is None:
        note("standard output is closed; the report is lost, the exit code gives the verdict")
        return
    try:
        sys.stdout.buffer.write(document.encode(sys.stdout.encoding or "utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python flushes again at exit, and would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        refuse(f"standard output cannot be written: {error.strerror or error}")
