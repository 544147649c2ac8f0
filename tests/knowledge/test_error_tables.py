"""The tables of error codes: every row well-formed, its label one of the vocabulary."""

from __future__ import annotations

import re

import pytest
from doctor_command import run_doctor
from every import every

from tfgpu_doctor.diagnose.explanation import explain_code, find_code
from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.knowledge.schema import ErrorCode, Xid

KNOWLEDGE = read_knowledge()
LIKELY = {"application", "driver", "hardware", "GPU memory", "system memory", "bus", "thermal", "power"}
CODES = [*KNOWLEDGE.cuda_errors.values(), *KNOWLEDGE.nvml_errors.values()]
each_xid = every("xid", KNOWLEDGE.xids.values(), key=lambda xid: f"{xid.kind}{xid.code}")


@each_xid
def test_a_xid_is_well_formed(xid: Xid) -> None:
    assert re.fullmatch(r"[A-Z0-9_]+", xid.name)
    assert 10_000 <= xid.code < 30_000 if xid.kind == "sxid" else 1 <= xid.code < 1000
    assert xid.cause == "" or xid.cause in KNOWLEDGE.causes
    assert set(xid.likely) <= LIKELY
    assert len(set(xid.likely)) == len(xid.likely)
    assert xid.meaning == xid.meaning.strip(" .")
    assert xid.action.endswith(".")


@each_xid
def test_what_must_be_acted_upon_has_a_cause(xid: Xid) -> None:
    if xid.severity == "info":
        assert xid.cause == ""
    else:
        assert xid.cause != ""
        assert xid.action != "No action needed."


@each_xid
def test_the_drivers_of_a_xid_are_versions(xid: Xid) -> None:
    since, until = xid.drivers.since, xid.drivers.until
    assert not since or version(since) > version("400")
    assert not until or version(until) > version("200")
    assert not (since and until) or version(since) <= version(until)


def test_every_code_of_nvidias_catalogue_is_there() -> None:
    assert {code for kind, code in KNOWLEDGE.xids if kind == "xid"} >= set(range(1, 173))
    assert sum(kind == "sxid" for kind, _ in KNOWLEDGE.xids) >= 80


@pytest.mark.parametrize(
    ("code", "cause", "severity", "fatal", "likely"),
    [
        (13, "gpu_kernel_fault", "warning", True, "application"),
        (31, "gpu_kernel_fault", "warning", True, "application"),
        (43, "gpu_kernel_fault", "warning", True, "application"),
        (45, "", "info", True, "application"),
        (48, "hardware_ecc_error", "error", True, "hardware"),
        (54, "hardware_power_supply", "error", False, "power"),
        (62, "gpu_hang", "error", True, "hardware"),
        (63, "hardware_ecc_error", "warning", False, "hardware"),
        (64, "hardware_ecc_error", "error", False, "hardware"),
        (69, "gpu_kernel_fault", "warning", True, "application"),
        (74, "undetermined", "error", True, "hardware"),
        (79, "gpu_lost", "error", True, "power"),
        (94, "hardware_ecc_error", "warning", True, "hardware"),
        (95, "hardware_ecc_error", "error", True, "hardware"),
        (108, "gpu_kernel_fault", "warning", True, "application"),
        (109, "gpu_hang", "error", True, "driver"),
        (119, "gpu_hang", "error", True, "driver"),
        (120, "gpu_hang", "error", True, "driver"),
        (121, "", "info", False, "hardware"),
        (137, "gpu_kernel_fault", "warning", True, "application"),
        (143, "gpu_start_failed", "error", True, "hardware"),
    ],
)
def test_xids_that_are_often_seen(code: int, cause: str, severity: str, fatal: bool, likely: str) -> None:
    row = KNOWLEDGE.xids["xid", code]
    assert (row.cause, row.severity, row.fatal, row.likely[0]) == (cause, severity, fatal, likely)


def test_what_the_driver_asks_for_is_a_cause() -> None:
    row = KNOWLEDGE.xids["xid", 154]
    assert (row.cause, row.severity, row.fatal, row.likely) == ("gpu_reset_required", "warning", False, ())


def test_only_missing_cables_speak_for_the_power_supply() -> None:
    assert [code for code, row in KNOWLEDGE.xids.items() if row.cause == "hardware_power_supply"] == [("xid", 54)]


@every("xid", [row for row in KNOWLEDGE.xids.values() if row.kind == "sxid"], key=lambda xid: f"sxid{xid.code}")
def test_a_switch_that_must_not_be_used_is_faulty(xid: Xid) -> None:
    assert (xid.cause == "nvswitch_fault") == (xid.severity == "error")


@every("row", CODES, key=lambda row: row.name)
def test_an_error_code_is_well_formed(row: ErrorCode) -> None:
    assert re.fullmatch(r"CUDA_(SUCCESS|ERROR_[A-Z0-9_]+)|NVML_(SUCCESS|ERROR_[A-Z0-9_]+)", row.name)
    assert 0 <= row.code < 1000
    assert row.meaning == row.meaning.strip(" .")
    assert row.cause == "" or row.cause in KNOWLEDGE.causes
    assert row.cause != "undetermined"
    assert not row.cause or row.action
    assert not row.action or row.action.endswith(".")


def test_no_name_of_a_code_stands_twice() -> None:
    names = [row.name for row in CODES]
    assert len(names) == len(set(names))


def test_nvmls_codes_are_those_of_its_own_package() -> None:
    import pynvml

    known = {name: value for name, value in vars(pynvml).items() if re.match("NVML_(SUCCESS|ERROR_)", name)}
    table = {row.name: row.code for row in KNOWLEDGE.nvml_errors.values()}
    assert len(table) >= 32
    assert {name: code for name, code in known.items() if name in table and table[name] != code} == {}
    assert {name for name, code in known.items() if code <= 30} <= set(table)


def test_the_codes_that_tensorflow_prints_have_their_suspects() -> None:
    suspects = {
        34: "libcuda_stub_loaded", 222: "driver_too_old", 303: "no_nvidia_driver", 802: "fabric_manager_not_running",
        803: "driver_library_version_mismatch", 804: "cuda_compat_package_conflict", 999: "nvidia_uvm_missing",
    }  # fmt: skip
    assert {code: KNOWLEDGE.cuda_errors[code].cause for code in suspects} == suspects
    assert KNOWLEDGE.nvml_errors[8].cause == "hardware_power_supply"
    assert KNOWLEDGE.nvml_errors[15].cause == "gpu_lost"
    assert KNOWLEDGE.nvml_errors[18].cause == "driver_library_version_mismatch"


@every("row", [*KNOWLEDGE.xids.values(), *CODES], key=lambda row: row.name + str(row.code))
def test_every_code_is_explained(row: Xid | ErrorCode) -> None:
    word = f"{row.kind}{row.code}" if isinstance(row, Xid) else row.name
    assert find_code(word, KNOWLEDGE) is row
    text = explain_code(row, KNOWLEDGE)
    assert row.name in text
    assert row.meaning in text
    assert row.source in text
    assert row.action in text
    assert (row.cause in text) == (row.cause != "undetermined")


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("XID79", 79), ("Xid 79", 79), ("xid-79", 79), ("SXID20034", 20034), ("cuda_error_no_device", 100),
        ("NVML_ERROR_GPU_IS_LOST", 15),
    ],
)  # fmt: skip
def test_a_code_is_named_as_people_write_it(word: str, code: int) -> None:
    row = find_code(word, KNOWLEDGE)
    assert row is not None
    assert row.code == code


@pytest.mark.parametrize("word", ["XID", "XID9999", "SXID79", "79", "CUDA_ERROR", "NVML", "DRV002", "", "XID79x"])
def test_what_is_no_code_has_no_row(word: str) -> None:
    assert find_code(word, KNOWLEDGE) is None


@pytest.mark.parametrize(
    ("word", "expected"),
    [("XID79", "gpu_lost"), ("XID54", "hardware_power_supply"), ("NVML_ERROR_DRIVER_NOT_LOADED", "modprobe nvidia")],
)
def test_the_command_explains_a_code(word: str, expected: str) -> None:
    done = run_doctor("explain", word)
    assert done.returncode == 0
    assert expected in done.stdout


def test_the_command_refuses_a_code_that_no_table_holds() -> None:
    done = run_doctor("explain", "XID9999")
    assert done.returncode == 2
    assert "'XID9999'" in done.stderr
