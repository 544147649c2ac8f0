"""Runs of the perf suites, built: on a machine with 8 GPUs, as many comparisons as anybody would wait for, with a history."""

from __future__ import annotations

import math

import msgspec
from locations import RECORDS

from tfgpu_doctor.bench import SUITE_VERSION
from tfgpu_doctor.bench.conditions import Changed
from tfgpu_doctor.bench.history import History, PastRun, history_of
from tfgpu_doctor.bench.limits import with_measured_limits
from tfgpu_doctor.bench.regression import compare
from tfgpu_doctor.bench.result import BenchReport, make_result
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import decode_facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric, Side, Verdict

SUITES = ("device_placement", "pipeline", "mixed_precision", "mirrored_strategy", "graph_execution", "training")
_VERDICTS: dict[int, Verdict] = {11: "not shown", 17: "too noisy", 23: "slower"}  # every so many comparisons
_OUT_OF_MEMORY = "out of memory: the GPU had 1.2 GiB left and 4.0 GiB were asked for"
_FIRST_RUN = 1.79e9  # seconds since 1970


def comparison(number: int, run: int = 0) -> Comparison:
    """One of many: its ratio drifts from run to run, and some verdicts are not `faster`."""
    suite, name, gpu = SUITES[number % len(SUITES)], f"technique_{number}", f"GPU:{number % 8}"
    if number % 29 == 28:
        return Comparison(suite=suite, name=name, verdict="not run", reason=_OUT_OF_MEMORY, on_gpu=True)
    verdict: Verdict = next((_VERDICTS[each] for each in _VERDICTS if number % each == each - 1), "faster")
    drift = (0.98 if number % 7 == 3 else 1.0) ** run * (1 + 0.01 * math.sin(number + 2.3 * run))
    ratio = {"faster": 1.2 + number % 13 * 1.7, "not shown": 1.01, "too noisy": 1.3, "slower": 0.8}[verdict] * drift
    width = 0.3 if verdict == "too noisy" else 0.03
    seconds = 0.002 * (1 + number % 5)
    return Comparison(
        suite=suite, name=name, verdict=verdict, reason="" if verdict == "faster" else "its interval reaches 1",
        ratio=ratio, interval=(ratio * (1 - width), ratio * (1 + width)), at_least=1.1 if number % 3 else 1.0,
        rounds=40, device=gpu, on_gpu=True, candidate=Side(name="with it", device=gpu, seconds=(seconds,)),
        baseline=Side(name="without it", device=gpu, seconds=(seconds * ratio,)),
    )  # fmt: skip


def metrics() -> tuple[Metric, ...]:
    """Bandwidths and speeds of 8 GPUs beside their limits, crossovers, and throughput by batch size with its knee."""
    found = [
        Metric(
            suite="device_placement", name="eager dispatch", value=12.4, unit="us", device="GPU:0", about="an addition"
        )
    ]
    for gpu in (f"GPU:{index}" for index in range(8)):
        found += [
            Metric(suite="mixed_precision", name="matmul in bfloat16", value=712.0, unit="TFLOP/s", device=gpu, limit=989.0,
                   limit_source="data sheet of the H100 SXM", about="8192 x 8192"),
            Metric(suite="mixed_precision", name="dense step in bfloat16", value=505.0, unit="TFLOP/s", device=gpu, limit=989.0,
                   limit_source="data sheet of the H100 SXM", bounded_by="matmul in bfloat16"),
            Metric(suite="device_placement", name="copies on the device", value=2840.0, unit="GB/s", device=gpu, limit=3352.0),
        ]  # fmt: skip
    for size, times in ((64, 0.2), (128, 0.5), (256, 1.4), (512, 6.0), (1024, 24.0), (2048, 61.0), (4096, 70.0)):
        found.append(
            Metric(
                suite="device_placement",
                name=f"matmul {size}",
                value=times,
                unit="times as fast as the CPU",
                device="GPU:0",
            )
        )
    found.append(
        Metric(suite="device_placement", name="crossover of matmul", value=256, unit="side", device="GPU:0",
               about="the GPU wins from this size on")
    )  # fmt: skip
    for batch, speed in ((1, 900), (4, 3400), (16, 12100), (64, 31000), (256, 40800), (1024, 41200)):
        found.append(
            Metric(suite="model_architecture", name=f"batch of {batch}", value=speed, unit="samples/s", device="GPU:0",
                   about="training steps of a small CNN")
        )  # fmt: skip
    found.append(
        Metric(suite="model_architecture", name="knee of the batch size", value=256, unit="samples", device="GPU:0",
               about="reaches 90% of 41200 samples/s")
    )  # fmt: skip
    return with_measured_limits(found)


CHANGED = (
    Changed(what="driver", now="560.35.03", reference="550.54.15"),
    Changed(what="nvidia-cudnn-cu12", now="9.3.0.75", reference="9.1.1.17"),
)


def built_bench(comparisons: int = 200, run: int = 0) -> Bench:
    """One run."""
    return Bench(
        suite_version=SUITE_VERSION, seconds=312.0, comparisons=tuple(comparison(number, run) for number in range(comparisons)), metrics=metrics(),
        skipped={"test_profiler.py::test_kernels": "CUPTI is not there", "test_numerics.py::test_repeats": "CUPTI is not there"},
        failed={"test_numerics.py::test_all_gpus_equal": "GPU:3 gives 2 of 4096 elements otherwise than the others"},
    )  # fmt: skip


def built_report(comparisons: int = 200, machine: str = "hgx-8-gpus-healthy", runs: int = 8) -> BenchReport:
    """What `bench --compare` says of such a run, after some earlier ones."""
    earlier = [built_bench(comparisons, run) for run in range(runs)]
    now = built_bench(comparisons, runs)
    facts = msgspec.structs.replace(decode_facts(RECORDS[machine].read_bytes()), bench=now)
    return make_result(
        diagnose(facts), now, reference="before the update", runs=1, changed=CHANGED, regressions=tuple(compare(now, earlier[:1], earlier)),
        seconds=now.seconds,
    )  # fmt: skip


def built_history(comparisons: int = 12, runs: int = 8) -> History:
    """What `bench --history` says of such a machine."""
    kept = [
        PastRun(
            kept=_FIRST_RUN + 86400 * run,
            name="before the update" if run == 2 else "",
            bench=built_bench(comparisons, run),
        )
        for run in range(runs)
    ]
    return history_of("8 x NVIDIA H100 80GB HBM3 | 550.54.15 | 2.21.0 | Intel(R) Xeon(R) Platinum 8480 x112 | 1", kept)
