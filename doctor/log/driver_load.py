"""The load of the driver: which messages of the driver are older than it, and no longer matter. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfgpu_doctor.log.derived import Hits

# A load begins at `begin`, or after the load or the failed attempt before it. The driver probes every GPU then, and prints
# `loaded` last, if one of them works (nvidia_init_module in github.com/NVIDIA/open-gpu-kernel-modules, nv.c).
_MARK = re.compile(
    r"(?P<boot>kernel: Linux version)|(?P<loaded>NVRM: loading NVIDIA UNIX)"
    r"|(?P<begin>Nvlink Core is being initialized|Unregistered Nvlink Core"
    r"|NVRM: (?:None of the NVIDIA (?:devices|graphics adapters) were initialized|No NVIDIA (?:GPU found|devices probed)))"
)
_LOST = re.compile(
    r"fallen off the bus and is not responding|BAR\d+ is 0M|I/O region assigned to your NVIDIA device is invalid"
    r"|request_mem_region failed"
)
# A GPU for the display may be too old for the driver of the others.
_REJECTED = re.compile(
    r"in this system is not supported by|supported through the NVIDIA|requires use of the NVIDIA open kernel modules"
    r"|NVIDIA probe routine failed"
)


def since_driver_load(hits: Hits, texts: Sequence[tuple[int, str]]) -> Hits:
    """Drop the messages of the driver about a GPU from before it was loaded again: they no longer matter."""
    began, loaded = _last_load(texts)
    if not loaded:
        return hits
    told = [_LOST] if "described_gpu" in hits else [_LOST, _REJECTED]

    def matters(line: int, text: str) -> bool:
        if line >= loaded or ("NVRM: " not in text and "SXid" not in text):
            return True
        return line > began and any(each.search(text) for each in told)

    kept = {name: [hit for hit in kind if matters(hit.line, hit.text)] for name, kind in hits.items()}
    return {name: kind for name, kind in kept.items() if kind}


def _last_load(texts: Sequence[tuple[int, str]]) -> tuple[int, int]:
    """Return the numbers of the lines after which the last load began, and with which it ended; 0 if there is none."""
    mark = began = loaded = 0
    for first, text in texts:
        for number, line in enumerate(text.split("\n"), first):
            found = _MARK.search(line)
            if found is None:
                continue
            if found.lastgroup == "boot":
                mark = began = loaded = number
            elif found.lastgroup == "loaded":
                mark, began, loaded = number, mark, number
            else:
                mark = number
    return began, loaded
