"""What a finding's message says in words: which GPUs, and which measured numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tfgpu_doctor.model import Figure, Finding

_NAMES_A_GPU = re.compile(r"\bGPU \d+\b|\bGPU:\d+|\bGPU at [\da-f]|\b[\da-fA-F]{4,}:[\da-fA-F]{2}:[\da-fA-F]{2}\b")
_QUOTED = re.compile(r"'[^']*'")

# The numbers in a message that nobody measured.
NOT_MEASURED = {
    "a quoted text, and what an error says": re.compile(r"'[^']*'|\b(?:fails|raises): .*|\bwas not tested: .*"),
    "the meaning of a code": re.compile(r"(?<=ago: ).*|(?<=unknown time: ).*"),
    "the name of a model": re.compile(r"\((?!\d+ times)[^()]*[A-Za-z][^()]*\)|does not support .+? at\b"),
    "what the driver asks for": re.compile(r"\brequests \S+"),
    "the number of a process": re.compile(r"\(\d+\)"),
    "the number of a GPU": re.compile(r"\bGPU[ :]\d+"),
    "an address": re.compile(r"\b[\da-f]{4,}:[\da-f]{2}:[\da-f]{2}(?:\.\d)?\b", re.IGNORECASE),
    "how long ago": re.compile(r"\b\d+ (?:minute|hour|day)s? ago"),
    "a version": re.compile(
        r"\b(?:libraries are of|the module is|CUDA|driver|branch|compute capability|TensorFlow|PCI Express) \d[\d.]*"
    ),
    "what has a number in its name": re.compile(r"\b[A-Za-z]\w*\d\w*\b(?<!x\d)(?<!x\d\d)"),
    "the step at which a program ended": re.compile(r"\bround \d+|\bwithin \d+ s\b"),
}
_NUMBER = re.compile(r"\bx?(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s?(%|[KMGT]i?B(?:/s)?\b|TFLOP/s|°C|MHz|W\b)?")
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def names_a_gpu(message: str) -> bool:
    """Whether a message names a certain GPU or NVSwitch, in the doctor's own words."""
    return bool(_NAMES_A_GPU.search(_QUOTED.sub("", message)))


def measured_in(message: str) -> Iterator[tuple[str, str]]:
    """The measured numbers of a message, each with its unit."""
    for each in NOT_MEASURED.values():
        message = each.sub(" ", message)
    for found in _NUMBER.finditer(message):
        yield found.group(1), found.group(2) or ""


def without_figure(finding: Finding) -> list[str]:
    """The measured numbers of a finding's message that none of its figures has."""
    return [
        f"{number} {unit}".strip()
        for number, unit in measured_in(finding.message)
        if number not in set(_ways_to_say(finding.figures, unit))
    ]


def _ways_to_say(figures: Iterable[Figure], unit: str) -> Iterator[str]:
    for each in figures:
        value = each.value
        if unit in _BYTES:
            value = value / _BYTES[unit]
        elif unit == "%" and not each.unit:
            value = 100 * value
        yield from (f"{value:g}", f"{value:.0f}", f"{value:,.0f}", f"{value:.1f}", f"{value:.3g}", f"{value:,.4g}")
