"""SYS: can TensorFlow run on this system and CPU, and can it use a GPU there?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import NEW_ENVIRONMENT, needs_of, new_environment
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.tags import version_of


@check(
    "SYS001",
    "the Windows Subsystem for Linux is version 2",
    family="Operating system",
    stage=Stage.MACHINE,
    causes=("wsl1_instead_of_wsl2",),
    sources=("https://learn.microsoft.com/windows/wsl/compare-versions",),
)
def wsl_is_version_2(system: System) -> Yielded:
    """WSL 1 translates system calls and has no Linux kernel, and so no GPU access; WSL 2 has both.

    Fix: in PowerShell, run `wsl --set-version NAME 2` for the distribution, then install the NVIDIA driver in Windows.
    """
    if not system.wsl:
        raise Skip("this is not WSL")
    if system.wsl == 1:
        yield Finding(
            "this is WSL 1, in which no program can use a GPU",
            cause="wsl1_instead_of_wsl2",
            evidence=(f"the kernel reports the release {system.release}; WSL 2's contains microsoft-standard-WSL2",),
            fix=Fix(
                "In PowerShell, list the distributions with `wsl -l -v`, then convert this one: `wsl --set-version NAME 2`."
            ),
        )
        return
    yield Evidence(f"kernel {system.release}")


@check(
    "SYS002",
    "the CPU has AVX",
    family="Operating system",
    stage=Stage.MACHINE,
    causes=("cpu_without_avx",),
    sources=("https://www.tensorflow.org/install/pip",),
)
def cpu_has_avx(system: System, knowledge: Knowledge, runtime: Runtime | None = None) -> Yielded:
    """TensorFlow's wheels use AVX without checking for it; without AVX, the import fails with an illegal instruction.

    Fix: on a virtual machine, choose a CPU model that passes AVX through (`host`); on an old CPU, build
    TensorFlow from source, or use a community build without AVX.
    """
    if system.architecture not in ("x86_64", "AMD64"):
        raise Skip(f"AVX is a feature of x86-64 CPUs; this one is {system.architecture}")
    if runtime and runtime.version:
        yield Evidence(f"TensorFlow {runtime.version} was imported")
    elif system.cpu_flags is None:
        raise NotMeasured("the CPU flags cannot be read")
    elif "avx" not in system.cpu_flags:
        first = knowledge.boundaries["first_release_with_avx"].value
        yield Finding(
            f"the CPU ({system.cpu_model or 'of unknown name'}) has no AVX, which TensorFlow's wheels need",
            cause="cpu_without_avx",
            evidence=(
                "no avx among the flags in /proc/cpuinfo",
                f"TensorFlow's wheels use AVX since {first}: without it, the import fails with an illegal instruction",
            ),
            fix=Fix(
                "In a virtual machine, set the CPU model to `host` (QEMU, Proxmox) so that AVX is passed through; "
                "on a CPU without AVX, use a TensorFlow built from source for it."
            ),
        )
    else:
        yield Evidence("avx is among the CPU flags")


@check(
    "SYS003",
    "the C library is new enough for this TensorFlow wheel",
    family="Operating system",
    tags=(version_of("glibc"),),
    stage=Stage.WHEEL,
    after=("PKG002",),
    causes=("glibc_too_old",),
    sources=("https://peps.python.org/pep-0600/",),
)
def c_library_is_new_enough(system: System, tensorflow: TensorFlow, runtime: Runtime | None = None) -> Yielded:
    """A wheel's tag manylinux_2_27 means that it needs glibc 2.27. pip checks that; copying an environment does not.

    Fix: use a newer distribution (or its container image), or an older TensorFlow release.
    """
    error = runtime.import_error if runtime else ""
    complaint = re.search(r"(\S+): version `(GLIBC(?:XX)?_[\d.]+)' not found", error)
    found = re.search(r"manylinux_(\d+_\d+)", tensorflow.wheel_tag)
    needed = found.group(1).replace("_", ".") if found else ""
    known = bool(needed and system.glibc)
    if known and version(system.glibc) < version(needed) and not (runtime and runtime.version):
        yield Finding(
            f"glibc {system.glibc} is older than {needed}, which this TensorFlow wheel needs",
            cause="glibc_too_old",
            evidence=(f"the wheel's tag is {tensorflow.wheel_tag}", *([error] if complaint else ())),
            fix=Fix(f"Use a distribution with glibc {needed} or newer (a container will do), or an older TensorFlow."),
        )
    elif complaint:
        yield Finding(
            f"{complaint.group(1)} has no {complaint.group(2)}, which this TensorFlow wheel needs",
            cause="glibc_too_old",
            evidence=(error, f"the C library is glibc {system.glibc or 'of unknown version'}"),
            fix=Fix("Use a newer distribution (a container will do), or an older TensorFlow."),
        )
    elif not known:
        raise NotMeasured("the glibc version of the wheel or of the system is unknown")
    else:
        yield Evidence(f"glibc {system.glibc}, and the wheel needs {needed}")


@check(
    "SYS004",
    "TensorFlow has GPU support on this operating system",
    family="Operating system",
    goal="platform",
    stage=Stage.WHEEL,
    after=("PKG002",),
    causes=("native_windows_no_gpu_build", "macos_metal_plugin_missing"),
    sources=(
        "https://www.tensorflow.org/install/pip#windows-native",
        "https://developer.apple.com/metal/tensorflow-plugin/",
    ),
)
def system_has_gpu_support(
    system: System, target: Target, tensorflow: TensorFlow, knowledge: Knowledge, runtime: Runtime | None = None
) -> Yielded:
    """On native Windows, TensorFlow has no GPU support after 2.10; on macOS, a plug-in provides it for Apple GPUs.

    Fix: on Windows, use WSL 2; on a Mac with Apple silicon, install tensorflow-metal and a TensorFlow that it supports.
    """
    last = knowledge.boundaries["last_release_for_windows_gpu"].value
    if system.os == "Linux":
        raise Skip("TensorFlow always has GPU support on Linux")
    if runtime and runtime.gpus:
        yield Evidence(f"TensorFlow lists {amount(len(runtime.gpus), 'GPU')}")
    elif system.os == "Darwin" and system.architecture == "arm64":
        yield _on_apple_silicon(target, tensorflow, knowledge)
    elif system.os == "Darwin":
        raise Skip("TensorFlow has no GPU support on Macs with Intel CPUs")
    elif system.os != "Windows":
        raise Skip(f"whether TensorFlow has GPU support on {system.os} is not known")
    elif not _is_newer(tensorflow.version, last):  # a pass would say that there is a GPU
        raise Skip(
            f"TensorFlow {tensorflow.version} has GPU support on native Windows; the checks of the driver tell of a GPU"
        )
    else:
        yield Finding(
            f"TensorFlow {tensorflow.version} has no GPU support on native Windows; {last} was the last release with it",
            cause="native_windows_no_gpu_build",
            evidence=(f"the system is Windows, the wheel {tensorflow.wheel_tag or tensorflow.distribution}",),
            fix=Fix("Install WSL 2 and use TensorFlow inside it: https://www.tensorflow.org/install/pip#windows-wsl2"),
        )


def _on_apple_silicon(target: Target, tensorflow: TensorFlow, knowledge: Knowledge) -> Finding | Evidence:
    """Judge a Mac that has a GPU, which TensorFlow uses through the plug-in."""
    metal = target.find("tensorflow-metal")
    if not metal:
        return Finding(
            "tensorflow-metal, which lets TensorFlow use a Mac's GPU, is not installed",
            cause="macos_metal_plugin_missing",
            evidence=(f"no distribution tensorflow-metal in {target.prefix}",),
            fix=_install_metal(target, tensorflow, knowledge),
        )
    if _is_newer(tensorflow.version, knowledge.boundaries["last_release_for_metal"].value):
        raise Skip(
            f"tensorflow-metal {metal.version} is installed; whether it works with TensorFlow {tensorflow.version}, only "
            "an import tells"
        )
    return Evidence(f"tensorflow-metal {metal.version} is installed, and Macs with Apple silicon have a GPU")


def _install_metal(target: Target, tensorflow: TensorFlow, knowledge: Knowledge) -> Fix:
    """Return how to install the plug-in, with another TensorFlow or Python where it supports neither."""
    last = knowledge.boundaries["last_release_for_metal"]
    if not _is_newer(tensorflow.version, last.value):
        return Fix("Install the plug-in.", pip(target, "install", "tensorflow-metal"))
    pair = (f"tensorflow=={last.value}.*", "tensorflow-metal")
    text = f"Install the plug-in with TensorFlow {last.value}, the newest release that its page names ({last.source})."
    needs = needs_of(knowledge, last.value, "macos", "arm64")
    pythons = needs.pythons if needs else ()
    python = ".".join(target.version.split(".")[:2])
    if not python or not pythons or python in pythons:
        return Fix(text, pip(target, "install", *pair))
    return Fix(
        f"{text} That release has wheels for Python {', '.join(pythons)}: create an environment with one of them. uv "
        "(https://docs.astral.sh/uv) downloads one if this machine has none.",
        (*new_environment(pythons[-1], *pair), f"tfgpu-doctor --python {NEW_ENVIRONMENT}"),
    )


def _is_newer(tensorflow: str, last: str) -> bool:
    """Whether a version belongs to a later minor release than the last one."""
    return version(tensorflow).release[:2] > version(last).release[:2]
