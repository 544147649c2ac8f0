"""How much memory TensorFlow found free on each GPU that it registered, of what such a GPU has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.log.signatures import Hit

FAILURES = (
    "oom_tensor", "oom_map", "cudnn_handle", "cublas_handle", "blas_launch_failed", "cudnn_algorithm", "device_out_of_memory",
    "cuda_oom_code",
)  # fmt: skip
# TensorFlow takes almost all that is free. A model may be sold with half of the memory in the table, and not with a third.
_LITTLE, _TENTH = 1 / 3, 0.1
_ROUND_MB = (100, 256)  # a multiple of these is a limit that the program sets, where the text does not show its code
_SMALL_POOL = 100 << 20
_SHARED = ("Jetson", "GB10")  # the rest of the machine uses the same memory
_REGISTERED = re.compile(r"(?:GPU:(?P<index>\d+))? with (?P<megabytes>\d+) MB memory")
_INDEX = re.compile(r"GPU_(\d+)_bfc|GPU:(\d+)", re.IGNORECASE)
_LISTED_LINES = 16  # of one device, as list_local_devices() prints it: its memory comes first, its name last


def little_memory(hits: Mapping[str, Sequence[Hit]], knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Yield the GPUs of which other processes hold most: nothing in the text limits what TensorFlow takes."""
    if "tells_memory_limit" in hits or "mig_listed" in hits:
        return
    failed = {index for name in FAILURES for hit in hits.get(name, ()) for index in _indexes(hit.text)}
    for hit in hits.get("described_gpu", ()):
        gpu = knowledge.gpu_named(hit.groups["gpu"].strip())
        shown = _REGISTERED.search(hit.text)
        free = int(shown["megabytes"]) << 20 if shown else _listed(hits.get("tells_listed_memory", ()), hit.line)
        if gpu is None or not free or free >= _LITTLE * gpu.memory_bytes:
            continue
        if gpu.line in _SHARED or gpu.name.endswith(_SHARED) or not all((free >> 20) % each for each in _ROUND_MB):
            continue
        if failed and shown and shown["index"] and shown["index"] not in failed:
            continue  # it is another GPU whose memory did not suffice
        text = f"{hit.text} ({free >> 20} MiB were free of the {gpu.memory_bytes >> 30} GiB of such a GPU)"
        yield "little_memory_registered", Hit(hit.line, text, {})
        if free < _TENTH * gpu.memory_bytes:
            yield "tenth_of_memory_registered", Hit(hit.line, text, {})


def small_pool(hits: Mapping[str, Sequence[Hit]]) -> Iterator[tuple[str, Hit]]:
    """Yield the pools that were so small when they ran out that others hold the memory; on a Jetson, the whole system."""
    for hit in hits.get("tells_pool", ()):
        size = int(hit.groups["pool_bytes"])
        # A limit that a program sets is a whole number of MiB.
        if 0 < size < _SMALL_POOL and ("tells_memory_limit" not in hits or size % (1 << 20)):
            text = f"{hit.text} (TensorFlow's pool had {size >> 20} MiB in all)"
            yield "small_pool", Hit(hit.line, text, {})


def _indexes(text: str) -> list[str]:
    return [first or second for first, second in _INDEX.findall(text)]


def _listed(limits: Sequence[Hit], line: int) -> int:
    """The memory in the list of devices whose entry ends in a line, in bytes; 0 if there is none."""
    before = [hit for hit in limits if 0 < line - hit.line <= _LISTED_LINES]
    return int(max(before, key=lambda hit: hit.line).groups["listed_bytes"]) if before else 0
