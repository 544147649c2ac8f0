"""Details of a judged machine: what explains a suite that was not run, the time that it took, the memory of its GPUs."""

from __future__ import annotations

import pathlib

import msgspec
from healthy import ANSWERED, broken, healthy
from judged import bench, comparison, judged, profile_of, red, rows_of, shipped

from tfgpu_doctor.accept.rules_machine import gpu_memory_of

TWO_SUITES = 'suites = ["device_placement", "training"]\n[checks]\nselect = ["GPU", "BEN"]\n'


def test_a_gpu_that_was_lost_meanwhile_explains_the_suite_that_measured_nothing(tmp_path: pathlib.Path) -> None:
    lost = bench(comparison(), gpu_lost="cuInit returned 999")
    certificate = judged(msgspec.structs.replace(healthy(), bench=lost), profile_of(TWO_SUITES, tmp_path))
    assert red(certificate) == ["checks.BEN003"]
    training = rows_of(certificate)["suites.training"]
    assert (training.outcome, training.explained_by) == ("explained", ("checks.BEN003",))


def test_a_gpu_that_was_lost_meanwhile_does_not_explain_a_level_that_was_not_asked_for(tmp_path: pathlib.Path) -> None:
    lost = bench(comparison(), comparison("training", "step[cnn]"), gpu_lost="cuInit returned 999")
    profile = profile_of(f'level = "deep"\n{TWO_SUITES}', tmp_path)
    certificate = judged(msgspec.structs.replace(healthy(), bench=lost), profile)
    assert red(certificate) == ["checks.BEN003", "level"]


ONE_CHECK = 'suites = ["device_placement"]\n[checks]\nselect = ["GPU004"]\n'


def test_a_gpu_that_was_lost_meanwhile_is_told_whatever_checks_count(tmp_path: pathlib.Path) -> None:
    whole = msgspec.structs.replace(healthy(), bench=bench(comparison()))
    assert judged(whole, profile_of(ONE_CHECK, tmp_path)).verdict == "accepted"
    lost = msgspec.structs.replace(healthy(), bench=bench(comparison(), gpu_lost="cuInit returned 999"))
    certificate = judged(lost, profile_of(ONE_CHECK, tmp_path))
    assert red(certificate) == ["suites"]
    assert rows_of(certificate)["suites"].reason == "a GPU was lost before they ended: cuInit returned 999"
    allowed = "[[allowed]]\ncheck = 'BEN003'\nreason = 'known'\nexpires = 2027-01-01\n"
    assert red(judged(lost, profile_of(ONE_CHECK + allowed, tmp_path))) == []
    assert red(judged(lost, profile_of(ONE_CHECK, tmp_path))) == ["suites"]


def test_the_time_that_it_took_has_one_decimal() -> None:
    assert judged(healthy(), shipped("ci"), seconds=12.3456).seconds == 12.3


def test_without_nvml_the_memory_is_the_one_that_cuda_reports() -> None:
    assert gpu_memory_of(broken(nvml=None)) == [24 << 30]


def test_an_nvml_that_failed_says_nothing_about_memory() -> None:
    """CUDA's figure is the smaller one: it leaves out what the driver keeps for itself."""
    failed = msgspec.structs.replace(ANSWERED, outcome="failed")
    facts = broken(nvml={"attempt": failed})
    assert facts.nvml and facts.cuda_driver
    smaller = msgspec.structs.replace(facts.cuda_driver.gpus[0], memory_bytes=23 << 30)
    assert gpu_memory_of(broken(facts, cuda_driver={"gpus": (smaller,)})) == [23 << 30]
