"""The output of a running command: the beginning and the end of it are kept, however much it prints."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Sequence
from typing import IO

_CHUNK_BYTES = 1 << 16
_SELECTOR: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)  # no descriptor


class Kept:
    """Bytes of any number, of which the first and the last are kept."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self.left_out_bytes = 0

    @property
    def content(self) -> bytes:
        """What is kept; between its halves a line says how much was left out."""
        gap = b"\n... %d bytes left out ...\n" % self.left_out_bytes if self.left_out_bytes else b""
        return b"".join((self._head, gap, self._tail))

    def add(self, chunk: bytes) -> None:
        """Keep what there is room for."""
        room = self._half - len(self._head)
        self._head += chunk[:room] if room > 0 else b""
        self._tail += chunk[max(0, room) :]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self.left_out_bytes += surplus


class Pipes:
    """Pipes that are read together, each into its own `Kept`, on the thread of the caller."""

    def __init__(self, pipes: Sequence[tuple[IO[bytes], Kept]]) -> None:
        self._pipes = list(pipes)
        self._open = _SELECTOR() if os.name == "posix" else None
        self._threads: list[threading.Thread] = []
        for pipe, kept in self._pipes:
            if self._open is not None:
                self._open.register(pipe, selectors.EVENT_READ, kept)
            else:  # Windows cannot wait for several pipes at once
                self._threads.append(threading.Thread(target=_read_all, args=(pipe, kept), daemon=True))
                self._threads[-1].start()

    def read(self, wait_s: float) -> bool:
        """Read what arrives within some time, until it first arrives; return False once every pipe has ended."""
        if self._open is None:
            for thread in self._threads:
                thread.join(wait_s / len(self._threads))
            return any(thread.is_alive() for thread in self._threads)
        if not self._open.get_map():
            return False
        for key, _ in self._open.select(max(0.0, wait_s)):
            chunk = os.read(key.fd, _CHUNK_BYTES)
            if chunk:
                key.data.add(chunk)
            else:
                self._open.unregister(key.fileobj)
        return bool(self._open.get_map())

    def drain(self, within_s: float) -> None:
        """Read what is still in the pipes, at most for some time, and close them."""
        end = time.monotonic() + within_s
        while (left := end - time.monotonic()) > 0 and self.read(left):
            pass
        if self._open is not None:
            self._open.close()
            for pipe, _ in self._pipes:
                pipe.close()


def _read_all(pipe: IO[bytes], kept: Kept) -> None:
    with pipe:
        while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
            kept.add(chunk)
