"""Part 3: TensorFlow's product and copy beside the same by CUDA's own libraries, in interleaved pairs."""

from __future__ import annotations

import importlib.util
import statistics
from typing import Any

from gpu_run.workbench import NotRun, Workbench, document_of

LEAST_RATIO = 0.97
_TORCH_S = 25.0


def figures(bench: Workbench) -> None:
    """Measure, and find what is slower than 0.97 of the other way."""
    done = bench.program("figures", "figures")
    document = document_of(done.output)
    if document is None:
        raise NotRun(f"no figures: {done.complaint}")
    rows = [_row(bench, what, pairs, document["missing"].get(what, "")) for what, pairs in document["pairs"].items()]
    bench.table("TensorFlow beside CUDA's own libraries (TFLOP/s; GB/s read and written)",
                ("what", "TensorFlow", "cuBLAS, CUDA", "ratio", "lowest", "highest", "pairs"), rows)  # fmt: skip
    if importlib.util.find_spec("torch") and bench.enough(_TORCH_S, "PyTorch"):
        _third(bench)


def _row(bench: Workbench, what: str, pairs: list[list[float]], why: str) -> tuple[Any, ...]:
    ours = statistics.median(pair[0] for pair in pairs)
    if why:
        bench.shortened.append(f"{what} by another way: {why}")
        return what, round(ours, 3), "-", "not tried", "", "", len(pairs)
    ratios = sorted(pair[0] / pair[1] for pair in pairs)
    ratio = statistics.median(ratios)
    if ratio < LEAST_RATIO:
        bench.found(f"{what}: TensorFlow reaches {ratio:.3f} of CUDA's own libraries, {LEAST_RATIO} is asked for")
    theirs = statistics.median(pair[1] for pair in pairs)
    return (
        what,
        round(ours, 3),
        round(theirs, 3),
        *(f"{each:.3f}" for each in (ratio, ratios[0], ratios[-1])),
        len(pairs),
    )


def _third(bench: Workbench) -> None:
    found = bench.document(bench.program("torch", "torch_figures", limit_s=60))
    bench.table("PyTorch, in a process of its own", ("what", "speed"), list((found or {}).items()))
