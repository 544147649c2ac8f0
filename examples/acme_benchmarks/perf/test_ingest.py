"""What ACME's tuning of its input pipeline is worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import acme_ingest
import numpy as np
import pytest

from tfgpu_doctor.perf_tests.runner import Variant

RECORDS = 2000


@pytest.mark.priority(1)
def test_parse(compare: Callable[..., None], tensorflow: Any) -> None:
    """Compare parsing in batches with parsing each record by itself."""
    records = acme_ingest.lines(RECORDS)
    due = np.array([[float(number) for number in line.split(",")] for line in records])

    def variant(name: str, make: Callable[[Any, list[str]], Any]) -> Variant:
        dataset = make(tensorflow, records)

        def verify(batch: Any) -> None:
            assert np.array_equal(batch, due)

        return Variant(name, lambda: next(dataset.as_numpy_iterator()), verify)

    compare(variant("in batches", acme_ingest.in_batches), variant("one by one", acme_ingest.one_by_one), at_least=2.0)
