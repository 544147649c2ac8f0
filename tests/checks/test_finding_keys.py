"""A finding says which GPUs have the problem and which numbers it rests on: with those, it is found again.

Its key (check, cause, GPUs) stays the same at the next look, when the numbers in its message differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import pytest
from every import every
from locations import RECORDS
from replayed import NAMES, facts_of, report_on
from said_numbers import names_a_gpu, without_figure
from seen_again import look_again

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Finding
from tfgpu_doctor.model.report import Report

every_machine = every("machine", NAMES, least=160)
Key = tuple[str, str, tuple[str, ...]]
_OF_GPUS = ("BEN", "BUS", "GPU", "HLT", "LNK", "LOD", "MEM", "SHR", "XID")  # checks that measure GPUs

# Written down from the record of each machine, before the doctor named any device.
DEVICES = {
    "8-h100-power-brake-on-one": {"HLT004": {("GPU-00000000-0000-0000-0000-000000000002",)}},
    "8-rtx-4090-shared": {
        "MEM001": {("GPU-00000000-0000-0000-0000-000000000004",)},
        "SHR003": {(f"GPU-00000000-0000-0000-0000-00000000000{number}",) for number in (0, 1, 2, 3, 4, 6)},
    },
    "a10-remap-pending": {"HLT002": {("GPU-00000000-0000-0000-0000-000000000000",)}},
    "a100-remap-pending": {"HLT002": {("0000:10:1c.0",)}, "XID001": {("0000:10:1c.0",)}},
    "a100-xid-48": {"XID001": {("GPU-3f6f3a5e-0000-0000-0000-000000000000",)}},
    "aer-fatal-no-recovery": {"XID005": {("0000:03:00.0",)}},
    "bus-errors": {"BUS001": {("GPU-3f6f3a5e-0000-0000-0000-000000000000",)}},
    "dell-xe9680-xid-119": {"XID001": {("0000:9b:00.0",)}},
    "gpu-that-failed-to-start": {"SHR001": {("0000:02:00.0",)}},
    "gpu-unknown-error-after-aer": {"HLT001": {("0000:03:00.0",)}},
    "hgx-h100-sxid-22013": {"XID002": {("0000:04:00.0",)}},
    "l40-off-the-bus": {"XID001": {("0000:b3:00.0",)}},
    "loaded-gpu-stands-alone": {"LOD002": {("GPU-3f6f3a5e-0000-0000-0000-000000000002",)}},
    "one-of-8-gpus-hangs": {"HLT001": {("GPU-3f6f3a5e-0000-0000-0000-000000000003",)}},
    "one-of-8-gpus-is-lost": {"HLT001": {("0000:06:00.0",)}},
    "restarted-after-xid-79": {"XID003": {("GPU-3f6f3a5e-0000-0000-0000-000000000000",)}},
    "rtx-2080-xid-79": {"XID001": {("0000:09:00.0",)}},
    "rtx-3090-gsp-does-not-start": {"XID004": {("0000:98:00.0",)}},
    "rtx-3090-power-limit-lowered": {"HLT005": {("GPU-00000000-0000-0000-0000-000000000000",)}},
    "second-gpu-has-few-multiprocessors": {"GPU003": {("GPU-3f6f3a5e-0000-0000-0000-000000000001",)}},
    "server-xid-79-on-one-of-eight": {"XID001": {("0000:08:00.0",)}},
    "tesla-xid-79-after-aer": {"XID001": {("0000:02:00.0",)}},
    "table-with-err": {"GPU002": {("0000:01:00.0",)}},
    "workstation-xid-79": {"XID001": {("0000:01:00.0",)}},
}  # fmt: skip


def findings_of(report: Report) -> Iterator[tuple[str, Finding]]:
    for result in report.results:
        for finding in result.findings:
            yield result.id, finding


def keys_of(report: Report) -> list[Key]:
    return [(id, finding.cause, finding.devices) for id, finding in findings_of(report)]


@functools.cache
def again(machine: str) -> Report:
    return diagnose(look_again(facts_of(machine)))


@every("machine, devices", DEVICES.items(), key=lambda machine, devices: machine, least=20)
def test_devices_are_those_that_the_record_shows(machine: str, devices: dict[str, set[tuple[str, ...]]]) -> None:
    found = {id: {each.devices for of, each in findings_of(report_on(machine)) if of == id} for id in devices}
    assert {id: found[id] for id in devices} == devices


@every_machine
def test_a_finding_whose_message_names_a_gpu_has_devices(machine: str) -> None:
    bare = [
        f"{id}: {each.message}"
        for id, each in findings_of(report_on(machine))
        if names_a_gpu(each.message) and not each.devices
    ]
    assert bare == []


@every_machine
def test_gpus_have_no_numbers_where_they_have_better_names(machine: str) -> None:
    """A number of NVML or TensorFlow changes when another GPU is lost."""
    facts = facts_of(machine)
    if facts.nvml is None or not all(gpu.uuid or gpu.pci_address for gpu in facts.nvml.gpus) or facts.nvml.troubles:
        pytest.skip("a GPU has nothing but its number")
    if not facts.nvml.gpus:
        pytest.skip("NVML lists no GPU")
    named = {device for _, each in findings_of(report_on(machine)) for device in each.devices}
    assert [device for device in named if re.fullmatch(r".*GPU[ :]\d+", device)] == []


@every_machine
def test_a_gpu_that_nvml_reads_is_named_by_its_uuid_in_every_check(machine: str) -> None:
    facts = facts_of(machine)
    uuids = {gpu.pci_address[-10:]: gpu.uuid for gpu in (facts.nvml.gpus if facts.nvml else ()) if gpu.uuid}
    if not uuids:
        pytest.skip("NVML reads no UUID")
    named = {device for _, each in findings_of(report_on(machine)) for device in each.devices}
    assert [device for device in named if device[-10:] in uuids] == []


@every_machine
def test_figures_belong_to_the_devices_of_their_finding(machine: str) -> None:
    for id, each in findings_of(report_on(machine)):
        strangers = [figure for figure in each.figures if figure.device and figure.device not in each.devices]
        assert strangers == [], id
        assert len(each.devices) == len(set(each.devices)), id


@every_machine
def test_figures_are_named_by_words_that_stay(machine: str) -> None:
    for id, each in findings_of(report_on(machine)):
        for figure in each.figures:
            assert figure.name == figure.name.strip() != "", id
            assert not re.search(r"\b\d", figure.name), f"{id}: {figure.name}"
        told = [(figure.name, figure.device) for figure in each.figures]
        assert len(told) == len(set(told)), f"{id} has two figures of one name"


@every_machine
def test_a_root_cause_has_one_figure_of_each_name_and_gpu(machine: str) -> None:
    """They become one series each."""
    for cause in report_on(machine).causes:
        told = [(figure.name, figure.device) for figure in cause.figures]
        assert len(told) == len(set(told)), cause.label


@every_machine
def test_every_measured_number_of_a_message_is_a_figure(machine: str) -> None:
    missing = [
        f"{id}: {lacking} of {each.message!r}"
        for id, each in findings_of(report_on(machine))
        if id.startswith(_OF_GPUS) and (lacking := without_figure(each))
    ]
    assert missing == []


@every_machine
def test_keys_are_the_same_when_the_numbers_are_others(machine: str) -> None:
    assert keys_of(again(machine)) == keys_of(report_on(machine))


def test_messages_and_figures_differ_when_the_numbers_are_others() -> None:
    """The test above looks at machines whose numbers do differ."""
    pairs = [
        (before, after)
        for machine in NAMES
        for (_, before), (_, after) in zip(findings_of(report_on(machine)), findings_of(again(machine)), strict=True)
        if before.devices
    ]
    assert sum(before.message != after.message for before, after in pairs) >= 40
    assert sum(before.figures != after.figures for before, after in pairs) >= 40


def test_two_gpus_with_the_same_problem_have_two_keys() -> None:
    slowed = [key for key in keys_of(report_on("8-h100-hw-slowdown")) if key[0] == "HLT004"]
    assert len(slowed) == len(set(slowed)) > 1


def test_the_machines_with_devices_are_recorded_ones_too() -> None:
    recorded = [name for name in DEVICES if RECORDS[name].parent.parent.name == "recorded"]
    assert len(recorded) >= 10
