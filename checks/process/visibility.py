"""VIS: is the GPU visible to the process, before and after TensorFlow is imported?"""

from __future__ import annotations

import re
import shlex

from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
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
    """CUDA reads the list from left to right and stops at the first entry that names no GPU: an empty value, -1, or an
    index that does not exist hides all following entries.

    Fix: `unset CUDA_VISIBLE_DEVICES`, or name GPUs that exist.
    """
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        yield Evidence("CUDA_VISIBLE_DEVICES is not set")
        return
    count = _count(nvml, driver, pci)
    uuids = _uuids(nvml)
    tokens = [token.strip() for token in value.split(",")]
    seen = _visible(tokens, count, uuids)
    listed = len(cuda_driver.gpus) if cuda_driver else 0
    machine = f"this machine has {count} GPUs, numbered from 0" if count else "the number of GPUs is unknown"
    ends_early = len(seen) < len(tokens) and (not count or len(seen) < count)
    if listed and not (seen and ends_early):
        yield Evidence(f"CUDA lists {listed} GPUs with CUDA_VISIBLE_DEVICES={value!r}")
    elif not seen:
        yield Finding(
            f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU",
            cause="cuda_visible_devices_hides_gpu",
            evidence=(
                f"its first entry {tokens[0]!r} names no GPU" if tokens[0] else "it is set to an empty value",
                machine,
            ),
            fix=Fix("Make all GPUs visible to CUDA, or name only GPUs that exist.", ("unset CUDA_VISIBLE_DEVICES",)),
        )
    elif ends_early:
        rest = shlex.quote(",".join(seen))
        yield Finding(
            f"CUDA_VISIBLE_DEVICES={value!r} ends at its entry {tokens[len(seen)]!r}, which names no GPU",
            cause="cuda_visible_devices_hides_gpu",
            severity="warning",
            evidence=(f"visible: {', '.join(seen)}", machine),
            fix=Fix("Name only GPUs that exist.", (f"export CUDA_VISIBLE_DEVICES={rest}",)),
        )
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


def _visible(tokens: list[str], count: int, uuids: list[str]) -> list[str]:
    """Return the entries before the first that names no GPU. If the GPUs are unknown, the syntax of a name is enough."""
    seen: list[str] = []
    for token in tokens:
        if _NUMBER.fullmatch(token):
            valid = not count or int(token) < count
        else:
            valid = token.startswith(("GPU-", "MIG-")) and (not uuids or any(each.startswith(token) for each in uuids))
            valid = valid or (token.startswith("MIG-GPU-") and bool(uuids))  # the older syntax of MIG device names
        if not valid:
            break
        seen.append(token)
    return seen


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
    tokens = [token.strip() for token in (value or "").split(",")]
    hides = value is not None and not _visible(tokens, nvml.gpu_count if nvml else 0, _uuids(nvml))
    if hides and not runtime.gpus:
        yield Finding(
            f"something set CUDA_VISIBLE_DEVICES to {value!r} while Python started or TensorFlow was imported",
            cause="cuda_visible_devices_hides_gpu",
            evidence=("it had a different value, or was not set, when the process started",),
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
