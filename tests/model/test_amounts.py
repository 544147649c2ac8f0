"""A count of one takes no plural."""

from __future__ import annotations

import pytest

from tfgpu_doctor.model.amounts import amount


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "GPU", "1 GPU"), (0, "GPU", "0 GPUs"), (8, "GPU", "8 GPUs"), (1200, "node", "1,200 nodes"),
        (2, "other process", "2 other processes"), (1, "other process", "1 other process"), (6, "NVSwitch", "6 NVSwitches"),
        (2, "library", "2 libraries"), (3, "day", "3 days"), (1.0, "CPU", "1 CPU"), (0.5, "CPU", "0.5 CPUs"), (7.5, "CPU", "7.5 CPUs"),
    ],
)  # fmt: skip
def test_one_of_a_thing_and_several(count: float, noun: str, words: str) -> None:
    assert amount(count, noun) == words
