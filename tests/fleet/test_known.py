"""Known issues: what somebody looks after keeps the report green, until its day, and nothing else does."""

from __future__ import annotations

import datetime as dt
import pathlib

import msgspec
import pytest
from doctor_command import run_doctor
from made_up_fleet import MadeUpFleet

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.fleet.acting import plan
from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.known import KnownError, read_known
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import Cause, Unmet
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.knowledge import read_knowledge

TODAY = dt.date(2026, 11, 23)
ENTRY = '[[known]]\nnodes = ["{nodes}"]\ncause = "{cause}"\nowner = "anna"\nuntil = {until}\nwhy = "RMA 4711"\n'


def ecc(label: str = "hardware_ecc_error", severity: str = "error") -> Cause:
    return Cause(label=label, id="GPU011", title="GPU 1 has 3 errors", severity=severity)  # type: ignore[arg-type]


def troubled() -> MadeUpFleet:
    """n00003 and n00004 have ECC errors, n00005 misses a requirement, n00006 hung, n00007 is slow, n00008 differs."""
    fleet = MadeUpFleet(40)
    for name in ("n00003", "n00004"):
        fleet.nodes[name].update(causes=(ecc(),), exit_code=1)
    fleet.nodes["n00005"].update(unmet=(Unmet(key="speed.copy", title="copies", required="24 GB/s"),), exit_code=1)
    fleet.nodes["n00006"].update(outcome="hung", exit_code=None, settings={}, measurements=(), checks={})
    fleet.slow("n00007", 14, by=0.4)
    fleet.set("n00008", {"kernel": "5.4.0-1"})
    return fleet


def found(folder: pathlib.Path, *entries: tuple[str, str], until: str = "2026-12-24") -> Fleet:
    troubled().write(folder)
    file = folder.parent / "known.toml"
    file.write_text("".join(ENTRY.format(nodes=nodes, cause=cause, until=until) for nodes, cause in entries))
    return merge(str(folder), issues=read_known(str(file)) if entries else (), today=TODAY)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "reports").mkdir()
    return tmp_path / "reports"


def test_without_entries_everything_counts(folder: pathlib.Path) -> None:
    fleet = found(folder)
    assert fleet.statuses["fails"] == ("n00003", "n00004", "n00005")
    assert (fleet.statuses["silent"], fleet.statuses["suspect"]) == (("n00006",), ("n00007",))
    assert fleet.statuses["differs"] == ("n00008",)
    assert fleet.statuses["known"] == ()


def test_an_entry_covers_its_nodes_and_its_cause_alone(folder: pathlib.Path) -> None:
    fleet = found(folder, ("n00003", "hardware_ecc_error"))
    assert fleet.statuses["known"] == ("n00003",)
    assert fleet.statuses["fails"] == ("n00004", "n00005")
    assert fleet.exit_code == 1
    (row,) = fleet.known
    assert (row.nodes, row.owner, row.until) == (("n00003",), "anna", dt.date(2026, 12, 24))


def test_what_is_all_known_is_green(folder: pathlib.Path) -> None:
    fleet = found(
        folder, ("n[00003-00004]", "GPU011"), ("*", "speed.copy"), ("n00006", "hung"),
        ("n00007", troubled().nodes["n00007"]["measurements"][14].name), ("n00008", "kernel"),
    )  # fmt: skip
    assert fleet.statuses["known"] == ("n00003", "n00004", "n00005", "n00006", "n00007", "n00008")
    assert fleet.exit_code == 0
    text = render_fleet(fleet, "text", width=200)
    assert "✗" not in text.replace("✗ Nodes without", "")
    assert "anna until 2026-12-24: RMA 4711" in text


def test_another_cause_of_the_same_node_counts(folder: pathlib.Path) -> None:
    fleet = troubled()
    fleet.nodes["n00003"]["causes"] = (ecc(), ecc("gpu_lost"))
    fleet.write(folder)
    file = folder.parent / "known.toml"
    file.write_text(ENTRY.format(nodes="n00003", cause="hardware_ecc_error", until="2026-12-24"))
    assert "n00003" in merge(str(folder), issues=read_known(str(file)), today=TODAY).statuses["fails"]


@pytest.mark.parametrize(("settings", "status"), [(("kernel",), "differs"), (("kernel", "NVIDIA driver"), "known")])
def test_a_node_differs_until_each_of_its_settings_is_known(
    folder: pathlib.Path, settings: tuple[str, ...], status: str
) -> None:
    fleet = MadeUpFleet(10)
    fleet.set("n00003", {"kernel": "5.4.0-1", "NVIDIA driver": "535.1"})
    fleet.write(folder)
    file = folder.parent / "known.toml"
    file.write_text("".join(ENTRY.format(nodes="n00003", cause=each, until="2026-12-24") for each in settings))
    compared = merge(str(folder), issues=read_known(str(file)), today=TODAY)
    (drift,) = compared.drift
    assert sorted(each.setting for each in drift.differences) == ["NVIDIA driver", "kernel"]
    assert [name for name, nodes in compared.statuses.items() if "n00003" in nodes] == [status]


def test_a_known_cause_that_comes_back_in_the_retest_is_not_bad(folder: pathlib.Path) -> None:
    troubled().write(folder)
    (folder / "second").mkdir()
    troubled().write(folder / "second", only={"n00003", "n00004"})
    file = folder.parent / "known.toml"
    file.write_text(ENTRY.format(nodes="n00003", cause="hardware_ecc_error", until="2026-12-24"))
    fleet = merge(str(folder), issues=read_known(str(file)), today=TODAY)
    assert fleet.statuses["bad"] == ("n00004",)
    assert "n00003" in fleet.statuses["known"]


@pytest.mark.parametrize(("until", "known"), [("2026-11-22", False), ("2026-11-23", True)])
def test_an_entry_holds_to_the_end_of_its_day(folder: pathlib.Path, until: str, known: bool) -> None:
    fleet = found(folder, ("n[00003-00004]", "hardware_ecc_error"), until=until)
    assert (fleet.statuses["known"] == ("n00003", "n00004")) == known
    assert any("was to end on 2026-11-22" in note for note in fleet.notes) != known


def test_an_entry_that_nobody_needs_any_more_is_noted(folder: pathlib.Path) -> None:
    fleet = found(folder, ("n00001", "gpu_lost"), ("elsewhere", "gpu_lost"))
    assert [note for note in fleet.notes if "anna can remove it" in note] == [
        "no node has the known issue gpu_lost on n00001 any more: anna can remove it"
    ]


def test_an_entry_that_is_over_counts_again_only_where_a_node_has_it(folder: pathlib.Path) -> None:
    entries = (("n00003", "hardware_ecc_error"), ("n00001", "gpu_lost"), ("n00099", "gpu_lost"))
    fleet = found(folder, *entries, until="2026-11-01")
    assert [note for note in fleet.notes if "known issue" in note] == [
        "the known issue hardware_ecc_error on n00003 was to end on 2026-11-01: it counts again, ask anna",
        *(
            f"the known issue gpu_lost on {node} expired on 2026-11-01, and no node of this report has it: anna can remove it"
            for node in ("n00001", "n00099")
        ),
    ]
    assert (fleet.known, "n00003" in fleet.statuses["fails"]) == ((), True)


def test_a_node_that_ends_with_findings_because_of_a_warning(folder: pathlib.Path) -> None:
    """`fail-level` warning in the settings of the node."""
    fleet = MadeUpFleet(10)
    fleet.nodes["n00003"].update(causes=(ecc(severity="warning"), ecc("gpu_lost", "info")), exit_code=1)
    fleet.write(folder)
    file = folder.parent / "known.toml"
    file.write_text(ENTRY.format(nodes="n00003", cause="hardware_ecc_error", until="2026-12-24"))
    assert merge(str(folder), today=TODAY).statuses["fails"] == ("n00003",)
    assert merge(str(folder), issues=read_known(str(file)), today=TODAY).statuses["known"] == ("n00003",)


FIRST, SECOND = "GPU-0-0", "GPU-1-1"
ON = 'devices = ["{}"]\n'


def with_devices(folder: pathlib.Path, entries: str, *causes: Cause, **changes: object) -> Fleet:
    fleet = MadeUpFleet(10)
    fleet.nodes["n00003"].update(causes=causes, exit_code=1, **changes)
    fleet.write(folder)
    file = folder.parent / "known.toml"
    file.write_text(entries)
    return merge(str(folder), issues=read_known(str(file)), today=TODAY)


def on(*devices: str) -> Cause:
    return msgspec.structs.replace(ecc(), devices=devices)


def status_of(fleet: Fleet) -> str:
    (found,) = (name for name, nodes in fleet.statuses.items() if "n00003" in nodes)
    return found


ECC = ENTRY.format(nodes="n00003", cause="hardware_ecc_error", until="2026-12-24")


@pytest.mark.parametrize(
    ("entries", "causes", "status"),
    [
        (ECC + ON.format(FIRST), [on(FIRST)], "known"),
        (ECC + ON.format(FIRST), [on(SECOND)], "fails"),
        (ECC + ON.format(FIRST), [on(FIRST, SECOND)], "fails"),
        (ECC + ON.format(FIRST), [on(FIRST), on(SECOND)], "fails"),
        (ECC + ON.format(FIRST) + ECC + ON.format(SECOND), [on(FIRST), on(SECOND)], "known"),
        (ECC + ON.format(FIRST), [on()], "fails"),
        (ECC, [on(SECOND)], "known"),
    ],
)
def test_a_known_cause_of_one_gpu_covers_no_other(
    folder: pathlib.Path, entries: str, causes: list[Cause], status: str
) -> None:
    fleet = with_devices(folder, entries, *causes)
    assert status_of(fleet) == status
    leaving = plan(fleet, {}, {}, read_knowledge(), None).leaving
    assert [each.nodes for each in leaving] == ([] if status == "known" else [("n00003",)])


def test_an_entry_says_on_which_gpus(folder: pathlib.Path) -> None:
    fleet = with_devices(folder, ECC + ON.format(FIRST), on(FIRST))
    assert [row.devices for row in fleet.known] == [(FIRST,)]
    assert f"n00003: hardware_ecc_error ({FIRST}), anna until" in render_fleet(fleet, "text", width=200)
    other = with_devices(folder, ECC + ON.format(FIRST), on(SECOND))
    assert (
        f"no node has the known issue hardware_ecc_error on n00003 ({FIRST}) any more: anna can remove it"
        in other.notes
    )


def test_the_retest_of_another_gpu_than_the_known_one_makes_a_node_bad(folder: pathlib.Path) -> None:
    fleet = MadeUpFleet(10)
    fleet.nodes["n00003"].update(causes=(on(SECOND),), exit_code=1)
    fleet.write(folder)
    fleet.write(folder / "second", only={"n00003"})
    (folder.parent / "known.toml").write_text(ECC + ON.format(FIRST))
    compared = merge(str(folder), issues=read_known(str(folder.parent / "known.toml")), today=TODAY)
    assert status_of(compared) == "bad"


@pytest.mark.parametrize(("device", "status"), [("GPU:0", "known"), ("GPU:1", "suspect")])
def test_a_known_slow_gpu_covers_no_other(folder: pathlib.Path, device: str, status: str) -> None:
    fleet = MadeUpFleet(40)
    fleet.slow("n00003", 14, by=0.4)
    fleet.write(folder)
    slow = ENTRY.format(nodes="n00003", cause=fleet.nodes["n00003"]["measurements"][14].name, until="2026-12-24")
    (folder.parent / "known.toml").write_text(slow + ON.format(device))
    assert status_of(merge(str(folder), issues=read_known(str(folder.parent / "known.toml")), today=TODAY)) == status


def test_a_node_of_which_a_part_was_not_examined_is_not_judged_whatever_is_known(folder: pathlib.Path) -> None:
    reason = "stress test: GPU 1 was not tested: python (4711) computes on it"
    fleet = with_devices(folder, ECC, on(FIRST), reason=reason)
    assert (status_of(fleet), fleet.exit_code) == ("not judged", 3)
    (group,) = fleet.unjudged
    assert group.reason == reason
    assert "while nobody else uses their GPUs" in group.fix


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ENTRY.format(nodes="n1", cause="x", until="2026-12-24") + "devices = []\n", "devices"),
        ("known = 3", "known"),
        ("[[known]]\nnodes = ['n1']\n", "cause"),
        (ENTRY.format(nodes="n[1-", cause="x", until="2026-12-24"), "known[0].nodes"),
        (ENTRY.format(nodes="n1", cause="x", until='"soon"'), "until"),
        (ENTRY.format(nodes="n1", cause="", until="2026-12-24"), "cause"),
        (ENTRY.format(nodes="n1", cause="x", until="2026-12-24") + "extra = 1\n", "extra"),
        ("[[known", "known.toml"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: pathlib.Path, text: str, words: str) -> None:
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(KnownError, match=r"known\.toml") as caught:
        read_known(str(tmp_path / "known.toml"))
    assert words in str(caught.value)


def test_the_command_takes_the_file(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(10)
    fleet.nodes["n00003"].update(causes=(ecc(),), exit_code=1)
    fleet.write(folder)
    (tmp_path / "known.toml").write_text(ENTRY.format(nodes="n00003", cause="GPU011", until="2999-12-24"))
    assert run_doctor("fleet", "report", str(folder)).returncode == 1
    done = run_doctor("fleet", "report", str(folder), "--known", str(tmp_path / "known.toml"))
    assert (done.returncode, "RMA 4711" in done.stdout) == (0, True)
    refused = run_doctor("fleet", "report", str(folder), "--known", str(tmp_path / "none.toml"))
    assert (refused.returncode, "none.toml cannot be read" in refused.stderr) == (2, True)
