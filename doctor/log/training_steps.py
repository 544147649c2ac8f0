"""Whether a training computes steps after TensorFlow has registered a GPU. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfgpu_doctor.log.derived import Hits
from tfgpu_doctor.log.lines import split_lines
from tfgpu_doctor.log.signatures import Hit

# Where it matters: a GPU that may be too new, or of which little memory was free.
_DOUBTS = ("gpu_newer_than_opened_cuda", "tenth_of_memory_registered")
_STEP = re.compile(
    r"(?:\b(?:epoch|step|iter(?:ation)?|batch)\b|\b\d+/\d+\b).{0,120}?\bloss\b[^\w\n]{1,4}\d"
    r"|\bloss\b[^\w\n]{1,4}\d.{0,40}\b(?:step|epoch|iter(?:ation)?)\b|\bimages/sec: [1-9]|\d[mu]?s/(?:step|epoch)\b",
    re.IGNORECASE,
)
_NOT_A_NUMBER = re.compile(r"\bnan\b", re.IGNORECASE)
_SHOWN = 200


def with_training_steps(hits: Hits, texts: Sequence[tuple[int, str]]) -> Hits:
    """Add `gpu_computes`: a line with the loss of a step, which is a number, after the last GPU was registered."""
    if not any(name in hits for name in _DOUBTS) or "described_gpu" not in hits:
        return hits
    registered = max(hit.line for hit in hits["described_gpu"])
    for first, text in texts:
        for number, line in enumerate(split_lines(text), first):
            if number > registered and _STEP.search(line[:_SHOWN]) and not _NOT_A_NUMBER.search(line[:_SHOWN]):
                shown = "".join(char if char.isprintable() else " " for char in line[:_SHOWN]).strip()
                return {**hits, "gpu_computes": [Hit(number, shown, {})]}
    return hits
