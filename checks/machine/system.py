"""SYS: can TensorFlow run on this system and processor, and use a GPU there at all?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow


@check(
    "SYS001",
    "the Windows Subsystem for Linux is version 2",
    stage=Stage.MACHINE,
    causes=("wsl1_instead_of_wsl2",),
    sources=("https://learn.microsoft.com/windows/wsl/compare-versions",),
)
def wsl_is_version_2(system: System) -> Yielded:
    """WSL 1 translates system calls and has no Linux kernel, hence no GPU; WSL 2 has both.

    Fix: in PowerShell, `wsl --set-version NAME 2` for the distribution, then install Windows' NVIDIA driver.
    """
    if not system.wsl:
        raise Skip("this is not WSL")
    if system.wsl == 1:
        yield Finding(
            "this is WSL 1, which gives no program a GPU",
            cause="wsl1_instead_of_wsl2",
            evidence=(f"the kernel calls itself {system.release}; WSL 2's says microsoft-standard-WSL2",),
            fix=Fix("In PowerShell list the distributions with `wsl -l -v`, then convert: `wsl --set-version NAME 2`."),
        )
        return
    yield Evidence(f"kernel {system.release}")


@check(
    "SYS002",
    "the processor has AVX",
    stage=Stage.MACHINE,
    causes=("cpu_without_avx",),
    sources=("https://www.tensorflow.org/install/pip",),
)
def cpu_has_avx(system: System, knowledge: Knowledge, runtime: Runtime | None = None) -> Yielded:
    """TensorFlow's wheels use AVX without asking; where it is missing, the import dies of an illegal instruction.

    Fix: on a virtual machine choose a CPU model that passes AVX through (`host`); on an old processor build
    TensorFlow from source, or take a community build without AVX.
    """
    if system.architecture not in ("x86_64", "AMD64"):
        raise Skip(f"AVX belongs to x86-64 processors; this one is {system.architecture}")
    if runtime and runtime.version:
        yield Evidence(f"TensorFlow {runtime.version} was imported")
    elif system.cpu_flags is None:
        raise Skip("the processor's flags cannot be read")
    elif "avx" not in system.cpu_flags:
        first = knowledge.boundaries["first_release_with_avx"].value
        yield Finding(
            f"the processor ({system.cpu_model or 'of unknown name'}) has no AVX, which TensorFlow's wheels need",
            cause="cpu_without_avx",
            evidence=(
                "no avx among the flags of /proc/cpuinfo",
                f"TensorFlow's wheels use AVX since {first}: without it the import ends with an illegal instruction",
            ),
            fix=Fix(
                "In a virtual machine set the CPU model to `host` (QEMU, Proxmox) so that AVX is passed through; "
                "on a processor without AVX use a TensorFlow built from source for it."
            ),
        )
    else:
        yield Evidence("avx is among the processor's flags")


@check(
    "SYS003",
    "the C library is new enough for this TensorFlow wheel",
    stage=Stage.WHEEL,
    after=("PKG002",),
    causes=("glibc_too_old",),
    sources=("https://peps.python.org/pep-0600/",),
)
def c_library_is_new_enough(system: System, tensorflow: TensorFlow, runtime: Runtime | None = None) -> Yielded:
    """A wheel's tag manylinux_2_27 says that it needs glibc 2.27. pip checks that; copied environments do not.

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
        raise Skip("the wheel or the C library does not say its version")
    else:
        yield Evidence(f"glibc {system.glibc}, and the wheel needs {needed}")


@check(
    "SYS004",
    "TensorFlow has GPU support on this operating system",
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
    """On native Windows TensorFlow lost its GPU support after 2.10; on macOS it comes as a plug-in, for Apple's GPUs.

    Fix: on Windows use WSL 2; on a Mac with Apple silicon `pip install tensorflow-metal`.
    """
    last = knowledge.boundaries["last_release_for_windows_gpu"].value
    if system.os == "Linux":
        raise Skip("on Linux it always has")
    if runtime and runtime.gpus:
        yield Evidence(f"TensorFlow lists {len(runtime.gpus)} GPUs")
    elif system.os == "Windows" and version(tensorflow.version).release[:2] > version(last).release[:2]:
        yield Finding(
            f"TensorFlow {tensorflow.version} has no GPU support on native Windows; {last} was the last that had",
            cause="native_windows_no_gpu_build",
            evidence=(f"the system is Windows, the wheel {tensorflow.wheel_tag or tensorflow.distribution}",),
            fix=Fix("Install WSL 2 and use TensorFlow inside it: https://www.tensorflow.org/install/pip#windows-wsl2"),
        )
    elif system.os == "Darwin" and system.architecture == "arm64" and not target.find("tensorflow-metal"):
        yield Finding(
            "tensorflow-metal, which gives TensorFlow the GPU of a Mac, is not installed",
            cause="macos_metal_plugin_missing",
            evidence=(f"no distribution tensorflow-metal in {target.prefix}",),
            fix=Fix("Install the plug-in.", pip(target, "install", "tensorflow-metal")),
        )
    else:
        yield Evidence(f"TensorFlow {tensorflow.version} on {system.os}")
