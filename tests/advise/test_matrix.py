"""The matrix: which rows the filters leave."""

from __future__ import annotations

import pytest

from tfgpu_doctor.advise.advise import advise
from tfgpu_doctor.advise.matrix import matrix
from tfgpu_doctor.advise.target_spec import Gpu, TargetSpec
from tfgpu_doctor.knowledge import read_knowledge

KNOWLEDGE = read_knowledge()


def versions(spec: TargetSpec) -> list[str]:
    return [row.release.version for row in matrix(spec, KNOWLEDGE)]


def test_every_release_newest_first() -> None:
    assert versions(TargetSpec()) == [row.version for row in reversed(KNOWLEDGE.tensorflow_releases)]


@pytest.mark.parametrize("os", ["linux", "wsl", "windows"])
@pytest.mark.parametrize("capability", ["", "3.5", "5.2", "7.5", "9.0", "12.0"])
@pytest.mark.parametrize("driver", ["", "460.27.03", "535.54.03"])
@pytest.mark.parametrize("python", ["", "3.8", "3.11"])
def test_its_first_row_is_what_advise_names(os: str, capability: str, driver: str, python: str) -> None:
    gpu = Gpu("it", capability) if capability else None
    spec = TargetSpec(os=os, driver=driver, python=python, gpu=gpu)
    advice = advise(spec, KNOWLEDGE)
    with_cuda = [row for row in matrix(spec, KNOWLEDGE) if row.wheels.cuda]
    assert (with_cuda[0].release if with_cuda else None) == advice.release


def test_filters() -> None:
    assert versions(TargetSpec(python="3.13")) == ["2.21.0", "2.20.0"]
    assert versions(TargetSpec(driver="470.57.02"))[0] == "2.14.1"
    assert versions(TargetSpec(gpu=Gpu("GTX 980", "5.2")))[0] == "2.16.2"
    assert versions(TargetSpec(gpu=Gpu("RTX 5090", "12.0"))) == []
    assert versions(TargetSpec(os="windows", driver="551.61"))[0] == "2.10.1"
    assert versions(TargetSpec(os="windows"))[0] == "2.21.0"
    assert versions(TargetSpec(architecture="aarch64", gpu=Gpu("GH200", "9.0"))) == []


def test_ptx_needs_the_driver_of_its_toolkit() -> None:
    rows = {row.release.version: row for row in matrix(TargetSpec(gpu=Gpu("H100", "9.0")), KNOWLEDGE)}
    assert (rows["2.21.0"].kernels, rows["2.21.0"].minimum_driver) == ("native", "525.60.13")
    assert (rows["2.15.1"].kernels, rows["2.15.1"].minimum_driver) == ("ptx", "535.54.03")


def test_which_extras_work() -> None:
    works = [row.release.version for row in matrix(TargetSpec(), KNOWLEDGE) if row.cuda_extra_works]
    assert works[0] == "2.21.0"
    assert works[-1] == "2.15.0.post1"
    assert not set(works) & {"2.15.0", "2.14.1", "2.14.0", "2.13.1"}
