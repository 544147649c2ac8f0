"""Real machines, as the captures of other projects show them: judged by hand before the doctor saw them.

`causes` of expected.json must be found, `may` of it can be; every other cause is a false alarm. None of them has a Python
environment, so whether TensorFlow computes there was not asked, and no report is healthy.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from every import every
from locations import RECORDS
from replayed import facts_of, report_on

RECORDED = [name for name, path in RECORDS.items() if path.parent.parent.name == "recorded"]
# Machines that the doctor judges wrongly, and what is missing. One that it learnt to judge has to be removed here.
MISSES = {
    "8-rtx-4090-power-cap": "MEM001: an error although six GPUs are free, and nobody asked for the busy one",
    "8-rtx-4090-shared": "MEM001: an error although one GPU is free",
    "rtx-3080-driver-595": "MEM001: an error although no program of the user failed for lack of memory",
    "a100-remap-pending": "the reader of logs stops at [...], and an Xid 63 that asks for a reset has the label of its reason alone",
    "a100-sxid-24007": "the reader of logs does not know the form of Talos; XID002 needs the PCI bus",
    "aer-fatal-no-recovery": "the reader of logs does not know `dmesg -d`; no check reads AER's failed recovery",
    "aws-k80-driver-too-new": "the message is cut, and DRV007 takes the driver that is not loaded for an unknown fault",
    "cmp-40hx-does-not-start": "XID004 needs the PCI bus, and NVML or CUDA",
    "rtx-3090-gsp-does-not-start": "XID004 needs the PCI bus, and NVML or CUDA",
    "dell-xe9680-xid-119": "XID001: nothing else is known of the GPU, and that counts as working",
    "kernel-log-xid-13-and-43": "XID001: nothing else is known of the GPU, and that counts as working",
    "gpu-unknown-error-after-aer": "HLT001: a GPU that NVML cannot open has no label",
    "gt-710-driver-535": "the reader of logs does not know the form of Talos; DRV010 needs the PCI bus",
    "gtx-1050-driver-595": "DRV010 needs the PCI bus",
    "m2070-driver-396": "DRV010 needs the PCI bus",
    "rtx-5090-needs-open-modules": "DRV010 and XID004 need the PCI bus",
    "v100-owned-by-nouveau": "DRV003 does not read the kernel log",
    "table-with-err": "GPU002: who holds an exclusive GPU is not shown, and that counts as nobody",
    "truenas-driver-mismatch": "NVML's own error 18 is not judged while the PCI bus is unknown",
    "xid-31-62-45": "Xid 62 has the label of a broken card, and the driver says only that a part of it halted",
    "xid-45-by-149-and-145": "XID001 does not read `caused by previous Xid 149`",
}


@functools.cache
def expected_of(machine: str) -> dict[str, Any]:
    return dict(json.loads(RECORDS[machine].with_name("expected.json").read_text()))


CAPTURED = [name for name in RECORDED if "may" in expected_of(name)]


def wrong_of(machine: str) -> list[str]:
    """What the doctor says that is not so, and what it does not say; empty if the diagnosis is right."""
    expected, report = expected_of(machine), report_on(machine)
    labels = [cause.label for cause in report.causes]
    wrong = [f"misses {label}" for label in expected["causes"] if label not in labels]
    wrong += [f"alarm {label}" for label in labels if label not in (*expected["causes"], *expected["may"])]
    if expected["state"] == "healthy":
        wrong += [f"error {cause.label}" for cause in report.causes if cause.severity == "error"]
    if None not in (expected["fit"], report.fit) and expected["fit"] != report.fit:
        wrong.append(f"says fit={report.fit}")
    return wrong


def test_there_are_enough() -> None:
    assert len(CAPTURED) >= 25


@every("machine", CAPTURED, least=25)
def test_the_diagnosis_is_right(machine: str) -> None:
    if machine not in MISSES:
        assert wrong_of(machine) == []


@every("machine", sorted(MISSES))
def test_a_miss_is_still_one(machine: str) -> None:
    assert wrong_of(machine) != []


@every("machine", RECORDED, least=25)
def test_every_one_names_its_source(machine: str) -> None:
    source = expected_of(machine)["source"]
    assert source.get("machine") or (source["repository"] and source["path"] and len(source["blob"]) == 40)
    assert source.get("machine") or source["licence"]
    assert source["taken"] if "machine" in source else source["read"]


@every("machine", CAPTURED)
def test_nothing_was_examined_but_the_gpus_and_their_driver(machine: str) -> None:
    facts = facts_of(machine)
    assert facts.target is None
    assert facts.runtime is None


@pytest.mark.parametrize("machine", ["h100-loaded", "azure-ndmv4-8-a100"])
def test_identities_are_masked(machine: str) -> None:
    nvml = facts_of(machine).nvml
    assert nvml is not None
    assert [gpu.uuid for gpu in nvml.gpus] == [f"GPU-00000000-0000-0000-0000-{gpu.index:012d}" for gpu in nvml.gpus]
