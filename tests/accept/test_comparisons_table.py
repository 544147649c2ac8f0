"""The table of what the suites measure is that of the suites; what they write down: tests/bench/test_every_comparison.py."""

from __future__ import annotations

import collected_comparisons
from collected_comparisons import TABLE

from tfgpu_doctor.accept.vocabulary import comparisons_named, metrics_named


def test_the_table_is_up_to_date() -> None:
    assert TABLE.read_text("utf-8") == collected_comparisons.table()


def test_a_suite_stands_for_all_of_its_comparisons() -> None:
    assert set(comparisons_named("device_placement")) > set(comparisons_named("device_placement/gpu[matmul]"))
    assert comparisons_named("device_placement/gpu[matmul]") == (("device_placement", "gpu[matmul]"),)
    assert comparisons_named("numerics") == ()
    assert ("device_placement", "matmul 8192 in float16") in metrics_named("device_placement")
