"""The report on a log as text."""

from __future__ import annotations

import pytest

from tfgpu_doctor.log.page import render_log
from tfgpu_doctor.log.report import Line, LogReport, Noise
from tfgpu_doctor.log.signatures import MOST_COUNTED


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (0, "No cause found in 0 lines. They contain no"), (1, "No cause found in 1 line. It contains no"),
        (2000, "No cause found in 2,000 lines. They contain no"),
    ],
)  # fmt: skip
def test_one_line_is_one_line(lines: int, said: str) -> None:
    page = render_log(LogReport(lines=lines, context={}, extracted={}, causes=(), noise=()))
    assert page.startswith(said)


@pytest.mark.parametrize(
    ("count", "times"),
    [
        (1, ""),
        (2, "  (and 1 more)"),
        (3, "  (and 2 more)"),
        (MOST_COUNTED - 1, "  (and 198 more)"),
        (MOST_COUNTED, "  (and at least 199 more)"),
        (5000, "  (and at least 4,999 more)"),
    ],
)
def test_it_is_said_how_often_a_harmless_line_is_there(count: int, times: str) -> None:
    noise = Noise("noise_tensorrt", count, Line(7, "TF-TRT Warning"))
    page = render_log(LogReport(lines=9, context={}, extracted={}, causes=(), noise=(noise,)))
    assert page.endswith(f"\n\nHarmless by themselves:\n  line 7: TF-TRT Warning{times}\n")
