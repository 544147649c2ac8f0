"""Files that nobody wants to read: no regular files, without end, nested, broken, or of another kind than expected."""

from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Callable, Mapping

Make = Callable[[pathlib.Path], None]
_DEEP = 200_000


def _content(content: bytes) -> Make:
    def make(path: pathlib.Path) -> None:
        path.write_bytes(content)

    return make


def _link(target: str) -> Make:
    def make(path: pathlib.Path) -> None:
        path.symlink_to(target)

    return make


def _socket(path: pathlib.Path) -> None:
    back = pathlib.Path.cwd()
    os.chdir(path.parent)  # the name of a socket has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(back)


def _sparse(path: pathlib.Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)  # more than an attempt may take in memory


# By name; each makes the file at a path whose folder exists.
HOSTILE_FILES: Mapping[str, Make] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a link to /dev/zero": _link("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": _link("/nonexistent/file"),
    "a folder": lambda path: path.mkdir(),
    "a socket": _socket,
    "a GiB of nothing": _sparse,
    "empty": _content(b""),
    "deep brackets": _content(b"[" * _DEEP),
    "deep lists, closed": _content(b"[" * _DEEP + b"]" * _DEEP),
    "deep objects": _content(b'{"schema":1,"a":' + b'{"a":' * _DEEP + b"1" + b"}" * _DEEP + b"}"),
    "deep tables": _content(b"a = " + b"{a = " * _DEEP + b"1" + b"}" * _DEEP),
    "a key of many parts": _content(b"a." * _DEEP + b"a = 1\n"),
    "a million digits": _content(b'{"schema": ' + b"1" * 1_000_000 + b"}"),
    "no number": _content(b'{"schema": NaN, "seconds": Infinity}'),
    "a list": _content(b"[1, 2, 3]"),
    "null": _content(b"null"),
    "a name twice": _content(b'{"schema": 1, "schema": 2}'),
    "a lone surrogate": _content(b'{"schema": 1, "node": "\\ud800", "a": "\\udfff"}'),
    "no UTF-8": _content(b"\xff\xfe\x80" * 1000),
    "UTF-16": _content('{"schema": 1}'.encode("utf-16")),
    "zeros": _content(bytes(1 << 20)),
    "one line of 8 MiB": _content(b"a" * (8 << 20)),
    "terminal codes": _content(b'\x1b]0;owned\x07\x1b[2J::error::forged\n##vso[task.complete]\n{"schema": 1}'),
    "a zip of nothing": _content(b"PK\x05\x06" + bytes(18)),
    "half a zip": _content(b"PK\x03\x04" + bytes(26) + b"facts.json"),
    "gzip of zeros, cut": _content(bytes.fromhex("1f8b08000000000002ff") + b"\xed\xc1" * 1000),
}
