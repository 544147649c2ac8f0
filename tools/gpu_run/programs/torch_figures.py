"""The same product and copy by PyTorch, as a third figure: {what: speed}, in TFLOP/s and in GB/s read and written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

SIDE, COPIED_BYTES, CALLS = 8192, 1 << 30, 20


def speed(work: Callable[[], Any], amount: float) -> float:
    """The median of a few readings, after two seconds of work."""
    readings, ends = [], time.monotonic() + 4
    while time.monotonic() < ends:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(CALLS):
            work()
        torch.cuda.synchronize()
        readings.append(amount * CALLS / (time.perf_counter() - began))
    later = sorted(readings[len(readings) // 2 :])
    return later[len(later) // 2]


one, two = (torch.randn(SIDE, SIDE, device="cuda").bfloat16() for _ in range(2))
source = torch.rand(COPIED_BYTES // 4, device="cuda")
target = torch.empty_like(source)
print(json.dumps({
    f"bf16 product of {SIDE}": speed(lambda: torch.matmul(one, two), 2 * SIDE**3 / 1e12),
    "copy within the GPU": speed(lambda: target.copy_(source), 2 * COPIED_BYTES / 1e9),
}))  # fmt: skip
