"""Machines whose environment, packages or pending restart keep TensorFlow from its GPU, and healthy ones that look alike."""

from __future__ import annotations

from typing import Any

import msgspec
from built_machines import cuda_that_fails, packages, variables
from healthy import ANSWERED, DRIVER, broken, computation, cuda_gpu, nvml_gpu, runtime

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.gpu_holders import GpuHolder, GpuHolders
from tfgpu_doctor.model.facts.keras import Keras
from tfgpu_doctor.model.facts.kernel import ModuleFile, ModuleFiles
from tfgpu_doctor.model.facts.nvidia import Driver, GpuProcess, Nvml
from tfgpu_doctor.model.facts.preload import FailedPreload, Preload, RunWithoutPreload
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.restart import Restart
from tfgpu_doctor.model.facts.xla import FlagTrial, XlaFlags, XlaTools

KERNEL, NEXT_KERNEL = "6.8.0-48-generic", "6.8.0-50-generic"
KERAS_FILE = "/home/user/.keras/keras.json"
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
TIMEOUT = "InternalError: CUDA error: Failed to synchronize: CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated"
ENDED = Attempt(outcome="failed", seconds=3.5, exit_code=1, phase="listing the GPUs")
V100 = "Tesla V100-SXM2-16GB"
# By this project's own runs of TensorFlow 2.21.0.
UNKNOWN = "Unknown flag in {}: {}"


def built() -> dict[str, Facts]:
    """Name to facts."""
    return {**_keras(), **_flags(), **_preloads(), **_restarts(), **_hangs()}


def _keras() -> dict[str, Facts]:
    without_variable = Keras(file=KERAS_FILE, exists=True, backend="torch")
    newest = packages(("tensorflow", "2.21.0"))
    return {
        "keras-variable-names-jax": broken(environment=variables(KERAS_BACKEND="jax"), keras=Keras(file=KERAS_FILE)),
        "keras-file-names-torch": broken(keras=without_variable),
        "keras-variable-overrides-file-healthy": broken(
            environment=variables(KERAS_BACKEND="tensorflow"), keras=without_variable
        ),
        "tensorboard-not-installed-healthy": broken(
            target=newest, tensorflow={"version": "2.21.0"}, runtime=runtime(version="2.21.0")
        ),
    }


def _flags() -> dict[str, Facts]:
    one = "--xla_gpu_enable_triton_softmax_fusion=true"
    told = UNKNOWN.format("XLA_FLAGS", one)
    own = UNKNOWN.format("TF_XLA_FLAGS", "--tf_xla_made_up=1")
    listing = Runtime(attempt=msgspec.structs.replace(ENDED, stderr=(own,)), version="2.20.0", import_seconds=2.1)
    return {
        "xla-flag-of-another-release": broken(
            environment=variables(XLA_FLAGS=f"--xla_dump_to=/tmp/xla {one}"),
            xla_flags=XlaFlags(trials=(FlagTrial(variable="XLA_FLAGS", attempt=ENDED, complaints=(told,)),)),
        ),
        "v100-ptxas-of-cuda-13": broken(
            cuda_driver={"gpus": (cuda_gpu(name=V100, compute_capability="7.0", memory_bytes=16 << 30, multiprocessors=80),)},
            nvml={"gpus": (nvml_gpu(name=V100, compute_capability="7.0"),)},
            xla_tools=XlaTools(
                libdevice="/usr/local/cuda/nvvm/libdevice/libdevice.10.bc", ptxas="/usr/local/cuda-13.0/bin/ptxas",
                ptxas_version="13.0.88",
            ),
        ),
        "tensorflow-xla-flag-misspelt": broken(
            environment=variables(TF_XLA_FLAGS="--tf_xla_made_up=1"), runtime=listing,
            xla_flags=XlaFlags(trials=(FlagTrial(variable="TF_XLA_FLAGS", attempt=ENDED, complaints=(own,)),)),
        ),
        "xla-flags-known-healthy": broken(
            environment=variables(XLA_FLAGS="--xla_gpu_cuda_data_dir=/usr/lib/cuda", TF_XLA_FLAGS="--tf_xla_auto_jit=2"),
            xla_flags=XlaFlags(trials=tuple(FlagTrial(variable=each, attempt=ANSWERED) for each in ("TF_XLA_FLAGS", "XLA_FLAGS"))),
        ),
    }  # fmt: skip


def _preloads() -> dict[str, Facts]:
    crashed = Runtime(
        attempt=Attempt(outcome="killed_by_signal", seconds=1.2, signal="SIGSEGV", phase="importing TensorFlow")
    )
    missing = FailedPreload(library="/opt/gone/libtcmalloc.so.4", reason="cannot open shared object file")
    replaced = Preload(attempt=ANSWERED, allocator=TCMALLOC)
    return {
        "preloaded-allocator-crashes-tensorflow": broken(
            environment=variables(LD_PRELOAD=TCMALLOC), preload=replaced, runtime=crashed,
            run_without_preload=RunWithoutPreload(attempt=ANSWERED, version="2.20.0", gpus_listed=True),
        ),
        "preloaded-allocator-healthy": broken(environment=variables(LD_PRELOAD=TCMALLOC), preload=replaced),
        "preloaded-library-missing-healthy": broken(
            environment=variables(LD_PRELOAD=missing.library), preload=Preload(attempt=ANSWERED, failed=(missing,))
        ),
    }  # fmt: skip


def _restarts() -> dict[str, Facts]:
    on_disk = ModuleFile(path=f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst", version="565.57.01", kernel=KERNEL)
    not_loaded: dict[str, Any] = {
        "nvml": Nvml(attempt=ANSWERED, error_code=9, error_text="Driver Not Loaded"),
        "cuda_driver": cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"),
        "runtime": runtime(gpus=(), computations=(), libraries=(), log=()),
    }
    return {
        "driver-upgraded-and-not-restarted": broken(
            module_files=ModuleFiles(file=on_disk, headers=True),
            restart=Restart(required=True, packages=("nvidia-driver-565",), module_is_newer=True),
        ),
        "driver-installed-and-not-restarted": broken(
            driver=Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=False, suspends=0),
            module_files=ModuleFiles(file=on_disk, headers=True), restart=Restart(module_is_newer=True), **not_loaded,
        ),
        "driver-built-for-the-next-kernel": broken(
            driver=Driver(running_kernel=KERNEL, built_for=(NEXT_KERNEL,), secure_boot=False, suspends=0),
            module_files=ModuleFiles(headers=False), **not_loaded,
            restart=Restart(required=True, packages=(f"linux-image-{NEXT_KERNEL}", "linux-base")),
        ),
        "kernel-waits-for-restart-healthy": broken(
            module_files=ModuleFiles(file=msgspec.structs.replace(on_disk, version=DRIVER), headers=True),
            restart=Restart(required=True, packages=(f"linux-image-{NEXT_KERNEL}", "linux-base"), module_is_newer=False),
        ),
    }  # fmt: skip


def _hangs() -> dict[str, Facts]:
    held = GpuProcess(pid=4242, name="/home/anna/venv/bin/python", memory_bytes=23 << 30, user="anna")
    # As the training of tests/support/hung_training.py really looks.
    hangs = GpuHolder(pid=4242, waits_for="lock", watched_s=2.0, cpu_s=0.0, listens=False)
    failed = computation("matmul", largest_error=None, placed_on="", error=TIMEOUT)
    out = computation(
        "matmul", largest_error=None, placed_on="", error="ResourceExhaustedError: OOM when allocating tensor"
    )
    return {
        "training-hangs-at-its-end": broken(
            nvml=Nvml(attempt=ANSWERED, driver_version=DRIVER, gpus=(nvml_gpu(memory_free_bytes=1 << 28, processes=(held,)),)),
            runtime=runtime(computations=(out, msgspec.structs.replace(out, operation="convolution"))),
            gpu_holders=GpuHolders(processes=(hangs,)),
        ),
        "display-watchdog": broken(
            cuda_driver={"gpus": (cuda_gpu(kernel_time_limit=True),)},
            runtime=runtime(computations=(failed, msgspec.structs.replace(failed, operation="convolution"))),
        ),
    }  # fmt: skip
