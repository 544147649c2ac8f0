"""`tfgpu-doctor fleet tfconfig`: print TF_CONFIG for this process of a job, and what would keep the cluster from starting."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.fleet.tf_config import PORT


@click.command("tfconfig")
@click.option("--port", type=click.IntRange(1024, 65000), metavar="N", default=PORT, show_default=True,
              help="The port of the first process on each host, if the launcher names none.")  # fmt: skip
@click.option("--no-look", is_flag=True, help="Check only the text of TF_CONFIG; do not test any address.")
def tfconfig(*, port: int, no_look: bool) -> int:
    """Print TF_CONFIG for this process: as it is set, or derived from the variables of Slurm, Kubernetes or a launcher.

    In each process of a job, not in its batch script:
    TF_CONFIG=$(tfgpu-doctor fleet tfconfig) && export TF_CONFIG && exec python train.py

    Faults go to standard error, each with the change to make. Exit code: 0 no fault found, 1 it cannot work, 2 it cannot be
    read or made.
    """
    from tfgpu_doctor.fleet.tf_config import TfConfigError, derive, faults, faults_here
    from tfgpu_doctor.host import Host
    from tfgpu_doctor.perf_tests.peers import look
    from tfgpu_doctor.render.json_document import safe_json

    try:
        config = derive(Host().environment, port=port)
    except TfConfigError as error:
        refuse(str(error))
    if config is None:
        refuse("the environment has neither TF_CONFIG nor a Slurm or Kubernetes job: start this inside the job")
    found = list(faults(config))
    if not found and not no_look:
        found = list(faults_here(config, look(config)))
    for fault in found:
        note(str(fault))
    deliver(safe_json(config.text) + "\n", None)
    return 1 if found else 0
