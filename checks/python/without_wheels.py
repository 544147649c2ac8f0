"""Pythons and machines for which no release of TensorFlow has a wheel, whatever the version of Python."""

from __future__ import annotations

from dataclasses import dataclass

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Target

_NAMES = {"pypy": "PyPy", "graalpy": "GraalPy", "other": "another implementation than CPython"}
_PROGRAM = "describe_target.py"  # of doctor/collect/workers
_FIRST_WITH_ANNOTATIONS = "future feature annotations is not defined"  # 3.6 says so, which can parse the rest of it
ANY_PYTHON = "a 64-bit Python {}"


@dataclass(frozen=True)
class OddPython:
    """A Python of a kind that has no wheels: what it is, and what to use in its place ("a 64-bit Python {}")."""

    what: str
    use: str


@dataclass(frozen=True)
class OddMachine:
    """A machine for which no Python has wheels: what it is, how that is known, and what to do."""

    what: str
    evidence: str
    advice: str
    is_certain: bool = True


def odd_python(target: Target) -> OddPython | None:
    """Return what is odd about the target's Python; None if wheels may be for it, or if records do not tell."""
    if target.bits == 32:
        return OddPython(f"32-bit Python {target.version}", ANY_PYTHON)
    if name := _NAMES.get(target.implementation):
        return OddPython(f"{name} (Python {target.version})", "CPython {}")
    if target.free_threaded:
        return OddPython(f"free-threaded Python {target.version}", "a Python {} with the GIL")
    return None


def odd_machine(system: System | None, knowledge: Knowledge) -> OddMachine | None:
    """Return why pip finds no wheel on a Linux, whatever the Python; None if it may find one."""
    if system is None or system.os != "Linux":
        return None
    releases = knowledge.tensorflow_releases
    taken = {wheels.architecture for release in releases for wheels in release.wheels if wheels.os == "linux"}
    if system.architecture and system.architecture not in taken:
        return OddMachine(
            f"Linux on {system.architecture}",
            f"its wheels for Linux are for {' and '.join(sorted(taken))} ({releases[-1].source})",
            "Install a build for this processor from another source, a channel of conda for example, or use another machine.",
        )
    if not system.glibc:
        return OddMachine(
            "a Linux without glibc",
            f"its wheels for Linux are named manylinux, which means glibc ({releases[-1].source})",
            "Use a distribution or an image with glibc (python:3.13-slim has it, python:3.13-alpine does not), or NVIDIA's "
            f"container {knowledge.boundaries['container_of_nvidia'].value}.",
            is_certain=False,  # it is the doctor's own C library that tells, and the target may have another
        )
    return None


def older_python(attempt: Attempt) -> str:
    """Return which Python it is that cannot read the doctor's program: "Python 3.6"; empty if it is none of these."""
    frames = [line for line in attempt.stderr if line.lstrip().startswith('File "')]
    if attempt.outcome != "failed" or not attempt.error.startswith("SyntaxError") or not frames:
        return ""
    if _PROGRAM not in frames[-1]:
        return ""  # another file, which hides a module of Python
    return "Python 3.6" if _FIRST_WITH_ANNOTATIONS in attempt.error else "a Python before 3.6"
