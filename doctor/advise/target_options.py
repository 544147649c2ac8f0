"""The target machine of `matrix` and `advise`, as the options describe it."""

from __future__ import annotations

import re
from os.path import exists

from tfgpu_doctor.advise.named_gpu import find
from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.collect.examination import Interrupted, examine, find_python
from tfgpu_doctor.knowledge import Knowledge

_VERSION = re.compile(r"\d+(\.\d+){1,2}")
_DRIVER = re.compile(r"\d{3}(\.\d+){0,2}")
# Machines with NVIDIA's own Arm CPU. Their names are no chips' names, which lspci prints of other GPUs: GB202, GH100.
_GRACE = re.compile(r"(?i)(?<![a-z\d])G(?:H200|B(?:10|200|300))(?![a-z\d])")
_SAME = {("linux", "arm64"): "aarch64", ("wsl", "arm64"): "aarch64", ("macos", "aarch64"): "arm64"}


def is_version(text: str) -> bool:
    """Whether the text is a Python version ("3.12", "3.12.4") and not a path."""
    return bool(_VERSION.fullmatch(text))


def described(
    *,
    gpu: str | None,
    driver: str | None,
    python: str | None,
    os: str | None,
    architecture: str | None,
    glibc: str | None,
    knowledge: Knowledge,
) -> TargetSpec:
    """Return the machine that the options describe; reject invalid GPUs, drivers and versions."""
    asked = "" if python is None else version_of(python)
    if driver and not _DRIVER.fullmatch(driver):
        refuse(f"--driver {driver} is not an NVIDIA driver version: use the form 550.54.15, as nvidia-smi prints it")
    if glibc and not _VERSION.fullmatch(glibc):
        refuse(f"--glibc {glibc} is not a glibc version: use the form 2.31, as `ldd --version` prints it")
    system = os or "linux"
    of_mac = system == "macos"  # whose GPU decides nothing: no wheel for macOS has CUDA
    model, board = find(gpu, knowledge) if gpu and not of_mac else (None, "")
    usual = "arm64" if of_mac else "aarch64" if board or (model and _GRACE.search(model.name)) else "x86_64"
    given = architecture or usual
    return TargetSpec(
        os=system,
        architecture=_SAME.get((system, given), given),
        python=asked,
        driver=driver or "",
        glibc=(glibc or "") if system in ("linux", "wsl") else "",  # no other system has one
        gpu=model,
        board=board,
    )


def version_of(python: str) -> str:
    """Return the version ("3.12") that --python gives, or that the interpreter or environment that it names has."""
    version = python if is_version(python) else _asked(python)
    return ".".join(version.split(".")[:2])


def _asked(python: str) -> str:
    """Ask an interpreter for its version; reject what is none."""
    if not python:
        refuse("the Python of --python is empty: is a variable not set? Leave the option out, or name one")
    place = find_python(python)
    if not exists(place):
        refuse(
            f"--python {python} is neither a Python version (use the form 3.12) nor an interpreter or a virtual "
            f"environment: there is no {place}"
        )
    try:
        target = examine(python=python, quick=True, only=("target",)).target
    except Interrupted as stop:
        raise KeyboardInterrupt from stop
    if target is None or not target.version:
        ending = f" ({target.attempt.ending})" if target else ""
        refuse(f"the Python {place} does not say which version it is{ending}: use the form 3.12")
    return target.version
