"""`tfgpu-doctor fleet learn`: a profile of a model of node, from a store."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.output import note, refuse, refuse_unwritable
from tfgpu_doctor.fleet.compared import require_extra

_REFUSED = 1


@click.command("learn")
@click.option("--store", "store_folder", metavar="FOLDER", required=True, help="The store that `fleet ingest` fills.")
@click.option(
    "--model", metavar="NAME", default="", help="The GPU's name, if the nodes have several: NVIDIA H100 80GB HBM3."
)
@click.option("--profile", metavar="NAME|FILE", default="server", show_default=True, help="The profile to extend.")
@click.option("-o", "--output", metavar="FILE", help="Write the profile to FILE.")
def learn(*, store_folder: str, model: str, profile: str, output: str | None) -> int:
    """Write a profile with the values in units that the healthy nodes of a model reach: three nodes at least.

    It says how many of the nodes are accepted by what the others teach. Exit code: 0 written, 1 not learned, 2 wrong usage or
    an unreadable store.
    """
    refuse_unwritable(output)
    require_extra()
    import duckdb

    from tfgpu_doctor.accept import MEASUREMENTS, NotLearnt, learn_from_nodes, profile_named, write_learnt
    from tfgpu_doctor.fleet.learning import NoSuchNodes, healthy_nodes
    from tfgpu_doctor.fleet.store import Store, StoreError

    profile_named(profile)
    try:
        nodes, runs = healthy_nodes(Store(store_folder), model, MEASUREMENTS)
    except (StoreError, NoSuchNodes) as error:
        refuse(str(error))
    except (OSError, duckdb.Error) as error:
        refuse(f"{store_folder} cannot be read: {' '.join(str(error).split())}")
    try:
        learnt = learn_from_nodes(nodes)
    except NotLearnt as error:
        note(f"no profile was learned: {error}")
        return _REFUSED
    return write_learnt(learnt, profile, runs, output)
