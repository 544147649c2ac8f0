"""Lines of a log, given what is known, as a report and as the causes in it; and short logs of TensorFlow."""

from __future__ import annotations

from classified import read as read_text

from tfgpu_doctor.log import LogReport

LOST = """\
2024-05-03 09:59:50.101234: I tensorflow/core/platform/cpu_feature_guard.cc:151] This TensorFlow binary is optimized with oneAPI
2024-05-03 09:59:51.201234: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library \
'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open shared object file: No such file or directory
2024-05-03 09:59:51.301234: W tensorflow/core/common_runtime/gpu/gpu_device.cc:1850] Cannot dlopen some GPU libraries. \
Please make sure the missing libraries mentioned above are installed properly if you would like to use GPU.
Skipping registering GPU devices...
"""
# The allocator says that it ran out of memory, and that this is no failure.
HEALTHY = """\
2024-05-03 09:59:51.101234: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1639] Created device \
/job:localhost/replica:0/task:0/device:GPU:0 with 22290 MB memory:  -> device: 0, name: NVIDIA GeForce RTX 3090, \
pci bus id: 0000:01:00.0, compute capability: 8.6
2024-05-03 09:59:58.201234: W external/local_tsl/tsl/framework/bfc_allocator.cc:296] Allocator (GPU_0_bfc) ran out of memory \
trying to allocate 2.25GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there \
could be performance gains if more memory were available.
Epoch 1/10
"""
KILLED = """\
I0000 00:00:1795280576.203486   24765 port.cc:153] oneDNN custom operations are on.
I0000 00:00:1795280576.389302   24765 cuda_memory_allocator.cc:70] Registering collective allocator factory for NCCL
Killed
"""
HIDDEN = """\
2024-05-03 09:59:51.101234: E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: \
no CUDA-capable device is detected
Num GPUs Available:  0
"""


def read(*lines: str, **given: str) -> LogReport:
    return read_text("\n".join((*lines, "")), *(f"{key}={value}" for key, value in given.items()))


def labels(*lines: str, **given: str) -> list[str]:
    return [cause.label for cause in read(*lines, **given).causes]


def report_on(text: str) -> LogReport:
    return read(*text.removesuffix("\n").split("\n"))


def causes(text: str) -> list[tuple[str, str]]:
    return [(cause.label, cause.confidence) for cause in report_on(text).causes]
