"""The table of PCI device ids by generation, and that it agrees with the table of GPUs."""

from __future__ import annotations

import itertools

import pytest
from every import every

from tfgpu_doctor.knowledge import read_knowledge, version

KNOWLEDGE = read_knowledge()
ROWS = KNOWLEDGE._pci_generations
NUMBERED = [(gpu, pci_id) for gpu in KNOWLEDGE.gpus for pci_id in gpu.pci_ids]


def test_ranges_are_in_order_and_do_not_overlap() -> None:
    assert all(row.first <= row.last for row in ROWS)
    assert all(one.last < other.first for one, other in itertools.pairwise(ROWS))


@pytest.mark.parametrize(
    ("pci_id", "generation", "modules"),
    [("2204", "Ampere", "either"), ("20b2", "Ampere", "either"), ("1b80", "Pascal", "proprietary"), ("1db4", "Volta", "proprietary"),
     ("1E04", "Turing", "either"), ("2330", "Hopper", "either"), ("2342", "Grace Hopper", "open"), ("2684", "Ada Lovelace", "either"),
     ("2B85", "Blackwell", "open"), ("2901", "Blackwell", "open"), ("102d", "Kepler", "proprietary")],
)  # fmt: skip
def test_the_generation_of_an_id(pci_id: str, generation: str, modules: str) -> None:
    row = KNOWLEDGE.pci_generation(pci_id)
    assert row
    assert (row.generation, row.modules) == (generation, modules)


@pytest.mark.parametrize("pci_id", ["", "0000", "1040", "22a3", "3000", "ffff", "none"])
def test_an_id_outside_of_the_table_has_none(pci_id: str) -> None:
    assert KNOWLEDGE.pci_generation(pci_id) is None


@every("gpu, pci_id", NUMBERED, key=lambda gpu, pci_id: f"{gpu.name} {pci_id}")
def test_the_table_of_gpus_says_the_same(gpu: object, pci_id: str) -> None:
    row = KNOWLEDGE.pci_generation(pci_id)
    assert row
    assert gpu.architecture in row.generation  # type: ignore[attr-defined]


def test_what_only_the_proprietary_modules_drive_is_older_than_turing() -> None:
    old = {row.generation for row in ROWS if row.modules == "proprietary"}
    for gpu, pci_id in NUMBERED:
        row = KNOWLEDGE.pci_generation(pci_id)
        assert row
        assert (row.generation in old) == (version(gpu.compute_capability) < version("7.5"))


def test_the_last_branch_of_each_old_generation_is_known() -> None:
    for row in ROWS:
        known = f"last_driver_of_{row.generation.lower()}" in KNOWLEDGE.boundaries
        assert known == (row.modules == "proprietary")
