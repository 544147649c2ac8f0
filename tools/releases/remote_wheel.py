"""Read single files of a wheel on a server: only the zip's directory and those members are transferred."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator

from releases.fetching import Unreachable, fetch_range, fetch_tail

_TAIL_BYTES = 1 << 18  # contains the central directory of a TensorFlow wheel in most cases
_CHUNK_BYTES = 1 << 20
_LOCAL_HEADER_BYTES = 30
_LOCAL_MAGIC = b"PK\x03\x04"


class _Tail(io.RawIOBase):
    """A file whose end is already available; the rest is read in ranges when zipfile requests it."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._tail, self._size = fetch_tail(url, _TAIL_BYTES)
        self._place = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        if place < 0:
            raise OSError("a position before the start of the file")
        self._place = place
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> bytes:
        wanted = self._size - self._place if size < 0 else min(size, self._size - self._place)
        if wanted <= 0:
            return b""
        start = self._size - len(self._tail)
        if self._place < start:
            self._tail = fetch_range(self._url, self._place, start - self._place) + self._tail
            start = self._place
        found = self._tail[self._place - start : self._place - start + wanted]
        self._place += len(found)
        return found


class RemoteWheel:
    """The members of one wheel. Raises Unreachable, also for a damaged wheel."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            with zipfile.ZipFile(_Tail(url)) as archive:
                self._members = {info.filename: info for info in archive.infolist()}
        except zipfile.BadZipFile as error:
            raise Unreachable(f"{url} is not a wheel: {error}") from error

    def find(self, ending: str) -> str | None:
        """Return the name of the member with this ending that is highest in the folder tree."""
        return min((name for name in self._members if name.endswith(ending)), key=len, default=None)

    def text(self, member: str) -> str:
        """Return the content of a small member."""
        content = b"".join(self.stream(member))
        if len(content) != self._members[member].file_size:
            raise Unreachable(f"{member} in {self._url} is truncated")
        return content.decode("utf-8", "replace")

    def stream(self, member: str) -> Iterator[bytes]:
        """Yield the member's content from its start, in pieces; only the pieces that the reader requests are transferred."""
        info = self._members[member]
        header = fetch_range(self._url, info.header_offset, _LOCAL_HEADER_BYTES)
        if header[:4] != _LOCAL_MAGIC or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreachable(f"{member} in {self._url} uses an unknown compression format")
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        place = info.header_offset + _LOCAL_HEADER_BYTES + lengths
        end = place + info.compress_size
        inflater = zlib.decompressobj(-zlib.MAX_WBITS) if info.compress_type == zipfile.ZIP_DEFLATED else None
        while place < end:
            piece = fetch_range(self._url, place, min(_CHUNK_BYTES, end - place))
            if not piece:
                raise Unreachable(f"{member} in {self._url} is truncated")
            place += len(piece)
            yield inflater.decompress(piece) if inflater else piece
