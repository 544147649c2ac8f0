"""Why a profile has no events of a GPU: what shows that one was used, and what TensorFlow's profiler says of CUPTI."""

from __future__ import annotations

import re

from tfgpu_doctor.tracing.gpu_streams import COPY, computing_gpus, events_of
from tfgpu_doctor.tracing.recorded import Profile

# Threads of the GPU's device: until 2.15, and newer ones.
_THREADS = ("tf_gpu_private", "tf_GPU_Event_Manager", "Device_Event_Manager", "GPU_")
_MOST_LOOKS = 200  # at the memory events of a thread
_NO_GPU = "No GPU detected"  # that is no trouble of CUPTI
# What TensorFlow says, and what allows it.
# https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/cupti_tracer.cc (ErrorIfAny), cupti_collector.cc
_REASONS = (
    (
        re.compile(r"load libcupti"),
        "libcupti.so was not found: pip install 'tensorflow[and-cuda]' brings it, or put the folder extras/CUPTI/lib64 of "
        "the CUDA toolkit on LD_LIBRARY_PATH",
    ),
    (
        re.compile(r"root (permission|access)|[Ii]nsufficient privilege"),
        "the driver allows profiling to administrators alone: an administrator can load it with "
        "NVreg_RestrictProfilingToAdminUsers=0; in a container, docker run --cap-add=SYS_ADMIN",
    ),
    (re.compile(r"events dropped"), "the profiler's buffers were full: record a shorter time"),
)


def complaints(profile: Profile) -> list[str]:
    """What TensorFlow's profiler says of its own work, but that there is no GPU."""
    return [each for each in profile.errors if _NO_GPU not in each]


def no_device_events(profile: Profile) -> str:
    """Say so if the program used a GPU of which the profile has no kernel; empty if it has, or used none."""
    if computing_gpus(profile):
        return ""
    said = [(each, remedy) for each in complaints(profile) for pattern, remedy in _REASONS if pattern.search(each)]
    if said:
        message, remedy = said[0]
        return f"TensorFlow's profiler says: {message.rstrip('.')}. That means: {remedy}"
    if any(True for gpu in profile.gpus for _ in events_of(profile, gpu, COPY)):
        return ""  # CUPTI recorded a copy, so it would have recorded kernels
    if used := _used(profile):
        return f"the program used a GPU ({used}), and the profile has none of its kernels"
    return ""


def _used(profile: Profile) -> str:
    """A thread, or an allocator, that only a program on a GPU has."""
    for thread in profile.threads:
        if thread.name.startswith(_THREADS):
            return f"thread {thread.name.partition('/')[0]}"
    for thread in profile.threads:
        for event in thread.events.get("memory", ())[:_MOST_LOOKS]:
            allocator = str(thread.stats(event).get("allocator_name", ""))
            if allocator.startswith("GPU_") and "host" not in allocator:
                return f"allocator {allocator}"
    return ""
