"""The data file of a machine: what is read from it, what is filled in, what is refused and in which words."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from every import every

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.gpu import MachineError
from tfgpu_doctor.rehearse.gpu_names import UnknownGpu, find_gpu
from tfgpu_doctor.rehearse.machine import SimulatedMachine, cuda_of_driver, machine_for, newest_driver, read_machine

KNOWLEDGE = read_knowledge()
MODELS = KNOWLEDGE.gpus


def read(document: Any) -> SimulatedMachine:
    return read_machine(document if isinstance(document, bytes) else msgspec.json.encode(document), KNOWLEDGE)


@pytest.mark.slow
@every("model", MODELS, key=lambda model: model.name)
def test_every_name_of_the_table_is_one_gpu(model: Any) -> None:
    for name in (model.name, *model.aliases):
        for written in (name, name.lower(), name.upper(), f"nvidia {name}", name.replace(" ", "-"), f"  {name} "):
            assert find_gpu(written, MODELS) is model, written


@every("model", MODELS, key=lambda model: model.name)
def test_every_row_is_plausible(model: Any) -> None:
    assert re.fullmatch(r"\d{1,2}\.\d", model.compute_capability)
    assert model.memory_bytes % (1 << 30) == 0
    assert 1 <= model.memory_bytes >> 30 <= 300
    assert 1 <= model.multiprocessors <= 200
    majors = {
        "Kepler": 3,
        "Maxwell": 5,
        "Pascal": 6,
        "Volta": 7,
        "Turing": 7,
        "Ampere": 8,
        "Ada Lovelace": 8,
        "Hopper": 9,
    }
    major = int(model.compute_capability.partition(".")[0])
    assert major in ((10, 11, 12) if model.architecture == "Blackwell" else (majors[model.architecture],))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h100", "NVIDIA H100 80GB HBM3"),
        ("H100 80GB", "NVIDIA H100 80GB HBM3"),
        ("rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("GeForce 4090", "NVIDIA GeForce RTX 4090"),
        ("Tesla V100", "Tesla V100-SXM2-16GB"),
        ("a100-sxm4-40gb", "NVIDIA A100-SXM4-40GB"),
        ("1080ti", "NVIDIA GeForce GTX 1080 Ti"),
        ("rtx4090", "NVIDIA GeForce RTX 4090"),
        ("1080 ti", "NVIDIA GeForce GTX 1080 Ti"),
        ("rtx 6000 ada", "NVIDIA RTX 6000 Ada Generation"),
    ],
)
def test_a_gpu_is_found_by_parts_of_its_name(name: str, found: str) -> None:
    assert find_gpu(name, MODELS).name == found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rtx", "matches several GPUs: NVIDIA RTX PRO 6000 Blackwell"),
        ("h300", "similar names: NVIDIA H800, NVIDIA H200"),
        ("", "is not a GPU"),
        ("nvidia", "is not a GPU"),
        ("Радеон", "is not a GPU"),
        ("H100 PCIe 3000", "H100 PCIe"),
    ],
)
def test_a_name_of_none_or_several_is_refused_with_those_that_are_near(name: str, words: str) -> None:
    with pytest.raises(UnknownGpu, match=re.escape(words)):
        find_gpu(name, MODELS)


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("580.65.06", "13.0"), ("999.1", "13.3"), ("590.48.01", "13.1"), ("575.64.03", "12.9"), ("550.54.15", "12.4"),
     ("550.40.07", "12.4"), ("535.216.03", "12.2"), ("525.60.13", "12.0"), ("520.61.05", "11.8"), ("470.256.02", "11.4"), ("450.80.02", "11.0"), ("418.39", "10.1")],
)  # fmt: skip
def test_a_driver_implies_its_cuda(driver: str, cuda: str) -> None:
    assert cuda_of_driver(driver, KNOWLEDGE) == cuda


def test_the_default_driver_supports_every_cuda_of_the_tables() -> None:
    newest = cuda_of_driver(newest_driver(KNOWLEDGE), KNOWLEDGE)
    assert all(
        tuple(map(int, row.cuda.split("."))) <= tuple(map(int, newest.split("."))) for row in KNOWLEDGE.cuda_toolkits
    )


@pytest.mark.parametrize(
    ("names", "driver"), [(["p100"], "580.65.06"), (["k80"], "470.42.01"), (["h100", "k80"], "470.42.01")]
)
def test_the_default_driver_supports_the_gpus(names: list[str], driver: str) -> None:
    assert read({"gpus": [{"name": name} for name in names]}).driver == driver


def test_a_machine_is_completed() -> None:
    machine = read(
        {
            "gpus": [
                {"name": "h100", "count": 2, "mig_mode": True, "mig_devices": [{}]},
                {"name": "t4", "memory_bytes": 5},
            ]
        }
    )
    assert machine.driver == newest_driver(KNOWLEDGE)
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA H100 80GB HBM3"] * 2 + ["Tesla T4"]
    assert [gpu.pci_address for gpu in machine.gpus] == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    assert len({gpu.uuid for gpu in machine.gpus} | {gpu.mig_devices[0].uuid for gpu in machine.gpus[:2]}) == 5
    assert [gpu.memory_bytes for gpu in machine.gpus] == [80 << 30, 80 << 30, 5]
    assert machine.cuda_devices == 1  # a MIG device: CUDA lists no whole GPU beside one
    assert read({"gpus": [{"name": "h100", "mig_mode": True}]}).cuda_devices == 0


def test_a_gpu_of_ones_own_needs_its_figures() -> None:
    own = {"name": "My GPU", "memory_bytes": 1 << 30, "compute_capability": "15.0", "multiprocessors": 1}
    assert read({"gpus": [own]}).gpus[0].name == "My GPU"
    with pytest.raises(MachineError, match=r"gpus\[1\]\.name: 'My GPU' is not a GPU.*requires memory_bytes"):
        read({"gpus": [own, {"name": "My GPU", "memory_bytes": 5}]})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[" * 100_000, ""),
        (b" " * (2 << 20), "larger than 1 MiB"),
        ([], "Expected `object`"),
        ({}, "missing required field `gpus`"),
        ({"gpus": [], "drivr": "1"}, "unknown field `drivr`"),
        ({"gpus": 3}, "gpus: Expected `array`"),
        ({"gpus": [{"name": "T4", "count": 0}]}, "gpus[0].count: Expected `int` >= 1"),
        ({"gpus": [{"name": "T4", "count": 65}]}, "gpus[0].count: Expected `int` <= 64"),
        ({"gpus": [{"name": "T4", "count": 40}] * 2}, "gpus: at most 64 GPUs"),
        ({"gpus": [{"name": "T4", "temprature_c": 3}]}, "gpus[0]: Object contains unknown field `temprature_c`"),
        ({"gpus": [{"name": "T4\nfault.cuInit=1"}]}, "gpus[0].name: it must be one line of text"),
        ({"gpus": [{"name": "T4" * 50}]}, "gpus[0].name: Expected `str` of length <= 95"),
        ({"gpus": [{"name": "T5"}]}, "gpus[0].name: 'T5' is not a GPU"),
        ({"gpus": [{"name": "T4", "pci_address": "01:00.0"}]}, "gpus[0].pci_address: it must have the form 0000:01:00.0"),
        ({"gpus": [{"name": "T4", "pci_address": "0000:01:00.0"}] * 2}, "gpus: two of them have the same pci_address"),
        ({"gpus": [{"name": "T4", "uuid": "GPU-1", "count": 2}]}, "gpus: two of them have the same uuid"),
        ({"gpus": [{"name": "T4", "compute_capability": "90"}]}, "gpus[0].compute_capability: it must have the form 9.0"),
        ({"gpus": [{"name": "T4", "power_w": {"draw": -1}}]}, "gpus[0].power_w.draw: Expected `float` >= 0"),
        ({"gpus": [{"name": "T4", "throttle_reasons": ["heat"]}]}, "gpus[0].throttle_reasons[0]: Invalid enum value 'heat'"),
        ({"gpus": [], "driver": "550"}, "driver: it must have the form 550.54.15"),
        ({"gpus": [], "driver": "304.137"}, "driver: 304.137 is older than the doctor's tables"),
        ({"gpus": [], "faults": {"cuInitialise": 1}}, "faults: the simulated driver has no call 'cuInitialise'; similar names: cuInit"),
        ({"gpus": [], "faults": {"cuInit": 0}}, "faults[...]: Expected `int` >= 1"),
        ({"gpus": [], "faults": {"cuInit": "explode"}}, "faults[...]: Invalid enum value 'explode'"),
        ({"gpus": [{"name": "T4", "faults": {"nvml": 1}}]}, "gpus[0].faults: the simulated driver has no call 'nvml'"),
        ({"gpus": [], "missing": ["libcudart.so.12"]}, "missing[0]: Invalid enum value 'libcudart.so.12'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_that_names_the_field(document: Any, words: str) -> None:
    with pytest.raises(MachineError) as refused:
        read(document)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_machine_for_a_gpu() -> None:
    machine = machine_for("L4", KNOWLEDGE, count=3, driver="535.54.03", mig_mode=False)
    assert (machine.cuda, len(machine.gpus), machine.cuda_devices, machine.gpus[2].mig_mode) == ("12.2", 3, 3, False)
    with pytest.raises(MachineError, match="is not a GPU"):
        machine_for("L5", KNOWLEDGE)
