"""A plugin for the perf suites: writes the shapes of each convolution in float32, and whether TF32 was on, to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

VARIABLE = "CONV_STATES"


@pytest.fixture(scope="session", autouse=True)
def conv_states(tensorflow: Any) -> None:
    """TensorFlow calls back for each operation that it runs eagerly or adds to a graph, which then runs at once."""
    from tensorflow.python.framework import op_callbacks

    def seen(told: str | bytes, inputs: Sequence[Any], *_: Any, **__: Any) -> None:
        kind = told.decode() if isinstance(told, bytes) else told
        if "Conv2D" in kind and inputs[0].dtype == tensorflow.float32:
            state = tensorflow.config.experimental.tensor_float_32_execution_enabled()
            row = {"kind": kind, "shapes": [str(each.shape) for each in inputs], "tf32": state}
            with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    op_callbacks.add_op_callback(seen)
