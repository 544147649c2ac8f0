"""A complete rehearsal: set the stage, examine the target on it, diagnose the facts."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

import msgspec

from tfgpu_doctor.cli.configuration import Configuration
from tfgpu_doctor.collect.examination import Interrupted, OnWait, examine
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import RehearsalReport, Report
from tfgpu_doctor.rehearse.build import build_driver
from tfgpu_doctor.rehearse.machine import DEFAULT_GPU, SimulatedMachine, machine_for
from tfgpu_doctor.rehearse.stage import set_stage


class RehearsalError(Exception):
    """The stage could not be set; the message gives the reason on one line."""


def rehearse(
    configuration: Configuration,
    machine: SimulatedMachine | None = None,
    on_wait: OnWait | None = None,
    answering: AbstractContextManager[None] = nullcontext(),  # noqa: B008 - it has no state
) -> RehearsalReport:
    """Rehearse the configured target on a machine; the default is one H100 with the newest driver.

    `answering` lasts while an interrupt leads to a result: the report then contains the results so far. Raises
    BuildError and RehearsalError.
    """
    machine = machine or machine_for(DEFAULT_GPU, read_knowledge())
    started = time.monotonic()
    facts, interrupted = Facts(), True
    try:
        with answering:
            facts, interrupted = _examined(configuration, machine, on_wait), False
    except Interrupted as stop:
        facts = stop.facts
    except KeyboardInterrupt:
        pass  # nothing was examined yet
    checks, broken = load_checks()
    report = diagnose(
        facts,
        checks=checks,
        selection=configuration.selection,
        broken=broken,
        interrupted=interrupted,
        seconds=time.monotonic() - started,
    )
    return _with_outcome(report, facts, machine)


def _examined(configuration: Configuration, machine: SimulatedMachine, on_wait: OnWait | None) -> Facts:
    """Set the stage, and examine the target on it."""
    driver = build_driver()
    try:
        with scratch_folder() as folder:
            stage = set_stage(machine, driver, folder, Host().environment)
            return examine(python=configuration.python, deadline_s=configuration.deadline, on_wait=on_wait, stage=stage)
    except OSError as error:
        raise RehearsalError(f"no folder for the simulated driver ({error.strerror or error})") from error


def _with_outcome(report: Report, facts: Facts, machine: SimulatedMachine) -> RehearsalReport:
    """Return the report with the number of GPUs that TensorFlow registered."""
    fields = {name: getattr(report, name) for name in Report.__struct_fields__}
    runtime = facts.runtime
    registered, growth = (len(runtime.gpus), runtime.growth_set) if runtime else (0, False)
    # The machine as it is simulated; if it is a broken one, the examination may find less.
    names = tuple(gpu.name for gpu in machine.gpus)
    fields["machine"] = msgspec.structs.replace(report.machine, driver=machine.driver, gpus=names)
    fields["healthy"] = report.healthy and growth and registered >= machine.cuda_devices
    return RehearsalReport(
        registered=registered, expected=machine.cuda_devices, memory_growth_set=growth, cuda=machine.cuda, **fields
    )
