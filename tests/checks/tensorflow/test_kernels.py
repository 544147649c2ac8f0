"""TFB: has this TensorFlow kernels for this GPU, or PTX that its driver compiles, and is the result kept?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import capability, variables, wsl
from healthy import ANSWERED, cuda_gpu, gpu, nvml_gpu, runtime

from tfgpu_doctor.checks.tensorflow.kernels import compiled_kernels_are_kept, driver_compiles_ptx, kernels_fit_gpu
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Computation, Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

UNUSED = runtime(gpus=(), computations=())


def computed(error: str = "", index: int = 0, operation: str = "matmul") -> Computation:
    there = f"/job:localhost/replica:0/task:0/device:GPU:{index}"
    return Computation(
        operation=operation, device=f"/GPU:{index}", placed_on=there, largest_error=None if error else 0.0, error=error
    )


def run(*done: Computation, gpus: int = 1) -> Runtime:
    return runtime(gpus=tuple(gpu(index) for index in range(gpus)), computations=done, log=())


# TFB002


@pytest.mark.parametrize(
    ("value", "built"),
    [
        ("8.6", ("sm_80",)),
        ("8.0", ("sm_80",)),
        ("8.9", ("sm_80",)),
        ("9.0", ("compute_90",)),
        ("9.0", ("sm_90a",)),
        ("12.0", ("sm_120",)),
        ("12.1", ("compute_120",)),
        ("10.3", ("sm_100", "sm_75")),
        ("6.1", ("sm_60", "compute_90")),
    ],
)
@pytest.mark.parametrize("done", [None, run(computed()), run(computed("InternalError: odd"))])
def test_native_code_passes(judge: Judge, value: str, built: tuple[str, ...], done: Runtime | None) -> None:
    machine = capability(value, "a GPU", tensorflow={"compute_capabilities": built}, runtime=done)
    assert judge.passes(kernels_fit_gpu, machine) == f"GPU 0 (a GPU): native code for compute capability {value}"


@pytest.mark.parametrize(
    ("value", "built"),
    [
        ("5.2", ("sm_60", "sm_70", "compute_90")),
        ("8.6", ("sm_89",)),
        ("12.0", ("sm_90a",)),
        ("9.0", ("sm_80",)),
        ("3.7", ("compute_50",)),
    ],
)
@pytest.mark.parametrize("done", [None, UNUSED])
def test_a_gpu_that_no_code_runs_on_has_no_kernels(
    judge: Judge, value: str, built: tuple[str, ...], done: Runtime | None
) -> None:
    machine = capability(value, "a GPU", tensorflow={"compute_capabilities": built}, runtime=done)
    finding = judge.finding(kernels_fit_gpu, machine)
    assert (finding.cause, finding.severity) == ("gpu_compute_capability_too_old", "error")
    assert finding.message == f"TensorFlow 2.20.0 has no kernels for compute capability {value}"
    assert finding.evidence == (
        f"GPU 0 (a GPU) has compute capability {value}",
        f"this TensorFlow was built for {', '.join(built)}",
    )
    assert finding.fix and "older TensorFlow" in finding.fix.text


def test_the_ptx_of_8_0_is_compiled_for_9_0(judge: Judge) -> None:
    built = ("sm_60", "sm_70", "sm_75", "compute_80")  # TensorFlow 2.15.1 on an H100
    machine = capability("9.0", "NVIDIA H100", tensorflow={"compute_capabilities": built}, runtime=None)
    finding = judge.finding(kernels_fit_gpu, machine)
    assert (finding.cause, finding.severity) == ("ptx_jit_startup_delay", "warning")


OLDER = {"compute_capabilities": ("sm_60", "compute_80")}  # an 8.6 takes its machine code, a 9.0 its PTX


@pytest.mark.parametrize("done", [run(computed(), computed(operation="convolution"))])
@pytest.mark.parametrize(
    ("value", "built"), [("9.0", ("compute_80",)), ("12.0", ("sm_60", "compute_90")), ("7.5", ("compute_61",))]
)
def test_ptx_that_was_compiled_and_ran_is_a_delay(
    judge: Judge, value: str, built: tuple[str, ...], done: Runtime
) -> None:
    machine = capability(value, "a GPU", tensorflow={"compute_capabilities": built}, runtime=done)
    finding = judge.finding(kernels_fit_gpu, machine)
    assert (finding.cause, finding.severity) == ("ptx_jit_startup_delay", "warning")
    assert value in finding.message
    assert finding.evidence[1] == f"this TensorFlow was built for {', '.join(built)}"
    assert finding.fix and finding.fix.commands == ("export CUDA_CACHE_MAXSIZE=4294967296",)


@pytest.mark.parametrize("done", [None, UNUSED, run(computed())])
def test_a_gpu_older_than_the_newest_code_takes_ptx_all_the_same(judge: Judge, done: Runtime | None) -> None:
    built = {"compute_capabilities": ("compute_61", "sm_80")}
    finding = judge.finding(kernels_fit_gpu, capability("7.5", "a GPU", tensorflow=built, runtime=done))
    assert (finding.cause, finding.severity) == ("ptx_jit_startup_delay", "warning")


@pytest.mark.parametrize("done", [None, UNUSED, run()])
def test_a_gpu_of_a_later_generation_is_too_new_most_likely(judge: Judge, done: Runtime | None) -> None:
    finding = judge.finding(kernels_fit_gpu, capability("12.0", "NVIDIA GeForce RTX 5090", runtime=done))
    assert (finding.cause, finding.severity, finding.confidence) == (
        "gpu_compute_capability_too_new",
        "error",
        "medium",
    )
    assert "no kernels that run on compute capability 12.0" in finding.message
    assert "GPU 0 (NVIDIA GeForce RTX 5090) has compute capability 12.0" in finding.evidence
    assert finding.fix and read_knowledge().boundaries["container_of_nvidia"].value in finding.fix.text


def test_compute_capability_10_0_is_the_first_on_which_ptx_fails(judge: Judge) -> None:
    cause = judge.finding(kernels_fit_gpu, capability("10.0", "NVIDIA B200", runtime=None)).cause
    assert cause == "gpu_compute_capability_too_new"


@pytest.mark.parametrize(
    "error", ["InternalError: 'cuLaunchKernel(...)' failed with 'CUDA_ERROR_INVALID_HANDLE'", "CUDA_ERROR_INVALID_PTX"]
)
def test_a_gpu_on_which_the_kernels_failed_is_too_new(judge: Judge, error: str) -> None:
    finding = judge.finding(kernels_fit_gpu, capability("12.0", "a GPU", runtime=run(computed(error))))
    assert (finding.cause, finding.severity, finding.confidence) == ("gpu_compute_capability_too_new", "error", "high")
    assert f"matmul: {error}" in finding.evidence


def test_kernels_that_failed_on_a_gpu_older_than_the_newest_code_do_not_run(judge: Judge) -> None:
    built = {"compute_capabilities": ("compute_61", "sm_80")}
    done = run(computed(), computed("InternalError: CUDA_ERROR_INVALID_PTX", operation="convolution"))
    finding = judge.finding(kernels_fit_gpu, capability("7.5", "a GPU", tensorflow=built, runtime=done))
    assert (finding.cause, finding.severity) == ("gpu_compute_capability_too_new", "error")


@pytest.mark.parametrize(
    "sections",
    [
        {"tensorflow": {"compute_capabilities": ()}},
        {"cuda_driver": None, "nvml": None},
        {"cuda_driver": {"gpus": ()}, "nvml": Nvml(attempt=ANSWERED)},
        {"cuda_driver": None, "nvml": {"gpus": (nvml_gpu(compute_capability=""),)}},
        {"cuda_driver": {"gpus": (cuda_gpu(compute_capability=""),)}},
    ],
)
def test_capabilities_that_are_not_known_are_no_fault(judge: Judge, sections: dict[str, Any]) -> None:
    assert "is unknown" in judge.skips(kernels_fit_gpu, **sections)


@pytest.mark.parametrize("built", [("8.6",), ("native",), ("sm86",), ("gfx90a",)])
def test_targets_of_another_form_are_no_fault(judge: Judge, built: tuple[str, ...]) -> None:
    reason = judge.skips(kernels_fit_gpu, tensorflow={"compute_capabilities": built})
    assert reason == f"the doctor does not recognize the build's target names: {built[0]}"


def test_nvml_tells_the_capability_where_cuda_does_not(judge: Judge) -> None:
    nvml = {"gpus": (nvml_gpu(compute_capability="5.2"),)}
    finding = judge.finding(kernels_fit_gpu, cuda_driver=None, nvml=nvml, runtime=None)
    assert finding.cause == "gpu_compute_capability_too_old"


def test_each_of_several_gpus_is_judged(judge: Judge) -> None:
    gpus = (cuda_gpu(0, compute_capability="5.2"), cuda_gpu(1, compute_capability="3.7"))
    found = judge.findings(kernels_fit_gpu, cuda_driver={"gpus": gpus}, runtime=None)
    assert [finding.cause for finding in found] == ["gpu_compute_capability_too_old"] * 2


@pytest.mark.parametrize("done", [None, runtime()])
def test_an_old_second_gpu_does_not_stop_the_first(judge: Judge, done: Runtime | None) -> None:
    gpus = (cuda_gpu(0), cuda_gpu(1, compute_capability="3.5", name="NVIDIA GeForce GT 710"))
    found = judge.findings(kernels_fit_gpu, cuda_driver={"gpus": gpus}, runtime=done)
    assert [finding.severity for finding in found if finding.severity == "error"] == []


@pytest.mark.parametrize(
    "error",
    [
        "InternalError: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "UnimplementedError: DNN library is not found.",
        "InternalError: CUDA_ERROR_ECC_UNCORRECTABLE",
    ],
)
def test_an_error_that_says_nothing_of_kernels_does_not_make_a_gpu_too_new(judge: Judge, error: str) -> None:
    machine = capability("9.0", "NVIDIA H100", tensorflow=OLDER, runtime=run(computed(), computed(error)))
    causes = [finding.cause for finding in judge.findings(kernels_fit_gpu, machine)]
    assert "gpu_compute_capability_too_new" not in causes


def test_an_error_on_another_gpu_does_not_make_this_one_too_new(judge: Judge) -> None:
    gpus = (cuda_gpu(0), cuda_gpu(1, compute_capability="9.0"))
    done = run(computed("InternalError: odd", 0), computed("", 1), gpus=2)
    found = judge.findings(kernels_fit_gpu, cuda_driver={"gpus": gpus}, tensorflow=OLDER, runtime=done)
    assert "gpu_compute_capability_too_new" not in [finding.cause for finding in found]


# TFB003


def hopper(cuda_version: str, **sections: Any) -> dict[str, Any]:
    """An H100 for which only PTX will do, and a driver that supports some CUDA."""
    cuda = {"gpus": (cuda_gpu(compute_capability="9.0", name="NVIDIA H100"),), "cuda_version": cuda_version}
    return {"cuda_driver": cuda, "tensorflow": OLDER, "runtime": None, **sections}


@pytest.mark.parametrize("supported", ["12.5", "12.6", "12.10", "13.0", "20.1"])
def test_a_driver_as_new_as_the_ptx_passes(judge: Judge, supported: str) -> None:
    evidence = judge.passes(driver_compiles_ptx, **hopper(supported))
    assert evidence == f"the driver supports CUDA {supported}; the PTX is from CUDA 12.5.1"


@pytest.mark.parametrize("supported", ["12.4", "12.0", "11.8"])
@pytest.mark.parametrize("done", [None, UNUSED, run(computed("InternalError: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"))])
def test_a_driver_older_than_the_ptx_cannot_compile_it(judge: Judge, supported: str, done: Runtime | None) -> None:
    finding = judge.finding(driver_compiles_ptx, **hopper(supported, runtime=done))
    assert (finding.cause, finding.severity) == ("driver_too_old", "error")
    assert (
        finding.message == f"this driver compiles PTX up to CUDA {supported}, but TensorFlow's PTX is from CUDA 12.5.1"
    )
    assert finding.evidence[0] == "GPU 0 (NVIDIA H100), compute capability 9.0, needs kernels compiled from PTX"
    assert "CUDA 12.5 was released with driver 555.42.02" in finding.evidence[1]
    assert finding.fix and finding.fix.text == "Upgrade the driver to 555.42.02 or newer."


def test_a_cuda_that_the_table_does_not_hold_names_no_driver(judge: Judge) -> None:
    tensorflow = {**OLDER, "cuda_version": "14.2"}
    finding = judge.finding(driver_compiles_ptx, **hopper("14.1", tensorflow=tensorflow))
    assert len(finding.evidence) == 1
    assert finding.fix and finding.fix.text == "Upgrade the driver."


def test_a_newer_driver_is_not_advised_for_a_gpu_on_which_the_ptx_fails(judge: Judge) -> None:
    cuda = {"gpus": (cuda_gpu(compute_capability="12.0", name="NVIDIA GeForce RTX 5090"),), "cuda_version": "12.4"}
    reason = judge.skips(driver_compiles_ptx, **hopper("12.4", cuda_driver=cuda))
    assert reason == "TensorFlow's PTX fails on GPUs this new, whatever the driver"
    both = {**cuda, "gpus": (*cuda["gpus"], cuda_gpu(1, compute_capability="9.0", name="NVIDIA H100"))}
    finding = judge.finding(driver_compiles_ptx, **hopper("12.4", cuda_driver=both))
    assert finding.evidence[0].startswith("GPU 1 (NVIDIA H100)")


def test_kernels_that_were_compiled_and_ran_outweigh_the_versions(judge: Judge) -> None:
    evidence = judge.passes(driver_compiles_ptx, **hopper("12.2", runtime=run(computed())))
    assert evidence.splitlines()[0] == "the kernels were compiled and executed"


@pytest.mark.parametrize(
    "sections",
    [
        {},  # native code
        {"cuda_driver": {"cuda_version": "12.0"}},
        hopper(""),
        hopper("12.0", tensorflow={"compute_capabilities": ()}),
        hopper("12.0", tensorflow={"compute_capabilities": ("sm_80",)}),  # no code at all
        hopper("12.0", cuda_driver={"gpus": (), "cuda_version": "12.0"}),
    ],
)
def test_without_need_of_ptx_nothing_is_judged(judge: Judge, sections: dict[str, Any]) -> None:
    assert judge.skips(driver_compiles_ptx, **sections) == "no GPU needs kernels compiled from PTX"


@pytest.mark.parametrize("cuda", ["", "12"])
def test_a_build_that_names_no_release_of_cuda_is_not_judged(judge: Judge, cuda: str) -> None:
    reason = judge.skips(driver_compiles_ptx, **hopper("12.2", tensorflow={**OLDER, "cuda_version": cuda}))
    assert reason == "this TensorFlow does not report from which CUDA its PTX is"


def test_in_wsl_the_driver_to_install_is_that_of_windows(judge: Judge) -> None:
    sections = hopper("12.2")
    finding = judge.finding(driver_compiles_ptx, wsl(2), **sections)
    assert finding.fix and "555.85" in finding.fix.text


@pytest.mark.parametrize(
    "gpus", [(cuda_gpu(compute_capability=""),), (cuda_gpu(0), cuda_gpu(1, compute_capability=""))]
)
def test_a_gpu_of_unknown_capability_breaks_nothing(judge: Judge, gpus: Any) -> None:
    cuda = CudaDriver(attempt=ANSWERED, init_code=0, cuda_version="12.6", gpus=gpus)
    assert judge.does_not_object(driver_compiles_ptx, cuda_driver=cuda)


# ENV003


@pytest.mark.parametrize("value", [None, "", "0", "true"])
def test_a_cache_that_is_not_disabled_passes(judge: Judge, value: str | None) -> None:
    names = ("CUDA_CACHE_DISABLE", "CUDA_FORCE_PTX_JIT")
    environment = Environment(variables={} if value is None else dict.fromkeys(names, value))
    assert judge.passes(compiled_kernels_are_kept, environment=environment)


@pytest.mark.parametrize("name", ["CUDA_CACHE_DISABLE", "CUDA_FORCE_PTX_JIT"])
def test_a_variable_that_compiles_again_and_again_is_a_warning(judge: Judge, name: str) -> None:
    finding = judge.finding(compiled_kernels_are_kept, environment=variables(**{name: "1"}))
    assert (finding.cause, finding.severity) == ("ptx_jit_startup_delay", "warning")
    assert finding.message == f"{name}=1 makes every program start compile kernels again"
    assert finding.evidence == (f"{name} is '1'",)
    assert finding.fix and finding.fix.commands == (f"unset {name}",)


def test_each_variable_is_a_finding_of_its_own(judge: Judge) -> None:
    environment = variables(CUDA_CACHE_DISABLE="1", CUDA_FORCE_PTX_JIT="1")
    assert len(judge.findings(compiled_kernels_are_kept, environment=environment)) == 2


def test_a_warning_is_not_followed_by_its_contrary(judge: Judge) -> None:
    assert "neither" not in str(judge(compiled_kernels_are_kept, environment=variables(CUDA_CACHE_DISABLE="1")))
