"""The GPUs that may be stress-tested: those that TensorFlow lists and no other process uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfgpu_doctor.collect.probes.stress_samples import Look, Sampling
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, Nvml
from tfgpu_doctor.model.facts.python import Runtime

_MPS_SERVER = "nvidia-cuda-mps-server"  # it admits its clients, and computes nothing itself
_SETTLING_S = 1.2  # NVML averages utilization over up to a second: the doctor's own TensorFlow has just ended


@dataclass(frozen=True)
class Candidate:
    """A GPU that TensorFlow lists, with its other identifiers; `number` is NVML's index, None if it is unknown."""

    index: int
    name: str
    compute_capability: str
    multiprocessors: int
    number: str | None
    uuid: str
    mig: bool
    token: str  # the value that makes only this GPU visible to a process

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions of its products: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions ."""
        major = int(self.compute_capability.partition(".")[0] or 0)
        return ("float32", "tf32", "float16", "bfloat16") if major >= 8 else ("float32", "float16")


def candidates(
    runtime: Runtime, cuda_driver: CudaDriver, nvml: Nvml, sampling: Sampling, environment: Mapping[str, str]
) -> list[Candidate]:
    """The GPUs that TensorFlow lists. If it omitted none, they are in CUDA's order."""
    in_order = len(cuda_driver.gpus) == len(runtime.gpus)
    tokens = [word.strip() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    found = []
    for place, gpu in enumerate(runtime.gpus):
        cuda = cuda_driver.gpus[place] if in_order else None
        number = _number(cuda, len(runtime.gpus), sampling)
        uuid = sampling.gpus[number].uuid if number is not None else ""
        mig = any(each.mig for each in nvml.gpus if each.uuid == uuid) or " MIG " in gpu.description
        name = gpu.name.rpartition(":")[2]
        found.append(
            Candidate(
                index=int(name) if name.isdigit() else place,
                name=gpu.description or (cuda.name if cuda else ""),
                compute_capability=gpu.compute_capability,
                multiprocessors=cuda.multiprocessors if cuda else 0,
                number=number,
                uuid=uuid,
                mig=mig,
                token=tokens[place] if place < len(tokens) else (uuid if uuid and not mig else str(place)),
            )
        )
    return found


def _number(cuda: CudaGpu | None, count: int, sampling: Sampling) -> str | None:
    """NVML's index of a CUDA GPU."""
    if cuda and cuda.pci_address:
        address = _place(cuda.pci_address)
        return next((number for number, gpu in sampling.gpus.items() if _place(gpu.pci_address) == address), None)
    return next(iter(sampling.gpus)) if count == len(sampling.gpus) == 1 else None


def _place(pci_address: str) -> str:
    """A PCI address without its domain's leading zeros: NVML writes eight digits, CUDA four."""
    return re.sub(r"^0+", "", pci_address.lower())


def who_uses(candidate: Candidate, sampling: Sampling) -> tuple[str, ...]:
    """Signs that others use a GPU, in the samples before the stress test; an undetermined state counts as one."""
    if candidate.number is None:
        return (f"whether others use it could not be determined: {sampling.trouble or 'NVML does not list it'}",)
    moments = sorted(map(float, sampling.samples))
    looks = sampling.looks(candidate.number, [(moments[0], moments[-1])]) if moments else []
    if not looks:
        return (f"whether others use it could not be determined: {sampling.trouble or 'NVML has no samples of it'}",)
    settled = sampling.looks(candidate.number, [(moments[0] + _SETTLING_S, moments[-1])]) or looks[-1:]
    signs = [
        f"{each.name or 'a process'} ({each.pid}) computes on it"
        for each in looks[-1].tenants
        if _MPS_SERVER not in each.name
    ]
    if not candidate.mig:  # for a partitioned GPU the values are the sums of all its parts
        signs += [*_use(settled), *_held(looks[-1])]
    return tuple(signs)


def _use(looks: list[Look]) -> list[str]:
    most = max((look.utilization_percent or 0.0 for look in looks), default=0.0)
    limit = _boundary("busy_utilization_percent")
    return [f"another process uses it {most:.0f} % of the time"] if most > limit else []


def _held(look: Look) -> list[str]:
    known = look.drawing_bytes + sum(each.memory_bytes or 0 for each in look.tenants)
    rest = (look.used_bytes or 0) - known
    limit = _boundary("busy_memory_bytes")
    named = "in a container, NVML does not name the processes of others"
    return [f"{rest / (1 << 30):.1f} GiB of its memory are in use by others ({named})"] if rest > limit else []


def _boundary(name: str) -> float:
    from tfgpu_doctor.knowledge import read_knowledge  # not needed at other levels

    return float(read_knowledge().boundaries[name].value)
