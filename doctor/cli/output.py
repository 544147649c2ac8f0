"""Where a command's document goes, and how a command refuses."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from tfgpu_doctor.host.files import write_whole

WRONG_USAGE = 2


def note(text: str) -> None:
    """One line for the person, on standard error."""
    if sys.stderr is not None:
        try:
            print(f"tfgpu-doctor: {text}", file=sys.stderr, flush=True)
        except OSError:
            pass  # nobody listens


def refuse(why: str) -> NoReturn:
    """End with one line that says what is wrong with the usage or the input."""
    note(f"error: {why}")
    raise SystemExit(WRONG_USAGE)


def deliver(document: str, output: str | None) -> None:
    """Write the document to a file, whole or not at all, or to standard output.

    A reader that went away (a closed pipe) changes nothing about the verdict; a full disk is refused.
    """
    if output is not None:
        try:
            write_whole(output, document.encode())
        except OSError as error:
            refuse(f"{output} cannot be written: {error.strerror or error}")
        return
    if sys.stdout is None:
        note("standard output is closed; the report is lost, the exit code tells the verdict")
        return
    try:
        sys.stdout.buffer.write(document.encode(sys.stdout.encoding or "utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        refuse(f"standard output cannot be written: {error.strerror or error}")
