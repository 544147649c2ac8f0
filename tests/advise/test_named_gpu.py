"""The GPU that --gpu means, in the forms in which people and tools write it."""

from __future__ import annotations

import pytest

from tfgpu_doctor.advise.named_gpu import find
from tfgpu_doctor.knowledge import read_knowledge

KNOWLEDGE = read_knowledge()


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("8.6", "8.6"),
        ("gtx1080ti", "6.1"),
        ("NVIDIA RTX PRO 1000 Blackwell Generation Laptop GPU", "12.0"),  # of a series, not in the table
        ("rtx pro 6000 blackwell", "12.0"),  # several editions of one chip
        ("GeForce GTX 560 Ti", "2.1"),
        ("GeForce GTX 480", "2.0"),
        ("GeForce MX130", "5.0"),
        ("GeForce 920MX", "5.0"),
        ("GT 730", "3.5"),
        ("GeForce 840M", "5.0"),
        ("GTX 770M", "3.0"),
        ("GTX 1650 mobile", "7.5"),
        ("RTX 3090 24GB", "8.6"),
        ("2x RTX 3090", "8.6"),
        ("GeForce GTX 1080 eGPU", "6.1"),
        ("NVIDIA GeForce GTX 1080/PCIe/SSE2", "6.1"),  # as OpenGL names it
        ("NVIDIA Corporation GP107 [GeForce GTX 1050 Ti]", "6.1"),  # as lspci names it
        ("NVIDIA Corporation AD107M [GeForce RTX 4060 Max-Q / Mobile]", "8.9"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0"),
        ("GRID V100D-8Q", "7.0"),
        ("GRID V100DX-32Q", "7.0"),
        ("GRID T4-16Q", "7.5"),
        ("GRID RTX6000-12Q", "7.5"),
        ("NVIDIA RTXA6000-48Q", "8.6"),
        ("NVIDIA RTX6000-Ada-48Q", "8.9"),
        ("NVIDIA A100-1-5C", "8.0"),
        ("NVIDIA A40-48C", "8.6"),
        ("NVIDIA L40S-12Q", "8.9"),
        ("NVIDIA H100XM-80C", "9.0"),
        ("Intel i7 with RTX 3090", "8.6"),
        ("AMD Ryzen laptop, RTX 3060", "8.6"),
        ("AMD EPYC with A100", "8.0"),
        ("GeForce 840M, Intel HD", "5.0"),
        ("M4", "5.2"),  # of the line Tesla
        ("DGX Spark", "12.1"),
    ],
)
def test_a_gpu_is_known_however_it_is_written(name: str, capability: str) -> None:
    gpu, board = find(name, KNOWLEDGE)
    assert (gpu.compute_capability, board) == (capability, "")


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Jetson Orin NX 8GB", "8.7"),
        ("Orin", "8.7"),
        ("Jetson Xavier NX", "7.2"),
        ("jetson nano", "5.3"),
        ("Orin NX", "8.7"),
        ("Orin Nano", "8.7"),
        ("Xavier NX", "7.2"),
        ("DRIVE Orin", "8.7"),
    ],
)
def test_a_jetson_is_a_board(name: str, capability: str) -> None:
    gpu, board = find(name, KNOWLEDGE)
    assert gpu.compute_capability == capability
    assert "jetson" in board.lower() or board == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("voodoo 2", "nvidia-smi --query-gpu=compute_cap"),
        ("H900", "similar names: NVIDIA H800"),
        ("rtx 6000", "matches several GPUs"),  # of Turing, Ada and Blackwell
        ("rtx", "https://developer.nvidia.com/cuda-gpus"),
        ("GTX 1080 and Tesla K80", "give one of them"),
        ("Radeon RX 6600", "is not a GPU of NVIDIA"),
        ("AMD Ryzen 7 w/ Radeon 780M Graphics", "is not a GPU of NVIDIA"),  # 780M is a number of NVIDIA's too
        ("Apple M1", "--os macos alone"),
        ("Apple M4", "--os macos alone"),
        ("M1", "--os macos alone"),
        ("m2 pro", "--os macos alone"),
        ("M4 Max", "--os macos alone"),
        ("MacBook Pro M3", "--os macos alone"),
        ("nvidia", "a model is missing, as in 'RTX 4090'; instead"),
        ("GeForce", "a model is missing, as in 'RTX 4090'; instead"),
        ("GRID X9-8Q", "is not a GPU that the doctor knows"),
        ("", "is not a GPU"),
    ],
)
def test_what_is_not_one_kind_of_gpu_is_refused_with_a_next_step(
    name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        find(name, KNOWLEDGE)
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x" * 100_000, "Radeon " * 20_000, "GTX 1080 and Tesla K80 " * 5_000])
def test_a_long_text_is_not_printed_back(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        find(name, KNOWLEDGE)
    err = capsys.readouterr().err
    assert f"{name.strip()[:80]}…" in err
    assert len(err) < 1000


def test_a_gpu_in_a_long_text_is_found_under_a_short_name() -> None:
    gpu, board = find("RTX 3090 " * 10_000, KNOWLEDGE)
    assert (gpu.compute_capability, len(gpu.name), board) == ("8.6", 81, "")
