"""TensorRT inside TensorFlow: why it cannot be used, and what is compiled where it can."""

from __future__ import annotations

import importlib
import pathlib
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tfgpu_doctor.perf_tests.tf_trt import compiled_by_tensorrt, why_no_tensorrt

ASKS = "tensorflow.compiler.tf2tensorrt._pywrap_py_utils"
CONVERT = "tensorflow.python.compiler.tensorrt.trt_convert"
TF: Any = types.SimpleNamespace(__version__="2.16.2")
NONE, EIGHT = (0, 0, 0), (8, 6, 1)


def built(monkeypatch: pytest.MonkeyPatch, linked: tuple[int, ...], loaded: tuple[int, ...], *, works: bool) -> None:
    def told() -> tuple[int, ...]:
        assert works, "without its libraries this question ends the process"
        return loaded

    module = types.SimpleNamespace(
        is_tensorrt_enabled=lambda: works,
        get_linked_tensorrt_version=lambda: linked,
        get_loaded_tensorrt_version=told,
    )
    for name in ("tensorflow", "tensorflow.compiler", "tensorflow.compiler.tf2tensorrt"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, ASKS, module)


def test_a_release_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, ASKS, None)
    assert why_no_tensorrt(TF) == "TensorFlow 2.16.2 has no TensorRT: CUDA builds up to 2.17 have it"


@pytest.mark.parametrize(
    ("linked", "loaded", "works", "why"),
    [
        (NONE, NONE, False, "this build of TensorFlow 2.16.2 has no TensorRT"),
        (EIGHT, NONE, False, "TensorRT's libraries (libnvinfer, version 8.6.1) cannot be loaded: install them"),
        (EIGHT, (10, 0, 1), True, "TensorFlow 2.16.2 was built for TensorRT 8.6.1, but version 10.0.1 is installed"),
        (EIGHT, (8, 5, 3), True, "TensorFlow 2.16.2 was built for TensorRT 8.6.1, but version 8.5.3 is installed"),
        (EIGHT, EIGHT, True, ""),
        (EIGHT, (8, 6, 2), True, ""),
    ],
)
def test_the_reason_is_the_true_one(
    monkeypatch: pytest.MonkeyPatch, linked: tuple[int, ...], loaded: tuple[int, ...], works: bool, why: str
) -> None:
    built(monkeypatch, linked, loaded, works=works)
    assert why_no_tensorrt(TF) == why


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_compiled_network_gets_its_inputs_and_gives_its_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Where there is no TensorRT: the conversion leaves the SavedModel as it is."""
    tf: Any = pytest.importorskip("tensorflow")
    engines: list[Any] = []

    class Converter:
        def __init__(self, input_saved_model_dir: str, precision_mode: str) -> None:
            assert precision_mode == "FP16"
            self._folder = input_saved_model_dir

        def convert(self) -> None:
            pass

        def build(self, input_fn: Callable[[], Iterator[Any]]) -> None:
            engines.extend(input_fn())

        def save(self, folder: str) -> None:
            shutil.copytree(self._folder, folder)

    monkeypatch.setitem(sys.modules, CONVERT, types.SimpleNamespace(TrtGraphConverterV2=Converter))
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2)])
    inputs = tf.random.stateless_normal((4, 3), (1, 2))
    call = compiled_by_tensorrt(tf, model, inputs, "CPU:0", tmp_path)
    assert len(engines) == 1
    tf.debugging.assert_near(call(inputs), model(inputs))


def test_this_tensorflow_has_none() -> None:
    """The newest has none; where a test runs beside an old one, it has, or says why not."""
    try:
        tf = importlib.import_module("tensorflow")
    except ImportError:
        pytest.skip("there is no TensorFlow")
    if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 18):
        assert "TensorRT" in why_no_tensorrt(tf)
