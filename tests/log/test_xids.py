"""The codes of NVIDIA's drivers in a log: each speaks for what the table says of it."""

from __future__ import annotations

import io

import pytest
from built_kernel import NO_DEVICE, SYSTEM_NOT_READY, message, sxid, with_switches, xid
from built_kernel import log as kernel_log
from every import every
from healthy import ANSWERED, broken

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.checks.kernel_log.xids import RECOVERY_ACTION
from tfgpu_doctor.diagnose.engine import run_checks
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import Xid
from tfgpu_doctor.log.classification import classify
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.signatures import Hit, Scanner
from tfgpu_doctor.log.xids import xid_signatures
from tfgpu_doctor.model import UNDETERMINED
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.kernel import KernelMessage
from tfgpu_doctor.model.facts.nvidia import Nvml

KNOWLEDGE = read_knowledge()
FAULTS = [row for row in KNOWLEDGE.xids.values() if row.cause]
XIDS = [row for row in FAULTS if row.kind == "xid"]
SXIDS = [row for row in FAULTS if row.kind == "sxid"]
RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"


def hits_of(kind: str, *codes: int, text: str = "x") -> list[tuple[str, Hit]]:
    hits = [Hit(line, f"{kind} {code}, {text}", {kind: str(code)}) for line, code in enumerate(codes, 1)]
    return list(xid_signatures({kind: hits}, KNOWLEDGE))


def names_of(kind: str, *codes: int, text: str = "Fatal, Link 3") -> list[str]:
    return [name for name, _ in hits_of(kind, *codes, text=text)]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (13, "xid_application"), (31, "xid_application"), (43, "xid_application"), (48, "xid_memory"), (54, "xid_power"),
        (58, "xid_faulty"), (62, "xid_hang"), (63, "xid_memory"), (64, "xid_memory"), (69, "xid_application"),
        (79, "xid_off_the_bus"), (92, "xid_memory"), (94, "xid_memory"), (95, "xid_memory"), (108, "xid_application"),
        (109, "xid_hang"), (119, "xid_hang"), (120, "xid_hang"), (137, "xid_application"), (140, "xid_memory"),
        (143, "xid_start"), (149, "xid_nvlink"), (154, "xid_reset"), (171, "xid_memory"), (172, "xid_memory"),
    ],
)  # fmt: skip
def test_a_code_speaks_for_its_cause(code: int, name: str) -> None:
    assert names_of("xid", code) == [name]


def test_a_code_that_follows_another_speaks_for_that_one() -> None:
    assert names_of("xid", 45, text="pid=1, name=python3, Ch 00000001 caused by previous Xid 149") == ["xid_nvlink"]


@pytest.mark.parametrize("code", [8, 32, 46, 68, 74])
def test_a_fault_that_may_be_anything_speaks_for_no_cause(code: int) -> None:
    assert names_of("xid", code) == ["plain_xid"]


@pytest.mark.parametrize("code", [45, 106, 121])
def test_a_code_of_no_fault_speaks_for_nothing(code: int) -> None:
    assert names_of("xid", code) == []


def test_a_code_that_the_table_does_not_know_is_not_passed_over() -> None:
    assert names_of("xid", 999999) == ["plain_xid"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("0x1 (GPU Reset Required)", ["xid_reset"]),
        ("0x2 (OS Reboot)", ["xid_reset"]),
        ("0x0 (None)", []),
        ("0x3 (Drain P2P)", []),
    ],
)
def test_the_driver_may_ask_for_no_reset(asked: str, names: list[str]) -> None:
    assert names_of("xid", 154, text=f"GPU recovery action changed from 0x4 (Drain and Reset) to {asked}") == names


@pytest.mark.parametrize(
    ("code", "text", "names"),
    [
        (11012, "Fatal, Link 30", []), (12028, "Fatal, Link 30", ["xid_switch"]), (20034, "Fatal, Link 30", ["xid_switch"]),
        (24007, "Fatal, Link 30", ["xid_switch"]), (10001, "Fatal, Link 30", ["plain_xid"]), (12028, "Non-fatal, Link 30", []),
        (20034, "Non-fatal, Link 30", []), (24007, "Non-fatal, Link 30", []),
    ],
)  # fmt: skip
def test_a_code_of_a_switch_names_no_cause_of_the_gpus(code: int, text: str, names: list[str]) -> None:
    assert names_of("sxid", code, text=text) == names


def test_a_row_that_waits_for_a_reset_asks_for_one() -> None:
    said = "Row Remapper: New row marked for remapping, reset gpu to activate."
    assert names_of("xid", 63, text=said) == ["xid_reset"]


def test_an_error_of_nvlink_that_is_not_fatal_is_no_fault() -> None:
    assert names_of("xid", 149, text="NETIR_INT Nonfatal XC1 i0 Link 08") == []
    assert names_of("xid", 149, text="NETIR_LINK_EVT Fatal XC0 i0 Link 08") == ["xid_nvlink"]


def test_every_line_has_its_own() -> None:
    assert names_of("xid", 48, 45, 79) == ["xid_memory", "xid_off_the_bus"]


@every("row", FAULTS, key=lambda row: f"{row.kind}{row.code}")
def test_a_line_is_told_with_its_meaning_and_what_to_do(row: Xid) -> None:
    [(_, hit)] = hits_of(row.kind, row.code, text="Fatal")
    word = {"xid": "Xid", "sxid": "SXid"}[row.kind]
    assert hit.text == f"{row.kind} {row.code}, Fatal ({word} {row.code}: {row.meaning})"
    assert hit.groups == {row.kind: str(row.code), "fix": row.action}


def test_there_is_one_name_for_each_cause() -> None:
    pairs = {(row.cause, name) for row in FAULTS for name in names_of(row.kind, row.code)}
    assert {cause for cause, _ in pairs} == {row.cause for row in FAULTS}
    assert len(pairs) == len(dict(pairs)) == len({name for _, name in pairs})
    assert dict(pairs)[UNDETERMINED] == "plain_xid"


def test_the_rules_know_the_names() -> None:
    known = {name for rule in KNOWLEDGE.log_rules for name in rule.any}
    names = {name for row in FAULTS for name in names_of(row.kind, row.code)}
    assert names - {"plain_xid"} <= known


def test_a_rule_names_the_cause_of_the_table() -> None:
    for row in FAULTS:
        for name in names_of(row.kind, row.code):
            labels = {rule.label for rule in KNOWLEDGE.log_rules if name in rule.any}
            assert labels == ({row.cause} - {UNDETERMINED}), f"{row.kind} {row.code}: {name}"


# `check` and `log`


def label_of_log(said: KernelMessage) -> str:
    """The first cause that `tfgpu-doctor log` names for one line of the kernel's log."""
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(f"[ 1234.500000] {said.text}\n".encode()))
    causes = classify(scanner.found, Context({}), KNOWLEDGE, scanner.lines, scanner.kept.texts()).causes
    return causes[0].label if causes else ""


def label_of_check(machine: Facts, check: str) -> str:
    """What the check says of a machine that does not work."""
    [finding] = run_checks(machine, [each for each in ALL_CHECKS if each.id == check])[check].findings
    assert finding.severity != "info"
    return finding.cause


def without_cuda(said: KernelMessage) -> Facts:
    """A machine that does not work, and the only message of its kernel; its driver is any."""
    lost = Nvml(attempt=ANSWERED, error_code=15, error_text="GPU is lost")
    return broken(kernel_log=kernel_log(said), driver=None, runtime=None, cuda_driver=NO_DEVICE, nvml=lost)


@every("row", XIDS, key=lambda row: str(row.code), least=100)
def test_log_and_check_name_the_same_cause(row: Xid) -> None:
    said = xid(row.code, RESET if row.code == RECOVERY_ACTION else "...")
    assert label_of_log(said) == label_of_check(without_cuda(said), "XID001") == row.cause


def test_log_and_check_name_the_same_cause_where_the_driver_found_a_lost_gpu() -> None:
    text = (
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2204) installed in this system has fallen off the bus "
        "and is not responding to commands."
    )
    said = message("off_the_bus", text, pci_address="0000:01:00.0")
    assert label_of_log(said) == label_of_check(without_cuda(said), "XID001") == "gpu_lost"


@every("row", SXIDS, key=lambda row: str(row.code), least=60)
def test_log_and_check_name_the_same_cause_of_a_switch(row: Xid) -> None:
    said = sxid(row.code, "Fatal, Link 3")
    machine = with_switches(kernel_log=kernel_log(said), cuda_driver=SYSTEM_NOT_READY, runtime=None, driver=None)
    assert label_of_log(said) == label_of_check(machine, "XID002") == row.cause
