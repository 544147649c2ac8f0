"""What a log reports about the machine, the libraries and the errors, in addition to its causes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfgpu_doctor.log.context import KEYS, Context
from tfgpu_doctor.log.signatures import Found

_GROUPS = ("capability", "library", "xid", "sxid")
_ERROR = re.compile(
    r"\b(?:CUDA_ERROR|CUDNN_STATUS|CUBLAS_STATUS|CUPTI_ERROR|NVML_ERROR)_[A-Z_]+\b(?! \.\.\.$)"  # not one that is cut off
    r"|UNKNOWN ERROR \(-?\d+\)"
)
_MOST_VALUES = 20  # of one kind


def tell(found: Mapping[str, Found], printed: Context) -> dict[str, tuple[str, ...]]:
    """Map each kind (a key of --given, capability, library, xid, sxid, error) to its values, each once, in log order."""
    extracted: dict[str, dict[str, None]] = {}
    for hit in sorted((hit for each in found.values() for hit in each.hits), key=lambda hit: hit.line):
        for kind, value in hit.groups.items():
            if kind in KEYS or kind in _GROUPS:
                extracted.setdefault(kind, {})[value.strip().rstrip(".")] = None
        for error in _ERROR.findall(hit.text):
            extracted.setdefault("error", {})[error] = None
    if "tensorflow" not in extracted and (release := printed.values.get("tensorflow")):
        extracted["tensorflow"] = {release: None}
    return {kind: tuple(values)[:_MOST_VALUES] for kind, values in sorted(extracted.items())}
