"""The table of GPUs: every row well-formed, and its figures of the size that its architecture has."""

from __future__ import annotations

import re

import pytest
from every import every

from tfgpu_doctor.advise.fitting import kernels_of
from tfgpu_doctor.advise.target_spec import Gpu, TargetSpec
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import GpuModel

KNOWLEDGE = read_knowledge()
CAPABILITIES = {
    "Kepler": {"3.0", "3.5", "3.7"},
    "Maxwell": {"5.0", "5.2", "5.3"},
    "Pascal": {"6.0", "6.1", "6.2"},
    "Volta": {"7.0", "7.2"},
    "Turing": {"7.5"},
    "Ampere": {"8.0", "8.6", "8.7"},
    "Ada Lovelace": {"8.9"},
    "Hopper": {"9.0"},
    "Blackwell": {"10.0", "10.3", "11.0", "12.0", "12.1"},
}
each_gpu = every("gpu", KNOWLEDGE.gpus, key=lambda gpu: gpu.name)


def test_there_are_many_of_every_kind() -> None:
    assert len(KNOWLEDGE.gpus) >= 150
    assert {gpu.architecture for gpu in KNOWLEDGE.gpus} == set(CAPABILITIES)
    for words, least in (
        ("Laptop", 25),
        ("GeForce", 80),
        ("Quadro", 20),
        ("Tesla", 15),
        ("RTX A", 10),
        ("Ada Generation", 10),
    ):
        assert sum(words in gpu.name for gpu in KNOWLEDGE.gpus) >= least, words


def test_no_name_stands_for_two() -> None:
    names = [name.lower() for gpu in KNOWLEDGE.gpus for name in (gpu.name, *gpu.aliases)]
    assert len(names) == len(set(names))


@each_gpu
def test_the_capability_is_one_of_its_architecture(gpu: GpuModel) -> None:
    assert gpu.compute_capability in CAPABILITIES[gpu.architecture]


@each_gpu
def test_tensor_cores_came_with_volta(gpu: GpuModel) -> None:
    capability = float(gpu.compute_capability)
    if capability != 7.5:
        assert gpu.tensor_cores == (capability >= 7.0)
    else:
        assert gpu.tensor_cores == ("RTX" in gpu.name or gpu.name in ("Tesla T4", "NVIDIA T4G"))


@each_gpu
def test_bandwidth_and_peaks_are_of_a_size(gpu: GpuModel) -> None:
    assert gpu.memory_bandwidth_gb_per_s is None or 20 < gpu.memory_bandwidth_gb_per_s < 10_000
    peak = gpu.peak_teraflops
    assert set(peak) <= {"fp64", "fp32", "tf32", "fp16"}
    assert list(peak.values()) == sorted(peak.values())
    if "tf32" in peak:
        assert float(gpu.compute_capability) >= 8.0
        assert 1.95 <= peak["fp16"] / peak["tf32"] <= 2.05
    if "fp32" in peak:  # cores a multiprocessor, two operations a cycle each, at 1.0 to 2.9 GHz
        cores = 64 if gpu.compute_capability in ("6.0", "7.0", "7.5", "8.0") else 128
        gigahertz = peak["fp32"] * 1e3 / (gpu.multiprocessors * cores * 2)
        assert 1.0 < gigahertz < 2.9


@each_gpu
def test_every_gpu_is_told_how_it_runs(gpu: GpuModel) -> None:
    spec = TargetSpec(gpu=Gpu(gpu.name, gpu.compute_capability))
    kernels = {kernels_of(release.wheels[0], spec) for release in KNOWLEDGE.tensorflow_releases}
    assert "unknown" not in kernels
    assert ("native" in kernels) == (3.5 <= float(gpu.compute_capability) < 10)


@each_gpu
def test_pci_ids_are_well_formed(gpu: GpuModel) -> None:
    assert all(re.fullmatch(r"[0-9a-f]{4}", each) for each in gpu.pci_ids)
    assert list(gpu.pci_ids) == sorted(set(gpu.pci_ids))
    assert not gpu.pci_ids or gpu.line != "Jetson"  # a part of its board's chip, on no PCI bus


def test_an_id_tells_the_compute_capability() -> None:
    ids = {each for gpu in KNOWLEDGE.gpus for each in gpu.pci_ids}
    assert len(ids) > 300
    shared = [each for each in ids if len({gpu.compute_capability for gpu in KNOWLEDGE.gpus_with_id(each)}) > 1]
    assert shared == []


def test_nearly_every_gpu_has_its_ids() -> None:
    without = [gpu.name for gpu in KNOWLEDGE.gpus if not gpu.pci_ids and gpu.line != "Jetson"]
    assert len(without) <= 10


@pytest.mark.parametrize(
    ("pci_id", "name"),
    [
        ("2204", "NVIDIA GeForce RTX 3090"), ("20B5", "NVIDIA A100 80GB PCIe"), ("1eb8", "Tesla T4"),
        ("1db1", "Tesla V100-SXM2-16GB"), ("2330", "NVIDIA H100 80GB HBM3"), ("1b06", "NVIDIA GeForce GTX 1080 Ti"),
        ("102d", "Tesla K80"), ("1e30", "Quadro RTX 8000 or Quadro RTX 6000"), ("ffff", ""), ("", ""),
    ],
)  # fmt: skip
def test_an_id_names_its_gpu(pci_id: str, name: str) -> None:
    assert KNOWLEDGE.name_for_id(pci_id) == name


@each_gpu
def test_the_line_is_that_of_the_name(gpu: GpuModel) -> None:
    assert ("GeForce" in gpu.name) == (gpu.line == "GeForce") or gpu.line == "TITAN"
    assert not gpu.name.startswith("Tesla") or gpu.line == "data centre"
    assert not gpu.name.startswith("Quadro") or gpu.line == "workstation"


@pytest.mark.parametrize("name", ["NVIDIA L4", "nvidia l4", "L4", "Tesla T4"])
def test_a_model_is_found_by_the_name_that_nvml_gives(name: str) -> None:
    assert KNOWLEDGE.gpu_named(name)


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GB200", "10.0"), ("NVIDIA B300 SXM6 AC", "10.3"), ("NVIDIA GB300", "10.3"), ("NVIDIA Thor", "11.0"),
        ("NVIDIA GH200 120GB", "9.0"), ("NVIDIA GH200 144G HBM3e", "9.0"), ("NVIDIA H20-3e", "9.0"),
        ("NVIDIA RTX PRO 3000 Blackwell Generation Laptop GPU", "12.0"), ("NVIDIA RTX 5880 Ada Generation", "8.9"),
        ("NVIDIA T1200 Laptop GPU", "7.5"), ("NVIDIA T4G", "7.5"), ("Quadro M2000M", "5.0"), ("Quadro K420", "3.0"),
        ("NVIDIA GeForce RTX 3050 A Laptop GPU", "8.9"),  # a chip of Ada under a name of the generation before
    ],
)  # fmt: skip
def test_names_that_drivers_printed_are_known(name: str, capability: str) -> None:
    model = KNOWLEDGE.gpu_named(name)
    assert model is not None
    assert model.compute_capability == capability


def test_a_name_that_is_not_whole_is_no_model() -> None:
    assert KNOWLEDGE.gpu_named("A100") is None
    assert KNOWLEDGE.gpu_named("") is None


def test_a_machine_that_is_sold_with_its_gpu_is_an_alias() -> None:
    model = KNOWLEDGE.gpu_called("DGX Spark")
    assert model is not None
    assert model.name == "NVIDIA GB10"
