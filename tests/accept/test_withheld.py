"""GPUs of the machine that TensorFlow does not list: hidden by a variable, not given to a job, another model, MIG."""

from __future__ import annotations

import pathlib
from typing import Any

from every import every
from healthy import broken, cuda_gpu, gpu, nvml_gpu, runtime
from judged import judged, profile_of, red, rows_of
from stressed import under_stress

from tfgpu_doctor.accept.requirement import Requirement
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler
from tfgpu_doctor.model.facts.nvidia import NvmlGpu

DEEP = "level = 'deep'\nfail-level = 'warning'\n"
LISTED = "1: NVIDIA GeForce RTX 3090"
LEFT_OUT = f"{LISTED}; 3 others of this machine not examined"
HIDDEN = "CUDA_VISIBLE_DEVICES=0 hides 3 of 4 GPUs: they were not stress-tested"


def on_bus(number: int, driver: str = "nvidia") -> PciDevice:
    address = f"0000:0{number}:00.0"
    return PciDevice(address=address, vendor="10de", device="2204", class_code="030000", driver=driver)


def of_four(*others: NvmlGpu, visible: str | None = "0", **sections: Any) -> Facts:
    """A machine with four GPUs, of which CUDA and TensorFlow list the first alone, and that one bears its load."""
    others = others or tuple(map(nvml_gpu, (1, 2, 3)))
    facts = under_stress()
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    built = {
        "pci": Pci(devices=tuple(map(on_bus, (1, 2, 3, 4)))),
        "nvml": {"gpus": (nvml_gpu(), *others)},
        "environment": Environment(variables),
    }
    return broken(facts, **{**built, **sections})


def ending(facts: Facts, toml: str, folder: pathlib.Path) -> tuple[list[str], Requirement, Requirement]:
    """The red rows, and the rows about the level and the number of GPUs."""
    certificate = judged(facts, profile_of(toml, folder))
    rows = rows_of(certificate)
    return red(certificate), rows["level"], rows["gpus"]


def test_gpus_that_a_variable_hides_are_not_measured_by_a_stress_test(tmp_path: pathlib.Path) -> None:
    found, level, gpus = ending(of_four(), DEEP, tmp_path)
    assert found == ["level"]
    assert (level.outcome, level.reason) == ("not measured", HIDDEN)
    assert "unset CUDA_VISIBLE_DEVICES" in level.remedy
    assert "`gpus = 1`" in level.remedy
    assert (gpus.outcome, gpus.measured) == ("met", LEFT_OUT)


@every("gpus", ["1", "'==1'", "'>=1,<4'"])
def test_a_profile_that_asks_for_fewer_gpus_takes_the_others_as_withheld_on_purpose(
    gpus: str, tmp_path: pathlib.Path
) -> None:
    found, level, row = ending(of_four(), f"gpus = {gpus}\n{DEEP}", tmp_path)
    assert (found, level.outcome, row.measured) == ([], "met", LEFT_OUT)


def test_a_profile_that_asks_for_all_is_missed_by_their_number_alone(tmp_path: pathlib.Path) -> None:
    found, _, gpus = ending(of_four(), f"gpus = 4\n{DEEP}", tmp_path)
    assert found == ["gpus"]
    assert gpus.outcome == "missed"


def test_without_a_stress_test_nothing_is_said_of_every_gpu(tmp_path: pathlib.Path) -> None:
    """A CI runner that computes on one of several GPUs."""
    found, level, gpus = ending(of_four(), "fail-level = 'warning'", tmp_path)
    assert (found, level.outcome, gpus.measured) == ([], "met", LEFT_OUT)


FOR_A_DISPLAY = [nvml_gpu(each, name="NVIDIA GeForce GT 710", compute_capability="3.5") for each in (1, 2, 3)]
RIGHTLY_NOT_LISTED = {
    "of another model, for a display": of_four(*FOR_A_DISPLAY),
    "divided by MIG": of_four(*(nvml_gpu(each, mig=True, mig_devices=("MIG-1",)) for each in (1, 2, 3))),
    "beside a MIG device": of_four(
        cuda_driver={"gpus": (cuda_gpu(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb"),)},
        nvml={"gpus": (nvml_gpu(mig=True, mig_devices=("MIG-1",)), *map(nvml_gpu, (1, 2, 3)))},
    ),
    "no process may compute on them": of_four(*(nvml_gpu(each, compute_mode="prohibited") for each in (1, 2, 3))),
    "of other jobs": of_four(scheduler=Scheduler(kind="slurm", job="7", granted={"SLURM_JOB_GPUS": "0"})),
    "not given to this container": of_four(
        visible=None, nvml={"gpus": (nvml_gpu(),)}, container=Container(kind="docker", shm_bytes=32 << 30)
    ),
    "of virtual machines": of_four(
        visible=None,
        nvml={"gpus": (nvml_gpu(),)},
        pci=Pci(devices=(on_bus(1), *(on_bus(each, driver="vfio-pci") for each in (2, 3, 4)))),
    ),
}


@every(
    "facts",
    RIGHTLY_NOT_LISTED.values(),
    key=lambda facts: next(why for why, each in RIGHTLY_NOT_LISTED.items() if each is facts),
)
def test_a_gpu_that_tensorflow_rightly_does_not_list_is_told_and_no_fault(facts: Facts, tmp_path: pathlib.Path) -> None:
    found, level, gpus = ending(facts, DEEP, tmp_path)
    assert (found, level.outcome) == ([], "met")
    assert gpus.measured == LEFT_OUT


def test_a_gpu_that_a_finding_names_has_its_own_row(tmp_path: pathlib.Path) -> None:
    """The variable names it, but CUDA does not list it: nothing hides it."""
    found, level, _ = ending(of_four(nvml_gpu(1), visible="0,1", pci=None), DEEP, tmp_path)
    assert (found, level.outcome) == (["checks.SHR001"], "met")


def test_a_machine_whose_gpus_are_all_listed_says_nothing_of_others(tmp_path: pathlib.Path) -> None:
    both = of_four(
        nvml_gpu(1), visible="0,1", pci=None, cuda_driver={"gpus": (cuda_gpu(), cuda_gpu(1))},
        runtime=runtime(gpus=(gpu(), gpu(1))),
    )  # fmt: skip
    assert ending(both, "", tmp_path)[2].measured == "2: NVIDIA GeForce RTX 3090"
