"""A log as a stream of its text: a compressed one is unpacked while it is read, and what is no text is refused."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import BinaryIO

from tfgpu_doctor.log.unpacked import MAGIC, Unpacked
from tfgpu_doctor.model.bundle import FACTS

_SAMPLE_BYTES = 4 << 10  # to tell text from other content
_LONGEST_MAGIC = 6
_LARGEST_ZIP_BYTES = 64 << 20
_PIECE_BYTES = 64 << 10
_BLANK = b" \t\r\n\0\xff\xfe\xef\xbb\xbf"  # with the marks of encodings
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TAR = slice(257, 262)  # where a tar archive says what it is
# No text has these characters, except for the bell, the backspace and the escape of terminals.
_CONTROL = re.compile(r"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROL, _MOST_CONTROL_SHARE = 7, 0.02  # compressed data has a share of 0.09
_LEAST_UTF_16, _MOST_OTHER = 0.2, 0.01  # shares of NUL bytes on either side of UTF-16 without its mark
# What is known by its first bytes, and the command that makes a text of it.
_OTHERS = {
    b"\x28\xb5\x2f\xfd": ("compressed with Zstandard", "zstd -dc {}"),
    b"\x04\x22\x4d\x18": ("compressed with LZ4", "lz4 -dc {}"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "7z x -so {}"),
    b"LPKSHHRH": ("a journal of systemd", "journalctl --file {}"),
}


class NotALogError(ValueError):
    """The content is no text; the message continues the name of the file, and says what to do."""


class OpenedLog:
    """What the lines are read from (`lines.blocks`). Reading raises NotALogError."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = "FILE" if name == "-" else name
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._first = b""
        self._unpacked: Unpacked | None = None
        self._sample: bytes | None = b""  # None: the content was judged
        self.has_text = False

    @property
    def damaged(self) -> str:
        """Why a compressed log could not be read to its end; empty if it could."""
        return self._unpacked.damaged if self._unpacked else ""

    def read1(self, size: int) -> bytes:
        """Return the next part of the text, empty at the end."""
        piece = self._next(size)
        if self._sample is not None:
            self._judge(piece)
        self.has_text = self.has_text or bool(piece.strip(_BLANK))
        return piece

    def read(self, size: int, /) -> bytes:
        """The same."""
        return self.read1(size)

    def _next(self, size: int) -> bytes:
        if self._unpacked:
            return self._unpacked.read1(size)
        if self._sample != b"":
            return self._read(size)
        while len(self._first) < _LONGEST_MAGIC and (piece := self._read(min(size, _PIECE_BYTES))):
            self._first += piece
        first, self._first = self._first, b""
        if first.startswith(_ZIP):
            raise NotALogError(self._about_zip(first))
        for magic, (kind, command) in _OTHERS.items():
            if first.startswith(magic):
                raise NotALogError(f"is {kind}: read it with `{command.format(self._name)} | tfgpu-doctor log -`")
        if kind := next((kind for magic, kind in MAGIC.items() if first.startswith(magic)), ""):
            self._unpacked = Unpacked(self._read, kind, first)
            return self._unpacked.read1(size)
        return first

    def _judge(self, piece: bytes) -> None:
        """Refuse content that is no text, once enough of it has come."""
        self._sample = (self._sample or b"") + piece
        if len(self._sample) < _SAMPLE_BYTES and piece:
            return
        sample, self._sample = self._sample, None
        if sample[_TAR] == b"ustar":
            raise NotALogError(f"is a tar archive: read it with `tar -xOf {self._name} | tfgpu-doctor log -`")
        if _is_binary(sample):
            raise NotALogError("contains binary data and no text: pass a log as its program wrote it")

    def _about_zip(self, first: bytes) -> str:
        content = [first]
        left = _LARGEST_ZIP_BYTES
        while left > 0 and (piece := self._read(_PIECE_BYTES)):
            content.append(piece)
            left -= len(piece)
        unzip = f"unzip -p {self._name}"
        try:
            with zipfile.ZipFile(io.BytesIO(b"".join(content))) as bundle:
                names = bundle.namelist()
        except zipfile.BadZipFile as error:
            return f"is a zip file that cannot be read ({error}), and no log"
        if FACTS not in names:
            return f"is a zip file: read what it contains with `{unzip} | tfgpu-doctor log -`"
        has_log = f", and its log with `{unzip} log.txt | tfgpu-doctor log -`" if "log.txt" in names else ""
        return f"is a ticket of tfgpu-doctor: diagnose it with `tfgpu-doctor check --facts {self._name}`{has_log}"


def _is_binary(sample: bytes) -> bool:
    """Whether more than a few characters are such as no text has; UTF-16 is read as such, and other NUL bytes are skipped."""
    text = sample.decode(_utf_16(sample) or "latin-1", "replace").replace("\0", "")
    found = len(_CONTROL.findall(text))
    return found > _MOST_CONTROL and found > _MOST_CONTROL_SHARE * len(text)


def _utf_16(sample: bytes) -> str:
    """The encoding, if it is UTF-16, as programs on Windows write it, mostly with its mark; else empty."""
    if sample.startswith(b"\xff\xfe"):
        return "utf-16-le"
    if sample.startswith(b"\xfe\xff"):
        return "utf-16-be"
    units = max(1, len(sample) // 2)
    first, second = sample[::2].count(0) / units, sample[1::2].count(0) / units
    if second >= _LEAST_UTF_16 and first <= _MOST_OTHER:
        return "utf-16-le"
    return "utf-16-be" if first >= _LEAST_UTF_16 and second <= _MOST_OTHER else ""
