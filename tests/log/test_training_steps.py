"""A GPU that is newer than the CUDA that TensorFlow opened, and computes; and one beside a library that is missing."""

from __future__ import annotations

from every import every
from read_logs import labels

OPENED = "I dso_loader.cc:44] Successfully opened dynamic library libcudart.so.10.1"
SHOWN = "pciBusID: 0000:3b:00.0 name: NVIDIA GeForce RTX 3090 computeCapability: 8.6"
CREATED = (
    "I gpu_device.cc:1247] Created TensorFlow device (/job:localhost/replica:0/task:0/device:GPU:0 with 22568 MB memory) -> "
    "physical GPU (device: 0, name: NVIDIA GeForce RTX 3090, pci bus id: 0000:3b:00.0, compute capability: 8.6)"
)
LOST = "W dso_loader.cc:59] Could not load dynamic library 'libcudnn.so.7'; dlerror: libcudnn.so.7: cannot open shared object"
CANNOT = (
    "W gpu_device.cc:1598] Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above"
)


@every("step", [
    "Epoch 0, step 4148, avg loss 1.793542, avg acc 0.990577",
    "  3/100 [>.............................] - ETA: 5:12 - loss: 2.3026 - accuracy: 0.1",
    "INFO:tensorflow:loss = 0.5123, step = 100 (12.3 sec)",
    "10	images/sec: 596.0 +/- 0.0 (jitter = 0.0)	7.972",
    "1875/1875 - 12s 6ms/step",
])  # fmt: skip
def test_a_gpu_that_computes_is_not_too_new(step: str) -> None:
    assert labels(OPENED, SHOWN, CREATED, step) == ["ptx_jit_startup_delay"]
    assert labels(step, OPENED, SHOWN, CREATED)[0] == "gpu_compute_capability_too_new"  # a step of a run before


@every("other", [
    "Epoch 0/3",
    "Epoch 0, step 4148, avg loss nan",
    "ValueError: Negative dimension size caused by subtracting 4 from 3",
    "step 3 of the installation",
])  # fmt: skip
def test_what_shows_no_computation_does_not_count(other: str) -> None:
    assert labels(OPENED, SHOWN, CREATED, other)[0] == "gpu_compute_capability_too_new"


def test_a_missing_library_comes_first() -> None:
    assert labels(OPENED, SHOWN, LOST, CANNOT) == ["gpu_libs_not_found", "gpu_compute_capability_too_new"]
    assert labels(OPENED, SHOWN)[0] == "gpu_compute_capability_too_new"
