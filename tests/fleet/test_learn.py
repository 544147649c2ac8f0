"""`fleet learn`: a profile from what healthy nodes of one model reached, and who would be accepted by it."""

from __future__ import annotations

import pathlib
import re

import msgspec
import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from doctor_command import run_doctor
from fleet_days import FleetDays
from made_up_fleet import MEASURED, MODELS

from tfgpu_doctor.accept import MEASUREMENTS, profile_named
from tfgpu_doctor.fleet.node import Cause, Measurement, NodeReport, encode_node
from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_write import ingest

PRODUCT = [name for name, _, _ in MEASURED].index("float16 matrix product")
ECC = Cause(label="hardware_ecc_error", id="HLT001", title="3 errors", severity="error")


def stored(folder: pathlib.Path, fleet: FleetDays, days: int = 3) -> str:
    store = Store(str(folder / "store"), create=True)
    for day in range(days):
        fleet.write(folder / str(day), day)
        ingest(str(folder / str(day)), store)
    return store.path


def limits(path: pathlib.Path) -> dict[str, float]:
    return {
        name: float(value) for name, value in re.findall(r'^"(.+)" = ">= ([\d.]+) ', path.read_text(), re.MULTILINE)
    }


def test_healthy_nodes_teach_a_profile_that_accept_reads(tmp_path: pathlib.Path) -> None:
    store = stored(tmp_path, FleetDays(12, gpus=2))
    done = run_doctor("fleet", "learn", "--store", store, "-o", str(tmp_path / "h100.toml"))
    assert done.returncode == 0, done.stderr
    profile = profile_named(str(tmp_path / "h100.toml")).profile
    assert profile.models == (MODELS[0],)
    found = limits(tmp_path / "h100.toml")
    usual = {MEASUREMENTS[name]: value for name, _, value in MEASURED if name in MEASUREMENTS}
    assert found.keys() == usual.keys()
    assert len(found) >= 6
    assert all(0.75 < found[name] / usual[name] < 1 for name in usual), found
    assert re.search(r"7 bounds from 36 runs of 12 machines \((9|1[0-2]) of 12 are accepted", done.stderr), done.stderr


def test_the_all_reduce_of_the_largest_message_teaches(tmp_path: pathlib.Path) -> None:
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(3):
        FleetDays(6, gpus=2).write(tmp_path / str(day), day)
        for path in (tmp_path / str(day)).glob("n*.json"):
            report = msgspec.json.decode(path.read_bytes(), type=NodeReport)
            more = [
                Measurement(name=f"mirrored_strategy all-reduce of {size}", value=value, unit="GB/s", device="GPU:0 and 1", model=MODELS[0])
                for size, value in (("1024 MiB", 230.0 + day), ("4 KiB", 0.4))
            ]  # fmt: skip
            path.write_bytes(encode_node(msgspec.structs.replace(report, measurements=(*report.measurements, *more))))
        ingest(str(tmp_path / str(day)), store)
    assert run_doctor("fleet", "learn", "--store", store.path, "-o", str(tmp_path / "h100.toml")).returncode == 0
    assert 200 < limits(tmp_path / "h100.toml")["all-reduce"] < 230


def test_a_requirement_of_copies_between_gpus_holds_for_those_between_numa_nodes(tmp_path: pathlib.Path) -> None:
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(3):
        FleetDays(6, gpus=2).write(tmp_path / str(day), day)
        for path in (tmp_path / str(day)).glob("n*.json"):
            report = msgspec.json.decode(path.read_bytes(), type=NodeReport)
            more = [
                Measurement(name=f"copy GPU to GPU{where}", value=value + day / 10, unit="GB/s", device=device, model=MODELS[0])
                for where, device, value in (("", "GPU:0 to GPU:1", 25.0), (" between NUMA nodes", "GPU:1 to GPU:2", 12.0))
            ]  # fmt: skip
            others = [each for each in report.measurements if each.name != "copy GPU to GPU"]
            path.write_bytes(encode_node(msgspec.structs.replace(report, measurements=(*others, *more))))
        ingest(str(tmp_path / str(day)), store)
    assert run_doctor("fleet", "learn", "--store", store.path, "-o", str(tmp_path / "h100.toml")).returncode == 0
    assert 11 < limits(tmp_path / "h100.toml")["device-to-device"] < 12.2


@pytest.mark.parametrize("seed", [811, 90210, 5])
def test_a_slow_node_is_not_accepted_by_what_the_others_teach(tmp_path: pathlib.Path, seed: int) -> None:
    fleet = FleetDays(12, gpus=2, seed=seed)
    fleet.drifts[3, 1, PRODUCT] = lambda day: 0.25
    done = run_doctor("fleet", "learn", "--store", stored(tmp_path, fleet))
    told = re.search(r"\((\d+) of 12 are accepted", done.stderr)
    assert told, done.stderr
    assert int(told[1]) < 12


def test_a_node_with_a_finding_teaches_nothing(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(6, gpus=1)
    fleet.drifts[3, 0, PRODUCT] = lambda day: 0.4
    fleet.causes = lambda day, node: (ECC,) if node == "n00003" else ()
    done = run_doctor("fleet", "learn", "--store", stored(tmp_path, fleet))
    assert "of 5 machines" in done.stderr


@pytest.mark.parametrize(
    ("nodes", "models", "options", "code", "words"),
    [
        (2, 1, [], 1, "3 nodes or more are required"),
        (6, 2, [], 2, "choose a model with --model; its nodes have"),
        (6, 2, ["--model", "NVIDIA H7"], 2, "no healthy node has NVIDIA H7; its nodes have"),
        (6, 2, ["--model", MODELS[1]], 0, "of 3 machines"),
    ],
)
def test_who_cannot_be_learned_from_is_told(
    tmp_path: pathlib.Path, nodes: int, models: int, options: list[str], code: int, words: str
) -> None:
    store = stored(tmp_path, FleetDays(nodes, gpus=1, models=models))
    done = run_doctor("fleet", "learn", "--store", store, *options)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_folder_that_is_no_store_is_refused(tmp_path: pathlib.Path) -> None:
    done = run_doctor("fleet", "learn", "--store", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
