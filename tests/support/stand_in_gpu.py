"""A target whose real TensorFlow takes the processor for an NVIDIA GPU: what runs on a GPU runs here, only slower."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

NAME, CAPABILITY = "NVIDIA GeForce RTX 3090", (8, 6)
_SOURCE = """
import os, sys
folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder] + [{site!r}]
del sys.modules["tensorflow"]
import tensorflow as tf
_device, _list = tf.device, tf.config.list_physical_devices
shown = os.environ.get("CUDA_VISIBLE_DEVICES")
count = {count} if shown is None else len(shown.split(","))
gpus = [tf.config.PhysicalDevice("/physical_device:GPU:%d" % place, "GPU") for place in range(count)]
experimental = tf.config.experimental
tf.device = lambda name: _device(name.replace("GPU:", "CPU:") if isinstance(name, str) else name)
tf.config.list_physical_devices = lambda kind=None: gpus if kind == "GPU" else _list(kind)
tf.config.set_logical_device_configuration = lambda *_: None
experimental.set_memory_growth = lambda *_: None
experimental.get_memory_growth = lambda *_: True
experimental.get_device_details = lambda *_: {{"device_name": {name!r}, "compute_capability": {capability}}}
if count > 1:
    parts = [experimental.VirtualDeviceConfiguration()] * count
    experimental.set_virtual_device_configuration(_list("CPU")[0], parts)
sys.modules["tensorflow"] = tf
"""


def make_stand_in(folder: pathlib.Path, count: int = 1) -> pathlib.Path:
    """A virtual environment with that many such GPUs; the TensorFlow is that of the interpreter that runs the tests."""
    import tensorflow as tf

    site = str(pathlib.Path(tf.__file__).parent.parent)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (place,) = folder.glob("lib/python3*/site-packages")
    (place / "tensorflow").mkdir()
    source = _SOURCE.format(site=site, count=count, name=NAME, capability=CAPABILITY)
    (place / "tensorflow/__init__.py").write_text(textwrap.dedent(source))
    return folder
