"""TensorRT inside TensorFlow (TF-TRT), which CUDA builds up to 2.17 have."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

_ASKS = "tensorflow.compiler.tf2tensorrt._pywrap_py_utils"  # what trt_convert itself asks


def why_no_tensorrt(tf: Any) -> str:
    """Return why TensorFlow cannot use TensorRT here; empty if it can."""
    version = tf.__version__
    try:
        asks = importlib.import_module(_ASKS)
    except ImportError:
        return f"TensorFlow {version} has no TensorRT: CUDA builds up to 2.17 have it"
    linked = tuple(asks.get_linked_tensorrt_version())
    if not any(linked):
        return f"this build of TensorFlow {version} has no TensorRT"
    # The question for the loaded version ends the process where there is none.
    loaded = tuple(asks.get_loaded_tensorrt_version()) if asks.is_tensorrt_enabled() else ()
    if not any(loaded):
        return f"TensorRT's libraries (libnvinfer, version {_words(linked)}) cannot be loaded: install them"
    if loaded[0] != linked[0] or loaded < linked:
        built = f"TensorFlow {version} was built for TensorRT {_words(linked)}"
        return f"{built}, but version {_words(loaded)} is installed"
    return ""


def _words(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def compiled_by_tensorrt(tf: Any, network: Any, inputs: Any, device: str, folder: pathlib.Path) -> Callable[[Any], Any]:
    """Return the Keras model as TensorRT has compiled it in float16, with an engine for these inputs."""
    module = tf.Module()
    module.network = network
    shape = tf.TensorSpec(inputs.shape, inputs.dtype, name="given")
    concrete = tf.function(lambda given: {"found": network(given, training=False)}).get_concrete_function(shape)
    tf.saved_model.save(module, str(folder / "plain"), signatures=concrete)
    convert = importlib.import_module("tensorflow.python.compiler.tensorrt.trt_convert")
    with tf.device(device):
        converter = convert.TrtGraphConverterV2(input_saved_model_dir=str(folder / "plain"), precision_mode="FP16")
        converter.convert()

        def given() -> Iterator[list[Any]]:
            yield [inputs]

        converter.build(input_fn=given)
        converter.save(str(folder / "compiled"))
        loaded = tf.saved_model.load(str(folder / "compiled"))
    signature = loaded.signatures["serving_default"]

    def call(batch: Any, kept: Any = loaded) -> Any:  # a signature keeps no reference to the variables of its module
        return signature(given=batch)["found"]

    return call
