"""From 2.22 on TensorFlow names the libraries again that it cannot open, and also where pip has installed none of them."""

from __future__ import annotations

import io

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Context, Scanner, classify

NO_CUDNN = (  # TensorFlow expects it, it says
    "W0000 00:00:1795713679.037968   23321 cuda_executor.cc:1710] Failed to determine cuDNN version (Note that this is expected "
    "if the application doesn't link the cuDNN plugin): INTERNAL: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"
)
END = (
    "W0000 00:00:1795713679.042532   23179 gpu_device.cc:{line}] Cannot dlopen some GPU libraries. Please make sure the missing "
    "libraries mentioned above are installed properly if you would like to use GPU. Skipping registering GPU devices..."
)
ALL = [
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcufft.so.11",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libcudnn.so.9",
]


def log_of(*lost: str, line: int) -> str:
    named = (
        f"W0000 00:00:1795713679.042519   23179 dlopen_checker.cc:38] Could not load dynamic library '{each}'; dlerror: {each}: "
        "cannot open shared object file: No such file or directory; LD_LIBRARY_PATH: /opt/lib"
        for each in lost
    )
    return "\n".join([NO_CUDNN, *named, END.format(line=line)])


def causes(text: str) -> list[str]:
    knowledge = read_knowledge()
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO(text.encode()))
    return [
        each.label
        for each in classify(scanner.found, Context({}), knowledge, scanner.lines, scanner.kept.texts()).causes
    ]


@pytest.mark.parametrize(
    "line", [2359, 2361, 2400], ids=["2.22.0rc0", "2.23.0.dev20261026", "a release that is not known"]
)
@pytest.mark.parametrize("first", [("libcudart.so.12",), ()], ids=["libcudart too", "linked statically (2.23)"])
def test_without_any_of_them_pip_installed_none(first: tuple[str, ...], line: int) -> None:
    found = causes(log_of(*first, *ALL, line=line))
    assert found[0] == "pip_without_and_cuda_extra"
    assert "cudnn_init_failed_memory" not in found
    assert "cuda_toolkit_wrong_major" not in found


@pytest.mark.parametrize("line", [2359, 2400])
@pytest.mark.parametrize("lost", [("libcudnn.so.9",), ("libcusolver.so.11", "libcusparse.so.12")])
def test_without_some_of_them_those_are_what_is_missing(lost: tuple[str, ...], line: int) -> None:
    found = causes(log_of(*lost, line=line))
    assert found[0] == "gpu_libs_not_found"
    assert "pip_without_and_cuda_extra" not in found
    assert "cudnn_init_failed_memory" not in found
