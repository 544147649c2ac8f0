"""GPU: is there an NVIDIA GPU, is it available, and does TensorFlow use it?"""

from __future__ import annotations

from tfgpu_doctor.checks.gpu.in_use import gpus_in_use, tenants
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import CannotTell, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Environment, Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST, PARTIAL

_FREE_IT = Fix("End the process that uses the GPU, or have an administrator run `nvidia-smi -c DEFAULT`.")


@check(
    "GPU001",
    "an NVIDIA GPU is in the machine",
    family="GPU",
    stage=Stage.MACHINE,
    after=("SYS001", "GPU006"),
    causes=("no_gpu_in_machine",),
    sources=("https://www.kernel.org/doc/html/latest/PCI/sysfs-pci.html",),
)
def gpu_is_in_machine(
    system: System,
    knowledge: Knowledge,
    pci: Pci | None = None,
    nvml: Nvml | None = None,
    cuda_driver: CudaDriver | None = None,
    driver: Driver | None = None,
    device_nodes: DeviceNodes | None = None,
    hosting: Hosting | None = None,
    kernel_log: KernelLog | None = None,
) -> Yielded:
    """Without an NVIDIA GPU on the PCI bus, TensorFlow uses the CPU, and its messages about CUDA and cuInit are harmless.

    Fix: no action needed to run on the CPU. A virtual machine needs GPU passthrough; a cloud instance needs
    a type with a GPU; on a laptop, the firmware may have disabled the GPU.
    """
    seen = _signs_of_gpu(knowledge, pci, nvml, cuda_driver, driver, device_nodes)
    lost = kernel_log.of_kind("off_the_bus", "xid") if kernel_log else ()
    seen += [f"the kernel log mentions one: {each.text}" for each in lost[:1]]
    if system.board.startswith("NVIDIA"):
        seen.append(f"the board is a {system.board}")
    if seen:
        for sign in seen:
            yield Evidence(sign)
    elif system.os in ("Darwin", "Windows"):
        raise Skip(f"the PCI bus cannot be read on {system.os}, and nothing else shows a GPU")
    elif system.wsl and device_nodes is not None:
        yield Finding(
            "Windows provides no GPU to this WSL: there is no /dev/dxg",
            cause="no_gpu_in_machine",
            evidence=("/dev/dxg, through which WSL 2 reaches the GPU, does not exist",),
            fix=Fix(
                "Install the NVIDIA driver in Windows (not inside WSL), then run `wsl --update` and `wsl --shutdown`."
            ),
        )
    elif pci is None or system.wsl:
        raise CannotTell("the PCI bus cannot be read, and nothing else shows a GPU")
    else:
        yield _none_in_machine(pci, hosting, knowledge)


def _none_in_machine(pci: Pci, hosting: Hosting | None, knowledge: Knowledge) -> Finding:
    others = [f"{device.vendor}:{device.device} at {device.address}" for device in pci.devices]
    return Finding(
        "there is no NVIDIA GPU in this machine",
        cause="no_gpu_in_machine",
        evidence=(
            f"{pci.device_count} devices on the PCI bus, none of them an NVIDIA display controller",
            *([f"display controllers of other vendors: {', '.join(others)}"] if others else ()),
            "no /dev/nvidia*, no /proc/driver/nvidia/gpus, and neither NVML nor CUDA lists a GPU",
            *_whose(hosting),
        ),
        fix=Fix(
            "No action needed to run on the CPU; ignore what TensorFlow prints about CUDA and cuInit on this "
            f"machine. To use a GPU: {_how_to_get_one(hosting, knowledge)}"
        ),
    )


def _whose(hosting: Hosting | None) -> list[str]:
    """Return the service and vendor of the machine, if known."""
    if not hosting:
        return []
    said = [f"this is {hosting.service}: {hosting.evidence[0]}"] if hosting.service and hosting.evidence else []
    names = ", ".join(name for name in (hosting.vendor, hosting.product) if name)
    return [*said, *([f"the firmware names the machine {names}"] if names else ())]


def _how_to_get_one(hosting: Hosting | None, knowledge: Knowledge) -> str:
    """Return the instruction that follows "To use a GPU: "."""
    service = knowledge.hosted_services.get(hosting.service) if hosting else None
    if service and service.gpu:
        return service.gpu
    if service:
        return f"{service.name} offers no GPUs; use another machine."
    return (
        "in a virtual machine, set up GPU passthrough; in a cloud, choose an instance type with an NVIDIA GPU; on a "
        "laptop, check whether the firmware disabled the GPU."
    )


def _signs_of_gpu(
    knowledge: Knowledge,
    pci: Pci | None,
    nvml: Nvml | None,
    cuda_driver: CudaDriver | None,
    driver: Driver | None,
    device_nodes: DeviceNodes | None,
) -> list[str]:
    names = [(gpu, knowledge.name_for_id(gpu.device)) for gpu in (pci.nvidia_gpus if pci else ())]
    signs = [
        f"PCI device {gpu.vendor}:{gpu.device} at {gpu.address}" + (f": {name}" if name else "") for gpu, name in names
    ]
    signs += [f"NVML lists {gpu.name or 'a GPU'}" for gpu in (nvml.gpus if nvml else ())]
    signs += [f"CUDA lists {gpu.name or 'a GPU'}" for gpu in (cuda_driver.gpus if cuda_driver else ())]
    signs += [f"/proc/driver/nvidia/gpus lists {address}" for address in (driver.gpus if driver else ())]
    if device_nodes:
        # The last two belong to a Tegra GPU, which is not on a PCI bus.
        others = [device_nodes.find(path) for path in ("/dev/dxg", "/dev/nvhost-gpu", "/dev/nvmap")]
        signs += [f"{node.path} exists" for node in (*device_nodes.gpus, *others) if node]
    return signs


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
        yield Evidence(", ".join(f"GPU {gpu.index}: compute mode {gpu.compute_mode or 'unknown'}" for gpu in gpus))


def _is_closed(gpu: NvmlGpu) -> bool:
    return gpu.compute_mode == "prohibited" or (gpu.compute_mode.startswith("exclusive") and bool(tenants(gpu)))


@check(
    "GPU003",
    "TensorFlow ignores no GPU because of a low multiprocessor count",
    family="GPU",
    tags=(GPU_LOST,),
    stage=Stage.RUNTIME,
    after=("DRV008",),
    causes=("gpu_below_min_multiprocessor_count",),
    sources=("https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/common_runtime/gpu/gpu_device.cc",),
)
def multiprocessors_suffice(cuda_driver: CudaDriver, environment: Environment, knowledge: Knowledge) -> Yielded:
    """TensorFlow ignores a GPU with fewer than 8 multiprocessors, or fewer than the best GPU has if that is less than 8.

    Fix: set TF_MIN_GPU_MULTIPROCESSOR_COUNT to the small GPU's count, or leave that GPU unused.
    """
    if not cuda_driver.gpus:
        raise Skip("CUDA lists no GPU")
    usual = int(knowledge.boundaries["minimum_multiprocessors"].value)
    wanted = environment.get("TF_MIN_GPU_MULTIPROCESSOR_COUNT") or ""
    best = max(gpu.multiprocessors for gpu in cuda_driver.gpus)
    least = int(wanted) if wanted.isdecimal() else min(usual, best)
    for gpu in cuda_driver.gpus:
        if 0 < gpu.multiprocessors < least:
            yield Finding(
                f"TensorFlow ignores GPU {gpu.index} ({gpu.name}): it has {gpu.multiprocessors} multiprocessors, "
                f"and the minimum is {least}",
                cause="gpu_below_min_multiprocessor_count",
                severity="warning",
                evidence=(f"TF_MIN_GPU_MULTIPROCESSOR_COUNT is {wanted or 'not set'}; the best GPU has {best}",),
                fix=Fix(
                    "To use it anyway, lower the minimum.",
                    (f"export TF_MIN_GPU_MULTIPROCESSOR_COUNT={gpu.multiprocessors}",),
                ),
            )
        else:
            yield Evidence(
                f"GPU {gpu.index}: {gpu.multiprocessors or 'unknown'} multiprocessors, at least {least} needed"
            )
