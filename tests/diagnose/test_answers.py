"""What depends on the answer: an answer that ignored checks block stays open, and a warning tells its costs where it has any."""

from __future__ import annotations

import pytest
from healthy import broken, healthy, without_gpus

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.diagnose.selection import Selection
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Check, Evidence, Finding, Fix, Severity, Yielded, check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.facts.nvidia import DeviceNodes, Driver
from tfgpu_doctor.render.words import headline


def finding(cause: str, severity: Severity) -> Check:
    @check("TST001", "it is well", causes=(cause,))
    def function() -> Yielded:
        yield Finding("it is not", cause=cause, severity=severity, fix=Fix("mend it"))

    return function


@check("TST002", "TensorFlow computes on a GPU", goal="computes")
def computing() -> Yielded:
    yield Evidence("seen")


@pytest.mark.parametrize("ignore", [("GPU001",), ("GPU001", "GPU004"), ("GPU",)], ids=",".join)
@pytest.mark.parametrize("quick", [False, True])
def test_an_answer_that_only_ignored_checks_block_stays_open(ignore: tuple[str, ...], quick: bool) -> None:
    facts = broken(
        healthy(quick=quick), pci=Pci(), nvml=None, cuda_driver=None, driver=Driver(), device_nodes=DeviceNodes(),
        **({} if quick else {"runtime": without_gpus()}),
    )  # fmt: skip
    assert diagnose(facts).find("GPU001").outcome == "fail"  # type: ignore[union-attr]
    report = diagnose(facts, selection=Selection(ignore=ignore))
    assert (report.judged, report.computes, report.exit_code()) == (False, None, 3)
    assert "was not among them" not in headline(report)


def test_what_is_no_error_says_what_it_costs() -> None:
    costs = read_knowledge().causes["pcie_link_degraded"].costs
    severities: tuple[tuple[Severity, str], ...] = (("warning", costs), ("error", ""))
    for severity, told in severities:
        (cause,) = diagnose(healthy(), checks=(finding("pcie_link_degraded", severity), computing)).causes
        assert cause.costs == told


@pytest.mark.parametrize(
    ("facts", "computes"),
    [
        (healthy(), True),
        (broken(runtime=without_gpus()), False),
        (broken(runtime=None), None),
        (healthy(quick=True), None),
    ],
    ids=["computes", "does not", "not run", "quick"],
)
def test_costs_are_told_where_tensorflow_computes(facts: Facts, computes: bool | None) -> None:
    for label in ("cudnn_init_failed_memory", "pcie_link_degraded"):
        report = diagnose(facts, checks=[*ALL_CHECKS, finding(label, "warning")])
        assert report.computes is computes
        assert [bool(cause.costs) for cause in report.causes if cause.id == "TST001"] == [computes is True]
