"""Each label decides the verdict as docs/verdicts.md says, on every machine that shows it."""

from __future__ import annotations

import pytest
from every import every
from lab.machines import MACHINES
from replayed import NAMES, report_on

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.report import Report, RootCause

CAUSES = read_knowledge().causes
every_machine = every("machine", NAMES, least=160)

# Labels of the class `unfit` that warn: a suspicion, or the past of a GPU that computes again.
SUSPICIONS = {
    ("a100-xid-94-works-again", "hardware_ecc_error"),
    ("bus-errors", "hardware_faulty_gpu"),
    ("four-gpus-iommu-faults", "multi_gpu_p2p_iommu_acs"),
    ("restarted-after-xid-79", "hardware_power_supply"),
}
# Errors although TensorFlow multiplies matrices: another operation of it fails.
OTHER_OPERATIONS = {
    ("h200-cudnn-misses-nvrtc", "cudnn_nvrtc_not_found"),
    ("h200-deep-cudnn-misses-nvrtc", "cudnn_nvrtc_not_found"),
    ("older-cudnn-in-environment", "cudnn_version_mismatch"),
    ("older-cudnn-on-library-path", "ld_library_path_shadows_pip_libs"),
    ("growth-on-one-of-two", "memory_growth_differs_between_gpus"),
    ("keras-file-names-torch", "keras_backend_not_tensorflow"),
    ("keras-variable-names-jax", "keras_backend_not_tensorflow"),
    ("xla-flag-of-another-release", "unknown_flag_in_environment"),
}


def is_of_the_policy(machine: str, cause: RootCause, report: Report) -> bool:
    row = CAUSES[cause.label]
    if row.unfit:
        if report.computes is None and not report.quick and report.fit is None:
            return True  # a log alone: what the GPU does now is not known
        return cause.severity == "error" or (machine, cause.label) in SUSPICIONS
    if cause.severity != "error":
        return report.computes is not False
    if (machine, cause.label) in OTHER_OPERATIONS or report.fit is False:
        return True
    return report.computes is not True  # it does not, or nobody asked


@every_machine
def test_each_cause_decides_as_the_page_says(machine: str) -> None:
    report = report_on(machine)
    wrong = [f"{c.label}: {c.severity}" for c in report.causes if not is_of_the_policy(machine, c, report)]
    assert wrong == [], f"computes {report.computes}, fit {report.fit}"


@every_machine
def test_healthy_is_both(machine: str) -> None:
    report = report_on(machine)
    if report.quick:
        assert report.computes is None
        assert report.fit is not True
    else:
        assert report.healthy == (report.computes is True and report.fit is True and not report.counts["fail"])
    assert not (report.healthy and report.exit_code())
    assert report.fit is not False or report.exit_code() == 1


@every_machine
def test_a_degradation_says_what_it_costs(machine: str) -> None:
    report = report_on(machine)
    for cause in report.causes:
        is_degradation = cause.severity != "error" and CAUSES[cause.label].severity == "degrades"
        assert cause.costs or not (is_degradation and report.computes), cause.label
        assert report.computes or not cause.costs, "nothing is known to compute"


@pytest.mark.parametrize("label", [label for label, row in CAUSES.items() if row.unfit])
def test_each_label_that_makes_a_machine_unfit_does_so_on_one(label: str) -> None:
    shown = [name for name in NAMES if any(each.label == label for each in report_on(name).causes)]
    assert any(report_on(name).fit is False for name in shown) or {(name, label) for name in shown} & SUSPICIONS, shown


def test_each_label_that_a_check_names_is_shown_by_a_machine() -> None:
    found = [finding.cause for name in NAMES for result in report_on(name).results for finding in result.findings]
    shown = {*found, *(machine.label for machine in MACHINES)}  # of the records, and of the lab
    assert [label for label, row in CAUSES.items() if row.shown_by == "check" and label not in shown] == []
