"""The fix of a log's cause on the machine that the log shows: `[and-cuda]` is advised only where a wheel has CUDA."""

from __future__ import annotations

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.fixes import filled_fix

NEWEST = read_knowledge().tensorflow_releases[-1]


@pytest.mark.parametrize(
    ("os", "has_extra"),
    [
        ("Linux-6.8.0-x86_64-with-glibc2.39", True),
        ("Linux-6.8.0-1015-nvidia-64k-aarch64-with-glibc2.39", False),
        ("Ubuntu 22.04 on a Jetson AGX Orin", False),
        ("macOS-14.5-arm64-arm-64bit", False),
        ("", True),
    ],
)
def test_another_python_comes_with_cuda_where_a_wheel_has_it(os: str, has_extra: bool) -> None:
    fix = filled_fix("unsupported_python_version", Context({"python": "3.99", "os": os}), None, NEWEST)
    assert f"TensorFlow {NEWEST.version} has wheels for Python" in fix
    assert ("[and-cuda]" in fix) is has_extra
    assert ("Arm" in fix) is ("aarch64" in os or "Jetson" in os)
