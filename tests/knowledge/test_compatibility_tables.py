"""The rules of CUDA's compatibility, and the packages for forward compatibility."""

from __future__ import annotations

import re

import pytest
from locations import ROOT

from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.knowledge.schema import CompatibilityRule, CompatPackage

KNOWLEDGE = read_knowledge()
DATA = ROOT / "checks/data"
LINES = {gpu.line for gpu in KNOWLEDGE.gpus}
A100, GEFORCE = "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 3090"


@pytest.mark.parametrize("rule", KNOWLEDGE.compatibility.values(), ids=lambda rule: rule.rule)
def test_a_rule_is_well_formed(rule: CompatibilityRule) -> None:
    assert set(rule.os) <= {"Linux", "Windows"}
    assert set(rule.lines) <= LINES
    assert (DATA / f"{rule.table}.json").is_file()
    assert not rule.since or version(rule.since) >= version("10.0")


def test_the_rules_are_those_that_nvidia_documents() -> None:
    assert set(KNOWLEDGE.compatibility) == {"minor-version", "forward", "ptx"}
    assert KNOWLEDGE.compatibility["forward"].lines == ("data centre",)
    assert KNOWLEDGE.compatibility["forward"].os == ("Linux",)


@pytest.mark.parametrize("row", KNOWLEDGE.compat_packages, ids=lambda row: row.package)
def test_a_package_runs_on_branches_that_are_older_than_its_own(row: CompatPackage) -> None:
    assert row.package == f"cuda-compat-{row.cuda.replace('.', '-')}"
    toolkit = next(each for each in KNOWLEDGE.cuda_toolkits if each.cuda == row.cuda)
    branches = [int(branch) for branch in row.driver_branches]
    assert branches == sorted(set(branches))
    assert all(re.fullmatch(r"\d{3}", branch) for branch in row.driver_branches)
    assert max(branches) <= int(toolkit.linux.partition(".")[0])


def test_every_cuda_that_tensorflow_was_built_with_has_its_package() -> None:
    built = {wheels.cuda for release in KNOWLEDGE.tensorflow_releases for wheels in release.wheels}
    known = {row.cuda for row in KNOWLEDGE.compat_packages}
    releases = {".".join(cuda.split(".")[:2]) for cuda in built if re.fullmatch(r"\d+\.\d+(\.\d+)?", cuda)}
    assert releases <= known


def test_packages_are_in_order() -> None:
    releases = [version(row.cuda) for row in KNOWLEDGE.compat_packages]
    assert releases == sorted(releases)


@pytest.mark.parametrize(
    ("cuda", "driver", "gpus", "package"),
    [
        ("12.5.1", "470.57.02", [A100], "cuda-compat-12-5"),
        ("12.5.1", "550.54.15", [A100, "Tesla T4"], "cuda-compat-12-5"),
        ("12.3", "525.60.13", ["Tesla V100-SXM2-16GB"], "cuda-compat-12-3"),
        ("11.2", "418.39", ["Tesla K80"], "cuda-compat-11-2"),
        ("12.5.1", "525.60.13", [A100], None),  # 12.5's image names 470, 535 and 550
        ("11.8", "450.80.02", ["Tesla K80"], None),  # 520 dropped Kepler
        ("13.0", "580.65.06", [A100], None),
        ("99.1", "470.57.02", [A100], None),
        ("12.5.1", "470.57.02", [GEFORCE], None),
        ("12.5.1", "470.57.02", [A100, GEFORCE], None),
        ("12.5.1", "470.57.02", ["NVIDIA A999"], None),
        ("12.5.1", "470.57.02", [], None),
        ("12.5.1", "", [A100], None),
    ],
)
def test_the_package_for_a_driver(cuda: str, driver: str, gpus: list[str], package: str | None) -> None:
    row = KNOWLEDGE.compat_package(cuda, driver, gpus)
    assert (row.package if row else None) == package
