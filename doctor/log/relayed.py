"""Take away what a relay writes around each line of a program: Ray, Docker Compose, kubectl, mpirun, JSON, other programs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# How lines of TensorFlow and of Python begin, wherever they stand in a line.
_BEGINS = re.compile(
    rb"(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?:? [IWEF] |[IWEF]\d{4} \d\d:\d\d:\d{2,12}\.\d{1,9} +\d{1,9} )"
    rb"[\w./\\-]{1,200}\.(?:cc|cpp|cu):\d+[\])]"
    rb"|(?<![\w./\\-])(?:[IWEF] )?[\w./\\-]{1,200}\.(?:cc|cpp|cu):\d+\] |Traceback \(most recent call last\):"
    rb"|(?:INFO|WARNING|ERROR):tensorflow:|\b[Ee]poch \d+/\d+\b|\| NVIDIA-SMI \d"
)
_MAY_BEGIN = re.compile(rb"\.(?:cc|cpp|cu):\d|Traceback \(|:tensorflow:|poch \d+/|NVIDIA-SMI \d")  # a quick look
_LONGEST = 200  # characters of what a relay writes in front
_LEAST_LINES = 2  # that begin alike: once, it may be what somebody writes before a quoted line
_HEAD_BYTES = 256 << 10  # of a block, to learn from
_MOST_BLOCKS = 8  # to learn from
_MOST_RELAYS = 64  # workers of a job each have their own prefix
# Marks of quotes and rows are read elsewhere, and so is a moment alone.
_NO_RELAY = re.compile(
    rb"[\s>|*`-]*|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]? ?(?:std(?:out|err) [FP] |\d\d[OE][ +]?)?"
)
_DIGITS = re.compile(rb"\d+")
# The end of a string of JSON, with the fields after it.
_BEHIND = rb'(?:(?:\\[rn])*"(?:, ?"\w{1,40}": ?(?:"[^"\n]{0,200}"|[\d.]{1,20}))*[ }\]]{0,4},?)?\r?$'


@dataclass
class Relays:
    """The relays found so far.

    What stands before lines of TensorFlow or Python is a relay's if another line begins alike, with other digits; then it is
    taken from every line that begins so. A string of JSON that has several lines stays as it is.
    """

    _relays: dict[bytes, re.Pattern[bytes]] = field(default_factory=dict)  # by what they write, digits as 0
    _learnt: int = 0  # blocks

    def learn(self, block: bytes) -> None:
        """Find what relays write before the lines of a block, the longest first; only the first blocks are looked at."""
        if self._learnt >= _MOST_BLOCKS or not _MAY_BEGIN.search(block, 0, _HEAD_BYTES):
            return
        self._learnt += 1
        lines = block[:_HEAD_BYTES].split(b"\n")
        found: dict[bytes, bytes] = {}
        for line in lines:
            begin = _BEGINS.search(line, 0, 2 * _LONGEST) if _MAY_BEGIN.search(line) else None
            if begin and 0 < begin.start() <= _LONGEST and not _NO_RELAY.fullmatch(line, 0, begin.start()):
                found.setdefault(_DIGITS.sub(b"0", line[: begin.start()]), line[: begin.start()])
        new = {shape: before for shape, before in found.items() if shape not in self._relays}
        for shape, before in list(new.items())[: _MOST_RELAYS - len(self._relays)]:
            plain = rb"\d+".join(map(re.escape, _DIGITS.split(before)))
            if sum(map(bool, map(re.compile(plain).match, lines))) >= _LEAST_LINES:
                behind = rb"([^\n]*?)" + _BEHIND if shape.endswith(b'"') else b""
                self._relays[shape] = re.compile(rb"^" + plain + behind, re.MULTILINE)
        self._relays = dict(sorted(self._relays.items(), key=lambda item: -len(item[0])))

    def without(self, text: bytes) -> bytes:
        """Return whole lines, those of relays bare."""
        for shape, relay in self._relays.items():
            text = relay.sub(_bare if shape.endswith(b'"') else b"", text)
        return text


def _bare(match: re.Match[bytes]) -> bytes:
    """What a string of JSON holds, if it is one line."""
    return match[0] if b"\\n" in match[1] else match[1].replace(b"\\t", b"\t")
