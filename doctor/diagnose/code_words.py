"""Codes and causes in the words in which programs and people write them: "CUDA error 803", "cudaErrorNoDevice", "Xid: 79"."""

from __future__ import annotations

import re

from tfgpu_doctor.host.signal_names import name_of, number_in
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Cause, ErrorCode, Xid

_XID = re.compile(r"\b(s?xid)\b[\s:_-]*(?:\([^)]*\)[\s:]*)?(\d{1,6})\b", re.IGNORECASE)  # "Xid (PCI:0000:01:00): 79"
_NAME = re.compile(r"\b(?:CUDA|NVML)_ERROR_\w+")
_OF_RUNTIME = re.compile(r"\bcudaError([A-Z]\w+)")
_NUMBER = re.compile(
    r"(?P<library>cuda|nvml)?\s*(?P<words>(?:(?:error|exit(?:ed)?|with|return(?:ed)?|code|status)\W*)*)(?P<code>\d{1,3})\)?",
    re.IGNORECASE,
)
_LONGEST = 500  # of a pasted line
# The names of CUDA's runtime that are not the driver's with other letters, and what the driver calls that:
# https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
_RUNTIME_NAMES = {
    "MEMORY_ALLOCATION": "OUT_OF_MEMORY",
    "INITIALIZATION_ERROR": "NOT_INITIALIZED",
    "NO_KERNEL_IMAGE_FOR_DEVICE": "NO_BINARY_FOR_GPU",
    "INVALID_KERNEL_IMAGE": "INVALID_IMAGE",
    "LAUNCH_FAILURE": "LAUNCH_FAILED",
    "DEVICES_UNAVAILABLE": "DEVICE_UNAVAILABLE",
    "STUB": "STUB_LIBRARY",
    "INVALID_DEVICE_FUNCTION": "NO_BINARY_FOR_GPU",
    "INVALID_RESOURCE_HANDLE": "INVALID_HANDLE",
    "SYMBOL_NOT_FOUND": "NOT_FOUND",
    "CUDART_UNLOADING": "DEINITIALIZED",
    "DEVICE_UNINITIALIZED": "INVALID_CONTEXT",
}
_RUNTIME_NUMBERS = {35: "INSUFFICIENT_DRIVER"}  # those that the driver does not have
_RUNTIME_CAUSES = {"INSUFFICIENT_DRIVER": "driver_too_old"}  # the driver itself has no such error


def find_codes(words: str, knowledge: Knowledge) -> list[Xid | ErrorCode]:
    """Return the codes that a number, a part of a name or a line of a log means, each once; empty if none is certain."""
    text = words.strip()[:_LONGEST]
    xids = [knowledge.xids.get((kind.lower(), int(code))) for kind, code in _XID.findall(text)]
    rows = {row.name: row for row in (*knowledge.cuda_errors.values(), *knowledge.nvml_errors.values())}
    named = [rows.get(name) for name in _NAME.findall(text.upper())]
    named += [rows.get(f"CUDA_ERROR_{_driver_name(name)}") for name in _OF_RUNTIME.findall(text)]
    whole = _joined(text).upper()
    named += [rows.get(f"{library}_ERROR_{whole}") for library in ("CUDA", "NVML")]
    found = [row for row in (*xids, *named) if row] or _numbered(text, knowledge)
    return list(dict.fromkeys(found))


def find_cause(words: str, knowledge: Knowledge) -> Cause | None:
    """Return the cause whose label is written as words ("driver too old"), or which an error of CUDA's runtime names."""
    numbered = _NUMBER.fullmatch(words.strip()[:_LONGEST])
    if numbered and (numbered["library"] or "cuda").lower() == "cuda" and not _is_exit(numbered["words"]):
        return knowledge.causes.get(_RUNTIME_CAUSES.get(_RUNTIME_NUMBERS.get(int(numbered["code"]), ""), ""))
    found = _OF_RUNTIME.search(words[:_LONGEST])
    label = _RUNTIME_CAUSES.get(_snake(found[1]), "") if found else _joined(words[:_LONGEST]).lower()
    return knowledge.causes.get(label)


def find_signal(words: str) -> str:
    """Return the signal that a number may tell as the exit code of a program ("error 137"), in words; empty if it tells none."""
    found = _NUMBER.fullmatch(words.strip()[:_LONGEST])
    name = name_of(number_in(int(found["code"]))) if found and not found["library"] else ""
    if not found or not name:
        return ""
    memory = ", as the kernel and containers do where memory runs out" if name == "SIGKILL" else ""
    return (
        f"Exit code {found['code']}: if a program ended with it, the signal {name} ended that program{memory}\n\n"
        "Next step: `tfgpu-doctor log FILE` with what the program printed before it ended.\n"
    )


def _is_exit(words: str) -> bool:
    """Whether the words before a number say that a program ended with it."""
    return bool(re.match(r"exit|return", words, re.IGNORECASE))


def _numbered(text: str, knowledge: Knowledge) -> list[Xid | ErrorCode]:
    """Return everything that has a number, unless the words say which library reported it."""
    found = _NUMBER.fullmatch(text)
    if not found or _is_exit(found["words"]):
        return []
    code, library = int(found["code"]), (found["library"] or "").lower()
    rows = [
        knowledge.cuda_errors.get(code) if library in ("", "cuda") else None,
        knowledge.nvml_errors.get(code) if library in ("", "nvml") else None,
        knowledge.xids.get(("xid", code)) if not library and not found["words"] else None,
    ]
    return [row for row in rows if row]


def _driver_name(name: str) -> str:
    return _RUNTIME_NAMES.get(_snake(name), _snake(name))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


def _joined(words: str) -> str:
    return "_".join(re.findall(r"\w+", words))
