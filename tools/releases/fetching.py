"""HTTP for the maintainer's scripts: whole documents and byte ranges, retried after network errors."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import TypeVar

_TRIES = 4
_TIMEOUT_S = 60.0
_FIRST_PAUSE_S = 1.0
_AGENT = {"User-Agent": "tfgpu-doctor/tools (reads release metadata)"}
_PASSING = (408, 425, 429)  # status codes that are worth a retry, in addition to those from 500 on

Answer = TypeVar("Answer")


class Unreachable(Exception):
    """A document that could not be fetched; the message says which and why."""


class NoRanges(Unreachable):
    """The server sends only whole files."""


def fetch(url: str, headers: Mapping[str, str] = {}) -> tuple[bytes, str]:
    """Return a whole document, and its content type. Raises Unreachable."""

    def once() -> tuple[bytes, str]:
        with urllib.request.urlopen(_request(url, headers), timeout=_TIMEOUT_S) as answer:
            return answer.read(), answer.headers.get("Content-Type", "")

    return _with_patience(url, once)


def fetch_range(url: str, start: int, length: int) -> bytes:
    """Return `length` bytes from `start` on, fewer at the end of the file. Raises Unreachable."""
    return _ranged(url, f"bytes={start}-{start + length - 1}", length)[0]


def fetch_tail(url: str, length: int) -> tuple[bytes, int]:
    """Return the last bytes of a file, and its total size. Raises Unreachable."""
    content, range_ = _ranged(url, f"bytes=-{length}", length)
    return content, int(range_.rpartition("/")[2])


def _ranged(url: str, range_: str, length: int) -> tuple[bytes, str]:
    def once() -> tuple[bytes, str]:
        with urllib.request.urlopen(_request(url, {"Range": range_}), timeout=_TIMEOUT_S) as answer:
            if answer.status != 206:  # the body, which is the whole file, is not read
                raise NoRanges(f"{url} cannot be read in parts: its server ignores Range")
            content = answer.read(length + 1)
            given = answer.headers.get("Content-Range", "")
        if not given or len(content) > length:
            raise NoRanges(f"{url} cannot be read in parts: its server responds incorrectly to {range_}")
        return content, given

    return _with_patience(url, once)


def _request(url: str, headers: Mapping[str, str]) -> urllib.request.Request:
    return urllib.request.Request(url, headers={**_AGENT, **headers})


def _with_patience(url: str, once: Callable[[], Answer]) -> Answer:
    pause_s = _FIRST_PAUSE_S
    for left in reversed(range(_TRIES)):
        try:
            return once()
        except urllib.error.HTTPError as error:
            error.close()
            lasting = error.code < 500 and error.code not in _PASSING
            if lasting or not left:
                raise Unreachable(f"{url}: HTTP {error.code} {error.reason}") from error
        except (OSError, HTTPException) as error:  # a URLError is an OSError
            if not left:
                raise Unreachable(
                    f"{url}: {getattr(error, 'reason', None) or error or type(error).__name__}"
                ) from error
        time.sleep(pause_s)
        pause_s *= 2
    raise AssertionError("the last try returns or raises")
