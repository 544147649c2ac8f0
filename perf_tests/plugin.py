"""What every benchmark here shares: TensorFlow, the GPU or the root cause of its absence, and who measured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

    from tfgpu_doctor.report import Report


@pytest.fixture(scope="session")
def tensorflow() -> ModuleType:
    """TensorFlow with memory growth on, so that a measurement never takes a whole GPU."""
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    module: ModuleType = pytest.importorskip("tensorflow", reason="TensorFlow is not installed in this Python")
    return module


@pytest.fixture(scope="session")
def diagnosis() -> Report:
    """What the doctor says of this machine, TensorFlow itself included."""
    import tfgpu_doctor

    return tfgpu_doctor.check()


@pytest.fixture(scope="session")
def gpu(tensorflow: Any, diagnosis: Report) -> str:
    """The name of the first GPU; where there is none, the test is skipped with the doctor's root cause."""
    if not tensorflow.config.list_physical_devices("GPU"):
        cause = diagnosis.causes[0] if diagnosis.causes else None
        pytest.skip(f"{cause.label}: {cause.title}" if cause else "TensorFlow lists no GPU")
    return "/GPU:0"


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add the GPU, the driver and TensorFlow to what pytest-benchmark stores: it knows nothing of them."""
    import msgspec

    import tfgpu_doctor

    report = tfgpu_doctor.check(quick=True)
    machine_info["tfgpu_doctor"] = {
        "machine": msgspec.to_builtins(report.machine),
        "target": msgspec.to_builtins(report.target),
    }
