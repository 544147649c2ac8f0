"""SHR: who else is on the GPU, which part of it is ours, and may we use it?"""

from __future__ import annotations

from tfgpu_doctor.checks.gpu.in_use import gpus_in_use, show_holders, size, tenants, title, who
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu

_MIG = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"


@check(
    "SHR002",
    "no more than one MIG device is asked for",
    stage=Stage.GPU,
    after=("GPU001", "DRV007"),
    causes=("mig_single_instance_per_process",),
    sources=(_MIG,),
)
def one_mig_device_is_asked_for(nvml: Nvml, environment: Environment, cuda_driver: CudaDriver | None = None) -> Yielded:
    """With MIG a process gets one device, however many CUDA_VISIBLE_DEVICES names; MirroredStrategy cannot span several.

    Fix: one process for each MIG device, or MIG switched off by an administrator.
    """
    divided = [gpu for gpu in nvml.gpus if gpu.mig]
    if not divided:
        raise Skip("no GPU is divided by MIG")
    tokens = [each.strip() for each in (environment.get("CUDA_VISIBLE_DEVICES") or "").split(",")]
    asked = [each for each in tokens if each.startswith("MIG-")]
    given = len(cuda_driver.gpus) if cuda_driver else 0
    if len(asked) > 1 and given <= 1:
        yield Finding(
            f"CUDA_VISIBLE_DEVICES names {len(asked)} MIG devices, and a process gets one",
            cause="mig_single_instance_per_process",
            severity="warning",
            evidence=(*_layout(divided), f"CUDA lists {given}"),
            fix=Fix(
                "Start one process for each MIG device. To use more of the GPU in one, make a larger instance, or have an "
                "administrator switch MIG off (`nvidia-smi -mig 0`).",
                (f"export CUDA_VISIBLE_DEVICES={asked[0]}",),
            ),
        )
        return
    for line in _layout(divided):
        yield Evidence(line)
    for gpu in divided:
        if gpu.health.mig_pending is False:
            yield Evidence(f"GPU {gpu.index}: MIG will be off after the next reset")


def _layout(gpus: list[NvmlGpu]) -> list[str]:
    """What each GPU is divided into."""
    lines = []
    for gpu in gpus:
        parts = [
            " ".join(filter(None, (each.profile, size(each.memory_total_bytes) if each.memory_total_bytes else "")))
            for each in gpu.health.mig_devices
        ]
        told = ", ".join(part for part in parts if part) or f"{len(gpu.mig_devices)} devices"
        lines.append(
            f"GPU {gpu.index} is divided by MIG: {told}"
            if gpu.mig_devices
            else f"GPU {gpu.index}: MIG is on, with no instance"
        )
    return lines


@check(
    "SHR003",
    "nobody else holds a large part of the GPU's memory",
    stage=Stage.MEMORY,
    after=("GPU001", "DRV007", "MEM001"),
    causes=("gpu_memory_held_by_other_process",),
    sources=("https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",),
)
def memory_is_not_shared(nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A forgotten notebook keeps its memory while it does nothing: what is left is enough to start, and too little for the
    batch that fitted yesterday.

    Fix: see whose process it is, and end it: shut the notebook's kernel down.
    """
    share = int(knowledge.boundaries["held_memory_percent"].value)
    gpus = [gpu for gpu in gpus_in_use(nvml, cuda_driver) if not gpu.mig and gpu.memory_total_bytes]
    if not gpus:
        raise Skip("NVML tells the memory of no whole GPU")
    for gpu in gpus:
        total = gpu.memory_total_bytes or 1
        held = sum(each.memory_bytes or 0 for each in tenants(gpu))
        busy = gpu.health.utilization_percent
        if 100 * held < share * total:
            told = f"{len(tenants(gpu))} others compute, and hold {size(held)} of {size(total)}"
            yield Evidence(f"GPU {gpu.index}: {told if tenants(gpu) else 'nobody else computes'}")
            continue
        yield Finding(
            f"others hold {size(held)} of the {size(total)} of {title(gpu)}",
            cause="gpu_memory_held_by_other_process",
            severity="warning",
            confidence="medium",
            evidence=(*who(gpu), *([f"GPU {gpu.index} is {busy} % busy"] if busy is not None else [])),
            fix=Fix("See whose it is; a notebook's kernel is ended with its own menu.", show_holders(gpu)),
        )


@check(
    "SHR004",
    "the vGPU has its licence",
    stage=Stage.GPU,
    after=("GPU001", "HLT001"),
    sources=("https://docs.nvidia.com/vgpu/latest/grid-licensing-user-guide/index.html",),
)
def vgpu_is_licensed(nvml: Nvml, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A part of a GPU in a virtual machine needs a licence of NVIDIA's vGPU software. Without one it works for some
    minutes, then slowly, and CUDA is switched off.

    Fix: let nvidia-gridd reach the licence server: its token under /etc/nvidia/ClientConfigToken.
    """
    told = [gpu for gpu in gpus_in_use(nvml, cuda_driver) if gpu.health.licensed is not None]
    if not told:
        raise Skip("no GPU is one that needs a licence")
    for gpu in told:
        if gpu.health.licensed:
            yield Evidence(f"GPU {gpu.index}: a vGPU with its licence")
            continue
        yield Finding(
            f"{title(gpu)} is a vGPU without a licence",
            severity="warning" if cuda_driver and cuda_driver.gpus else "error",
            evidence=(
                "NVML says that it is not licensed",
                "NVIDIA slows such a vGPU down after some minutes, and switches CUDA off",
            ),
            fix=Fix(
                "As root see `systemctl status nvidia-gridd`, and put the token of the licence server into "
                "/etc/nvidia/ClientConfigToken.",
                ("nvidia-smi -q",),
            ),
        )


@check(
    "SHR005",
    "the driver keeps the GPU initialised",
    stage=Stage.SPEED,
    after=("GPU001", "DRV007"),
    sources=("https://docs.nvidia.com/deploy/driver-persistence/index.html",),
)
def gpu_stays_initialised(nvml: Nvml, cuda_driver: CudaDriver | None = None) -> Yielded:
    """Without persistence mode the driver lets go of a GPU when its last program ends, and the next one waits some
    seconds for it. It is a matter of comfort alone.

    Fix: as root `systemctl enable --now nvidia-persistenced`.
    """
    told = [gpu for gpu in gpus_in_use(nvml, cuda_driver) if gpu.health.persistence_mode is not None]
    if not told:
        raise Skip("NVML does not tell whether it does")
    modes = (f"GPU {gpu.index} {'on' if gpu.health.persistence_mode else 'off'}" for gpu in told)
    yield Evidence(f"persistence mode: {', '.join(modes)}")
    off = [str(gpu.index) for gpu in told if not gpu.health.persistence_mode and not gpu.processes]
    if off:
        yield Finding(
            f"persistence mode is off for {len(off)} of {len(told)} GPUs: the first use of one takes some seconds more",
            severity="info",
            evidence=(f"NVML says so of GPU {', '.join(off)}, which no program uses now",),
            fix=Fix("If that matters: as root `systemctl enable --now nvidia-persistenced`."),
        )
