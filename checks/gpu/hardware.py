"""GPU: is there an NVIDIA GPU, is it available, and does TensorFlow use it?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import device_of, figures_of
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.checks.wsl import INSTALL_IN_WINDOWS
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import CannotTell, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Environment, Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, DeviceNodes, Driver, Nvml
from tfgpu_doctor.model.tags import GPU_LOST

# Messages about a GPU that is in the machine, or about the module, which only loads if there is one.
_NAMES_A_GPU = (
    "off_the_bus", "xid", "sxid", "init_failed", "legacy_gpu", "unsupported_gpu", "open_module_cannot", "open_module_needed",
    "taken_by_another", "api_mismatch", "pci_unrecovered",
)  # fmt: skip
_WITHOUT_DRIVER = (1, 6, 9, 12, 13, 28)  # NVML's codes: no driver, no library, nothing found


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
    said = kernel_log.of_kind(*_NAMES_A_GPU) if kernel_log else ()
    seen += [f"the kernel log mentions one: {each.text}" for each in said[:1]]
    if pci is None and not system.wsl and nvml:
        seen += _signs_in_nvml(nvml)
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
            fix=Fix(INSTALL_IN_WINDOWS),
        )
    elif pci is None or system.wsl:
        raise CannotTell("the PCI bus cannot be read, and nothing else shows a GPU")
    else:
        yield _none_in_machine(pci, hosting, knowledge)


def _signs_in_nvml(nvml: Nvml) -> list[str]:
    """Return what NVML says of a GPU that it cannot read; only a loaded driver, which found a GPU, answers with other errors."""
    signs = [f"NVML says of GPU {each.index}: {each.error_text or 'no response'}" for each in nvml.troubles]
    answered = nvml.attempt.answered and nvml.error_code and nvml.error_code not in _WITHOUT_DRIVER
    return signs + ([f"a loaded driver answers NVML: {nvml.error_text}"] if answered else [])


def _none_in_machine(pci: Pci, hosting: Hosting | None, knowledge: Knowledge) -> Finding:
    others = [f"{device.vendor}:{device.device} at {device.address}" for device in pci.devices]
    return Finding(
        "there is no NVIDIA GPU in this machine",
        cause="no_gpu_in_machine",
        evidence=(
            f"{amount(pci.device_count, 'device')} on the PCI bus, none of them an NVIDIA display controller",
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
    wanted = environment.get("TF_MIN_GPU_MULTIPROCESSOR_COUNT") or ""
    unknown = ", ".join(f"GPU {gpu.index} ({gpu.name})" for gpu in cuda_driver.gpus if not gpu.multiprocessors)
    best = max(gpu.multiprocessors for gpu in cuda_driver.gpus)
    least = int(wanted) if wanted.isdecimal() else least_multiprocessors(cuda_driver.gpus, knowledge)
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
                devices=(device_of(gpu),),
                figures=figures_of(
                    device_of(gpu),
                    [("multiprocessors", gpu.multiprocessors, ""), ("fewest multiprocessors allowed", least, "")],
                ),
            )
        elif gpu.multiprocessors:
            yield Evidence(f"GPU {gpu.index}: {gpu.multiprocessors} multiprocessors, at least {least} needed")
    few = any(0 < gpu.multiprocessors < least for gpu in cuda_driver.gpus)
    yield from tell_missing(f"CUDA does not report the multiprocessors of {unknown}" if unknown else "", found=few)


def least_multiprocessors(gpus: Sequence[CudaGpu], knowledge: Knowledge) -> int:
    """Return how many multiprocessors TensorFlow asks for where no variable says so: as many as the best GPU has, or fewer."""
    return min(int(knowledge.boundaries["minimum_multiprocessors"].value), max(gpu.multiprocessors for gpu in gpus))
