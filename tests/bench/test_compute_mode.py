"""GPUs that admit one process, as clusters set them: the pytest process holds them, so no child may use them beside it."""

from __future__ import annotations

import pathlib

import pytest
from healthy import broken, computation, cuda_gpu, gpu, nvml_gpu
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_hardware import EXCLUSIVE
from stand_in_run import run_on_stand_in

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.facts.nvidia import GpuProcess, NvmlGpu
from tfgpu_doctor.perf_tests.compute_mode import exclusive, why_no_second_process

BOTH = ("GPU:0", "GPU:1")
MPS = GpuProcess(pid=990, name="/usr/bin/nvidia-cuda-mps-server", memory_bytes=30 << 20)
WHY = "in compute mode exclusive_process"


def machine(*boards: NvmlGpu, cuda: int | None = None) -> Facts:
    """A machine with these GPUs, of which CUDA lists so many."""
    listed = range(len(boards))
    computed = tuple(computation(what, place) for place in listed for what in ("matmul", "convolution"))
    return broken(
        nvml={"gpus": boards},
        cuda_driver={"gpus": tuple(map(cuda_gpu, listed if cuda is None else range(cuda)))},
        runtime={"gpus": tuple(map(gpu, listed)), "computations": computed},
    )


def modes(*given: str) -> tuple[NvmlGpu, ...]:
    return tuple(nvml_gpu(place, compute_mode=mode) for place, mode in enumerate(given))


@pytest.fixture(autouse=True)
def no_mps(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of MPS's pipes, in which no daemon listens."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "mps"))
    (tmp_path / "mps").mkdir()
    return tmp_path / "mps"


@pytest.mark.parametrize(
    ("given", "due"),
    [
        (("default", "default"), {}),
        (("", ""), {}),  # nobody tells
        (("exclusive_process", "default"), {"GPU:0": "exclusive_process"}),
        (("default", "exclusive_thread"), {"GPU:1": "exclusive_thread"}),
        (("exclusive_process",) * 2, dict.fromkeys(BOTH, "exclusive_process")),
    ],
)
def test_the_mode_decides_whether_a_second_process_may_use_a_gpu(given: tuple[str, ...], due: dict[str, str]) -> None:
    assert exclusive(machine(*modes(*given)), BOTH) == due


def test_numbers_of_nvml_are_not_those_of_cuda() -> None:
    first, second = modes("exclusive_process", "default")
    assert exclusive(machine(second, first), BOTH) == {"GPU:0": "exclusive_process"}


@pytest.mark.parametrize(("given", "due"), [(("exclusive_process", "default"), ()), (("exclusive_process",) * 2, BOTH)])
def test_gpus_that_cannot_be_told_apart_are_exclusive_if_all_are(given: tuple[str, ...], due: tuple[str, ...]) -> None:
    assert tuple(exclusive(machine(*modes(*given), cuda=0), BOTH)) == due


def test_mps_lets_several_processes_use_an_exclusive_gpu(no_mps: pathlib.Path) -> None:
    served = nvml_gpu(0, compute_mode="exclusive_process", processes=(MPS,))
    assert exclusive(machine(served), ("GPU:0",)) == {}
    alone = machine(*modes("exclusive_process"))
    assert exclusive(alone, ("GPU:0",))
    (no_mps / "control").touch()  # in a container, where NVML names no process of others
    assert exclusive(alone, ("GPU:0",)) == {}


def test_without_nvml_nothing_is_known() -> None:
    assert exclusive(broken(machine(*modes("exclusive_process")), nvml=None), ("GPU:0",)) == {}


def test_the_reason_names_the_gpu_the_mode_and_what_changes_it() -> None:
    one = why_no_second_process({"GPU:1": "exclusive_process"})
    assert one.startswith("GPU:1 is in compute mode exclusive_process")
    assert "`sudo nvidia-smi -c 0`" in one
    assert why_no_second_process(dict.fromkeys(BOTH, "exclusive_process")).startswith(
        "GPU:0, GPU:1 are in compute mode"
    )


def run(folder: pathlib.Path, alone: str, suites: list[str], only: str) -> Bench:
    """Run tests on two GPUs, of which those numbers are exclusive."""
    skip_without_tensorflow()
    skip_without_scipy()
    boards = modes(*("exclusive_process" if str(place) in alone else "default" for place in (0, 1)))
    facts = machine(*boards)
    assert not [cause for cause in diagnose(facts).causes if cause.severity == "error"]
    return run_on_stand_in(folder, 2, suites, only=only, variables={EXCLUSIVE: alone}, facts=facts)


def names(bench: Bench) -> set[str]:
    """The tests that were left out because of the mode."""
    assert {why for why in bench.skipped.values() if WHY not in why} == set()
    return {test.partition("::test_")[2] for test in bench.skipped}


@pytest.mark.tensorflow
@pytest.mark.slow
def test_no_child_uses_a_gpu_that_the_tests_hold_alone(tmp_path: pathlib.Path) -> None:
    suites = ["memory_growth", "numerics", "threads", "mirrored_strategy", "multi_worker"]
    only = (
        "taken or second_process or growth_on_some or late or largest or repeats or agree or intra_op or thread_mode "
        "or (gradients and not 4) or (all_reduce and mirrored_strategy) or gpu_against_float64"
    )
    bench = run(tmp_path, "0,1", suites, only)
    assert bench.failed == {}
    assert bench.problems == ()
    assert names(bench) == {
        "taken[growth]", "taken[no growth]", "taken[limit]", "taken[cuda_malloc_async]", "second_process", "growth_on_some",
        "largest", "repeats_are_equal[GPU]", "gpus_agree", "gpu_thread_mode", "gradients", "all_reduce",
    }  # fmt: skip
    assert {each.name for each in bench.comparisons} == {"intra_op"}
    on = {each.suite: each.device for each in bench.metrics if each.suite in ("memory_growth", "numerics")}
    assert on["memory_growth"] == "CPU:0"
    about = [each.about for each in bench.metrics if each.suite == "multi_worker"]
    assert about == ["2 workers on the loopback of one machine, on CPU: does not measure a network"]
    assert "GPU:0" in {each.device for each in bench.metrics if each.suite == "numerics"}


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_second_exclusive_gpu_leaves_the_first_to_children_that_see_it_alone(tmp_path: pathlib.Path) -> None:
    bench = run(tmp_path, "1", ["memory_growth"], "(taken and limit) or growth_on_some or late")
    assert bench.failed == {}
    assert names(bench) == {"growth_on_some"}
    assert {each.device for each in bench.metrics} == {"GPU:0"}
