"""The table of what the suites measure is that of the suites, and what they write down is called as it says."""

from __future__ import annotations

import collected_comparisons
import msgspec
import pytest
from collected_comparisons import TABLE
from installed import skip_without_scipy, skip_without_tensorflow

from tfgpu_doctor.accept.vocabulary import comparisons_named, metrics_named
from tfgpu_doctor.bench.run import Order, run_suites
from tfgpu_doctor.perf_tests.budget import Passes


def test_the_table_is_up_to_date() -> None:
    assert TABLE.read_text("utf-8") == collected_comparisons.table()


def test_a_suite_stands_for_all_of_its_comparisons() -> None:
    assert set(comparisons_named("device_placement")) > set(comparisons_named("device_placement/gpu[matmul]"))
    assert comparisons_named("device_placement/gpu[matmul]") == (("device_placement", "gpu[matmul]"),)
    assert comparisons_named("numerics") == ()
    assert ("device_placement", "matmul 8192 in float16") in metrics_named("device_placement")


@pytest.mark.tensorflow
@pytest.mark.slow
def test_what_a_real_run_writes_down_is_in_the_table(tmp_path_factory: pytest.TempPathFactory) -> None:
    skip_without_tensorflow()
    skip_without_scipy()
    journal = tmp_path_factory.mktemp("run") / "journal"
    run = run_suites(Order(journal=str(journal), suites=("pipeline", "device_placement"), passes=Passes(3, 0.2)))
    held = [(comparison.suite, comparison.name) for comparison in run.comparisons]
    assert held, msgspec.json.encode(run)
    assert [each for each in held if each not in comparisons_named(each[0])] == []
    limited = [(each.suite, each.name) for each in run.metrics if each.limit and each.suite == "device_placement"]
    assert [each for each in limited if each not in metrics_named(each[0])] == []
