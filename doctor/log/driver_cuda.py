"""The CUDA version that a text attributes to the driver: the newest that the driver supports, and not the installed one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\n;]")
_REACH = 160  # characters before a version, and after it
_SMI = r"[`'\"]*nvidia[- ]?smi\b[`'\"]*"
_SHOWS = (
    r"(?:shows?|showed|showing|says?|said|reports?|reported|displays?|displayed|prints?|printed|gives?|lists?|states?)"
)
_BETWEEN = (
    r"(?:[\W\d_]|\b(?:a|an|as|and|at|cuda|is|it|max|maximum|me|most|nvidia|of|that|the|to|up|ver|version|with)\b)*"
)
_BEFORE = re.compile(
    rf"(?:{_SMI}(?: (?:command|output|on|in|the|host|windows))* {_SHOWS}\b(?:[^.;\n]{{0,80}}?\bdrivers?\b)?{_BETWEEN}"
    rf"|{_SMI}[ :=>(-]{{0,5}}(?:cuda )?|(?:according to|from|in|per) {_SMI},? (?:the )?"
    rf"|\bdrivers?\b[^.;,\n]{{0,40}}? (?:supports?|supporting)\b{_BETWEEN})$",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"[ \t,`'\"]*(?:[(\[] ?|(?=(?:as|shown|reported|displayed|according|from|in|by|per|via)\b))"
    rf"(?:(?:as|shown|reported|displayed|according|to|from|in|by|per|via|the|output|of) )*{_SMI}",
    re.IGNORECASE,
)


def of_toolkit(text: str, found: Iterable[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Yield the CUDA versions found in a text, in its order, that it does not attribute to nvidia-smi or the driver."""
    begin = 0
    for match in found:
        if said := _AFTER.match(text, match.end(), match.end() + _REACH):
            begin = said.end()  # this nvidia-smi says nothing of the next version
            continue
        before = text[max(begin, match.start() - _REACH) : match.start()]
        if not _BEFORE.search(_SENTENCE_END.split(before)[-1]):
            yield match
