"""A plugin for the perf suites: sizes that a processor computes at once, and as few rounds as a verdict needs.

It changes only how much is computed, and for how long, never what.
"""

from __future__ import annotations

from typing import Any

import pytest

from tfgpu_doctor.perf_tests import runner, sizes
from tfgpu_doctor.perf_tests.budget import Budget
from tfgpu_doctor.perf_tests.published import CNN, TRANSFORMER, Sizes

SHARE_S = 0.2
_SIZES: dict[str, dict[str, Any]] = {
    "test_compression": {"SPEED": {"CPU": (64, (32, 64, 64)), "GPU": (64, (32, 64, 64))}},
    "test_device_placement": {"PEAK_SIDE": 256, "COPIED": 1 << 16, "CALLS": 20, "TRIPS": 4, "SUSTAINED_S": 0.05},
    "test_inference": {"HALF_BATCH": 64, "VERIFIED": 64, "SIZES": (1, 8), "CROSSOVER_BATCHES": (1, 8)},
    "test_mirrored_strategy": {
        "SCALED_BATCH": 16, "MOST_BATCH": 32, "COMPARED": (16, 64), "WIDTHS": {"CPU": 64, "GPU": 64}, "SIZES": {"CPU": (1 << 12,), "GPU": (1 << 12, 1 << 15)},
    },
    "test_mixed_precision": {
        "SHAPES": {"dense": (64, 64), "convolution": (2, 8, 8, 16), "attention": (2, 16, 32)}, "HEADS": 2,
    },
    "test_model_architecture": {"BATCHES": {"CPU": (1, 4), "GPU": (1, 4)}, "FIRST_BATCH": 4, "MOST_BATCH": 40},
    "test_pictures": {"PICTURES": 8, "ON_DEVICE": 16, "WIDTH": 8},
    "test_pipeline": {"PICTURES": 8},
    "test_profiler": {"SIDE": 128},
    "test_training": {
        "LARGE_BATCH": 64, "SIZES": Sizes(32, 10, blocks=4, layers=2, width=32, heads=2, length=16, words=100),
        "BATCHES": {CNN: (4,), TRANSFORMER: (4,)}, "FEWEST_STEPS": 2, "WARM_UP": 1,
        "STORED": 8 << 20, "PICTURES": 4, "PICTURE_SIDE": 64, "INPUT_SIDE": 32, "INPUT_BATCH": 4,
    },
}  # fmt: skip


def pytest_configure() -> None:
    """A comparison stops after its least number of rounds."""
    Budget.share_s = lambda self, needs_s=0.0, fixed_s=None: SHARE_S  # type: ignore[method-assign]
    runner.WARM_UP_S = 0.0
    sizes.BUSY_S = 0.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Change the constants of each suite."""
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        name = module.__name__.rpartition(".")[2]
        for constant, value in _SIZES.get(name, {}).items():
            assert hasattr(module, constant), f"{name} has no {constant}"
            setattr(module, constant, value)
        if name == "test_device_placement":
            module.LARGE = {kind: {1: sizes[1] // 8} for kind, sizes in module.LARGE.items()}
            module.SIZES = {kind: sizes[:2] for kind, sizes in module.SIZES.items()}
        if name == "test_model_architecture":
            module.SHAPES = dict.fromkeys(module.SHAPES, module.SHAPES["CPU"])
            module.NORMALISED = dict.fromkeys(module.NORMALISED, module.NORMALISED["CPU"])
