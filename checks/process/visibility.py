"""VIS: is the GPU visible to the process, before and after TensorFlow is imported?"""

from __future__ import annotations

import re
import shlex

from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Environment, Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST, VISIBLE_GPUS

_ENV = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars"
_NUMBER = re.compile(r"\s*\+?[0-9]+\s*")


@check(
    "VIS001",
    "CUDA_VISIBLE_DEVICES hides no GPU",
    family="GPU visibility",
    tags=(
        GPU_LOST,
        VISIBLE_GPUS,
    ),
    stage=Stage.DRIVER,
    after=("GPU001", "CNT004"),
    causes=("cuda_visible_devices_hides_gpu",),
    sources=(_ENV,),
)
def visible_devices_hides_nothing(
    environment: Environment,
    nvml: Nvml | None = None,
    driver: Driver | None = None,
    pci: Pci | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """CUDA reads the list from left to right and stops at the first entry that names no GPU: an empty value, -1, an index
    that does not exist, or a UUID so short that several GPUs have it hides all following entries. A GPU that is named
    twice hides every GPU.

    Fix: `unset CUDA_VISIBLE_DEVICES`, or name GPUs that exist, each once.
    """
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        yield Evidence("CUDA_VISIBLE_DEVICES is not set")
        return
    count = _count(nvml, driver, pci)
    seen, entry, why = _visible(value, count, _uuids(nvml))
    listed = len(cuda_driver.gpus) if cuda_driver else 0
    machine = f"this machine has {amount(count, 'GPU')}, numbered from 0" if count else "the number of GPUs is unknown"
    ends_early = bool(why) and (not count or len(seen) < count)
    if listed and not (seen and ends_early):
        yield Evidence(f"CUDA lists {amount(listed, 'GPU')} with CUDA_VISIBLE_DEVICES={value!r}")
    elif not seen:
        yield Finding(
            f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU",
            cause="cuda_visible_devices_hides_gpu",
            evidence=(f"its {entry} {why}" if entry else "it is set to an empty value", machine),
            fix=Fix(
                "Make all GPUs visible to CUDA, or name only GPUs that exist, each once.",
                ("unset CUDA_VISIBLE_DEVICES",),
            ),
        )
    elif ends_early:
        rest = shlex.quote(",".join(seen))
        yield Finding(
            f"CUDA_VISIBLE_DEVICES={value!r} ends at its {entry}, which {why}",
            cause="cuda_visible_devices_hides_gpu",
            severity="warning",
            evidence=(f"visible: {', '.join(seen)}", machine),
            fix=Fix("Name only GPUs that exist.", (f"export CUDA_VISIBLE_DEVICES={rest}",)),
        )
    elif not count and not _uuids(nvml):
        raise NotMeasured(f"CUDA_VISIBLE_DEVICES={value!r} names GPUs, and which GPUs there are is unknown")
    else:
        yield Evidence(f"CUDA_VISIBLE_DEVICES={value!r} leaves {', '.join(seen)} visible")


def _count(nvml: Nvml | None, driver: Driver | None, pci: Pci | None) -> int:
    """Return the number of GPUs in the machine from any source; 0 if no source knows it."""
    return (nvml.gpu_count if nvml else 0) or len(driver.gpus if driver else ()) or len(pci.nvidia_gpus if pci else ())


def _uuids(nvml: Nvml | None) -> list[str]:
    """Return the names that NVML knows; empty if a GPU with an error did not report its UUID."""
    if nvml is None or not all(each.uuid or each.is_refused for each in nvml.troubles):
        return []
    named = [name for gpu in nvml.gpus for name in (gpu.uuid, *gpu.mig_devices)]
    return [*named, *(each.uuid for each in nvml.troubles if each.uuid)]


def _visible(value: str, count: int, uuids: list[str]) -> tuple[list[str], str, str]:
    """Return the entries that CUDA accepts, the entry that ends the list, and why; both are empty if CUDA accepts all.

    A GPU that is named twice leaves no entry: cuInit then returns CUDA_ERROR_NO_DEVICE.
    """
    tokens = [token.strip() for token in value.split(",")]
    devices: list[str | int] = []
    for place, token in enumerate(tokens):
        entry = f"entry {token!r}" if place else f"first entry {token!r}" if token else ""
        named = _named(token, count, uuids)
        if len(named) != 1:
            return tokens[:place], entry, f"is the beginning of {len(named)} UUIDs" if named else "names no GPU"
        if named[0] in devices:
            return [], entry, "names the same GPU as an entry before it: CUDA then lists none"
        devices += named
    return tokens, "", ""


def _named(token: str, count: int, uuids: list[str]) -> list[str | int]:
    """Return the GPUs that an entry may mean. If the GPUs are unknown, the syntax of a name is enough."""
    if _NUMBER.fullmatch(token):
        return [int(token)] if not count or int(token) < count else []
    if not token.startswith(("GPU-", "MIG-")):
        return []
    if not uuids or token.startswith("MIG-GPU-"):  # the older syntax of MIG device names
        return [token]
    return [each for each in dict.fromkeys(uuids) if each.startswith(token)]


@check(
    "VIS002",
    "importing TensorFlow does not change the GPU-related environment variables",
    family="GPU visibility",
    stage=Stage.LIBRARIES,
    after=("TFW001",),
    causes=("cuda_visible_devices_hides_gpu",),
    sources=(_ENV, "https://docs.python.org/3/library/site.html#module-sitecustomize"),
)
def import_changes_no_variable(runtime: Runtime, nvml: Nvml | None = None) -> Yielded:
    """A sitecustomize.py, a .pth file or another imported package may set CUDA_VISIBLE_DEVICES; the shell does not show it.

    Fix: find the code that sets it: `grep -r CUDA_VISIBLE_DEVICES` in site-packages and in your own modules.
    """
    if not runtime.version:
        raise Skip("TensorFlow was not imported")
    value = runtime.changed_variables.get("CUDA_VISIBLE_DEVICES")
    seen, entry, why = _visible(value or "", nvml.gpu_count if nvml else 0, _uuids(nvml))
    if value is not None and not seen and not runtime.gpus:
        yield Finding(
            f"something set CUDA_VISIBLE_DEVICES to {value!r} while Python started or TensorFlow was imported",
            cause="cuda_visible_devices_hides_gpu",
            evidence=(
                "it had a different value, or was not set, when the process started",
                *([f"its {entry} {why}"] if entry else ()),
            ),
            fix=Fix(
                "Find the code that sets it: search sitecustomize.py, *.pth files and the imported packages for that name."
            ),
        )
    else:
        yield Evidence(
            f"changed: {', '.join(runtime.changed_variables)}"
            if runtime.changed_variables
            else "no variable was changed"
        )
