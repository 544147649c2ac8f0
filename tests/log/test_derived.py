"""Signatures that follow from several lines: a GPU that is newer than the CUDA that was loaded."""

from __future__ import annotations

import io

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import derive
from tfgpu_doctor.log.signatures import Hit, Scanner

KNOWLEDGE = read_knowledge()
GPU = "pciBusID: 0000:01:00.0 name: GPU computeCapability: {}"


def newer_than_cuda(*lines: str) -> list[Hit]:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO("\n".join(lines).encode()))
    return derive(scanner.found, Context({}), KNOWLEDGE).get("gpu_newer_than_opened_cuda", [])


@pytest.mark.parametrize(
    ("library", "capability", "needs"),
    [
        ("libcudart.so.10.1", "8.6", "CUDA 10.1 is loaded; compute capability 8.6 needs CUDA 11.0 or newer"),
        ("cudart64_101.dll", "8.6", "CUDA 10.1 is loaded; compute capability 8.6 needs CUDA 11.0 or newer"),
        ("cudart64_90.dll", "8.0", "CUDA 9.0 is loaded; compute capability 8.0 needs CUDA 11.0 or newer"),
        ("cudart64_12.dll", "12.0", "CUDA 12 is loaded; compute capability 12.0 needs CUDA 12.8 or newer"),
    ],
)
def test_a_gpu_newer_than_the_cuda_that_was_loaded_is_told(library: str, capability: str, needs: str) -> None:
    gpu = GPU.format(capability)
    told = newer_than_cuda(f"Successfully opened dynamic library {library}", gpu)
    assert told == [Hit(2, f"{gpu} ({needs})", {})]


@pytest.mark.parametrize(
    ("library", "capability"),
    [
        ("libcudart.so.11.0", "8.6"),  # the first that has it
        ("cudart64_110.dll", "8.6"),
        ("libcudart.so.12.8", "8.6"),
        ("libcudart.so.10.1", "3.5"),  # older than all of the table
        ("libcudart.so.10.1", "99.0"),  # newer than all of the table
        ("libcudnn.so.7", "8.6"),  # says nothing about CUDA
    ],
)
def test_any_other_gpu_is_not(library: str, capability: str) -> None:
    assert newer_than_cuda(f"Successfully opened dynamic library {library}", GPU.format(capability)) == []
