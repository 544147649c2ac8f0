"""The maintainer's script that turns captures into recorded machines: what it states, what it leaves out, what it masks."""

from __future__ import annotations

import hashlib
import json
import pathlib

import pytest
from every import every
from locations import ROOT

from tfgpu_doctor.model.facts import decode_facts, encode_facts

TABLE = json.loads((ROOT / "tools/captures/machines.json").read_text())["machines"]
CAPTURES = ROOT.parent / "shared/captures"
RECORDED = ROOT / "tests/machines/recorded"
BY_THE_DOCTOR = {
    "vm-without-gpu", "vm-without-gpu-and-cuda", "h200-pip-cusolver-not-found", "h200-cudnn-misses-nvrtc",
    "h200-deep-cudnn-misses-nvrtc", "h200-repaired", "h200-tensorflow-2.20",
}  # fmt: skip

QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Tue Jul 14 08:12:38 2026
Driver Version                            : 590.48.01
CUDA Version                              : 13.1

Attached GPUs                             : 1
GPU 00000000:00:09.0
    Product Name                          : NVIDIA L4
    GPU UUID                              : GPU-3f6f3a5e-1234-5678-9abc-def012345678
    Fan Speed                             : [N/A]
    Performance State                     : P8
    ECC Mode
        Current                           : Not Supported
        Pending                           : [Unknown Error]
    Temperature
        GPU Current Temp                  : N/A
    GPU Power Readings
        Average Power Draw                : [Unknown Error]
        Current Power Limit               : 72.00 W
    Utilization
        GPU                               : N/A
    Processes
        Process ID                        : 4711
            Type                          : C
            Name                          : /home/anna/venv/bin/python
            Used GPU Memory               : N/A
    Capabilities
"""
RULE = "#" * 80


def section(state: str, title: str, body: str) -> str:
    return f"{RULE}\n# {state} :: {title}\n# $ nvidia-smi\n{RULE}\n{body}\n\n"


def exporter() -> str:
    header = (
        f"{RULE}\n# capture\n{RULE}\ncollected_at:   2026-07-14T08:12:38Z\nos:             linux (Fedora Linux 44)\n"
    )
    header += "kernel:         7.0.14\narch:           x86_64\n\n"
    return "".join(
        (
            header,
            section("capabilities", "list (-L)", "GPU 0: NVIDIA L4 (UUID: GPU-3f6f3a5e-1234-5678-9abc-def012345678)"),
            section("capabilities", "nvlink -s", "Device does not have or support Nvlink"),
            section("idle", "query (-q)", QUERY),
            section("idle", "query-gpu (csv)", "pci.bus_id, compute_cap\n00000000:00:09.0, 8.9"),
            section("load", "query (-q)", QUERY.replace("P8", "P0")),
        )
    )


@pytest.fixture(scope="module")
def read_captures() -> object:
    import sys

    sys.path.insert(0, str(ROOT / "tools"))
    import read_captures

    return read_captures


@pytest.mark.parametrize(("state", "performance"), [("idle", 8), ("load", 0)])
def test_two_states_of_one_capture_are_two_machines(read_captures: object, state: str, performance: int) -> None:
    from read_captures import Capture, facts_of

    capture = Capture(name="l4", file="l4.txt", repository="a/b", path="l4.txt", licence="MIT", state=state)
    facts = facts_of(capture, exporter())
    assert facts.system is not None
    assert (facts.system.os, facts.system.release, facts.system.distribution) == ("Linux", "7.0.14", "Fedora Linux 44")
    assert facts.recorded == "2026-07-14T08:12:38Z"
    assert facts.nvml is not None
    (gpu,) = facts.nvml.gpus
    assert (gpu.health.performance_state, gpu.compute_capability) == (performance, "8.9" if state == "idle" else "")


def test_what_is_not_supported_is_no_nought(read_captures: object) -> None:
    from read_captures import Capture, facts_of

    capture = Capture(name="l4", file="l4.txt", repository="a/b", path="l4.txt", licence="MIT")
    nvml = facts_of(capture, QUERY).nvml
    assert nvml is not None
    (gpu,) = nvml.gpus
    health = gpu.health
    assert (health.ecc, health.temperature.gpu_c, health.power.draw_w, health.utilization_percent) == (None,) * 4
    assert (health.power.enforced_limit_w, gpu.memory_total_bytes, gpu.mig) == (72.0, None, None)
    assert [(each.name, each.memory_bytes) for each in gpu.processes] == [("/home/user/venv/bin/python", None)]
    assert gpu.uuid == "GPU-00000000-0000-0000-0000-000000000000"


def test_nothing_is_said_of_what_a_capture_does_not_show(read_captures: object) -> None:
    from read_captures import Capture, facts_of

    capture = Capture(name="l4", file="l4.txt", repository="a/b", path="l4.txt", licence="MIT")
    facts = facts_of(capture, QUERY)
    said = json.loads(encode_facts(facts))
    assert set(said) == {"schema", "recorded", "unknown", "nvml"}
    assert set(said["unknown"]) == {"target", "tensorflow", "runtime"}


def test_the_table_and_the_records_are_the_same_machines() -> None:
    names = [row["name"] for row in TABLE]
    assert len(set(names)) == len(names)
    recorded = {path.name for path in RECORDED.iterdir()}
    assert recorded - set(names) == BY_THE_DOCTOR
    assert set(names) <= recorded


@every("row", TABLE, key=lambda row: row["name"])
def test_a_record_is_what_its_capture_says(read_captures: object, row: dict[str, str]) -> None:
    from read_captures import facts_of, read_table

    path = CAPTURES / row["file"]
    if not path.exists():
        pytest.skip(f"{path} does not exist: the captures stand beside the checkout, and not in it")
    content = path.read_bytes()
    (capture,) = (each for each in read_table().machines if each.name == row["name"])
    recorded = RECORDED / row["name"]
    assert facts_of(capture, content.decode("utf-8", "replace")) == decode_facts((recorded / "facts.json").read_bytes())
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    assert json.loads((recorded / "expected.json").read_text())["source"]["blob"] == blob


def test_a_missing_capture_is_named(
    read_captures: object, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    from read_captures import main

    before = sys.argv
    sys.argv = ["read_captures.py", str(tmp_path), "h100-idle", "--to", str(tmp_path / "out")]
    try:
        assert main() == 1
    finally:
        sys.argv = before
    assert "h100-idle" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
