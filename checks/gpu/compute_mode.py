"""GPU002: may this process use the GPU?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.gpu.in_use import gpus_in_use, serves_by_mps, size, tenants, title, unseen_bytes
from tfgpu_doctor.checks.gpu.readings import memory_use
from tfgpu_doctor.checks.unseen import HOST_MAY_TELL, tell_missing
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST, PARTIAL

# More memory than the driver itself and a display use, on a small and on a large GPU; chosen by this project.
_LEAST_BYTES, _LEAST_PART = 1 << 30, 50
_FREE_IT = Fix("End the process that uses the GPU, or have an administrator run `nvidia-smi -c DEFAULT`.")


@check(
    "GPU002",
    "the GPU's compute mode admits this process",
    family="GPU",
    tags=(
        PARTIAL,
        GPU_LOST,
    ),
    stage=Stage.DRIVER,
    after=("GPU001",),
    causes=("exclusive_compute_mode",),
    sources=("https://docs.nvidia.com/deploy/nvidia-smi/index.html",),
)
def compute_mode_lets_in(nvml: Nvml, cuda_driver: CudaDriver | None = None, runtime: Runtime | None = None) -> Yielded:
    """In compute mode EXCLUSIVE_PROCESS, only one process at a time may use the GPU; in PROHIBITED, no process may.

    Fix: have an administrator run `nvidia-smi -c DEFAULT`, or end the process that uses the GPU.
    """
    gpus = gpus_in_use(nvml, cuda_driver)
    if not gpus:
        raise Skip("NVML lists no GPU")
    if runtime and runtime.computes:
        yield Evidence("TensorFlow computes on every GPU that it lists")
        return
    closed = [gpu for gpu in gpus if _is_closed(gpu)]
    for gpu in closed:
        held = ", ".join(f"{each.name or 'process'} ({each.pid})" for each in tenants(gpu))
        yield Finding(
            f"GPU {gpu.index} ({gpu.name}) is in compute mode {gpu.compute_mode}"
            + (f" and in use by {held}" if held else ", in which no process may use it"),
            cause="exclusive_compute_mode",
            evidence=(f"NVML reports the compute mode {gpu.compute_mode}",),
            fix=_FREE_IT,
            devices=(device_of(gpu),),
        )
    if cuda_driver and cuda_driver.init_code == 46:
        yield Finding(
            "the CUDA driver reports that the GPU is busy or reserved for another process",
            cause="exclusive_compute_mode",
            evidence=("cuInit returned 46, CUDA_ERROR_DEVICE_UNAVAILABLE",),
            fix=_FREE_IT,
            confidence="medium",
        )
    elif not closed:
        unseen = [gpu for gpu in gpus if _is_held_unseen(gpu)]
        unknown = ", ".join(title(gpu) for gpu in gpus if not gpu.compute_mode)
        yield from map(_may_be_held, unseen)
        missing = f"NVML does not report the compute mode of {unknown}; {HOST_MAY_TELL}"
        yield from tell_missing(missing if unknown else "", found=bool(unseen))
        yield Evidence(", ".join(f"GPU {gpu.index}: compute mode {gpu.compute_mode or 'unknown'}" for gpu in gpus))


def _is_held_unseen(gpu: NvmlGpu) -> bool:
    least = max(_LEAST_BYTES, (gpu.memory_total_bytes or 0) // _LEAST_PART)
    return gpu.compute_mode.startswith("exclusive") and not serves_by_mps(gpu) and (unseen_bytes(gpu) or 0) > least


def _may_be_held(gpu: NvmlGpu) -> Finding:
    used = (gpu.memory_total_bytes or 0) - (gpu.memory_free_bytes or 0)
    return Finding(
        f"{title(gpu)} is in compute mode {gpu.compute_mode}, and a process that is not shown seems to hold it",
        cause="exclusive_compute_mode",
        severity="warning",
        confidence="low",
        evidence=(f"{size(used)} of its memory are in use, and NVML names no process for {size(unseen_bytes(gpu))}",),
        fix=Fix(
            "As root, `nvidia-smi` and `fuser -v /dev/nvidia*` show processes of other users. " + _FREE_IT.text,
            ("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",),
        ),
        devices=(device_of(gpu),),
        figures=memory_use(gpu),
    )


def _is_closed(gpu: NvmlGpu) -> bool:
    """Whether no further process may use a GPU. MPS has an exclusive GPU for all its clients, which NVML lists since Volta."""
    is_held = gpu.compute_mode.startswith("exclusive") and bool(tenants(gpu)) and not serves_by_mps(gpu)
    return gpu.compute_mode == "prohibited" or is_held
