"""`tfgpu-doctor advise`: name the newest TensorFlow that works on a machine, and the commands that install it."""

from __future__ import annotations

import dataclasses

import click
import msgspec

from tfgpu_doctor.advise.advise import advise as give_advice
from tfgpu_doctor.advise.page import render_advice, render_advice_json
from tfgpu_doctor.advise.target_options import described, is_version, version_of
from tfgpu_doctor.advise.target_spec import ARCHITECTURES, NEW_PYTHON, SYSTEMS, TargetSpec, gpus_of, spec_of
from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
from tfgpu_doctor.cli.output import deliver, note, refuse, refuse_unwritable
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.knowledge import Knowledge, read_knowledge
from tfgpu_doctor.model.facts import Facts

_NOTHING_FITS, _NOT_JUDGED, _INTERRUPTED = 1, 3, 130
_FACTS = ("system", "driver", "driver_libraries", "nvml", "cuda_driver", "target", "pci", "environment")


@click.command()
@click.option("--gpu", metavar="NAME", help="A GPU ('rtx 4090', H100), or a compute capability (8.6).")
@click.option(
    "--driver", metavar="VERSION", help="The NVIDIA driver, for example 550.54.15; for WSL, the Windows driver."
)
@click.option("--python", metavar="VERSION|PATH", help="A version (3.12), an interpreter or a virtual environment.")
@click.option("--os", type=click.Choice(SYSTEMS), help="The operating system.")
@click.option("--architecture", type=click.Choice(ARCHITECTURES), help="The CPU architecture.")
@click.option("--glibc", metavar="VERSION", help="The glibc version, for example 2.31.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the advice to this file.")
@click.option("-v", "--verbose", is_flag=True, help="List each newer release separately.")
def advise(
    *,
    gpu: str | None,
    driver: str | None,
    python: str | None,
    os: str | None,
    architecture: str | None,
    glibc: str | None,
    format_: str,
    output: str | None,
    verbose: bool,
) -> int:
    """Name the newest TensorFlow release that works on this machine's GPU, or on the machine that options describe.

    With --gpu, --driver, --os, --architecture or --glibc, this machine is not examined, and properties that are not given
    are no limit. Exit code: 0 a release works, 1 none does, 2 wrong usage, 3 no GPU is known to advise for.
    """
    refuse_unwritable(output)
    knowledge = read_knowledge()
    if gpu or driver or os or architecture or glibc:
        spec = described(
            gpu=gpu, driver=driver, python=python, os=os, architecture=architecture, glibc=glibc, knowledge=knowledge
        )
    else:
        try:
            found = _this_machine(python, knowledge)
        except Interrupted:
            return _INTERRUPTED
        if found is None:
            return _NOT_JUDGED
        spec = found
    advice = give_advice(spec, knowledge)
    rendered = render_advice_json(advice) if format_ == "json" else render_advice(advice, verbose=verbose)
    deliver(rendered, output)
    return 0 if advice.release else _NOTHING_FITS


def _this_machine(python: str | None, knowledge: Knowledge) -> TargetSpec | None:
    """Return this machine, with another Python if a version is given; None if it has no GPU to advise for."""
    other = python if python and is_version(python) else None
    try:
        configuration = read_configuration().with_options(python=None if other else python)
    except ConfigurationError as error:
        refuse(str(error))
    facts = examine(python=configuration.python, quick=True, only=_FACTS)
    if python and other is None and not (facts.target and facts.target.version):
        version_of(python)  # which says why it is none
    facts = facts if other else _with_active_environment(facts)
    spec = spec_of(facts, knowledge)
    if why := why_no_gpu(facts, spec):
        note(why)
        return None
    _tell(facts, spec, knowledge)
    if other is None:
        return spec
    return dataclasses.replace(spec, python=".".join(other.split(".")[:2]), **NEW_PYTHON)


def _with_active_environment(facts: Facts) -> Facts:
    """Replace the doctor's own environment, into which nobody installs TensorFlow, by the one that the shell activated."""
    own, environment = facts.target, facts.environment
    active = environment.other_than(own.prefix) if own and own.is_doctors_own and environment else ""
    found = examine(python=active, quick=True, only=("target",)).target if active else None
    if found is None or not found.attempt.answered:
        return facts
    note(f"this advice is for the active environment {active}; for another one, use --python")
    return msgspec.structs.replace(facts, target=found)


def why_no_gpu(facts: Facts, spec: TargetSpec) -> str:
    """Return why there is no GPU here to advise for; empty if there is one, or if the system does not list its GPUs."""
    if facts.system and facts.system.wsl == 1:
        return (
            "this is WSL 1, in which no program can use a GPU: convert it to WSL 2, in PowerShell with "
            "`wsl --set-version NAME 2`; `tfgpu-doctor advise --os wsl --gpu L4` advises for WSL 2 with that GPU"
        )
    if spec.os not in ("linux", "wsl") or spec.board or spec.gpu or _has_gpu(facts):
        return ""
    return "no NVIDIA GPU is found here to advise for: name one with --gpu, as in `tfgpu-doctor advise --gpu L4`"


def _has_gpu(facts: Facts) -> bool:
    """Whether the machine has a GPU of NVIDIA. Windows gives WSL a libcuda if it has NVIDIA's driver."""
    libraries = facts.driver_libraries.copies if facts.driver_libraries else ()
    return (
        bool(facts.pci and facts.pci.nvidia_gpus)
        or bool(facts.nvml and facts.nvml.gpus)
        or any(copy.kind == "wsl" for copy in libraries)
    )


def _tell(facts: Facts, spec: TargetSpec, knowledge: Knowledge) -> None:
    """Write the limits of the advice to standard error."""
    others = {gpu.name for gpu in gpus_of(facts, knowledge)} - {spec.gpu.name if spec.gpu else ""}
    if others and spec.gpu:
        note(f"this advice is for {spec.gpu.name}; for {', '.join(sorted(others))}, use --gpu")
    if spec.gpu is None and spec.os != "macos" and not spec.board:
        note(
            "the driver does not report the GPU's compute capability: name the GPU with --gpu to include it in the advice"
        )
