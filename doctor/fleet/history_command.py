"""`tfgpu-doctor fleet history`: what changed on the nodes over time, from a store."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.output import deliver, refuse, refuse_unwritable
from tfgpu_doctor.fleet.compared import require_extra
from tfgpu_doctor.fleet.formats import FLEET_FORMATS
from tfgpu_doctor.fleet.ingest_command import day_of


@click.command("history")
@click.option("--store", "store_folder", metavar="FOLDER", required=True, help="The store that `fleet ingest` fills.")
@click.option("--since", metavar="YYYY-MM-DD", help="Slopes from this day on.  [default: 28, 91 and 364 days]")
@click.option("--node", metavar="NODE", help="Only this node, with all of its measurements.")
@click.option(
    "--between", metavar="DAY DAY", nargs=2, help="The two days whose causes and settings are compared.  [default: the last two]"
)  # fmt: skip
@click.option("--format", "format_", type=click.Choice(FLEET_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the result to this file.")
def history(
    *,
    store_folder: str,
    since: str | None,
    node: str | None,
    between: tuple[str, str] | None,
    format_: str,
    output: str | None,
) -> int:
    """Say what is new, what has recovered and what comes and goes on the nodes, which devices are getting slower, and which
    settings changed.

    Exit code: 0 nothing is new or getting slower, 1 something is, 2 wrong usage or an unreadable store, 3 the store is empty,
    or nobody reported on the last day.
    """
    refuse_unwritable(output)
    require_extra()
    import duckdb

    from tfgpu_doctor.fleet.history_page import render_history
    from tfgpu_doctor.fleet.history_read import history_of
    from tfgpu_doctor.fleet.store import Store, StoreError
    from tfgpu_doctor.render import look_of_text

    first, last = (day_of(each, "--between") for each in between or (None, None))
    try:
        found = history_of(
            Store(store_folder), since=day_of(since, "--since"), node=node, days=(first, last) if first and last else None
        )  # fmt: skip
    except StoreError as error:
        refuse(str(error))
    except KeyError as error:
        refuse(f"the store has no run of {error.args[0]}")
    except (OSError, duckdb.Error) as error:
        refuse(f"{store_folder} cannot be read: {' '.join(str(error).split())}")
    width, colour = look_of_text(to_terminal=output is None)
    deliver(render_history(found, format_, width=width, colour=colour), output)
    return found.exit_code
