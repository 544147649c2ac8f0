"""XID006: do the programs that reach the driver have its version?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.kernel_log.xids import ago, is_current, reach, read_log
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Confidence, Evidence, Finding, Fix, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml

_VERSION = re.compile(r"has the version (\d+(?:\.\d+)+)")  # of the client, then of the module
_REBOOT = (
    "Reboot, so that the kernel loads the module of the installed driver. If the message comes back, the module on disk "
    "(`modinfo nvidia`) was not built anew, or a container or program brings libraries of another driver."
)


@check(
    "XID006",
    "the kernel module rejected no program because of its driver version", family="Kernel log", stage=Stage.GPU,
    after=("GPU001", "DRV001", "DRV006"), causes=("driver_library_version_mismatch",),
    sources=(
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv.c",
        "https://github.com/NVIDIA/nvidia-docker/issues/182",
    ),
)  # fmt: skip
def programs_have_the_modules_version(
    kernel_log: KernelLog, knowledge: Knowledge, nvml: Nvml | None = None, cuda_driver: CudaDriver | None = None
) -> Yielded:
    """The module serves only programs that use libraries of its own version. It logs each other one as an API mismatch,
    mostly after an upgrade without a reboot. If CUDA or NVML works now, only that program uses other libraries.

    Fix: reboot, or restart the program with the libraries of the loaded driver.
    """
    log = read_log(kernel_log)
    rejected = [each for each in log.of_kind("api_mismatch") if is_current(each, log, knowledge)]
    works = bool((cuda_driver and cuda_driver.works) or (nvml and nvml.works))
    if works or not rejected:
        yield Evidence("the driver serves programs" if works else f"no API mismatch in {reach(log)}")
    for each in rejected:
        yield _rejected(each, works)


def _rejected(said: KernelMessage, works: bool) -> Finding:
    who = f"the program {said.process!r}" if said.process else "a program"
    versions = _VERSION.findall(said.text)
    told = f": its libraries are of {versions[0]}, the module is {versions[1]}" if len(versions) > 1 else ""
    # Recent drivers name the program: it may be the only one with other libraries.
    confidence: Confidence = "medium" if said.process else "high"
    return Finding(
        f"the kernel module rejected {who}{told}",
        cause="driver_library_version_mismatch",
        severity="info" if works else "error",
        confidence=confidence,
        evidence=(said.text, f"last {ago(said.last_age_s)}, {amount(said.count, 'time')}"),
        fix=Fix("Restart that program; if it is rejected again, reboot." if works else _REBOOT),
        figures=figures_of("", [("rejected connections", said.count, "")]),
    )
