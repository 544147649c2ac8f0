"""What a log tells of the machine, the libraries and the errors, beside its causes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfgpu_doctor.log.given import KEYS, Given
from tfgpu_doctor.log.signatures import Found

_GROUPS = ("capability", "library", "xid", "sxid")
_ERROR = re.compile(
    r"\b(?:CUDA_ERROR|CUDNN_STATUS|CUBLAS_STATUS|CUPTI_ERROR|NVML_ERROR)_[A-Z_]+\b|UNKNOWN ERROR \(-?\d+\)"
)
_MOST_VALUES = 20  # of one kind


def tell(found: Mapping[str, Found], known: Given) -> dict[str, tuple[str, ...]]:
    """Kind to values, each once and in the order of the log: the words of --given, capability, library, xid and error."""
    told: dict[str, dict[str, None]] = {}
    for hit in sorted((hit for each in found.values() for hit in each.hits), key=lambda hit: hit.line):
        for kind, value in hit.groups.items():
            if kind in KEYS or kind in _GROUPS:
                told.setdefault(kind, {})[value.strip()] = None
        for error in _ERROR.findall(hit.text):
            told.setdefault("error", {})[error] = None
    if "tensorflow" not in told and (release := known.values.get("tensorflow")):
        told["tensorflow"] = {release: None}
    return {kind: tuple(values)[:_MOST_VALUES] for kind, values in sorted(told.items())}
