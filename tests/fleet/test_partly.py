"""A check that judged only a part of the GPUs says nothing about the others: neither act nor history call them mended."""

from __future__ import annotations

import datetime as dt
import pathlib
from typing import Any

import msgspec
import pytest
from built_machines import several
from every import every
from fleet_days import FleetDays
from healthy import broken, nvml_gpu
from made_up_fleet import MadeUpFleet
from replayed import NAMES, facts_of
from stressed import left_alone, stress, stressed_gpu, under_stress

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.fleet.acting import Held, Plan, plan
from tfgpu_doctor.fleet.history_read import history_of
from tfgpu_doctor.fleet.judged_again import look_of
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import Cause
from tfgpu_doctor.fleet.partly import partly_judged
from tfgpu_doctor.fleet.store import Store, connect, files
from tfgpu_doctor.fleet.store_write import ingest
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Container, Environment, Scheduler

BUSY = "GPU 1 was not tested: python (4711) computes on it"
NODE = "n00005"
LEFT = dt.datetime(2026, 11, 21, 11, tzinfo=dt.timezone.utc)  # an hour before the made-up nodes were examined


def part_of(facts: Facts) -> dict[str, str]:
    return partly_judged(facts, diagnose(facts))


def given_one_of_two(**sections: Any) -> Facts:
    """A job that got one of two GPUs: the bus shows both, the driver and TensorFlow show one."""
    both, one = several(2), several(1)
    shown = {"nvml": one["nvml"], "cuda_driver": one["cuda_driver"], "runtime": one["runtime"]}
    job = Scheduler(kind="slurm", job="7", granted={"SLURM_JOB_GPUS": "0"})
    return broken(**{**both, **shown, "scheduler": job, **sections})


def test_a_gpu_that_somebody_used_was_judged_by_no_check_of_the_stress_test() -> None:
    found = part_of(under_stress(stress(stressed_gpu(), left_alone(1))))
    assert found["LOD001"] == found["LOD003"] == BUSY
    assert not {"GPU004", "HLT001"} & set(found)


def test_in_a_job_that_got_one_of_two_gpus_no_check_of_gpus_judged_the_other() -> None:
    found = part_of(given_one_of_two())
    assert found["HLT001"] == "the driver shows 1 of 2 GPUs"
    assert found["GPU004"] == "TensorFlow lists 1 of 2 GPUs"
    assert not {"TFW001", "DRV001", "XID001"} & set(found)


def test_what_nvml_reads_was_judged_also_where_tensorflow_does_not_list_it() -> None:
    both = several(2)
    one = {name: several(1)[name] for name in ("cuda_driver", "runtime")}
    found = part_of(broken(**{**both, **one, "environment": Environment({"CUDA_VISIBLE_DEVICES": "0"})}))
    assert found["GPU004"] == "TensorFlow lists 1 of 2 GPUs"
    assert "HLT001" not in found


def test_a_gpu_for_the_display_is_none_that_was_left_out() -> None:
    both, one = several(2), several(1)
    display = nvml_gpu(1, name="NVIDIA GeForce GT 710", compute_capability="3.5")
    nvml = {"gpus": (*one["nvml"]["gpus"], display)}
    facts = broken(**{**both, "nvml": nvml, "cuda_driver": one["cuda_driver"], "runtime": one["runtime"]})
    assert "GPU004" not in part_of(facts)


def test_without_its_address_nobody_knows_which_gpu_the_driver_does_not_show() -> None:
    nvml = {"gpus": (msgspec.structs.replace(nvml_gpu(), pci_address=""),)}
    assert "HLT001" not in part_of(given_one_of_two(nvml=nvml))


@every("machine", [name for name in NAMES if name.endswith("healthy") and "busy" not in name])
def test_on_healthy_machines_every_gpu_was_judged(machine: str) -> None:
    assert part_of(facts_of(machine)) == {}


def acted(folder: pathlib.Path, left_for: str, /, **changes: Any) -> Plan:
    """What is done about a good node that the doctor took out."""
    fleet = MadeUpFleet(40)
    node = fleet.nodes[NODE]
    node.update({**changes, "checks": {**node["checks"], **changes.get("checks", {})}})
    fleet.write(folder)
    look = look_of((folder / f"{NODE}.json").read_bytes())
    assert look is not None
    held = {NODE: Held(left_for, ours=True, since=LEFT)}
    return plan(merge(str(folder)), held, {NODE: look}, read_knowledge(), None)


FAULTY = "tfgpu-doctor: hardware_faulty_gpu (LOD001): GPU 1 gives different results for the same input"
NO_DRIVER = "tfgpu-doctor: no_nvidia_driver (DRV007): NVML does not respond"
BETWEEN = "tfgpu-doctor: multi_gpu_p2p_iommu_acs (LOD004): a copy from GPU 0 to GPU 1 arrives changed"
SLOW = "tfgpu-doctor: float16 matrix product -40% in test and retest"


@pytest.mark.parametrize(
    ("reason", "partly", "stays"),
    [
        (FAULTY, {"LOD001": BUSY}, f"not on every GPU by LOD001 ({BUSY})"),
        (FAULTY, {"GPU004": "TensorFlow lists 1 of 2 GPUs"}, ""),
        (FAULTY, {}, ""),
        (NO_DRIVER, {"DRV007": "the driver shows 1 of 2 GPUs"}, ""),
        (BETWEEN, {"LOD004": BUSY}, f"not on every GPU by LOD004 ({BUSY})"),
        (SLOW, {"GPU004": "TensorFlow lists 1 of 2 GPUs"}, "not on every GPU by float16 matrix product (TensorFlow"),
        (SLOW, {}, ""),
    ],
)
def test_a_look_at_another_gpu_brings_no_node_back(
    tmp_path: pathlib.Path, reason: str, partly: dict[str, str], stays: str
) -> None:
    found = acted(tmp_path, reason, checks=dict.fromkeys(("LOD001", "LOD004", "DRV007"), "pass"), partly=partly)
    assert found.returning == (() if stays else (NODE,))
    assert [stays in note and "or return them by hand" in note for note in found.notes] == ([True] if stays else [])


def test_a_speed_of_the_cpu_comes_back_whichever_gpus_were_examined(tmp_path: pathlib.Path) -> None:
    node = MadeUpFleet(40).nodes[NODE]
    no_gpu = [
        msgspec.structs.replace(each, device="") if each.name == "matmul CPU" else each for each in node["measurements"]
    ]
    found = acted(
        tmp_path, "tfgpu-doctor: matmul CPU +40% in test and retest", measurements=no_gpu, partly={"GPU004": BUSY}
    )
    assert found.returning == (NODE,)


def test_a_node_that_was_not_judged_stays_out_and_a_note_says_why(tmp_path: pathlib.Path) -> None:
    found = acted(tmp_path, FAULTY, checks={"LOD001": "pass"}, exit_code=3, reason=f"stress test: {BUSY}")
    assert found.returning == ()
    assert found.notes == (f"not judged, so they stay out: {NODE}: stress test: {BUSY}",)


@pytest.mark.parametrize(("partly", "gone"), [({"KRN001": BUSY}, False), ({"KRN002": BUSY}, True), ({}, True)])
def test_in_the_history_a_cause_has_gone_only_where_its_check_judged_every_gpu(
    tmp_path: pathlib.Path, partly: dict[str, str], gone: bool
) -> None:
    cause = Cause(label="hardware_faulty_gpu", id="KRN001", title="GPU 1", severity="error", devices=("GPU-1",))
    fleet = FleetDays(10, gpus=1, measured=1)
    fleet.causes = lambda day, node: (cause,) if (day, node) == (0, "n00001") else ()
    fleet.checks = lambda day, node: {"KRN001": "fail" if (day, node) == (0, "n00001") else "pass"}
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(2):
        fleet.write(tmp_path / str(day), day)
        path = tmp_path / str(day) / "n00001.json"
        document = {**msgspec.json.decode(path.read_bytes()), "partly": partly if day else {}}
        path.write_bytes(msgspec.json.encode(document) + b"\n")
        ingest(str(tmp_path / str(day)), store)
    assert [each.node for each in history_of(store).recovered] == (["n00001"] if gone else [])
    with connect() as connection:
        tables = files(run.table("checks") for run in store.runs())
        rows = connection.execute(f"select outcome from {tables} where node = 'n00001' and id = 'KRN001' order by day")
        assert rows.fetchall() == [("fail",), ("pass" if gone else "pass in part",)]


def test_a_container_that_was_given_one_gpu_says_nothing_of_the_other() -> None:
    found = part_of(given_one_of_two(scheduler=None, container=Container(kind="docker", shm_bytes=32 << 30)))
    assert found["HLT001"] == "the driver shows 1 of 2 GPUs"
