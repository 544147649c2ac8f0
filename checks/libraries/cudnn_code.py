"""Has the cuDNN that TensorFlow loads code for the GPUs? From 9.11 on it has none for GPUs before Turing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.gpu.hardware import least_multiprocessors
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.knowledge.cudnn_code import first_newer_cudnn, is_newer_cudnn, needs_older_cudnn
from tfgpu_doctor.knowledge.requirements import Requirement
from tfgpu_doctor.model import Finding, Fix
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, Libraries
from tfgpu_doctor.model.facts.python import Computation, Distribution, Runtime, Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution

_LOADED = re.compile(r"Loaded cuDNN version (\d{4,})\b")  # 91002 is 9.10.2; before cuDNN 9, 8907 was 8.9.7


@dataclass(frozen=True)
class LoadedCudnn:
    """The version of the cuDNN that TensorFlow loads, how that is known, and whether it is the installed wheel's."""

    version: str
    evidence: str
    is_wheel: bool


@dataclass(frozen=True)
class _Gpu:
    name: str  # "GPU 0 (Tesla V100-SXM2-16GB)"
    device: str
    capability: str


def loaded_cudnn(
    runtime: Runtime | None, resolution: Resolution | None, libraries: Libraries | None, installed: Distribution | None
) -> LoadedCudnn | None:
    """Return the cuDNN that TensorFlow loads: from its log, else the one that the loader selects; None if it is unknown."""
    said = next((found for line in (runtime.log if runtime else ()) if (found := _LOADED.search(line))), None)
    if said:
        number = _spelt(int(said.group(1)))
        is_wheel = installed is not None and version(installed.version).release[:3] == version(number).release
        return LoadedCudnn(number, said.string, is_wheel)
    taken = next((each for each in (resolution.libraries if resolution else ()) if is_main(each.soname)), None)
    if taken and not taken.found:
        return None
    if taken and not taken.wheel and not taken.origin.startswith("pip:"):
        by = f"the loader selects {taken.path}, found through {taken.found_by or 'its search path'}"
        return LoadedCudnn(taken.version, by, is_wheel=False) if version(taken.version).release[1:] else None
    copies = libraries.copies if libraries else ()
    hidden = any(is_main(copy.soname) and copy.found_in == "LD_LIBRARY_PATH" for copy in copies)
    if installed is None or (hidden and not taken):
        return None
    by = f"{installed.name} {installed.version} in {installed.folder}"
    return LoadedCudnn(installed.version, by, is_wheel=True)


def without_code(
    loaded: LoadedCudnn | None,
    tensorflow: TensorFlow,
    target: Target,
    needed: Requirement | None,
    knowledge: Knowledge,
    runtime: Runtime | None,
    cuda_driver: CudaDriver | None,
) -> Finding | None:
    """Return the finding if cuDNN has no code for a GPU that TensorFlow uses: a warning if others work and it was not tried."""
    if loaded is None or not is_newer_cudnn(loaded.version, knowledge) or is_other_major(loaded.version, needed):
        return None
    tried = [each for each in (runtime.computations if runtime else ()) if each.operation == "convolution"]
    used = [
        each
        for each in _gpus_of(runtime, cuda_driver, knowledge)
        if kernels_for(each.capability, tensorflow.compute_capabilities) in ("native", "ptx")
    ]
    right = {each.device for each in tried if each.is_right}
    old = [each for each in used if needs_older_cudnn(each.capability, knowledge) and each.device not in right]
    if not old:
        return None
    first = first_newer_cudnn(knowledge)
    row = knowledge.boundaries["least_capability_of_newer_cudnn"]
    limit = f"from {first} on, cuDNN has no code below compute capability {row.value} ({row.source})"
    more = f" and {len(old) - 1} more" if len(old) > 1 else ""
    ran = bool(runtime and runtime.gpus and not runtime.only_listed)
    return Finding(
        f"cuDNN {loaded.version} has no code for compute capability {old[0].capability}, that of {old[0].name}{more}; "
        f"releases before {first} have it",
        cause="cudnn_version_mismatch",
        severity="error" if ran or len(old) == len(used) else "warning",
        evidence=(loaded.evidence, limit, *_errors(tried, old)),
        fix=_fix(loaded, target, needed, first),
        devices=tuple(each.device for each in old),
    )


def _fix(loaded: LoadedCudnn, target: Target, needed: Requirement | None, first: str) -> Fix:
    if not loaded.is_wheel or needed is None:
        return Fix(f"Replace that cuDNN with a release before {first} for the same CUDA.")
    wanted = f"{needed.name}<{first}" if needed.allows(first) else f"{needed.name}{needed.specifier}"
    return Fix(f"Install {wanted}, using pip.", pip(target, "install", wanted))


def _errors(tried: Sequence[Computation], old: Sequence[_Gpu]) -> tuple[str, ...]:
    devices = {each.device for each in old}
    return tuple(f"{each.operation} on {each.device}: {each.error}" for each in tried if each.device in devices)


def _gpus_of(runtime: Runtime | None, cuda_driver: CudaDriver | None, knowledge: Knowledge) -> list[_Gpu]:
    """Return the GPUs that TensorFlow lists; before it runs, those that CUDA lists and TensorFlow does not ignore."""
    if runtime and runtime.gpus:
        numbers = [each.name.rpartition(":")[2] for each in runtime.gpus]
        return [
            _Gpu(f"GPU {number} ({each.description})", f"/GPU:{number}", each.compute_capability)
            for number, each in zip(numbers, runtime.gpus, strict=True)
        ]
    listed = cuda_driver.gpus if cuda_driver else ()
    return [
        _Gpu(f"GPU {each.index} ({each.name})", device_of(each), each.compute_capability)
        for each in listed
        if not _is_ignored(each, listed, knowledge)
    ]


def _is_ignored(gpu: CudaGpu, listed: Sequence[CudaGpu], knowledge: Knowledge) -> bool:
    """Whether TensorFlow ignores a GPU by default: it has few multiprocessors, and fewer than the best one."""
    return 0 < gpu.multiprocessors < least_multiprocessors(listed, knowledge)


def is_main(soname: str) -> bool:
    """Whether a library is cuDNN itself, and none of its parts."""
    return soname.startswith("libcudnn.so.")


def is_other_major(number: str, needed: Requirement | None) -> bool:
    """Whether TensorFlow requires another major version; within one, a newer cuDNN works like the pinned one."""
    if needed is None or not needed.lowest or not version("0") < version(number):
        return False
    return version(number).major != version(needed.lowest).major


def _spelt(number: int) -> str:
    base = 10000 if number >= 10000 else 1000
    return f"{number // base}.{number % base // 100}.{number % 100}"
