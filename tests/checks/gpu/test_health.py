"""HLT: GPUs that do not answer, errors of their memory, and what the driver asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_health import GEFORCE, H100, SERVER, built, changed, failing, hung, server, without, workstation
from built_kernel import log, message
from built_machines import variables
from healthy import ANSWERED, nvml_gpu, runtime

from tfgpu_doctor.checks.gpu.health import every_gpu_answers, memory_is_sound, no_reset_is_asked_for
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import Ecc, GpuHealth, GpuTrouble, RemappedRows, RetiredPages
from tfgpu_doctor.model.facts.kernel import KernelMessage
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

NO_CUDA = {"cuda_driver": None, "runtime": None}


# HLT001


def test_gpus_that_answer_pass(judge: Judge) -> None:
    assert judge.passes(every_gpu_answers) == "NVML reads 1 GPU"
    assert judge.passes(every_gpu_answers, server()) == "NVML reads 8 GPUs"


@pytest.mark.parametrize(
    "nvml",
    [
        Nvml(attempt=ANSWERED, library_error="libnvidia-ml.so.1: cannot open shared object file"),
        Nvml(attempt=ANSWERED, error_code=999),
        Nvml(attempt=Attempt(outcome="timed_out", seconds=20.0, phase="nvmlInit")),
    ],
)
def test_an_nvml_that_does_not_work_is_judged_elsewhere(judge: Judge, nvml: Nvml) -> None:
    assert judge.skips(every_gpu_answers, nvml=nvml) == "NVML itself does not respond"


def test_without_gpus_there_is_nothing_to_answer(judge: Judge) -> None:
    assert judge.skips(every_gpu_answers, nvml={"gpus": ()}) == "NVML lists no GPU"


@pytest.mark.parametrize(
    ("check", "silent"),
    [
        (memory_is_sound, {"ecc": None, "remapped_rows": None, "retired_pages": None}),
        (no_reset_is_asked_for, {"recovery_action": ""}),
    ],
)
def test_one_gpu_of_which_nothing_is_known_is_no_pass(judge: Judge, check: Check, silent: dict[str, Any]) -> None:
    machine = server()
    assert machine.nvml
    gpus = list(machine.nvml.gpus)
    gpus[3] = msgspec.structs.replace(gpus[3], health=msgspec.structs.replace(gpus[3].health, **silent))
    lacking = msgspec.structs.replace(machine, nvml=msgspec.structs.replace(machine.nvml, gpus=tuple(gpus)))
    assert "NVML does not report this of GPU 3" in judge.skips(check, lacking)


def test_a_gpu_that_hangs_is_named_once(judge: Judge) -> None:
    finding = judge.finding(every_gpu_answers, without(3, hung()))
    assert (finding.cause, finding.severity, finding.confidence) == ("gpu_hang", "error", "high")
    assert not finding.blocks, "the others work"
    assert finding.message == f"GPU 3 ({H100}) at 0000:04:00.0 does not respond to NVML"
    assert "nvmlDeviceGetPowerUsage did not return within 8 s" in finding.evidence
    assert finding.fix and "--gpu-reset -i 3" in finding.fix.text
    (command,) = finding.fix.commands
    assert command.startswith("export CUDA_VISIBLE_DEVICES=GPU-")
    assert command.count("GPU-") == 7
    assert "000000000003" not in command


@pytest.mark.parametrize("visible", ["0,1,2,4,5,6,7", "0,1,2,4,5,6,7,"])
def test_a_gpu_that_the_user_withholds_is_a_warning(judge: Judge, visible: str) -> None:
    machine = without(3, hung(), environment=variables(CUDA_VISIBLE_DEVICES=visible))
    finding = judge.finding(every_gpu_answers, machine)
    assert (finding.cause, finding.severity) == ("gpu_hang", "warning")
    assert "CUDA_VISIBLE_DEVICES names others, which CUDA lists" in finding.evidence
    assert finding.fix and finding.fix.commands == ()


@pytest.mark.parametrize("visible", ["0,1,2,3,4,5,6,7", "3", ""])
def test_a_gpu_that_the_user_names_as_well_is_an_error(judge: Judge, visible: str) -> None:
    machine = without(3, hung(), environment=variables(CUDA_VISIBLE_DEVICES=visible))
    assert judge.finding(every_gpu_answers, machine).severity == "error"


@pytest.mark.parametrize(("code", "severity"), [(999, "warning"), (15, "error"), (16, "error"), (0, "error")])
def test_a_gpu_that_cuda_lists_all_the_same(judge: Judge, code: int, severity: str) -> None:
    """An unknown error of NVML is a suspicion; what NVML states, and a hang, are not."""
    machine = without(3, hung(error_code=code, error_text="..." if code else ""))
    finding = judge.finding(every_gpu_answers, machine, cuda_driver=server().cuda_driver)
    assert finding.severity == severity
    assert ("CUDA lists it all the same" in finding.evidence) == (severity == "warning")


def test_a_tensorflow_that_hangs_with_the_gpu_is_explained_by_it(judge: Judge) -> None:
    run = runtime(computations=(), attempt=Attempt(outcome="timed_out", seconds=60.0))
    assert judge.finding(every_gpu_answers, without(3, hung()), runtime=run).blocks


def test_it_is_an_error_where_no_gpu_can_be_used(judge: Judge) -> None:
    nvml = Nvml(attempt=ANSWERED, count=1, troubles=(hung(0),))
    finding = judge.finding(every_gpu_answers, nvml=nvml, **NO_CUDA)
    assert (finding.severity, finding.fix and finding.fix.commands) == ("error", ())


@pytest.mark.parametrize(
    ("code", "text", "cause", "confidence", "words"),
    [
        (8, "Insufficient External Power", "hardware_power_supply", "low", "NVML_ERROR_INSUFFICIENT_POWER (8)"),
        (15, "GPU is lost", "gpu_lost", "high", "NVML_ERROR_GPU_IS_LOST (15)"),
        (16, "GPU requires reset", "gpu_reset_required", "high", "NVML_ERROR_RESET_REQUIRED (16)"),
        (999, "Unknown Error", "undetermined", "low", "NVML_ERROR_UNKNOWN (999)"),
        (4711, "a code of tomorrow", "undetermined", "low", "code (4711)"),
    ],
)
def test_a_code_is_told_with_its_meaning(
    judge: Judge, code: int, text: str, cause: str, confidence: str, words: str
) -> None:
    lost = GpuTrouble(index=5, call="nvmlDeviceGetHandleByIndex", error_code=code, error_text=text)
    finding = judge.finding(every_gpu_answers, without(5, lost))
    assert (finding.cause, finding.severity, finding.confidence) == (cause, "error", confidence)
    assert f"NVML says {text!r}" in finding.message
    assert f"nvmlDeviceGetHandleByIndex returned {words}" in finding.evidence


def test_a_gpu_that_told_no_address_is_the_one_left_on_the_bus(judge: Judge) -> None:
    lost = GpuTrouble(index=5, call="nvmlDeviceGetHandleByIndex", error_code=15, error_text="GPU is lost")
    assert "GPU 5 at 0000:06:00.0" in judge.finding(every_gpu_answers, without(5, lost)).message
    assert "GPU 5 has a problem" in judge.finding(every_gpu_answers, without(5, lost, pci=None)).message


AER = "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer"


@pytest.mark.parametrize(
    ("said", "port", "cause", "confidence"),
    [
        ((), "", "undetermined", "low"),
        ((message("pci_corrected", AER, pci_address="0000:00:03.0"),), None, "gpu_lost", "low"),
        ((message("pci_corrected", AER, pci_address="0000:00:03.0"),), "0000:00:03.0", "gpu_lost", "low"),
        ((message("pci_corrected", AER, pci_address="0000:00:03.0"),), "0000:00:01.0", "undetermined", "low"),
        ((message("pci_unrecovered", "AER: can't recover", pci_address="0000:01:00.0"),), "", "gpu_lost", "medium"),
        ((message("pci_corrected", AER, 90_000.0, pci_address="0000:00:03.0"),), None, "undetermined", "low"),
    ],
    ids=["alone", "bus unknown", "its port", "another port", "given up", "long ago"],
)
def test_a_gpu_that_nvml_cannot_open_is_lost_if_its_link_reports_errors(
    judge: Judge, said: tuple[KernelMessage, ...], port: str | None, cause: str, confidence: str
) -> None:
    trouble = GpuTrouble(index=0, pci_address="0000:01:00.0", call="nvmlDeviceGetHandleByIndex", error_code=999)
    card = PciDevice("0000:01:00.0", "10de", "2204", "030000", driver="nvidia", port=port or "")
    found = judge.finding(
        every_gpu_answers,
        **NO_CUDA,
        nvml={"gpus": (), "troubles": (trouble,)},
        pci=None if port is None else Pci(devices=(card,)),
        kernel_log=log(*said),
    )
    assert (found.cause, found.confidence) == (cause, confidence)


@pytest.mark.parametrize("code", [4, 17])
def test_a_gpu_that_is_not_for_this_process_is_no_fault(judge: Judge, code: int) -> None:
    refused = GpuTrouble(index=5, error_code=code, error_text="Insufficient Permissions")
    assert "GPU 5 is not available to this process" in judge.passes(every_gpu_answers, without(5, refused))


def test_what_follows_from_the_only_gpu_that_hangs_is_explained_by_it() -> None:
    report = diagnose(built()["only-gpu-hangs"])
    assert [cause.id for cause in report.causes] == ["HLT001"]
    assert {"DRV008", "TFW002"} <= set(report.causes[0].explains)


# HLT002


def test_memory_without_errors_passes_with_its_figures(judge: Judge) -> None:
    evidence = judge.passes(memory_is_sound, server(SERVER))
    assert evidence == (
        "GPU 0: ECC 0 uncorrected and 0 corrected errors since the driver was loaded (0 and 2 ever), "
        "0 rows remapped for uncorrected errors, 1 for corrected ones"
    )


def test_a_gpu_without_ecc_is_not_judged(judge: Judge) -> None:
    assert judge.skips(memory_is_sound) == "NVML reports nothing about memory errors"


OFF = GpuHealth(ecc=Ecc(enabled=False, pending=True))


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        (OFF, "ECC is off, so that nothing detects errors in the memory"),
        (GpuHealth(ecc=Ecc(enabled=True)), "ECC is on, but NVML reports no number of uncorrectable errors"),
    ],
    ids=["off", "no number"],
)
def test_memory_whose_errors_nobody_counts_is_not_judged(judge: Judge, health: GpuHealth, reason: str) -> None:
    assert judge.skips(memory_is_sound, workstation(health)) == reason


def test_ecc_that_is_off_is_no_fault_where_rows_are_counted(judge: Judge) -> None:
    health = changed(OFF, remapped_rows=RemappedRows())
    assert judge.passes(memory_is_sound, workstation(health)).startswith("GPU 0: ECC is off, 0 rows remapped")


def test_of_several_gpus_one_whose_ecc_is_off_is_named(judge: Judge) -> None:
    first, second = judge.passes(memory_is_sound, server(SERVER, OFF)).splitlines()[:2]
    assert first.startswith("GPU 0: ECC 0 uncorrected")
    assert second.startswith("GPU 1: not measured: ECC is off")


def test_what_the_driver_says_of_the_caches_counts_without_a_number(judge: Judge) -> None:
    health = GpuHealth(ecc=Ecc(enabled=True, sram_threshold_exceeded=True))
    assert "errors in its caches" in judge.finding(memory_is_sound, workstation(health)).message


@pytest.mark.parametrize(
    "parts",
    [
        {"ecc": {"aggregate_uncorrected": 4}},
        {"ecc": {"volatile_corrected": 900}},
        {"remapped_rows": {"corrected": 12, "uncorrected": 3}},
        {"remapped_rows": {"banks": {"all": 600, "most": 0, "some": 0, "few": 0, "none": 1}}},
        {"ecc": None, "remapped_rows": None, "retired_pages": RetiredPages(corrected=3, uncorrected=2)},
    ],
    ids=str,
)
def test_errors_of_the_past_or_that_were_corrected_are_evidence_alone(judge: Judge, parts: dict[str, Any]) -> None:
    assert judge.passes(memory_is_sound, server(changed(SERVER, **parts)))


@pytest.mark.parametrize(("uncorrected", "found"), [(24, False), (25, True)])
def test_a_card_that_can_retire_hardly_a_page_more_is_to_be_replaced(
    judge: Judge, uncorrected: int, found: bool
) -> None:
    health = changed(
        SERVER, ecc=None, remapped_rows=None, retired_pages=RetiredPages(corrected=38, uncorrected=uncorrected)
    )
    if found:
        finding = judge.finding(memory_is_sound, server(health))
        assert (finding.cause, finding.severity) == ("hardware_ecc_error", "error")
        assert "63 retired pages" in finding.message
    else:
        assert judge.passes(memory_is_sound, server(health))


@pytest.mark.parametrize(("action", "severity"), [("gpu_reset", "error"), ("", "error"), ("none", "warning")])
def test_uncorrected_errors_are_an_error_unless_the_driver_contained_them(
    judge: Judge, action: str, severity: str
) -> None:
    health = changed(SERVER, ecc={"volatile_uncorrected": 2}, recovery_action=action)
    finding = judge.finding(memory_is_sound, server(SERVER, health))
    assert (finding.cause, finding.severity) == ("hardware_ecc_error", severity)
    assert finding.message.startswith(f"GPU 1 ({H100}) has had 2 uncorrectable memory errors")
    assert "ECC 2 uncorrected" in finding.evidence[0]


@pytest.mark.parametrize(
    ("parts", "cause", "words"),
    [
        ({"remapped_rows": {"failed": True}}, "hardware_ecc_error", "no spare row left"),
        ({"remapped_rows": {"pending": True}}, "gpu_reset_required", "rows of its memory are pending"),
        (
            {"retired_pages": RetiredPages(uncorrected=1, pending=True)},
            "gpu_reset_required",
            "pages of its memory are pending",
        ),
        ({"ecc": {"sram_threshold_exceeded": True}}, "hardware_ecc_error", "errors in its caches"),
    ],
    ids=["failed", "pending rows", "pending pages", "caches"],
)
def test_a_mark_of_the_driver_is_an_error(judge: Judge, parts: dict[str, Any], cause: str, words: str) -> None:
    finding = judge.finding(memory_is_sound, server(changed(SERVER, **parts)))
    assert (finding.cause, finding.severity, finding.blocks) == (cause, "error", False)
    assert words in finding.message
    assert judge.finding(memory_is_sound, server(changed(SERVER, **parts)), runtime=None).blocks


@pytest.mark.parametrize(
    "parts",
    [{"ecc": {"volatile_uncorrected": 2}}, {"ecc": {"sram_threshold_exceeded": True}}, {"remapped_rows": {"pending": True, "failed": True}}],
    ids=["uncorrected", "caches", "no spare row"],
)  # fmt: skip
def test_rows_that_wait_because_of_errors_are_one_cause_with_them(parts: dict[str, Any]) -> None:
    health = changed(SERVER, **{"remapped_rows": {"pending": True}, "recovery_action": "gpu_reset", **parts})
    report = diagnose(server(SERVER, health))
    assert [(cause.label, cause.severity) for cause in report.causes] == [("hardware_ecc_error", "error")]


def test_a_sick_gpu_that_is_hidden_from_this_process_is_none_of_its_business(judge: Judge) -> None:
    machine = server(SERVER, changed(SERVER, remapped_rows={"failed": True}))
    assert machine.cuda_driver
    first = machine.cuda_driver.gpus[:1]
    assert judge.passes(memory_is_sound, machine, cuda_driver={"gpus": first}).startswith("GPU 0")


# HLT003


def test_no_action_passes(judge: Judge) -> None:
    assert judge.passes(no_reset_is_asked_for, server(SERVER)) == "GPU 0: the driver requests no action"


def test_a_driver_that_does_not_say_is_not_judged(judge: Judge) -> None:
    assert "does not report" in judge.skips(no_reset_is_asked_for, workstation(GEFORCE))


@pytest.mark.parametrize(
    ("action", "severity", "words"),
    [
        ("gpu_reset", "error", "a reset of the GPU"),
        ("node_reboot", "error", "a reboot"),
        ("drain_p2p", "warning", "peer-to-peer"),
        ("drain_and_reset", "error", "once the programs that use it have ended"),
        ("recover_imex_domain", "warning", "the IMEX domain"),
        ("9", "warning", "requests 9"),
    ],
)
def test_an_action_is_told(judge: Judge, action: str, severity: str, words: str) -> None:
    run = failing("InternalError: CUDA_ERROR_LAUNCH_FAILED", "matmul")
    finding = judge.finding(no_reset_is_asked_for, server(changed(SERVER, recovery_action=action), runtime=run))
    assert (finding.cause, finding.severity, finding.blocks) == ("gpu_reset_required", severity, True)
    assert words in finding.message
    assert finding.fix
    instead = {"drain_p2p": "copy between GPUs", "recover_imex_domain": "nvidia-imex"}.get(action, "reboot.")
    assert instead in finding.fix.text
    assert ("--gpu-reset" in finding.fix.text) is (action not in ("node_reboot", "drain_p2p", "recover_imex_domain"))


def test_a_gpu_that_computes_all_the_same_needs_its_reset(judge: Judge) -> None:
    finding = judge.finding(no_reset_is_asked_for, server(changed(SERVER, recovery_action="gpu_reset")))
    assert (finding.cause, finding.severity, finding.blocks) == ("gpu_reset_required", "error", False)


def test_a_reset_that_rows_of_the_memory_wait_for_is_one_cause() -> None:
    health = changed(SERVER, recovery_action="drain_and_reset", remapped_rows={"pending": True})
    report = diagnose(server(health))
    assert [(cause.id, cause.label) for cause in report.causes] == [("HLT002", "gpu_reset_required")]
    assert (report.computes, report.fit, report.healthy) == (True, False, False)


def test_old_records_without_health_are_not_judged(judge: Judge) -> None:
    assert nvml_gpu().health == GpuHealth()
    assert judge.passes(every_gpu_answers)
    assert judge.skips(memory_is_sound)
    assert judge.skips(no_reset_is_asked_for)
