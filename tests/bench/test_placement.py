"""What proves that work ran on a GPU: the operation that carries it, in the graph that ran."""

from __future__ import annotations

import pytest

from tfgpu_doctor.perf_tests.placement import Placement

PRODUCT = ("MatMul",)


def placed(*operations: tuple[str, str], results: tuple[str, ...] = ("GPU:0",)) -> Placement:
    return Placement(operations=list(operations), results=list(results))


def test_the_operation_that_carries_the_work_proves_it() -> None:
    assert placed(("_FusedMatMul", "GPU:0")).contradicts("GPU:0", PRODUCT) == ""
    assert placed(("MatMul", "GPU:0"), ("MapDataset", "CPU:0"), results=()).contradicts("GPU:0", PRODUCT) == ""


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ((("MatMul", "CPU:0"), ("Identity", "GPU:0")), "MatMul ran on CPU:0"),
        ((("MatMul", "CPU:0"), ("Relu", "GPU:0")), "MatMul ran on CPU:0"),
        ((("MatMul", "GPU:0"), ("MatMul", "CPU:0")), "MatMul ran on CPU:0"),
        ((("MatMul", "GPU:1"),), "MatMul ran on GPU:1"),
        ((("MatMul", ""),), "MatMul ran on an unknown device"),
        ((("Relu", "GPU:0"),), "no MatMul was observed there"),
        ((), "no MatMul was observed there"),
    ],
)
def test_what_does_not_prove_it(operations: tuple[tuple[str, str], ...], why: str) -> None:
    assert why in placed(*operations).contradicts("GPU:0", PRODUCT)


def test_every_gpu_that_shares_the_work_must_run_a_part_of_it() -> None:
    both = placed(("MatMul", "GPU:0"), ("MatMul", "GPU:1"), ("Add", "CPU:0"))
    assert both.contradicts("GPU:0", PRODUCT, also=("GPU:1",)) == ""
    one = placed(("MatMul", "GPU:0"), ("Relu", "GPU:1"))
    assert "on GPU:1, but no MatMul was observed there" in one.contradicts("GPU:0", PRODUCT, also=("GPU:1",))
    third = placed(("MatMul", "GPU:0"), ("MatMul", "GPU:1"), ("MatMul", "GPU:2"))
    assert "MatMul ran on GPU:2" in third.contradicts("GPU:0", PRODUCT, also=("GPU:1",))


def test_without_a_name_the_usual_carriers_count() -> None:
    assert placed(("Add", "GPU:0")).contradicts("GPU:0") == ""
    assert "Conv2D ran on CPU:0" in placed(("Add", "GPU:0"), ("Conv2D", "CPU:0")).contradicts("GPU:0")
    assert "no operation was observed there" in placed(("Add", "CPU:0"), ("Identity", "GPU:0")).contradicts("GPU:0")


def test_a_compiled_program_proves_it_by_its_result_if_nothing_else_ran() -> None:
    assert placed().contradicts("GPU:0", compiled=True) == ""
    copied = placed(("_Arg", "CPU:0"), ("Identity", "GPU:0"))
    assert "Identity ran beside the compiled program" in copied.contradicts("GPU:0", compiled=True)
    assert "its result is on CPU:0" in placed(results=("CPU:0",)).contradicts("GPU:0", compiled=True)
    assert "its result is on the host" in placed(results=()).contradicts("GPU:0", compiled=True)


def test_a_tensorflow_that_reports_nothing_proves_nothing() -> None:
    assert "nothing proves" in Placement(results=["GPU:0"], blind=True).contradicts("GPU:0", PRODUCT)
    assert Placement(results=["CPU:0"], blind=True).contradicts("CPU:0") == ""


def test_a_child_process_says_where_its_work_ran() -> None:
    assert Placement(results=["GPU:0"], told=True).contradicts("GPU:0") == ""
    assert "it ran on an unknown device" in Placement(told=True).contradicts("GPU:0")
    assert "it ran on CPU:0" in Placement(results=["GPU:0", "CPU:0"], told=True).contradicts("GPU:0")


def test_work_on_the_cpu_uses_no_gpu() -> None:
    assert placed(("Add", "CPU:0"), results=("CPU:0",)).contradicts("CPU:0") == ""
    assert "Add ran on a GPU" in placed(("Add", "GPU:0"), results=("CPU:0",)).contradicts("CPU:0")
