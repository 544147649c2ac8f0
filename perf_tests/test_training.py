"""Train a small CNN and a small transformer, and compare the GPU with the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.networks import CARRIERS, CLASSES, NETWORKS, Training
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.runner import Variant

BATCH, LARGE_BATCH = 64, 1024  # the latter is enough work for a GPU
STEPS = 40
COMPARED, AGREE = (
    5,
    0.02,
)  # steps before rounding errors grow; the relative difference allowed between losses
_KINDS = pytest.mark.parametrize("kind", list(NETWORKS))


@pytest.mark.priority(2)
@_KINDS
def test_step(compare: Callable[..., None], tensorflow: Any, gpu: str, kind: str) -> None:
    """Compare a training step on the GPU with the CPU."""
    due = Training(tensorflow, kind, "CPU:0", LARGE_BATCH).losses(1)[0]

    def side(device: str) -> Variant:
        training = Training(tensorflow, kind, device, LARGE_BATCH)

        def verify(loss: Any) -> None:
            assert np.isclose(float(loss), due, rtol=AGREE), f"the loss is {float(loss)}, but {due} on the CPU"

        return Variant(f"{kind} on {device}", training, verify, device, CARRIERS[kind])

    compare(side(gpu), side("CPU:0"))


@pytest.mark.priority(4, needs_s=8)
@_KINDS
def test_learning(
    share_s: float, tensorflow: Any, gpus: tuple[str, ...], metric: Callable[..., None], kind: str
) -> None:
    """Check that the loss decreases on every device and is equal in the first steps; measure time per step and samples/s."""
    runs = {}
    for device in ("CPU:0", *gpus):
        prove(Training(tensorflow, kind, device, BATCH), device, CARRIERS[kind])
        training = Training(tensorflow, kind, device, BATCH)
        first = training.losses(1)  # traces
        started = time.perf_counter()
        runs[device] = first + training.losses(STEPS - 1)
        step_s = (time.perf_counter() - started) / (STEPS - 1)
        metric(f"step of the {kind}", 1e3 * step_s, "ms", device=device, about=f"a batch of {BATCH}")
        metric(f"training of the {kind}", BATCH / step_s, "samples/s", device=device, about=f"a batch of {BATCH}")
        metric(
            f"loss of the {kind}",
            runs[device][-1],
            "",
            device=device,
            about=f"after {STEPS} steps, from {first[0]:.3g}",
        )
    for device, losses in runs.items():
        assert np.all(np.isfinite(losses))
        assert losses[-1] < 0.7 * np.log(CLASSES), (
            f"the training on {device} does not converge: the final loss is {losses[-1]:.3g}"
        )
        assert np.allclose(losses[:COMPARED], runs["CPU:0"][:COMPARED], rtol=AGREE), (
            f"the first losses on {device} differ from those on the CPU"
        )
