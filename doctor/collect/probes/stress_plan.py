"""How the time of an examination is divided among the parts of a stress test, and the plans of its processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes.stress_gpus import Candidate
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.soak import soak_round_s

# The processes of a stress test use one stream each, where cuBLAS is bitwise reproducible without further settings:
# https://docs.nvidia.com/cuda/cublas/#results-reproducibility
VARIABLES = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "TF_DETERMINISTIC_OPS": "1",  # for releases before 2.8; later ones have a function for it
}
IDLE_S, IDLE_EVERY_S = 2.5, 0.3
_SIDE, _SUSTAINED_SIDE = 4096, 8192  # of matrices that keep every multiprocessor of the largest GPUs busy
_SMALL_MULTIPROCESSORS = 40  # with fewer, the product of the larger matrices takes seconds, and X's watchdog aborts it
_COPIED_BYTES = 256 << 20
_DEEP_S = 44.0  # enough for patterns in 192 GB, and for the clocks to settle
_LEAST_S = 8.0
_LINKS_S = 12.0
_RESERVE_S = 8.0  # for the verdict, and for killing processes
_MOST_LOOKS = 1200
_LEAST_EVERY_S = 0.2


@dataclass(frozen=True)
class Plan:
    """Seconds: for the work and for each round of it, until the processes are killed, for the copies, and in total."""

    work_s: float
    round_s: float
    stress_deadline_s: float
    links_start_s: float
    total_s: float

    @property
    def every_s(self) -> float:
        """The interval between samples of the GPUs."""
        return max(_LEAST_EVERY_S, self.total_s / _MOST_LOOKS)

    def links_s(self, left_s: float) -> float:
        """The time for copies, if that much time is left including the start of TensorFlow."""
        return max(0.0, min(_LINKS_S, left_s - self.links_start_s))

    def for_gpu(self, candidate: Candidate) -> list[str]:
        """The argument of `workers/stress_gpu.py`; its process sees only this GPU."""
        small = candidate.multiprocessors < _SMALL_MULTIPROCESSORS
        plan = {
            "device": "/GPU:0", "seconds": self.work_s, "round_s": self.round_s, "side": _SIDE,
            "sustained_side": _SIDE if small else _SUSTAINED_SIDE, "precisions": candidate.precisions,
        }  # fmt: skip
        return [json.dumps(plan)]

    def for_links(self, count: int, seconds: float) -> list[str]:
        """The argument of `workers/stress_links.py`, whose process sees that many GPUs."""
        devices = [f"/GPU:{place}" for place in range(count)]
        return [json.dumps({"devices": devices, "seconds": seconds, "copied_bytes": _COPIED_BYTES})]


def make_plan(request: Request, runtime: Runtime) -> Plan:
    """The plan that fits into the remaining time. Raises Unavailable if that is too short."""
    start_s = 5.0 + 2 * runtime.import_seconds  # several at once import more slowly
    left_s = request.stress_deadline_s - runtime.attempt.seconds - _RESERVE_S - IDLE_S
    stress_s = left_s - start_s - _LINKS_S
    work_s = min(stress_s - start_s, request.soak_s if request.level == "soak" else _DEEP_S)
    if work_s < _LEAST_S:
        raise Unavailable(
            f"TensorFlow took {runtime.attempt.seconds:.0f} s to start and compute, which leaves too little of the "
            f"{request.stress_deadline_s:.0f} s for a stress test; set a longer time with --deadline"
        )
    round_s = soak_round_s(work_s) if request.level == "soak" else work_s
    return Plan(work_s, round_s, stress_s, start_s, left_s)


def visible(chosen: Sequence[Candidate], count: int) -> dict[str, str]:
    """The variable that makes only those GPUs visible to a process; empty if they are all that TensorFlow lists."""
    return {} if len(chosen) == count else {"CUDA_VISIBLE_DEVICES": ",".join(each.token for each in chosen)}
