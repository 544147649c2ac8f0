"""The trainings with published speeds: they are the networks that they are called, they learn, and they fit small GPUs."""

from __future__ import annotations

import importlib
import pathlib
from typing import Any

import pytest
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_run import run_on_stand_in

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.references import Conditions, compared

skip_without_tensorflow()
skip_without_scipy()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

from tfgpu_doctor.perf_tests.published import CNN, TRANSFORMER, PublishedTraining, Sizes, bert_stack, fitting, resnet  # noqa: E402
from tfgpu_doctor.perf_tests.storage import BLOCK, Cached, read_past_cache, write_file  # noqa: E402

TINY = Sizes(32, 10, blocks=4, layers=2, width=32, heads=2, length=16, words=100)


@pytest.fixture(scope="module")
def tf() -> Any:
    return importlib.import_module("tensorflow")


def test_resnet_50_has_its_parameters_and_the_strides_of_v1_5(tf: Any) -> None:
    model = resnet(tf, Sizes())
    assert model.count_params() == 25_610_152  # 25,557,032 to train, and the running means and variances
    assert sum(int(tf.size(each)) for each in model.trainable_variables) == 25_557_032
    strided = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.Conv2D) and layer.strides == (2, 2)]
    assert sorted({layer.kernel_size for layer in strided}) == [(1, 1), (3, 3), (7, 7)]
    assert sum(layer.kernel_size == (3, 3) for layer in strided) == 3
    assert sum(layer.kernel_size == (1, 1) for layer in strided) == 3  # those beside the blocks


def test_a_layer_of_bert_base_has_its_parameters(tf: Any) -> None:
    count = [sum(int(tf.size(each)) for each in bert_stack(tf, Sizes(layers=n)).trainable_variables) for n in (1, 2)]
    assert count[1] - count[0] == 7_087_872


@pytest.mark.parametrize("name", [CNN, TRANSFORMER])
@pytest.mark.parametrize(("policy", "xla"), [("float32", False), ("mixed_float16", True)])
def test_it_learns_one_batch(tf: Any, name: str, policy: str, xla: bool) -> None:
    training = PublishedTraining(tf, name, "CPU:0", 8, TINY, policy=policy, xla=xla)
    losses = [float(training()) for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]
    assert tf.keras.mixed_precision.global_policy().name == "float32"


def test_the_largest_batch_that_fits_is_taken(tf: Any) -> None:
    tried: list[int] = []

    def build(batch: int) -> Any:
        tried.append(batch)
        if batch > 4:
            raise tf.errors.ResourceExhaustedError(None, None, "no memory")
        return PublishedTraining(tf, CNN, "CPU:0", batch, TINY, policy="float32", xla=False)

    assert fitting(tf, (16, 8, 4, 2), build).batch == 4
    assert tried == [16, 8, 4]
    with pytest.raises(tf.errors.ResourceExhaustedError):
        fitting(tf, (16, 8), build)


def test_the_suite_measures_both_on_a_gpu(tmp_path: pathlib.Path) -> None:
    bench = run_on_stand_in(tmp_path, 1, ["training"], only="test_published")
    assert not bench.failed
    assert not bench.problems
    found = {metric.name: metric for metric in bench.metrics}
    assert set(found) == {CNN, TRANSFORMER}
    for metric in found.values():
        assert (metric.unit, metric.device) == ("samples/s", "GPU:0")
        assert metric.value > 0
        assert "batch 4, mixed_float16, XLA, generated data" in metric.about
    assert "no reference for NVIDIA A10" in found[CNN].about


def test_the_suite_measures_what_a_training_reads(tmp_path: pathlib.Path) -> None:
    bench = run_on_stand_in(tmp_path, 1, ["training"], only="test_storage or test_input")
    assert not bench.failed
    assert not bench.problems
    found = {metric.name: metric for metric in bench.metrics}
    skipped = {test.rpartition("::")[2]: why for test, why in bench.skipped.items()}
    assert found["input of pictures"].value > 0
    assert "storage" in found or "cannot be read past its cache" in skipped["test_storage"]


def test_a_file_is_read_past_the_cache(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "stored"
    write_file(file, 2 * BLOCK)
    assert file.stat().st_size == 2 * BLOCK
    try:
        read, took_s = read_past_cache(file)
    except Cached as error:
        pytest.skip(f"the folder for temporary files cannot be read past its cache: {error}")
    assert read == 2 * BLOCK
    assert took_s > 0


def test_a_share_of_a_published_speed_is_said_where_every_key_is_equal() -> None:
    knowledge, what = read_knowledge(), "training of ResNet-50 v1.5"
    (row,) = [
        row
        for row in knowledge.references
        if (row.model, row.measurement, row.context.gpus) == ("NVIDIA A100-SXM4-40GB", what, 1)
        and row.context.precision == "mixed_float16"
    ]
    assert compared(knowledge, row.model, what, 0.61 * row.value, row.context).startswith(
        "61% of what was published for"
    )
    ours = Conditions(precision="mixed_float16", batch=256, xla=True, data="synthetic")
    said = compared(knowledge, row.model, what, 1400.0, ours)
    assert said.startswith(
        "the nearest row is 2,375 samples/s, training of ResNet-50 v1.5 in mixed_float16, batch 256, with XLA"
    )
    assert said.endswith("which is not the same")
    assert "%" not in said
