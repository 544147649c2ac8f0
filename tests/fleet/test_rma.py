"""The bundle for a vendor: serial numbers of the GPUs in question, both looks, the driver's codes with what to do."""

from __future__ import annotations

import json
import pathlib
import zipfile

import msgspec
import pytest
from doctor_command import run_doctor
from made_up_fleet import MadeUpFleet
from replayed import facts_of, report_on

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.fleet.node import NodeReport, Unmet, encode_node, file_name
from tfgpu_doctor.fleet.reporting import node_report
from tfgpu_doctor.knowledge import read_knowledge


def looked_at(machine: str, node: str, serial: str = "1654321012345") -> NodeReport:
    """A recorded machine as a node, whose first GPU has a label."""
    facts = facts_of(machine)
    assert facts.nvml
    first = msgspec.structs.replace(
        facts.nvml.gpus[0], serial=serial, vbios="92.00.45.00.03", part_number="900-21001-0000-000"
    )
    nvml = msgspec.structs.replace(facts.nvml, gpus=(first, *facts.nvml.gpus[1:]))
    facts = msgspec.structs.replace(facts, nvml=nvml)
    return node_report(node, facts, diagnose(facts), began="2026-11-23T10:00:00Z", seconds=9.0, exit_code=1)


def bundle(folder: pathlib.Path, node: str) -> dict[str, str]:
    done = run_doctor("fleet", "rma", str(folder), node, "-o", str(folder.parent / "case.zip"))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(folder.parent / "case.zip") as found:
        return {name: found.read(name).decode() for name in found.namelist()}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    MadeUpFleet(20).write(tmp_path / "reports")
    return tmp_path / "reports"


def test_the_case_has_what_a_vendor_asks_for(folder: pathlib.Path) -> None:
    found = looked_at("a100-xid-48", "sick")
    for place in (folder, folder / "second"):
        place.mkdir(exist_ok=True)
        (place / file_name("sick")).write_bytes(encode_node(found))
    files = bundle(folder, "sick")
    assert list(files) == ["rma.md", "first.json", "second.json"]
    assert json.loads(files["first.json"])["boards"][0]["serial"] == "1654321012345"
    text = files["rma.md"]
    action = read_knowledge().xids["xid", 48].action
    for words in ("1654321012345", "92.00.45.00.03", "900-21001-0000-000", found.boards[0].uuid, found.driver):
        assert words in text.replace("\\", ""), text
    assert text.replace("\\", "").count(report_on("a100-xid-48").causes[0].label) == 2
    assert "**Xid 48**" in text
    assert action.split(".")[0][:40] in text.replace("\\", "")


def rows_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and "serial" not in line]


def test_a_gpu_that_nvml_lost_is_named_and_no_other_is_to_return(folder: pathlib.Path) -> None:
    found = looked_at("server-xid-79-on-one-of-eight", "lost")
    (folder / file_name("lost")).write_bytes(encode_node(found))
    text = bundle(folder, "lost")["rma.md"].replace("\\", "")
    (device,) = {each for cause in found.causes if cause.severity == "error" for each in cause.devices}
    assert device not in [each.device for each in found.boards]
    assert len(found.boards) == 7
    assert rows_of(text) == []
    assert f"- {device}: NVML could not read it" in text
    assert "There was no retest." in text


def test_only_the_gpus_that_an_error_names_are_listed(folder: pathlib.Path) -> None:
    """Also one that only the first look could read."""
    found = looked_at("server-xid-79-on-one-of-eight", "sick")
    error = next(cause for cause in found.causes if cause.severity == "error")
    sick, lost = found.boards[2], found.boards[5]
    cause = msgspec.structs.replace(error, devices=(sick.device, lost.device))
    first = msgspec.structs.replace(found, causes=(cause,))
    second = msgspec.structs.replace(first, boards=tuple(each for each in found.boards if each != lost))
    (folder / "second").mkdir(exist_ok=True)
    (folder / file_name("sick")).write_bytes(encode_node(first))
    (folder / "second" / file_name("sick")).write_bytes(encode_node(second))
    text = bundle(folder, "sick")["rma.md"].replace("\\", "")
    assert [each.uuid in row for each, row in zip((sick, lost), rows_of(text), strict=True)] == [True, True]
    assert "could not read it" not in text


def test_an_error_that_counts_the_gpus_its_own_way_names_none(folder: pathlib.Path) -> None:
    """TensorFlow's GPU:2 is that of CUDA_VISIBLE_DEVICES: all boards are listed."""
    found = looked_at("server-xid-79-on-one-of-eight", "sick")
    error = next(cause for cause in found.causes if cause.severity == "error")
    cause = msgspec.structs.replace(error, devices=("GPU:2",))
    (folder / file_name("sick")).write_bytes(encode_node(msgspec.structs.replace(found, causes=(cause,))))
    text = bundle(folder, "sick")["rma.md"]
    assert len(rows_of(text)) == len(found.boards)
    assert "could not read it" not in text


def test_a_healthy_node_is_told_to_be_none(folder: pathlib.Path) -> None:
    done = run_doctor("fleet", "rma", str(folder), "n00003", "-o", str(folder.parent / "case.zip"))
    assert "nothing was found on n00003" in done.stderr


@pytest.mark.parametrize(
    ("machine", "label"),
    [("debian-nouveau", "nouveau_loaded"), ("hgx-without-fabric-manager", "fabric_manager_not_running")],
)
def test_of_a_cause_that_is_not_of_a_board_none_is_to_return(folder: pathlib.Path, machine: str, label: str) -> None:
    found = node_report(
        "soft", facts_of(machine), report_on(machine), began="2026-11-23T10:00:00Z", seconds=9.0, exit_code=1
    )
    assert label in [each.label for each in found.causes]
    (folder / file_name("soft")).write_bytes(encode_node(found))
    done = run_doctor("fleet", "rma", str(folder), "soft", "-o", str(folder.parent / "case.zip"))
    assert (done.returncode, "nothing was found on soft that a vendor would take back" in done.stderr) == (0, True)
    with zipfile.ZipFile(folder.parent / "case.zip") as case:
        text = case.read("rma.md").decode().replace("\\", "")
    assert "# soft: no GPU to return" in text
    assert "No board is listed: nothing was found that a vendor would take back." in text
    assert "GPUs to return" not in text
    assert rows_of(text) == []
    assert label in text


def test_beside_an_error_of_a_board_no_other_board_is_listed(folder: pathlib.Path) -> None:
    found = looked_at("server-xid-79-on-one-of-eight", "sick")
    error = next(cause for cause in found.causes if cause.severity == "error")
    sick, other = found.boards[2], found.boards[5]
    causes = (
        msgspec.structs.replace(error, devices=(sick.device,)),
        msgspec.structs.replace(error, label="gpu_reset_required", devices=(other.device,)),
    )
    (folder / file_name("sick")).write_bytes(encode_node(msgspec.structs.replace(found, causes=causes)))
    (row,) = rows_of(bundle(folder, "sick")["rma.md"])
    assert sick.uuid in row.replace("\\", "")


@pytest.mark.parametrize(
    ("key", "measured", "is_one"),
    [
        ("peak-fractions.float16", "41 % of the peak", True), ("peak-fractions.float16", "not measured", False),
        ("goal.computes", "fail", False), ("tensorflow", "2.15.0", False),
    ],
)  # fmt: skip
def test_a_requirement_is_a_case_if_it_is_of_a_speed(
    folder: pathlib.Path, key: str, measured: str, is_one: bool
) -> None:
    fleet = MadeUpFleet(1)
    fleet.nodes["n00000"].update(unmet=(Unmet(key=key, title=key, required="more", measured=measured),), exit_code=1)
    fleet.write(folder)
    assert ("# n00000: GPUs to return" in bundle(folder, "n00000")["rma.md"]) == is_one


def test_who_did_not_report_has_no_case(folder: pathlib.Path) -> None:
    done = run_doctor("fleet", "rma", str(folder), "nobody")
    assert (done.returncode, "there is no report of nobody" in done.stderr) == (2, True)


def test_hostile_names_stay_in_their_cells(folder: pathlib.Path) -> None:
    hostile = "x | y\n# forged\n<script>alert(1)</script> ::error::"
    found = looked_at("a100-xid-48", "sick", serial=hostile)
    cause = msgspec.structs.replace(found.causes[0], title=hostile)
    (folder / file_name("sick")).write_bytes(
        encode_node(msgspec.structs.replace(found, causes=(cause,), driver=hostile))
    )
    text = bundle(folder, "sick")["rma.md"]
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# sick: GPUs to return", "## Boards", "## What was found", text.split("## What was found\n\n")[1].splitlines()[0],
        "## Codes of the driver since the last boot",
    ]  # fmt: skip
    assert "<script>" not in text
