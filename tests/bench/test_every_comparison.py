"""Every comparison and every figure of the perf suites where TensorFlow has one GPU, and two: all run, and prove where."""

from __future__ import annotations

import pathlib

import pytest
from collected_comparisons import collected
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_run import run_on_stand_in

from tfgpu_doctor.model.facts.bench import Comparison
from tfgpu_doctor.perf_tests.journal import Account

skip_without_tensorflow()
skip_without_scipy()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

# What may not be faster where the GPUs are parts of the processor, and why: their speed alone.
_SAME = "both sides compute on the same processor"
_TENSOR_CORES = "a processor has no tensor cores: half precision is converted, and TF32 is float32"
_BUSY = "its sides vary more than they differ while other work keeps the processors busy"
SLOW_HERE = {
    "device_placement": {"gpu[matmul]": _SAME, "gpu[convolution]": _SAME, "needless_transfers": "a copy is a reference"},
    "mixed_precision": {
        f"speed[{kind}-{precision}]": _TENSOR_CORES
        for kind in ("dense", "convolution", "attention") for precision in ("float16", "bfloat16", "tf32")
    },
    "training": {"step[cnn]": _SAME, "step[transformer]": _SAME},
    "graph_execution": {"function": _BUSY, "xla": _BUSY},
    "pipeline": {
        "pictures": _BUSY, "interleave": _BUSY, "autotune": _BUSY, "prefetch_last": _BUSY,
    },
    "pictures": {"augmentation_on_gpu": _SAME, "cache_before_augmentation": _BUSY},
    "files": {"processes": _BUSY},
    "threads": {"intra_op": _BUSY},
    "mirrored_strategy": {"all_gpus": _SAME, "against_cpu": _SAME},
    "inference": {"gpu": _SAME, "float16": _TENSOR_CORES},
}  # fmt: skip
# Figures with a claim about speed, and the words with which their test fails.
SLOW_FIGURES = {
    "crossover[matmul]": "the CPU is at least as fast as the GPU",
    "crossover[convolution]": "the CPU is at least as fast as the GPU",
    "scaling[weak]": "times the work of one",
}
NEED_TWO = {
    "bandwidth[device to device]": "there is no second GPU",
    "growth_on_some": "there is only one GPU",
    "scaling[weak]": "there is only one GPU",
    "scaling[strong]": "there is only one GPU",
    "all_gpus": "there is only one GPU",
    "gpus_agree": "there is no second GPU",
}


def on_gpu(suite: str, name: str) -> bool:
    """Whether a comparison must run on a GPU where there is one."""
    on_cpu = suite in ("files", "pipeline", "threads") or name == "cache_before_augmentation"
    return not on_cpu or (suite, name) == ("pipeline", "fit")


def test_what_is_slow_here_is_a_comparison() -> None:
    names = {(suite, name) for kind, suite, name in collected() if kind == "COMPARISON"}
    assert {(suite, name) for suite, rows in SLOW_HERE.items() for name in rows} <= names
    assert {*SLOW_FIGURES, *NEED_TWO} <= {name for _, _, name in collected()}


def judge(comparison: Comparison) -> str:
    """What is wrong with a comparison; its verdict is about speed, and may be any."""
    if comparison.verdict == "not run":
        return comparison.reason
    due = "GPU:0" if on_gpu(comparison.suite, comparison.name) else "CPU:0"
    if comparison.device != due or not comparison.candidate or comparison.candidate.device != due:
        return f"it ran on {comparison.candidate and comparison.candidate.device}, expected on {due}"
    return ""


@pytest.mark.parametrize("count", [1, 2], ids=["one GPU", "two GPUs"])
def test_all_of_them_run(tmp_path: pathlib.Path, count: int) -> None:
    bench = run_on_stand_in(tmp_path, count)
    assert not bench.problems
    assert not bench.gpu_lost
    may_skip = NEED_TWO if count == 1 else {}
    names = {(suite, name) for kind, suite, name in collected() if kind == "COMPARISON" and name not in may_skip}
    assert {(each.suite, each.name) for each in bench.comparisons} == names
    assert not {f"{each.suite}/{each.name}": why for each in bench.comparisons if (why := judge(each))}
    account = Account()
    account.read((tmp_path / "journal").read_bytes())
    assert {test.partition("::test_")[2] for test in account.outcomes} == {name for _, _, name in collected()}
    unexpected = {
        test: why
        for rows, expected in ((bench.skipped, may_skip), (bench.failed, SLOW_FIGURES))
        for test, why in rows.items()
        if not (words := expected.get(test.partition("::test_")[2])) or words not in why
    }
    assert not unexpected
