"""Which signal an exit code tells."""

from __future__ import annotations

import pytest

from tfgpu_doctor.collect.workers.ray_task import signal_of
from tfgpu_doctor.host.signal_names import name_of, number_in


@pytest.mark.parametrize(
    ("code", "name"),
    [(-9, "SIGKILL"), (137, "SIGKILL"), (143, "SIGTERM"), (0, ""), (1, ""), (128, ""), (255, ""), (-99, "")],
)
def test_the_signal_that_a_code_tells(code: int, name: str) -> None:
    assert name_of(number_in(code)) == name
    assert signal_of(code) == number_in(code)  # on nodes without the doctor
