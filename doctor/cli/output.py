"""Output of a command's document, and rejection of wrong usage."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from tfgpu_doctor.cli.interrupts import Undisturbed
from tfgpu_doctor.host.files import Files, is_mount_point, silence, why_no_root, write_whole
from tfgpu_doctor.host.open_streams import stream_of
from tfgpu_doctor.model.plain_text import one_line

WRONG_USAGE = 2
# What stands for marks of the documents where standard output's encoding lacks them: pass and fail must not look alike.
_PLAIN_MARKS = {"✓": "+", "✗": "x", "☠": "X", "·": ".", "•": "*", "…": "...", "→": "->", "█": "#"}
_PLAINLY = "tfgpu_doctor.plain_marks"  # a way to encode, as "replace" is one


def _plain_marks(error: UnicodeError) -> tuple[str, int]:
    """Return what to encode in place of the characters that the encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN_MARKS.get(each, "?") for each in error.object[error.start : error.end]), error.end


codecs.register_error(_PLAINLY, _plain_marks)


class _Said:
    """What the command has said so far."""

    def __init__(self) -> None:
        self.document = self.file = self.interrupted = False


_SAID = _Said()


def note(text: str) -> None:
    """Print one line for the user on standard error, whatever names and messages it quotes."""
    _SAID.interrupted |= text.startswith("interrupted")
    if sys.stderr is not None:
        try:
            print(f"tfgpu-doctor: {one_line(text)}", file=sys.stderr, flush=True)
        except OSError:
            pass  # there is no reader


def refuse(why: str) -> NoReturn:
    """Exit with one line that states what is wrong with the usage or the input."""
    note(f"error: {why}")
    raise SystemExit(WRONG_USAGE)


def refuse_unwritable(*paths: str | None) -> None:
    """Exit if one of the files cannot be written, as far as that shows before: the work of minutes would be lost."""
    files = Files()
    for path in paths:
        if path is None:
            continue
        if not path:
            refuse("the name of the file to write is empty: is a variable not set?")
        try:
            if stream_of(path) is not None:  # whoever opened it could write to it
                continue
            place = os.path.realpath(path)
        except OSError:
            refuse(f"{path} cannot be written: the working folder is gone; change into one that exists")
        folder, exists = os.path.dirname(place), files.exists(place)
        kind = files.status(place).kind if exists else ""
        if not os.path.isdir(folder):
            refuse(f"{path} cannot be written: create the folder {folder} first")
        if kind == "folder":
            refuse(f"{path} cannot be written: it is a folder")
        # A file is replaced by another in its folder, unless it is a mount point.
        written = [place] * exists + [folder] * (kind in ("", "file") and not is_mount_point(place))
        if not all(map(files.is_writable, written)):
            refuse(
                f"{path} cannot be written: this user may not, or the file system is read-only; choose another place"
            )


def refuse_bad_root(root: str) -> None:
    """Exit if --root is no folder to read."""
    if not root:  # it would be read as the working folder
        refuse("the folder of --root is empty: is a variable not set? Without --root this machine is examined")
    if why := why_no_root(root):
        refuse(f"--root {root}: {why}")


def saved(path: str, document: bytes, *, costly: bool = False) -> bool:
    """Write a file, completely or not at all. Where that fails, say so in one line, and return False.

    A `costly` document, the work of minutes, is then printed on standard error.
    """
    try:
        write_whole(path, document)
    except OSError as error:
        note(f"error: {path} cannot be written: {error.strerror or error}")
        if costly and sys.stderr is not None:
            with contextlib.suppress(OSError):  # there is no reader
                sys.stderr.write(document.decode("utf-8", "replace"))
                sys.stderr.flush()
        return False
    _SAID.file = True
    return True


def deliver(document: str, output: str | None, *, costly: bool = False) -> None:
    """Write the document to a file, completely or not at all, or to standard output; `costly` is as for `saved`.

    A closed pipe does not change the verdict; a full disk is an error.
    """
    if output is not None:
        if not saved(output, document.encode(), costly=costly):
            raise SystemExit(WRONG_USAGE)
        return
    if sys.stdout is None:
        note("standard output is closed; the report is lost, the exit code gives the verdict")
        return
    _SAID.document = True
    try:
        with Undisturbed():  # half a document is none
            sys.stdout.buffer.write(document.encode(sys.stdout.encoding or "utf-8", _PLAINLY))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        silence(sys.stdout.fileno())  # Python flushes again at exit, and would print an error
    except OSError as error:
        refuse(f"standard output cannot be written: {error.strerror or error}")


def say_interrupted(arguments: Sequence[str]) -> None:
    """Where an interrupted command printed no document: say so, in the document where JSON was asked for as well."""
    if not (_SAID.interrupted or _SAID.document or _SAID.file):
        note("interrupted: there is nothing to report yet")
    if not _SAID.document and _wants_json(arguments):
        deliver('{"schema": 1, "interrupted": true}\n', None)


def forget_said() -> None:
    """Another command begins in this process."""
    _SAID.document = _SAID.file = _SAID.interrupted = False


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether a JSON document was to be printed on standard output."""
    words = list(itertools.takewhile(lambda word: word != "--", arguments))
    is_json = "--format=json" in words or ("--format", "json") in itertools.pairwise(words)
    return is_json and not any(re.match(r"-[a-z]?o|--output(=|$)", word) for word in words)
