"""`tfgpu-doctor rehearse`: test whether TensorFlow would register a GPU here, if there were one."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.interrupts import Listening
from tfgpu_doctor.cli.output import deliver, note, refuse, refuse_unwritable
from tfgpu_doctor.cli.recorded import read_document
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.facts import FactsError, decode_facts
from tfgpu_doctor.model.report import RehearsalReport
from tfgpu_doctor.rehearse.build import BuildError
from tfgpu_doctor.rehearse.gpu import MOST_GPUS, MachineError
from tfgpu_doctor.rehearse.machine import DEFAULT_GPU, SimulatedMachine, machine_for, read_machine
from tfgpu_doctor.rehearse.record import is_record, machine_of
from tfgpu_doctor.rehearse.rehearsing import RehearsalError
from tfgpu_doctor.rehearse.rehearsing import rehearse as run_rehearsal
from tfgpu_doctor.render.json_document import as_json

_NOT_JUDGED = 3


@click.command()
@click.option("--gpu", metavar="NAME", help=f"The GPU to simulate: H100, 'rtx 4090', ...  [default: {DEFAULT_GPU}]")
@click.option("--count", metavar="N", type=click.IntRange(1, MOST_GPUS), help="The number of GPUs.  [default: 1]")
@click.option(
    "--driver", metavar="VERSION", help="The driver version, for example 550.54.15.  [default: the newest for the GPU]"
)
@click.option(
    "--machine", metavar="FILE", help="Simulate the machine of a file: a description, a record, or a ticket.zip."
)
@click.option("--python", metavar="PATH", help="The Python to rehearse: an interpreter or a virtual environment.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to this file.")
@click.option("--deadline", type=FiniteRange(min=1), metavar="SECONDS", help="The time limit for TensorFlow.")
@click.option("-v", "--verbose", is_flag=True, help="Show every check.")
def rehearse(
    *,
    gpu: str | None,
    count: int | None,
    driver: str | None,
    machine: str | None,
    python: str | None,
    format_: str,
    output: str | None,
    deadline: float | None,
    verbose: bool,
) -> int:
    """Run the target's real TensorFlow against a simulated driver, to see if it would register the GPUs of such a machine.

    It requires no GPU and no driver, so you can use it in an image build: `RUN tfgpu-doctor rehearse --gpu H100 --driver
    550.54.15`. It shows that libraries load, versions fit, GPUs register and memory growth can be set; no kernels run.
    Exit code: 0 every GPU is registered and no error is found, 1 not, 2 wrong usage, 3 nothing could be judged, 130
    interrupted.
    """
    if machine and (gpu or count or driver):
        refuse("--machine describes the whole machine: it cannot be combined with --gpu, --count or --driver")
    try:
        configuration = read_configuration().with_options(python=python, deadline=deadline)
        stage = (
            _read(machine)
            if machine
            else machine_for(gpu or DEFAULT_GPU, read_knowledge(), count=count or 1, driver=driver)
        )
    except (ConfigurationError, MachineError) as error:
        refuse(str(error))
    refuse_unwritable(output)
    try:
        with Waiting() as waiting:
            report = run_rehearsal(configuration, stage, waiting.show, Listening())
    except (BuildError, RehearsalError) as error:
        note(f"error: {error}")
        if format_ == "json":
            deliver(as_json({"schema": 1, "simulated": True, "judged": False, "reason": str(error)}), output)
        return _NOT_JUDGED
    deliver(_render(report, format_, verbose, output, configuration.fail_level), output, costly=True)
    return report.exit_code(configuration.fail_level)


def _read(path: str) -> SimulatedMachine:
    content = read_document(path)
    try:
        if is_record(content):
            return machine_of(decode_facts(content), read_knowledge())
        return read_machine(content, read_knowledge())
    except (FactsError, MachineError) as error:
        refuse(f"{path}: {error}")


def _render(report: RehearsalReport, format_: str, verbose: bool, output: str | None, fail_level: Severity) -> str:
    if format_ == "json":
        return as_json(report)
    from tfgpu_doctor.rehearse.page import render_rehearsal
    from tfgpu_doctor.render import look_of_text

    width, colour = look_of_text(to_terminal=output is None)
    return render_rehearsal(report, width=width, colour=colour, verbose=verbose, fail_level=fail_level)
