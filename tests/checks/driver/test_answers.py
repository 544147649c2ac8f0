"""DRV: what the driver answers to NVML and to CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import NO_NVML, cuda_that_fails, cuda_without_library, without_gpu_in
from healthy import ANSWERED, DRIVER, cuda_gpu, nvml_gpu, runtime

from tfgpu_doctor.checks.driver.answers import cuda_driver_initialises, nvml_answers
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import GpuHealth, GpuTrouble
from tfgpu_doctor.model.facts.machine import Container, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

LIBCUDA = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}"
TIMED_OUT = Attempt(outcome="timed_out", seconds=15.0, phase="nvmlInit")
CRASHED = Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="nvmlInit", stderr=("Fatal Python error",))
OWN_TROUBLE = [
    Attempt(outcome="failed", exit_code=1, error="ImportError: no pynvml"),
    Attempt(outcome="unparsable"),
    Attempt(outcome="not_started", error="No such file or directory"),
]
UNUSED = runtime(gpus=(), computations=())
LOST = Nvml(attempt=ANSWERED, gpus=(nvml_gpu(),), error_code=15, error_text="GPU 1: GPU is lost")
A100 = PciDevice(address="0000:07:00.0", vendor="10de", device="20b2", class_code="030200", driver="nvidia")
NVSWITCH = PciDevice(address="0000:05:00.0", vendor="10de", device="22a3", class_code="068000")


# DRV007


def test_an_nvml_that_answers_passes(judge: Judge) -> None:
    assert judge.passes(nvml_answers) == f"driver {DRIVER}, 1 GPU"


@pytest.mark.parametrize(("os", "reason"), [("Linux", "cannot be opened"), ("Darwin", "no NVML on Darwin")])
def test_an_nvml_that_is_not_there_is_judged_elsewhere(judge: Judge, os: str, reason: str) -> None:
    nvml = Nvml(attempt=ANSWERED, library_error=NO_NVML)
    assert reason in judge.skips(nvml_answers, nvml=nvml, system={"os": os})


@pytest.mark.parametrize(
    ("code", "driver", "cause"),
    [
        (9, None, "no_nvidia_driver"),
        (9, {}, "undetermined"),  # it is loaded: NVML does not reach it
        (18, {}, "driver_library_version_mismatch"),
    ],
)
def test_what_nvml_says_of_the_driver_itself(judge: Judge, code: int, driver: Any, cause: str) -> None:
    said = Nvml(attempt=ANSWERED, error_code=code, error_text="?")
    machine = {"driver": None} if driver is None else {}
    assert judge.finding(nvml_answers, nvml=said, runtime=None, **machine).cause == cause


@pytest.mark.parametrize("attempt", OWN_TROUBLE)
def test_trouble_of_the_doctors_own_is_no_fault_of_nvml(judge: Judge, attempt: Attempt) -> None:
    assert attempt.ending in judge.skips(nvml_answers, nvml=Nvml(attempt=attempt))


@pytest.mark.parametrize("run", [None, UNUSED])
@pytest.mark.parametrize(
    ("nvml", "words", "cause"),
    [
        (Nvml(attempt=TIMED_OUT), "did not respond within 15 s during 'nvmlInit'", "gpu_hang"),
        (Nvml(attempt=CRASHED), "was killed by SIGSEGV", "undetermined"),
        (
            Nvml(attempt=ANSWERED, error_code=999, error_text="Unknown Error"),
            "failed with NVML_ERROR_UNKNOWN (999): Unknown Error",
            "undetermined",
        ),
        (Nvml(attempt=ANSWERED, error_code=777, error_text="New"), "failed with code 777: New", "undetermined"),
        (LOST, "failed with NVML_ERROR_GPU_IS_LOST (15): GPU 1: GPU is lost", "gpu_lost"),
    ],
)
def test_an_nvml_that_does_not_answer_is_an_error(
    judge: Judge, run: Runtime | None, nvml: Nvml, words: str, cause: str
) -> None:
    finding = judge.finding(nvml_answers, nvml=nvml, runtime=run)
    assert (finding.cause, finding.severity, finding.blocks) == (cause, "error", True)
    assert words in finding.message
    assert finding.evidence[0] == f"GPUs read before the failure: {len(nvml.gpus)}"
    assert finding.fix and "dmesg" in finding.fix.text


def test_the_table_says_what_a_code_of_nvml_means(judge: Judge) -> None:
    finding = judge.finding(nvml_answers, nvml=Nvml(attempt=ANSWERED, error_code=8, error_text="Insufficient Power"))
    assert "NVML_ERROR_INSUFFICIENT_POWER means: the GPU's power cables are not connected properly" in finding.evidence
    assert finding.fix and "power cables" in finding.fix.text


@pytest.mark.parametrize(
    ("nvml", "run", "severity"),
    [
        (Nvml(attempt=ANSWERED, error_code=3, error_text="Not Supported"), runtime(), "warning"),
        (Nvml(attempt=TIMED_OUT), runtime(), "warning"),
        (Nvml(attempt=TIMED_OUT), runtime(computations=()), "error"),
        (LOST, runtime(), "error"),
    ],
    ids=["fails", "hangs", "hangs and nothing computes", "a lost GPU"],
)
def test_an_nvml_that_fails_where_tensorflow_has_its_gpu(judge: Judge, nvml: Nvml, run: Runtime, severity: str) -> None:
    """That nothing answers is a suspicion where every GPU computes; that a GPU is lost, NVML states."""
    finding = judge.finding(nvml_answers, nvml=nvml, runtime=run)
    assert (finding.severity, finding.blocks) == (severity, False)


def test_an_nvml_without_gpus_answers_all_the_same(judge: Judge) -> None:
    assert "0 GPUs" in judge.passes(nvml_answers, nvml=Nvml(attempt=ANSWERED))


# DRV008


def test_a_cuda_that_lists_a_gpu_passes(judge: Judge) -> None:
    evidence = judge.passes(cuda_driver_initialises)
    assert evidence == "cuInit succeeds, the driver supports CUDA 12.6, and lists NVIDIA GeForce RTX 3090"


def test_a_cuda_is_judged_by_itself(judge: Judge) -> None:
    assert judge.passes(cuda_driver_initialises, driver=None, nvml=None, pci=None)


def test_a_cuda_without_gpus_is_judged_elsewhere(judge: Judge) -> None:
    assert judge.skips(cuda_driver_initialises, cuda_driver={"gpus": ()}) == "cuInit succeeds and lists no GPU"


@pytest.mark.parametrize(("os", "reason"), [("Linux", "cannot be opened"), ("Windows", "no CUDA driver on Windows")])
def test_a_cuda_that_is_not_there_is_judged_elsewhere(judge: Judge, os: str, reason: str) -> None:
    assert reason in judge.skips(cuda_driver_initialises, cuda_driver=cuda_without_library(), system={"os": os})


@pytest.mark.parametrize("attempt", OWN_TROUBLE)
def test_trouble_of_the_doctors_own_is_no_fault_of_cuda(judge: Judge, attempt: Attempt) -> None:
    assert attempt.ending in judge.skips(cuda_driver_initialises, cuda_driver=CudaDriver(attempt=attempt))


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (Attempt(outcome="timed_out", seconds=15.0, phase="cuInit"), "did not respond within 15 s during 'cuInit'"),
        (Attempt(outcome="timed_out", seconds=15.0, phase="cuInit", stuck=True), "could not be killed"),
        (
            Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="cuInit"),
            "was killed by SIGSEGV during 'cuInit'",
        ),
    ],
)
@pytest.mark.parametrize("library", [LIBCUDA, ""])
def test_a_cuda_that_hangs_or_dies_is_an_error(judge: Judge, attempt: Attempt, words: str, library: str) -> None:
    finding = judge.finding(
        cuda_driver_initialises, cuda_driver=CudaDriver(attempt=attempt, library=library), runtime=None
    )
    cause = "gpu_hang" if attempt.outcome == "timed_out" else "undetermined"
    assert (finding.cause, finding.severity) == (cause, "error")
    assert words in finding.message
    assert finding.evidence == (f"libcuda is {library or 'unknown'}",)
    assert finding.fix and "dmesg" in finding.fix.text


SLOW = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=39.0, phase="cuInit"), library=LIBCUDA)
HUNG_RUN = runtime(attempt=Attempt(outcome="timed_out", phase="listing the GPUs"), gpus=(), computations=())


def kept(*modes: bool | None) -> tuple[Any, ...]:
    """GPUs whose persistence mode is on, off or unknown."""
    return tuple(nvml_gpu(index, health=GpuHealth(persistence_mode=mode)) for index, mode in enumerate(modes))


def test_a_cuda_that_is_slow_where_tensorflow_computes_is_a_suspicion(judge: Judge) -> None:
    finding = judge.finding(cuda_driver_initialises, cuda_driver=SLOW, nvml=None)
    assert (finding.cause, finding.severity, finding.blocks) == ("gpu_hang", "warning", False)
    assert "TensorFlow computed on the GPU in the same examination" in finding.evidence
    assert finding.fix and "--deadline" in finding.fix.text and "reset" not in finding.fix.text


def test_a_cuda_that_is_slow_on_gpus_without_persistence_mode_is_not_judged(judge: Judge) -> None:
    """A GPU that hangs looks the same, so it is no pass, also where only the driver is asked for."""
    started = Attempt(outcome="answered", seconds=26.0)  # NVML waits for the same start
    nvml = {"gpus": kept(False, True, False), "attempt": started}
    reason = judge.skips(cuda_driver_initialises, cuda_driver=SLOW, nvml=nvml, runtime=None)
    assert "persistence mode is off for 2 of 3 GPUs" in reason
    assert "--deadline 600" in reason


EIGHT = {"devices": tuple(msgspec.structs.replace(A100, address=f"0000:{place:02}:00.0") for place in range(1, 9))}


@pytest.mark.parametrize(("seconds", "told"), [(20.0, False), (44.0, True)])
@pytest.mark.parametrize("check", [cuda_driver_initialises, nvml_answers])
def test_a_short_deadline_is_no_hang_where_many_gpus_may_have_to_start(
    judge: Judge, check: Any, seconds: float, told: bool
) -> None:
    """A health check has 20 s; eight GPUs without persistence mode may need 24."""
    late = Attempt(outcome="timed_out", seconds=seconds)
    sections = {"cuda_driver": CudaDriver(attempt=late), "nvml": Nvml(attempt=late), "runtime": None}
    if told:
        assert judge.finding(check, pci=EIGHT, **sections).cause == "gpu_hang"
    else:
        assert "not all GPUs need have started" in judge.skips(check, pci=EIGHT, **sections)
    assert judge.finding(check, **sections).cause == "gpu_hang", "one GPU has started by then"


@pytest.mark.parametrize(
    ("nvml", "run"),
    [
        ({"gpus": kept(False), "attempt": Attempt(outcome="answered", seconds=1.2)}, None),
        ({"gpus": kept(True, True)}, None),
        ({"gpus": kept(None)}, None),
        ({"gpus": kept(False), "troubles": (GpuTrouble(index=1, call="nvmlDeviceGetName", seconds=9.0),)}, None),
        ({"gpus": kept(False), "attempt": TIMED_OUT}, None),
        ({"gpus": kept(False)}, HUNG_RUN),
        (None, None),
        (None, UNUSED),
    ],
    ids=[
        "they were up",
        "on",
        "unknown",
        "a silent GPU",
        "NVML hangs",
        "TensorFlow hangs",
        "no NVML",
        "nothing computes",
    ],
)
def test_a_cuda_that_hangs_where_nothing_else_explains_it_is_an_error(judge: Judge, nvml: Any, run: Any) -> None:
    finding = judge.finding(cuda_driver_initialises, cuda_driver=SLOW, nvml=nvml, runtime=run)
    assert (finding.cause, finding.severity, finding.blocks) == ("gpu_hang", "error", True)


def test_a_cuda_that_dies_where_tensorflow_computes_is_an_error(judge: Judge) -> None:
    finding = judge.finding(cuda_driver_initialises, cuda_driver=CudaDriver(attempt=CRASHED))
    assert (finding.cause, finding.severity, finding.blocks) == ("undetermined", "error", True)


def test_a_cuda_that_dies_after_cuinit_is_an_error_too(judge: Judge) -> None:
    attempt = Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="listing the GPUs")
    finding = judge.finding(cuda_driver_initialises, cuda_driver={"attempt": attempt, "gpus": ()})
    assert "during 'listing the GPUs'" in finding.message


def test_of_standard_error_the_last_lines_are_evidence(judge: Judge) -> None:
    died = Attempt(outcome="killed_by_signal", signal="SIGABRT", stderr=("1", "2", "3", "4"))
    for check, sections in (
        (cuda_driver_initialises, {"cuda_driver": CudaDriver(attempt=died)}),
        (nvml_answers, {"nvml": Nvml(attempt=died)}),
    ):
        assert judge.finding(check, **sections).evidence[1:] == ("2", "3", "4")


def test_a_switched_machine_waits_for_its_fabric_manager(judge: Judge) -> None:
    not_ready = cuda_that_fails(802, "CUDA_ERROR_SYSTEM_NOT_READY")
    finding = judge.finding(cuda_driver_initialises, pci={"devices": (A100, NVSWITCH)}, cuda_driver=not_ready)
    assert (finding.cause, finding.severity, finding.confidence) == ("fabric_manager_not_running", "error", "high")
    assert finding.message == "the CUDA driver does not initialise: CUDA_ERROR_SYSTEM_NOT_READY (802)"
    assert "1 NVSwitch on the PCI bus" in finding.evidence
    assert finding.fix and "nvidia-fabricmanager" in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize("pci", [None, {}])
def test_a_machine_whose_switches_cannot_be_seen_waits_for_it_most_likely(judge: Judge, pci: Any) -> None:
    not_ready = cuda_that_fails(802, "CUDA_ERROR_SYSTEM_NOT_READY")
    finding = judge.finding(cuda_driver_initialises, pci=pci, cuda_driver=not_ready)
    assert (finding.cause, finding.confidence) == ("fabric_manager_not_running", "medium")


def test_an_unknown_error_after_a_suspend_is_the_suspends_fault(judge: Judge) -> None:
    finding = judge.finding(
        cuda_driver_initialises, driver={"suspends": 3}, cuda_driver=cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    )
    assert (finding.cause, finding.severity, finding.confidence) == ("uvm_broken_after_suspend", "error", "medium")
    assert "resumed from suspend 3 times" in finding.evidence[1]
    assert "PreserveVideoMemoryAllocations is 0" in finding.evidence[2]
    assert finding.fix and "modprobe nvidia_uvm" in finding.fix.text
    assert finding.fix.commands == ()


def test_a_suspend_is_named_without_the_modules_parameters(judge: Judge) -> None:
    finding = judge.finding(
        cuda_driver_initialises,
        driver={"suspends": 1, "parameters": {}},
        cuda_driver=cuda_that_fails(999, "CUDA_ERROR_UNKNOWN"),
    )
    assert finding.cause == "uvm_broken_after_suspend"
    assert len(finding.evidence) == 2


def test_an_unknown_error_is_judged_without_the_drivers_facts(judge: Judge) -> None:
    unknown = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    assert judge.finding(cuda_driver_initialises, driver=None, cuda_driver=unknown).cause == "undetermined"


@pytest.mark.parametrize("suspends", [0, None])
def test_an_unknown_error_without_a_suspend_has_no_known_cause(judge: Judge, suspends: int | None) -> None:
    finding = judge.finding(
        cuda_driver_initialises, driver={"suspends": suspends}, cuda_driver=cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    )
    assert (finding.cause, finding.confidence) == ("undetermined", "low")


@pytest.mark.parametrize("code", [3, 100, 304, 802])
def test_a_suspend_is_not_blamed_for_other_errors(judge: Judge, code: int) -> None:
    finding = judge.finding(cuda_driver_initialises, driver={"suspends": 3}, cuda_driver=cuda_that_fails(code, ""))
    assert finding.cause != "uvm_broken_after_suspend"


def mig(index: int = 0, *devices: str) -> Any:
    return nvml_gpu(index, mig=True, mig_devices=devices)


def test_mig_without_an_instance_gives_no_device(judge: Judge) -> None:
    finding = judge.finding(
        cuda_driver_initialises,
        nvml={"gpus": (mig(0), mig(1))},
        cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"),
    )
    assert (finding.cause, finding.severity) == ("mig_single_instance_per_process", "error")
    assert "MIG is on, but no MIG instance exists" in finding.evidence
    assert finding.fix and "nvidia-smi mig -cgi" in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize(
    "gpus",
    [(mig(0), nvml_gpu(1)), (mig(0, "MIG-1"),), (mig(0), mig(1, "MIG-1")), (nvml_gpu(),)],
    ids=["one GPU without MIG", "an instance", "an instance on the second", "no MIG"],
)
def test_mig_is_not_blamed_where_a_device_should_be_there(judge: Judge, gpus: tuple[Any, ...]) -> None:
    finding = judge.finding(
        cuda_driver_initialises, nvml={"gpus": gpus}, cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
    )
    assert finding.cause == "undetermined"
    assert f"NVML still lists {amount(len(gpus), 'GPU')}" in finding.evidence


def test_mig_is_not_blamed_for_other_errors(judge: Judge) -> None:
    unknown = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    finding = judge.finding(cuda_driver_initialises, nvml={"gpus": (mig(0),)}, cuda_driver=unknown)
    assert finding.cause == "undetermined"
    assert "NVML lists" not in str(finding.evidence)


def test_what_nvml_complains_of_is_evidence(judge: Judge) -> None:
    nvml = Nvml(attempt=ANSWERED, error_code=15, error_text="GPU 0: GPU is lost")
    finding = judge.finding(
        cuda_driver_initialises, nvml=nvml, cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
    )
    assert finding.cause == "undetermined"
    assert "NVML fails with NVML_ERROR_GPU_IS_LOST (15): GPU 0: GPU is lost" in finding.evidence


@pytest.mark.parametrize("nvml", [None, Nvml(attempt=ANSWERED)])
def test_no_device_without_nvml_has_no_known_cause(judge: Judge, nvml: Nvml | None) -> None:
    cuda = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
    finding = judge.finding(cuda_driver_initialises, nvml=nvml, cuda_driver=cuda)
    assert (finding.cause, finding.confidence) == ("undetermined", "low")
    assert finding.evidence == ("cuInit returned 100, CUDA_ERROR_NO_DEVICE: the driver sees no GPU",)


def test_the_table_names_a_code_that_the_driver_does_not(judge: Judge) -> None:
    finding = judge.finding(cuda_driver_initialises, cuda_driver=cuda_that_fails(304, ""))
    assert "CUDA_ERROR_OPERATING_SYSTEM (304)" in finding.message


@pytest.mark.parametrize("code", [-1, 12345])
def test_a_code_that_nobody_knows_is_told_as_such(judge: Judge, code: int) -> None:
    finding = judge.finding(cuda_driver_initialises, cuda_driver=cuda_that_fails(code, ""))
    assert finding.cause == "undetermined"
    assert f"a code that is not in the doctor's table ({code})" in finding.message


def test_a_code_newer_than_the_table_keeps_the_drivers_name_for_it(judge: Judge) -> None:
    finding = judge.finding(cuda_driver_initialises, cuda_driver=cuda_that_fails(915, "CUDA_ERROR_NEW"))
    assert "CUDA_ERROR_NEW (915)" in finding.message


def test_a_container_and_several_gpus_change_nothing(judge: Judge) -> None:
    machine = without_gpu_in(
        Container(kind="docker"), cuda_driver=CudaDriver(attempt=ANSWERED, init_code=0, gpus=(cuda_gpu(0), cuda_gpu(1)))
    )
    assert "RTX 3090, NVIDIA GeForce RTX 3090" in judge.passes(cuda_driver_initialises, machine)


def test_an_answer_without_a_code_is_no_failure(judge: Judge) -> None:
    assert judge.does_not_object(cuda_driver_initialises, cuda_driver=CudaDriver(attempt=ANSWERED, library=LIBCUDA))
