"""SHR: which other processes use the GPU, and which part of it may this process use?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of, devices_of, figures_of
from tfgpu_doctor.checks.gpu.in_use import SHOW_ALL, gpus_in_use, show_holders, size, tenants, title, unseen_bytes, who
from tfgpu_doctor.checks.gpu.readings import memory_use
from tfgpu_doctor.checks.unseen import tell_missing, tell_silent
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.health import MigDevice
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.tags import UNFIT

_MIG = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"


@check(
    "SHR002",
    "at most one MIG device is requested",
    family="GPU sharing",
    stage=Stage.GPU,
    after=("GPU001", "DRV007"),
    causes=("mig_single_instance_per_process",),
    sources=(_MIG,),
)
def one_mig_device_is_asked_for(nvml: Nvml, environment: Environment, cuda_driver: CudaDriver | None = None) -> Yielded:
    """With MIG a process gets one device, however many CUDA_VISIBLE_DEVICES names; MirroredStrategy cannot span several.

    Fix: one process for each MIG device, or have an administrator disable MIG.
    """
    divided = [gpu for gpu in nvml.gpus if gpu.mig]
    if not divided:
        raise Skip("no GPU is divided by MIG")
    tokens = [each.strip() for each in (environment.get("CUDA_VISIBLE_DEVICES") or "").split(",")]
    asked = [each for each in tokens if each.startswith("MIG-")]
    given = len(cuda_driver.gpus) if cuda_driver else 0
    if len(asked) > 1 and given <= 1:
        yield Finding(
            f"CUDA_VISIBLE_DEVICES names {len(asked)} MIG devices, but a process gets only one",
            cause="mig_single_instance_per_process",
            severity="warning",
            evidence=(*_layout(divided), f"CUDA lists {given}"),
            fix=Fix(
                "Start one process for each MIG device. To use more of the GPU in one process, create a larger instance, or have "
                "an administrator disable MIG (`nvidia-smi -mig 0`).",
                (f"export CUDA_VISIBLE_DEVICES={asked[0]}",),
            ),
            figures=figures_of("", [("MIG devices asked for", len(asked), ""), ("devices of CUDA", given, "")]),
        )
        return
    for line in _layout(divided):
        yield Evidence(line)
    for gpu in divided:
        if gpu.health.mig_pending is False:
            yield Evidence(f"GPU {gpu.index}: MIG will be off after the next reset")


def _layout(gpus: list[NvmlGpu]) -> list[str]:
    """Return the partitioning of each GPU."""
    lines = []
    for gpu in gpus:
        told = ", ".join(filter(None, map(_part, gpu.health.mig_devices))) or amount(len(gpu.mig_devices), "device")
        lines.append(
            f"GPU {gpu.index} is divided by MIG: {told}"
            if gpu.mig_devices
            else f"GPU {gpu.index}: MIG is on, but there is no instance"
        )
    return lines


def _part(device: MigDevice) -> str:
    """Return profile, memory, and the IDs of GPU instance and compute instance as nvidia-smi shows them; empty if unknown."""
    ids = (("GI", device.gpu_instance), ("CI", device.compute_instance))
    known = ", ".join(f"{name} {number}" for name, number in ids if number is not None)
    memory = size(device.memory_total_bytes) if device.memory_total_bytes else ""
    return " ".join(filter(None, (device.profile, memory, known and f"({known})")))


@check(
    "SHR003",
    "no other process holds a large part of the GPU's memory",
    family="GPU sharing",
    stage=Stage.MEMORY,
    after=("GPU001", "DRV007", "MEM001"),
    causes=("gpu_memory_held_by_other_process",),
    sources=("https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",),
)
def memory_is_not_shared(nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A forgotten idle notebook keeps its GPU memory: the rest is enough to start a program, but too little for the batch
    that fitted before.

    Fix: find out whose process it is, and end it; for a notebook, shut down its kernel.
    """
    share = int(knowledge.boundaries["held_memory_percent"].value)
    used = gpus_in_use(nvml, cuda_driver)
    gpus = [gpu for gpu in used if not gpu.mig and gpu.memory_total_bytes]
    if not gpus:
        raise NotMeasured("NVML reports the memory of no whole GPU")
    found, unknown = False, []
    for gpu in gpus:
        total = gpu.memory_total_bytes or 1
        held = sum(each.memory_bytes or 0 for each in tenants(gpu))
        busy = gpu.health.utilization_percent
        if 100 * held < share * total:
            if _is_explained(gpu, share):
                yield Evidence(f"GPU {gpu.index}: {_held(gpu, held)}")
            else:
                unknown.append(gpu)
            continue
        found = True
        yield Finding(
            f"other processes hold {size(held)} of the {size(total)} of {title(gpu)}",
            cause="gpu_memory_held_by_other_process",
            severity="warning",
            confidence="medium",
            evidence=(*who(gpu), *([f"GPU {gpu.index} is {busy} % busy"] if busy is not None else [])),
            fix=Fix(
                "Find out whose process it is, and end it; for a notebook, shut down its kernel from its menu.",
                show_holders(gpu),
            ),
            devices=(device_of(gpu),),
            figures=memory_use(gpu, held),
        )
    free = [f"{size(gpu.memory_free_bytes)} of the {size(gpu.memory_total_bytes)} of {title(gpu)}" for gpu in unknown]
    missing = f"free: {', '.join(free)}; NVML does not say which process holds the rest: {SHOW_ALL}" if free else ""
    yield from tell_missing(missing, found=found)
    yield from tell_silent(used, lambda gpu: gpu.memory_total_bytes, found=found)


def _is_explained(gpu: NvmlGpu, share: int) -> bool:
    """Whether what is known of the memory leaves no room for a process with a large part of it that NVML does not show."""
    total, named = gpu.memory_total_bytes or 0, all(each.memory_bytes is not None for each in gpu.processes)
    if gpu.memory_free_bytes is None:
        return named
    held = sum(each.memory_bytes or 0 for each in tenants(gpu))
    return 100 * (held + (unseen_bytes(gpu) or 0)) < share * total


def _held(gpu: NvmlGpu, held: int) -> str:
    """Return who computes on a GPU and how much memory they hold; of some, NVML does not say how much."""
    those = tenants(gpu)
    if not those:
        return "no other process computes"
    named = all(each.memory_bytes is not None for each in those)
    much = size(held) if named else f"at most {size(held + (unseen_bytes(gpu) or 0))}"
    compute, hold = ("computes", "holds") if len(those) == 1 else ("compute", "hold")
    return f"{amount(len(those), 'other process')} {compute}, and {hold} {much} of {size(gpu.memory_total_bytes)}"


@check(
    "SHR004",
    "the vGPU has its licence",
    family="GPU sharing",
    tags=(UNFIT,),
    stage=Stage.GPU,
    after=("GPU001", "HLT001"),
    causes=("vgpu_unlicensed",),
    sources=("https://docs.nvidia.com/vgpu/latest/grid-licensing-user-guide/index.html",),
)
def vgpu_is_licensed(nvml: Nvml, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A vGPU in a virtual machine needs a licence for NVIDIA's vGPU software. Without one, it works normally for some
    minutes, then slows down, and CUDA is disabled.

    Fix: let nvidia-gridd reach the licence server: its token under /etc/nvidia/ClientConfigToken.
    """
    used = gpus_in_use(nvml, cuda_driver)
    told = [gpu for gpu in used if gpu.health.licensed is not None]
    if not told and any(gpu.health.virtualization == "vgpu" for gpu in used):
        raise NotMeasured(
            "NVML does not report whether the vGPU is licensed: the log of nvidia-gridd does (`journalctl -u nvidia-gridd`)"
        )
    if not told:
        raise Skip("no GPU needs a licence")
    yield from tell_silent(used, lambda gpu: gpu.health.licensed, found=not all(gpu.health.licensed for gpu in told))
    for gpu in told:
        if gpu.health.licensed:
            yield Evidence(f"GPU {gpu.index}: a licensed vGPU")
            continue
        yield Finding(
            f"{title(gpu)} is a vGPU without a licence",
            cause="vgpu_unlicensed",
            evidence=(
                "NVML reports that it is not licensed",
                "NVIDIA's software slows down such a vGPU after some minutes, and disables CUDA",
            ),
            fix=Fix(
                "As root, check `systemctl status nvidia-gridd`, and put the licence server's token into "
                "/etc/nvidia/ClientConfigToken.",
                ("nvidia-smi -q",),
            ),
            blocks=not (cuda_driver and cuda_driver.gpus),
            devices=(device_of(gpu),),
        )


@check(
    "SHR005",
    "the driver keeps the GPU initialised",
    family="GPU sharing",
    stage=Stage.SPEED,
    after=("GPU001", "DRV007"),
    sources=("https://docs.nvidia.com/deploy/driver-persistence/index.html",),
)
def gpu_stays_initialised(nvml: Nvml, cuda_driver: CudaDriver | None = None) -> Yielded:
    """Without persistence mode, the driver deinitialises a GPU when its last program ends, and the next program waits some
    seconds for it. This only affects startup time.

    Fix: `sudo nvidia-smi -pm 1`, until the next boot; to keep it, let the service nvidia-persistenced run without its option
    `--no-persistence-mode`.
    """
    used = gpus_in_use(nvml, cuda_driver)
    told = [gpu for gpu in used if gpu.health.persistence_mode is not None]
    if not told:
        raise NotMeasured("NVML does not report the persistence mode")
    modes = (f"GPU {gpu.index} {'on' if gpu.health.persistence_mode else 'off'}" for gpu in told)
    yield Evidence(f"persistence mode: {', '.join(modes)}")
    off = [gpu for gpu in told if not gpu.health.persistence_mode and not gpu.processes]
    yield from tell_silent(used, lambda gpu: gpu.health.persistence_mode, found=bool(off))
    if off:
        yield Finding(
            f"persistence mode is off for {len(off)} of {amount(len(told), 'GPU')}: the first use of each takes some seconds "
            "longer",
            severity="info",
            evidence=(
                f"NVML reports this for GPU {', '.join(str(gpu.index) for gpu in off)}, which no program uses at the moment",
            ),
            fix=Fix(
                "If this matters, run `sudo nvidia-smi -pm 1` (until the next boot). To keep it, enable the service "
                "nvidia-persistenced; where its unit has the option --no-persistence-mode (Ubuntu), remove that with "
                "`sudo systemctl edit --full nvidia-persistenced`."
            ),
            devices=devices_of(off),
            figures=figures_of("", [("GPUs without persistence mode", len(off), ""), ("GPUs", len(told), "")]),
        )
