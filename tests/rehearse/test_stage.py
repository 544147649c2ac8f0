"""The stage: what the target's processes are given, and what the report still says of the user's own machine."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

import msgspec
import pytest
from rehearse.children import cuda_says
from simulated import machine

from tfgpu_doctor.collect.examination import examine
from tfgpu_doctor.collect.probes import ALL_PROBES
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.machine import SimulatedMachine, read_machine
from tfgpu_doctor.rehearse.stage import set_stage, simulated_facts

DRIVER_LIBRARIES = ["libcuda.so.1", "libnvidia-ml.so.1"]
PLAIN = {"PATH": os.environ["PATH"]}


def made(*gpus: dict[str, Any], **fields: Any) -> SimulatedMachine:
    return read_machine(msgspec.json.encode(machine(*gpus, **fields)), read_knowledge())


def test_the_drivers_folder_comes_first(driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    stage = set_stage(made(), str(driver_folder), str(tmp_path), {"LD_LIBRARY_PATH": "/a:/b"})
    assert stage.variables["LD_LIBRARY_PATH"] == f"{tmp_path}/driver:/a:/b"
    assert sorted(os.listdir(tmp_path / "driver")) == DRIVER_LIBRARIES
    assert cuda_says({**PLAIN, **stage.variables})["count"] == 1


@pytest.mark.parametrize("missing", DRIVER_LIBRARIES)
def test_a_library_can_be_missing(driver_folder: pathlib.Path, tmp_path: pathlib.Path, missing: str) -> None:
    set_stage(made(missing=[missing]), str(driver_folder), str(tmp_path), {})
    assert os.listdir(tmp_path / "driver") == [name for name in DRIVER_LIBRARIES if name != missing]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("", DRIVER_LIBRARIES), ("all", DRIVER_LIBRARIES), ("compute,utility", DRIVER_LIBRARIES),
        ("compute", ["libcuda.so.1"]), (" utility ,graphics", ["libnvidia-ml.so.1"]), ("video", []),
    ],
)  # fmt: skip
def test_a_container_is_given_what_it_asks_for(
    driver_folder: pathlib.Path, tmp_path: pathlib.Path, asked: str, given: list[str]
) -> None:
    stage = set_stage(made(), str(driver_folder), str(tmp_path), {"NVIDIA_DRIVER_CAPABILITIES": asked})
    assert sorted(os.listdir(tmp_path / "driver")) == given
    assert bool(stage.facts["container"].kind) == (given != DRIVER_LIBRARIES)  # type: ignore[attr-defined]


def test_a_stub_on_the_users_path_hides_the_driver_as_it_would(
    driver_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    stubs, empty = tmp_path / "cuda/lib64/stubs", tmp_path / "other/stubs"
    stubs.mkdir(parents=True)
    empty.mkdir(parents=True)
    (stubs / "libcuda.so.1").write_bytes(b"")
    path = f"{empty}:{stubs}"
    (tmp_path / "stage").mkdir()
    stage = set_stage(made(), str(driver_folder), str(tmp_path / "stage"), {"LD_LIBRARY_PATH": path})
    assert stage.variables["LD_LIBRARY_PATH"] == f"{stubs}:{tmp_path}/stage/driver:{path}"


def test_the_facts_are_those_of_a_healthy_machine() -> None:
    facts = simulated_facts(made({"count": 2}, driver="535.54.03"))
    assert set(facts) <= {probe.name for probe in ALL_PROBES}
    assert facts["driver"].version == "535.54.03"  # type: ignore[attr-defined]
    assert [gpu.address for gpu in facts["pci"].nvidia_gpus] == ["0000:01:00.0", "0000:02:00.0"]  # type: ignore[attr-defined]
    assert [node.path for node in facts["device_nodes"].gpus] == ["/dev/nvidia0", "/dev/nvidia1"]  # type: ignore[attr-defined]


def test_a_driver_of_a_later_branch_does_not_list_an_old_gpu(
    driver_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    both = made({"name": "Tesla P100-PCIE-16GB"}, {}, driver="590.44.01")
    stage = set_stage(both, str(driver_folder), str(tmp_path), {})
    assert cuda_says({**PLAIN, **stage.variables})["count"] == 1
    old, new = stage.facts["pci"].nvidia_gpus  # type: ignore[attr-defined]
    assert (old.driver, old.device, new.driver) == ("", "15f8", "nvidia")
    assert stage.facts["driver"].gpus == (new.address,)  # type: ignore[attr-defined]
    assert [node.path for node in stage.facts["device_nodes"].gpus] == ["/dev/nvidia0"]  # type: ignore[attr-defined]


def test_the_environment_stays_the_users_own(
    driver_folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere/of/my/own")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    stage = set_stage(made({"count": 2}), str(driver_folder), str(tmp_path), os.environ)
    facts = examine(
        python=sys.executable, stage=stage, only=("environment", "cuda_driver", "nvml", "driver_libraries", "pci")
    )
    assert facts.environment is not None
    assert facts.environment.variables["LD_LIBRARY_PATH"] == "/somewhere/of/my/own"
    assert "TFGPU_DOCTOR_MACHINE" not in facts.environment.variables
    assert facts.simulated
    assert facts.pci == stage.facts["pci"]
    assert facts.cuda_driver is not None
    assert len(facts.cuda_driver.gpus) == 2
    assert facts.cuda_driver.library == str(driver_folder / "libcuda.so.1")
    assert facts.nvml is not None
    assert facts.nvml.driver_version == "550.54.15"
    assert facts.driver_libraries is not None
    (copy,) = facts.driver_libraries.named("libcuda.so.1")[:1]
    assert (copy.real_path, copy.found_in) == (str(driver_folder / "libcuda.so.1"), "LD_LIBRARY_PATH")
