"""The outputs in one capture, as text that the doctor's own readers know."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

_RULE = "#" * 80
_SECTION = re.compile(rf"{_RULE}\n# (\w+) :: ([^\n]*)\n(?:#[^\n]*\n)*{_RULE}\n")
_MOMENTS = (
    (r"^collected_at: +(\S+)$", "%Y-%m-%dT%H:%M:%SZ"),
    (r"(?:<timestamp>|^Timestamp +: )(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})", "%a %b %d %H:%M:%S %Y"),
    (r'"timestamp": "(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})"', "%a %b %d %H:%M:%S %Y"),
    (r"^\[(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})\] ", "%a %b %d %H:%M:%S %Y"),
    (r"^(?:\w+ *:\w+ *: )?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", "%Y-%m-%dT%H:%M:%S"),
)  # the form of each, and how it is read; a log's last moment counts


def sections_of(text: str) -> dict[tuple[str, str], str]:
    """The sections of a capture of nvidia_gpu_exporter by state ("capabilities", "idle", "load") and title."""
    parts = _SECTION.split(text)
    return {(state, title): body for state, title, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)}


def header_of(text: str) -> dict[str, str]:
    """The lines `name: value` before the first section of such a capture."""
    lines = re.findall(r"^(\w+): +(.+)$", _SECTION.split(text)[0], re.MULTILINE)
    return dict(lines)


def xml_of(document: dict[str, Any]) -> str:
    """The XML of nvidia-smi that SuperBench keeps as JSON."""
    return "\n".join(_elements("nvidia_smi_log", document))


def _elements(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _elements(name, each)
    elif isinstance(value, dict):
        attributes = "".join(f" {key[1:]}={quoteattr(each)}" for key, each in value.items() if key[0] == "@")
        yield f"<{name}{attributes}>"
        for key, each in value.items():
            if key[0] != "@":
                yield from _elements(key, each)
        yield f"</{name}>"
    else:
        yield f"<{name}>{escape(value or '')}</{name}>"


def moment_of(text: str) -> str:
    """When it was taken, as the capture dates itself (its time zone, where it names one, is UTC); empty if it does not."""
    for pattern, form in _MOMENTS:
        found = re.findall(pattern, text, re.MULTILINE)
        if found:
            zone = "Z" if form.endswith("Z") else ""
            return dt.datetime.strptime(found[-1], form).isoformat() + zone
    return ""


def sysinfo_of(text: str) -> dict[str, Any]:
    """What `sb node info` of SuperBench wrote."""
    return dict(json.loads(text))
