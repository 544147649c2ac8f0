"""A TensorFlow that takes the processor for NVIDIA GPUs: what runs on a GPU runs here, only slower."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import stand_in_hardware
import stand_in_tensorflow

_SOURCE = """
import os, pathlib, sys
import stand_in_hardware, stand_in_tensorflow
folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder] + {more}
del sys.modules["tensorflow"]
import tensorflow
shown = os.environ.get("CUDA_VISIBLE_DEVICES")
gpus = {count} if shown is None else len([each for each in shown.split(",") if each not in ("", "-1")])
if gpus:
    stand_in_tensorflow.take_over(gpus)
    stand_in_hardware.equip(tensorflow, pathlib.Path(folder))
sys.modules["tensorflow"] = tensorflow
"""


def write_placeholder(folder: pathlib.Path, count: int = 1, more: tuple[str, ...] = ()) -> pathlib.Path:
    """A folder for PYTHONPATH in which TensorFlow has that many such GPUs; `more` are folders where the real one is."""
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "tensorflow/__init__.py").write_text(_SOURCE.format(more=list(more), count=count))
    for module in (stand_in_hardware, stand_in_tensorflow):
        shutil.copy(str(module.__file__), folder)
    return folder


def make_stand_in(folder: pathlib.Path, count: int = 1) -> pathlib.Path:
    """A virtual environment with that many such GPUs; the TensorFlow is that of the interpreter that runs the tests."""
    import tensorflow as tf

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (place,) = folder.glob("lib/python3*/site-packages")
    write_placeholder(place, count, (str(pathlib.Path(tf.__file__).parent.parent),))
    return folder
