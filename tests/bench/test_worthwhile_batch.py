"""The batch with which all GPUs are compared with one: a step computes for longer than the replicas cost beside it."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
from tfgpu_doctor.perf_tests.test_mirrored_strategy import MOST_BATCH, SCALED_BATCH, WORTH, worthwhile_batch


def chosen(compute_ms: float, launch_ms: float, all_reduce_ms: float, most: int = MOST_BATCH) -> tuple[int, float]:
    """The batch on such GPUs, and the weak scaling of each GPU with it. `compute_ms`: of a step with the first batch."""

    def alone_s(batch: int) -> float:
        return max(compute_ms * batch / SCALED_BATCH, launch_ms) / 1e3

    def together_s(batch: int) -> float:
        return alone_s(batch) + all_reduce_ms / 1e3

    batch = worthwhile_batch(alone_s, together_s, SCALED_BATCH, most)
    return batch, alone_s(batch) / together_s(batch)


@pytest.mark.parametrize(
    ("compute_ms", "launch_ms", "all_reduce_ms"),
    [
        pytest.param(0.11, 0.0, 0.38, id="H100, NVLink"),
        pytest.param(0.11, 0.4, 0.38, id="launches take longer than the products"),
        pytest.param(3.5, 0.0, 0.5, id="V100, NVLink"),
    ],
)
def test_healthy_gpus_scale(compute_ms: float, launch_ms: float, all_reduce_ms: float) -> None:
    batch, scaling = chosen(compute_ms, launch_ms, all_reduce_ms)
    assert scaling >= WORTH / (WORTH + 1)
    assert batch == SCALED_BATCH or chosen(compute_ms, launch_ms, all_reduce_ms, batch // 2)[1] < scaling


def test_no_more_than_fits() -> None:
    assert chosen(0.11, 0.0, 10.0)[0] == MOST_BATCH  # a link over PCIe
    assert chosen(0.11, 0.0, 0.38, most=3000)[0] == 2048


def test_nothing_beside_the_computing() -> None:
    assert chosen(0.11, 0.0, -0.01)[0] == SCALED_BATCH
