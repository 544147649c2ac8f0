"""The report as a JSON document (render/json_document.py), on many lines or on one.

It is not decoded: of a document in a log, quotes have lost their backslashes (log/lines.py), and CI services put text
before its lines. The order of its fields is that of the structs.
"""

from __future__ import annotations

import bisect
import itertools
import re

from tfgpu_doctor.log.own_report import NamedCause, OwnReport, Part, confidence_of, severity_of

_MOST_CHARACTERS = 8 << 20
BEGIN = re.compile(r"(\s*)\{\s*\"schema\":\s*\d+,\s*\"healthy\":\s*(?:true|false)\s*,")
_FIELD = re.compile(r"\"(healthy|judged|interrupted)\":\s*(true|false)")
_SUBJECT = re.compile(r"\"(?:tensorflow|driver)\":\s*\"([^\"]+)\"")
_CAUSE = re.compile(
    r"\"label\":\s*\"(?P<label>\w+)\",\s*\"id\":\s*\"(?P<id>[^\"]*)\",\s*\"title\":\s*\"(?P<title>.*?)\",\s*"
    r"\"severity\":\s*\"(?P<severity>\w+)\",\s*\"confidence\":\s*\"(?P<confidence>\w+)\",\s*"
    r"\"evidence\":\s*\[(?P<evidence>.*?)\],\s*\"costs\":\s*\".*?\",\s*"
    r"\"fix\":\s*\{\s*\"text\":\s*\".*?\",\s*\"commands\":\s*\[.*?\]\s*\},\s*\"explains\":"
)
_TEXTS = re.compile(r"\"(.*?)\"\s*(?:,\s*(?=\")|$)")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


class JsonForm:
    """Reads a document from its first brace to the one that closes it."""

    def __init__(self, indent: str) -> None:
        self.report = OwnReport(format="json")
        self._indent = indent
        self._texts: list[str] = []
        self._numbers: list[int] = []  # of these lines
        self._size = 0

    def take(self, number: int, line: str) -> Part:
        """Take a line; the document ends where a brace stands below its first."""
        inner = line.removeprefix(self._indent)
        is_first = not self._texts
        if line and not is_first and not inner.startswith((" ", "\t", "}", "{")) and not self._is_head(inner):
            return Part.PAST
        self._size += len(line)
        if self._size <= _MOST_CHARACTERS:
            self._texts.append(line.strip())
            self._numbers.append(number)
        if (inner.startswith("}") and not is_first) or (is_first and len(inner) > 1 and inner.rstrip().endswith("}")):
            return Part.LAST
        return Part.OWN

    def _is_head(self, inner: str) -> bool:
        return len(self._texts) < 3 and inner.startswith('"')

    def close(self) -> None:
        """Read what the document states, once it is whole or cut."""
        text = " ".join(self._texts)
        head, _, rest = text.partition('"causes":')
        starts = [0, *itertools.accumulate(len(each) + 1 for each in self._texts)]
        told = dict(_FIELD.findall(head))
        self.report.subject = " · ".join(_SUBJECT.findall(head))
        for found in _CAUSE.finditer(rest.partition('"results":')[0]):
            place = len(text) - len(rest) + found.start()
            line = self._numbers[bisect.bisect_right(starts, place) - 1]
            cause = NamedCause(
                line=line, label=found["label"], id=found["id"], title=_plain(found["title"]),
                severity=severity_of(found["severity"]), confidence=confidence_of(found["confidence"]),
            )  # fmt: skip
            for each in _texts(found["evidence"]):
                cause.add_evidence(line, each)
            self.report.causes.append(cause)
        self.report.verdict = _verdict(told, has_causes=bool(self.report.causes))


def _verdict(told: dict[str, str], *, has_causes: bool) -> str:
    if told.get("interrupted") == "true":
        return "Interrupted: the document says interrupted: true."
    if told.get("healthy") == "true":
        return "Works, with issues to fix: healthy is true." if has_causes else "Healthy: healthy is true."
    return "" if has_causes else "Not judged: healthy is false, and it names no cause."


def _texts(listed: str) -> list[str]:
    return [_plain(each) for each in _TEXTS.findall(listed.strip())]


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
