"""Part 7: what TensorFlow does with a GPU beside computing on it. Each passes, or its error is quoted."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from gpu_run.workbench import Workbench, document_of

ABILITIES = {
    "profiler": "the profiler with CUPTI",
    "mixed_precision": "mixed precision with loss scaling",
    "xla": "XLA",
    "keras_fit": "convolutions in fit, as Keras compiles by default",
    "logical_devices": "a second logical device",
    "mirrored": "MirroredStrategy over two parts",
    "nccl": "NCCL on one GPU",
    "nccl_collective": "NCCL in a collective of one",
    "mirrored_reduction": "MirroredStrategy, reduced on one device",
    "async_allocator": "cuda_malloc_async",
}
_ONE_S, _LONGEST_S = 8.0, 90.0


def devices(bench: Workbench) -> None:
    """Run each in a process of its own."""
    found = bench.side_by_side(_ONE_S, {what: partial(_tried, bench, name) for name, what in ABILITIES.items()})
    bench.table("Abilities", ("what", "", "said", "seconds"), list(found.values()))


def _tried(bench: Workbench, name: str) -> tuple[Any, ...]:
    done = bench.program(name, "devices", name, limit_s=_LONGEST_S)
    found = document_of(done.output) if done.exit_code == 0 else None
    said = json.dumps(found) if found is not None else done.complaint
    if found is None:
        bench.found(f"{ABILITIES[name]} does not work: {said}")
    return ABILITIES[name], "works" if found is not None else "FAILS", said, done.seconds
