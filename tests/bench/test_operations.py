"""The bounds of rounding: float32 keeps within them, one damaged element does not."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tfgpu_doctor.perf_tests.operations import TF32_UNIT, Operation, operations  # noqa: E402 - it needs NumPy

OPERATIONS = operations()
IDS = [operation.name for operation in OPERATIONS]


@pytest.mark.parametrize("operation", OPERATIONS, ids=IDS)
def test_the_nearest_float32_is_within_the_bound(operation: Operation) -> None:
    assert operation.error(operation.exact.astype(np.float32)) < 1


@pytest.mark.parametrize("operation", OPERATIONS, ids=IDS)
def test_one_damaged_element_is_beyond_it(operation: Operation) -> None:
    answer = operation.exact.astype(np.float32)
    place = np.unravel_index(np.argmax(operation.scale), operation.scale.shape)
    answer[place] += np.float32(1e-3 * operation.scale[place])
    assert operation.error(answer) > 1


def test_tf32_has_a_bound_of_its_own() -> None:
    product = OPERATIONS[IDS.index("matmul")]
    shorter = [each.view(np.uint32) & np.uint32(0xFFFFE000) for each in product.inputs]  # 10 bits of mantissa
    left, right = (each.view(np.float32).astype(np.float64) for each in shorter)
    answer = (left @ right).astype(np.float32)
    assert product.error(answer) > 1
    assert product.error(answer, TF32_UNIT) < 1
