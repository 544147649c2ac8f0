"""Every comparison and every figure of the perf suites where TensorFlow has one GPU, and two: all run, and prove where.

With the TensorFlow beside the tests: the newest in the environment `full` of tox.ini, 2.15 with Keras 2 in `keras2`; and
with the older releases of the lab, as far as they are there.
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping

import pytest
from collected_comparisons import collected
from installed import skip_without_scipy, skip_without_tensorflow
from lab import targets
from locations import ROOT
from stand_in_run import run_on_stand_in

from tfgpu_doctor.accept.vocabulary import metrics_named
from tfgpu_doctor.model.facts.bench import Bench, Comparison
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
NEED_TWO = {
    "bandwidth[device to device]": "there is no second GPU",
    "growth_on_some": "there is only one GPU",
    "scaling[weak]": "there is only one GPU",
    "scaling[strong]": "there is only one GPU",
    "all_gpus": "there is only one GPU",
    "gpus_agree": "there is no second GPU",
}
# What needs a release or libraries that are not here.
NEED_MORE = {"tensorrt": "TensorRT"}


WITHOUT_GPU = ("files", "pipeline", "threads")  # but for the comparison `fit`
# What asks how many GPUs there are: all of a suite, or the tests that are named.
COUNT_GPUS = {
    "device_placement": ("bandwidth",), "memory_growth": (), "mirrored_strategy": (), "multi_worker": (),
    "numerics": ("gpus_agree",), "training": ("learning",),
}  # fmt: skip


def on_gpu(suite: str, name: str) -> bool:
    """Whether a comparison must run on a GPU where there is one."""
    on_cpu = suite in WITHOUT_GPU or name == "cache_before_augmentation"
    return not on_cpu or (suite, name) == ("pipeline", "fit")


OLDER = "TFGPU_OLDER_RELEASES"
# Half a minute each, and the same with one GPU: to lose a worker, and four that share GPUs as two share one.
ONCE = {"killed_worker", "gradients[4]", "all_reduce[4]", "scaling[4]"}


def test_what_is_slow_here_is_a_comparison() -> None:
    names = {(suite, name) for kind, suite, name in collected() if kind == "COMPARISON"}
    assert {(suite, name) for suite, rows in SLOW_HERE.items() for name in rows} <= names
    assert {*NEED_TWO, *NEED_MORE} <= {name for _, _, name in collected()}


def judge(comparison: Comparison) -> str:
    """What is wrong with a comparison; its verdict is about speed, and may be any."""
    if comparison.verdict == "not run":
        return comparison.reason
    due = "GPU:0" if on_gpu(comparison.suite, comparison.name) else "CPU:0"
    if comparison.device != due or not comparison.candidate or comparison.candidate.device != due:
        return f"it ran on {comparison.candidate and comparison.candidate.device}, expected on {due}"
    return ""


def test_all_of_them_run(tmp_path: pathlib.Path) -> None:
    look_at(run_on_stand_in(tmp_path, 2), tmp_path, {})


def counts_gpus(suite: str, name: str) -> bool:
    """Whether a test may ask how many GPUs there are."""
    tests = COUNT_GPUS.get(suite)
    return tests is not None and (not tests or name.partition("[")[0] in tests)


def test_what_asks_how_many_gpus_there_are_runs_with_one(tmp_path: pathlib.Path) -> None:
    suites = [
        f"test_{suite}.py and ({' or '.join(f'test_{name}' for name in tests)})" if tests else f"test_{suite}.py"
        for suite, tests in COUNT_GPUS.items()
    ]
    only = f"(({') or ('.join(suites)})) and not (test_multi_worker.py and ({' or '.join(sorted(ONCE))}))"
    look_at(
        run_on_stand_in(tmp_path, 1, only=only),
        tmp_path,
        NEED_TWO,
        lambda suite, name: counts_gpus(suite, name) and (suite != "multi_worker" or name not in ONCE),
    )


def test_nothing_else_asks_how_many_there_are() -> None:
    asks = re.compile(r"(?:\(|\*|\bin )gpus\b|\bgpus\[(?!0\])|list_(?:logical|physical)_devices")
    found = set()
    for path in (ROOT / "perf_tests").glob("test_*.py"):
        text = path.read_text("utf-8")
        functions = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
        asking = {each.name for each in functions if asks.search(ast.get_source_segment(text, each) or "")}
        suite = path.stem.removeprefix("test_")
        found |= {(suite, name) for name in asking if not counts_gpus(suite, name.removeprefix("test_"))}
        assert bool(asks.search(text)) == (suite in COUNT_GPUS), suite
    assert found == set()


@pytest.mark.parametrize("release", [each for each in targets.RELEASES if each != targets.NEWEST])
def test_all_of_them_run_with_older_releases(tmp_path: pathlib.Path, release: str) -> None:
    """With two GPUs, so that nothing is skipped for lack of a second."""
    if not os.environ.get(OLDER):
        pytest.skip(f"the suites on older TensorFlows take minutes each: {OLDER}=1 runs them, one after the other")
    if why := why_not(release):
        pytest.skip(why)
    look_at(run_on_stand_in(tmp_path, 2, site=site_of(release)), tmp_path, {})


def why_not(release: str) -> str:
    """Why the suites cannot run on that TensorFlow here; empty where they can."""
    if why := targets.why_not():
        return why
    if release not in targets.find_targets(targets.folder()):
        return f"TensorFlow {release} is not in the lab: `python tests/lab/targets.py` installs it"
    return ""


def site_of(release: str) -> pathlib.Path:
    """Where the lab has that TensorFlow."""
    return targets.site_packages(targets.find_targets(targets.folder())[release])


def sizeless(names: Iterable[str]) -> set[str]:
    """Names of metrics without the sizes in them, which are small here: "matmul N in tf32"."""
    return {re.sub(r"(?<= )\d+(?= )", "N", name) for name in names}


def look_at(
    bench: Bench, folder: pathlib.Path, more_may_skip: Mapping[str, str],
    chosen: Callable[[str, str], bool] = lambda suite, name: True,
) -> None:  # fmt: skip
    """Whether every comparison and figure that was chosen, by suite and name, ran on the device where it must."""
    may_skip = {**more_may_skip, **NEED_MORE}
    assert not bench.problems
    assert not bench.gpu_lost
    due = [each for each in collected() if chosen(each[1], each[2])]
    names = {(suite, name) for kind, suite, name in due if kind == "COMPARISON" and name not in may_skip}
    assert {(each.suite, each.name) for each in bench.comparisons} == names
    assert not {f"{each.suite}/{each.name}": why for each in bench.comparisons if (why := judge(each))}
    account = Account()
    account.read((folder / "journal").read_bytes())
    assert {test.partition("::test_")[2] for test in account.outcomes} == {name for _, _, name in due}
    assert not bench.failed
    unexpected = {
        test: why
        for test, why in bench.skipped.items()
        if not (words := may_skip.get(test.partition("::test_")[2])) or words not in why
    }
    assert not unexpected
    limited = sizeless(each.name for each in bench.metrics if each.limit and each.suite == "device_placement")
    assert limited
    assert limited <= sizeless(
        name for _, name in metrics_named("device_placement")
    )  # by which a profile asks for them
