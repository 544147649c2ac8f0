"""The machine behind a log: partial facts, judged by the doctor's own checks and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tfgpu_doctor.diagnose.engine import run_checks
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import ReleaseNeeds, needs_of
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.file_names import ONE_NAME_PER_MAJOR
from tfgpu_doctor.log.gpu_names import find_gpus
from tfgpu_doctor.log.readers import Documents
from tfgpu_doctor.log.signatures import Hit
from tfgpu_doctor.model import Finding
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import TensorFlow
from tfgpu_doctor.model.tags import PARTIAL

_LAST_CUDNN = 9  # a higher number is a CUDA version
_FIRST_WITH_TENSOR_CORES = "7.0"
_VERSION = re.compile(r"\d+(?:\.\d+)*")
NOT_A_LINE = 0  # the number of a hit that follows from stated values


def partial_facts(context: Context, documents: Documents, knowledge: Knowledge) -> Facts:
    """Return what the text shows of its machine; everything else is None."""
    needs = needed(context, knowledge)
    return Facts(
        system=documents.system or _system(context),
        tensorflow=_tensorflow(context, needs),
        driver=_driver(context, documents),
        nvml=_with_capabilities(documents.nvml, knowledge) if documents.nvml else _nvml(context, knowledge),
        kernel_log=documents.kernel_log,
    )


def needed(context: Context, knowledge: Knowledge) -> ReleaseNeeds | None:
    """Return the needs of the TensorFlow release in a context; those of Linux if the system is unknown."""
    found = _VERSION.search(context.values.get("tensorflow", ""))
    if not found or "." not in found.group():
        return None
    architecture = "aarch64" if context.knows("arm") else "x86_64"
    return needs_of(knowledge, found.group(), context.platform or "linux", architecture)


def _system(context: Context) -> System | None:
    os = {"linux": "Linux", "windows": "Windows", "macos": "Darwin"}.get(context.platform)
    if not os:
        return None
    arm = context.knows("arm")
    wsl = context.knows("wsl") or (os == "Linux" and context.knows("windows"))  # Docker on Windows runs in WSL 2
    return System(os=os, release="", architecture="aarch64" if arm else "x86_64", wsl=2 if wsl else 0)


def _tensorflow(context: Context, needs: ReleaseNeeds | None) -> TensorFlow | None:
    if needs is None or not needs.has_gpu_build:
        return None
    found = _VERSION.search(context.values["tensorflow"])
    return TensorFlow(
        version=found.group() if found else needs.minor,
        distribution=needs.gpu_package,
        built_with_cuda=True,
        cuda_version=needs.cuda,
        cudnn_version=needs.cudnn,
        compute_capabilities=needs.compute_capabilities,
    )


def _driver(context: Context, documents: Documents) -> Driver | None:
    found = re.search(r"\d{3}\.\d+(?:\.\d+)?", documents.driver_version or context.values.get("driver", ""))
    return Driver(version=found.group(), modules=("nvidia",)) if found else None


def _nvml(context: Context, knowledge: Knowledge) -> Nvml | None:
    """Return the GPUs that the text names, without any measurement of them."""
    gpus = find_gpus(context.values.get("gpu", ""), knowledge)
    if not gpus:
        return None
    return Nvml(
        attempt=Attempt(outcome="answered"),
        gpus=tuple(
            NvmlGpu(index=index, name=gpu.name, compute_capability=gpu.compute_capability)
            for index, gpu in enumerate(gpus)
        ),
    )


def _with_capabilities(nvml: Nvml, knowledge: Knowledge) -> Nvml:
    """Add the compute capabilities, which a table of nvidia-smi does not show."""
    return msgspec.structs.replace(nvml, gpus=tuple(_with_capability(gpu, knowledge) for gpu in nvml.gpus))


def _with_capability(gpu: NvmlGpu, knowledge: Knowledge) -> NvmlGpu:
    model = None if gpu.compute_capability else knowledge.gpu_named(gpu.name)
    return msgspec.structs.replace(gpu, compute_capability=model.compute_capability) if model else gpu


def judge_facts(facts: Facts) -> Iterator[tuple[str, Hit]]:
    """Yield `check:LABEL` for each finding of the checks that can judge partial facts; notes are no causes."""
    from tfgpu_doctor.checks import ALL_CHECKS

    results = run_checks(facts, [check for check in ALL_CHECKS if PARTIAL in check.tags])
    for result in results.values():
        for finding in result.findings:
            if finding.severity != "info":
                yield f"check:{finding.cause}", _hit(finding)


def _hit(finding: Finding) -> Hit:
    fix = " ".join((finding.fix.text, *(f"`{command}`" for command in finding.fix.commands))) if finding.fix else ""
    return Hit(NOT_A_LINE, "; ".join((finding.message, *finding.evidence[:2])), {"fix": fix})


def judge_versions(context: Context, knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Yield how the stated CUDA, cuDNN and Python fit the release."""
    gpus = find_gpus(context.values.get("gpu", ""), knowledge)
    if any(version(gpu.compute_capability) >= version(_FIRST_WITH_TENSOR_CORES) for gpu in gpus):
        yield "has_tensor_cores", _told(f"{gpus[0].name} has compute capability {gpus[0].compute_capability}")
    needs = needed(context, knowledge)
    if needs is None:
        return
    release = f"TensorFlow {needs.minor}"
    if context.platform and not needs.has_gpu_build:
        yield "no_gpu_build", _told(f"{release} has no build with GPU support for this system")
    for gpu in gpus:
        first = knowledge.first_ptxas(
            f"{version(gpu.compute_capability).major}.0"
        )  # its kernels run on later minor versions
        if first and needs.cuda and version(first.cuda) > version(needs.cuda):
            yield (
                "gpu_newer_than_cuda",
                _told(f"{release} is built with CUDA {needs.cuda}, and CUDA knows {gpu.name} from {first.cuda} on"),
            )
    yield from _judge_cuda(context.values.get("cuda", ""), needs, release)
    cudnn = _parts(context.values.get("cudnn", ""))
    if cudnn and needs.cudnn and cudnn[0] <= _LAST_CUDNN and cudnn[0] != _parts(needs.cudnn)[0]:
        yield "cudnn_does_not_fit", _told(f"{release} needs cuDNN {needs.cudnn}, not {context.values['cudnn']}")
    python = re.search(r"[23]\.\d{1,2}", context.values.get("python", ""))
    if python and needs.pythons and python.group() not in needs.pythons:
        known = [version(each) for each in needs.pythons]
        kind = "python_too_new" if version(python.group()) > max(known) else "python_too_old"
        yield kind, _told(f"{release} has no wheel for Python {python.group()}: only for {', '.join(needs.pythons)}")


def _judge_cuda(stated: str, needs: ReleaseNeeds, release: str) -> Iterator[tuple[str, Hit]]:
    installed = [_parts(text) for text in _VERSION.findall(stated)]
    if not installed or not needs.cuda:
        return
    wanted = _parts(needs.cuda)
    depth = 1 if wanted[0] >= ONE_NAME_PER_MAJOR else 2
    text = f"{release} needs CUDA {needs.cuda}; the text names CUDA {stated}"
    if any(each[:depth] == wanted[: len(each[:depth])] for each in installed):
        yield "cuda_fits", _told(text)
    elif all(each[0] != wanted[0] for each in installed):
        yield "cuda_of_other_major", _told(text)
    else:
        yield "cuda_of_other_minor", _told(text)


def _parts(text: str) -> list[int]:
    found = _VERSION.search(text)
    return [int(part) for part in found.group().split(".")] if found else []


def _told(text: str) -> Hit:
    return Hit(NOT_A_LINE, text, {})
