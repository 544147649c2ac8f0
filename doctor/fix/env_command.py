"""`tfgpu-doctor env`: print the variables that the target needs, for a shell or a Dockerfile."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.fix.shells import SHELLS, Unwritable
from tfgpu_doctor.fix.variables import Needed, find_needed

_LOST, _NOT_JUDGED, _INTERRUPTED = 1, 3, 130


@click.command()
@click.option("--shell", type=click.Choice(list(SHELLS)), required=True, help="The syntax of the output.")
@click.option("--python", metavar="PATH", help="The Python to examine: an interpreter, or a virtual environment.")
def env(*, shell: str, python: str | None) -> int:
    """Print the variables that this target needs before Python starts; print nothing if it needs none.

    In a shell: eval "$(tfgpu-doctor env --shell bash)", or `tfgpu-doctor env --shell fish | source`. Exit codes: 0 all
    libraries are found with these variables, if any; 1 a library is not installed; 2 wrong usage; 3 there is no
    TensorFlow to examine. The driver's own libraries come with the driver, and are not required.
    """
    try:
        configuration = read_configuration().with_options(python=python)
    except ConfigurationError as error:
        refuse(str(error))
    try:
        facts = examine(python=configuration.python, quick=True, only=("resolution", "target", "tensorflow"))
    except Interrupted:
        return _INTERRUPTED
    if facts.tensorflow and facts.tensorflow.built_with_cuda is False:
        note(f"{facts.tensorflow.distribution} is built without CUDA and opens no CUDA libraries")
        return 0
    if facts.resolution is None or facts.target is None:
        note(f"nothing to examine: {facts.unknown.get('resolution') or facts.unknown.get('target')}")
        return _NOT_JUDGED
    needed = find_needed(facts.resolution, facts.target)
    _tell(needed)
    if needed.folders:
        try:
            deliver(SHELLS[shell](needed.folders) + "\n", None)
        except Unwritable as error:
            refuse(str(error))
    return _LOST if needed.absent or needed.unusable else 0


def _tell(needed: Needed) -> None:
    """Print what no variable can fix, on standard error."""
    for reason in needed.unusable:
        note(reason)
    if needed.absent:
        note(f"not installed, so no variable helps: {', '.join(needed.absent)} (see `tfgpu-doctor libraries`)")
    if needed.of_the_driver:
        note(f"{' and '.join(needed.of_the_driver)} will come with the NVIDIA driver, which is not installed here")
