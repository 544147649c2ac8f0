"""Rehearsals of real TensorFlow releases with the CUDA libraries that pip brought: those of the lab."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from doctor_command import start_doctor
from installed import skip_without_tensorflow
from lab.targets import find_targets, folder, site_packages

pytestmark = pytest.mark.tensorflow
of_the_lab = pytest.mark.slow  # only the environment `full` has the lab's targets


@pytest.fixture(scope="module")
def cache(driver_folder: pathlib.Path) -> str:
    return str(driver_folder.parents[1])


def target(release: str) -> pathlib.Path:
    found = find_targets(folder()).get(release)
    if found is None:
        pytest.skip("the lab's targets are not there: `python tests/lab/targets.py` installs them (18 GB)")
    return found


def rehearse(environment: pathlib.Path, cache: str, *options: str, **variables: str) -> dict[str, Any]:
    done = start_doctor(
        "rehearse", "--python", str(environment), "--format", "json", *options, XDG_CACHE_HOME=cache,
        environment=variables,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if document["healthy"] else 1), document["causes"]
    return document


@of_the_lab
@pytest.mark.parametrize("release", ["2.18.1"])
def test_a_release_that_finds_its_libraries_registers_the_gpus(cache: str, release: str) -> None:
    document = rehearse(target(release), cache, "--gpu", "A100", "--count", "2", "--driver", "550.54.15")
    assert (document["registered"], document["memory_growth_set"], document["causes"]) == (2, True, [])


@of_the_lab
@pytest.mark.parametrize(("release", "lost"), [("2.16.1", "libcudnn.so.8"), ("2.21.0", "libcusolver.so.11")])
def test_a_release_that_does_not_find_them_registers_none(cache: str, release: str, lost: str) -> None:
    environment = target(release)
    document = rehearse(environment, cache)
    assert document["registered"] == 0
    assert document["causes"][0]["label"] == "pip_cuda_libs_not_found"
    assert lost in document["causes"][0]["title"]
    folders = ":".join(map(str, site_packages(environment).glob("nvidia/*/lib")))
    assert rehearse(environment, cache, LD_LIBRARY_PATH=folders)["registered"] == 1


@of_the_lab
def test_kernels_that_do_not_fit_are_said_though_the_gpu_is_registered(cache: str) -> None:
    document = rehearse(target("2.18.1"), cache, "--gpu", "GTX 980")
    assert document["registered"] == 1
    assert document["causes"][0]["label"] == "gpu_compute_capability_too_old"


@of_the_lab
def test_a_driver_that_is_too_old_is_said(cache: str) -> None:
    document = rehearse(target("2.18.1"), cache, "--driver", "470.82.01")
    assert document["causes"][0]["label"] == "driver_too_old"


def test_tensorflow_without_cuda_libraries(cache: str) -> None:
    skip_without_tensorflow()
    done = start_doctor("rehearse", "--format", "json", XDG_CACHE_HOME=cache)
    document = json.loads(done.stdout)
    label = document["causes"][0]["label"] if document["causes"] else ""
    assert label in ("pip_without_and_cuda_extra", "pip_cuda_libs_not_found", "cuda_toolkit_wrong_major", "")
