"""Read a saved notebook: what its cells printed as plain lines, their code as it is, and nothing of their text and pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfgpu_doctor.host.json_text import read_json

_HEAD_BYTES = 64 << 10
_FIRST_KEY = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*:')
_CELL = re.compile(rb'^\s*"cell_type"\s*:', re.MULTILINE)  # not where the whole is one line
_KEY = re.compile(rb'\s*"([\w/+.-]{1,60})"\s*:\s*(\[)?')
_END = re.compile(rb"\s*\],?\s*$")
_TYPE = re.compile(rb'\s*"cell_type"\s*:\s*"(\w+)"')
_OUTPUTS = (b"text", b"text/plain", b"traceback")
_CODE = (b"source", b"input")
_OF_OBJECTS = (b"worksheets", b"cells", b"outputs")


@dataclass
class Notebook:
    """A log that may be a notebook, as editors write it: a line for each key, and for each line of a list."""

    is_one: bool | None = None  # None: nothing was read yet
    _list: bytes = b""  # the key whose list is being read
    _is_code: bool = True  # whether the cell holds code

    def plain(self, block: bytes) -> bytes:
        """Return a block with as many lines; that of another log is unchanged."""
        if self.is_one is None:
            head = block[:_HEAD_BYTES]
            self.is_one = bool(_FIRST_KEY.match(head) and _CELL.search(head))
        if not self.is_one:
            return block
        return b"\n".join(map(self._plain, block.split(b"\n")))

    def _plain(self, line: bytes) -> bytes:
        if self._list:
            if _END.match(line):
                self._list = b""
                return b""
            if self._list in _OUTPUTS:
                return _printed(line)
            return line if self._list in _CODE and self._is_code else b""
        key = _KEY.match(line)
        if not key:
            return b""
        if kind := _TYPE.match(line):
            self._is_code = kind[1] == b"code"
        rest = line[key.end() :].strip()
        if key[2] and not rest:
            self._list = b"" if key[1] in _OF_OBJECTS else key[1]
            return b""
        if key[1] in _OUTPUTS:
            return _printed(rest)
        return line if key[1] in _CODE and self._is_code else b""


def _printed(value: bytes) -> bytes:
    """The text of a string of JSON; several lines stay on one, as such a string, which is split where it is searched."""
    try:
        said = str(read_json(value.strip().rstrip(b","))).rstrip("\r\n")
    except ValueError:  # a part of a long line
        return value
    if "\n" in said:
        said = '"' + said.replace("\n", "\\n") + '"'
    return said.encode("utf-8", "replace")
