"""The machine that `matrix` and `advise` are asked about: what the options say of it, or this one."""

from __future__ import annotations

import re

from tfgpu_doctor.advise.target_spec import Gpu, TargetSpec
from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.knowledge import Knowledge

_VERSION = re.compile(r"\d+(\.\d+){1,2}")
_DRIVER = re.compile(r"\d{3}(\.\d+){0,2}")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_SAME = {("linux", "arm64"): "aarch64", ("wsl", "arm64"): "aarch64", ("macos", "aarch64"): "arm64"}


def is_version(text: str) -> bool:
    """Whether this is a version of Python ("3.12", "3.12.4"), and no path."""
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
    """The machine that the options describe; refuses what is no GPU, no driver, no version."""
    if python and not is_version(python):
        refuse(f"--python {python} is no version of Python: write 3.12")
    if driver and not _DRIVER.fullmatch(driver):
        refuse(f"--driver {driver} is no version of an NVIDIA driver: write 550.54.15, as nvidia-smi does")
    if glibc and not _VERSION.fullmatch(glibc):
        refuse(f"--glibc {glibc} is no version of glibc: write 2.31, as `ldd --version` does")
    system = os or "linux"
    model, board = find(gpu, knowledge) if gpu else (None, "")
    usual = "arm64" if system == "macos" else "aarch64" if board else "x86_64"
    given = architecture or usual
    return TargetSpec(
        os=system,
        architecture=_SAME.get((system, given), given),
        python=".".join(python.split(".")[:2]) if python else "",
        driver=driver or "",
        glibc=glibc or "",
        gpu=model,
        board=board,
    )


def find(name: str, knowledge: Knowledge) -> tuple[Gpu, str]:
    """The GPU of that name, or of that compute capability ("8.6"), and the board that it is a part of, a Jetson for
    instance; refuses a name that is none."""
    from tfgpu_doctor.rehearse.gpu_names import UnknownGpu, find_gpu

    if _CAPABILITY.fullmatch(name):
        return Gpu(f"a GPU of compute capability {name}", name), ""
    try:
        model = find_gpu(name, knowledge.gpus)
    except UnknownGpu as error:
        refuse(f"{error}; its compute capability will do in place of a name: --gpu 8.6")
    board = next((alias for alias in model.aliases if "jetson" in alias.lower()), "")
    return Gpu(model.name, model.compute_capability), board
