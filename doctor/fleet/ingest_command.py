"""`tfgpu-doctor fleet ingest`: put the reports of a run into a store."""

from __future__ import annotations

import datetime as dt

import click

from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.fleet.compared import expected_names, require_extra
from tfgpu_doctor.model.amounts import amount

_NOT_STORED = 3


@click.command("ingest")
@click.argument("folder", metavar="DIR")
@click.option("--store", "store_folder", metavar="FOLDER", required=True, help="The store; made if it does not exist.")
@click.option(
    "--day", metavar="YYYY-MM-DD", help="The day of the run.  [default: the day on which the nodes began, in UTC]"
)
@click.option(
    "--expect", metavar="FILE|NAMES",
    help="The expected nodes: a file (JSON list, or one name per line), or names separated by commas."
    "  [default: DIR/expected.json]",
)  # fmt: skip
def ingest(*, folder: str, store_folder: str, day: str | None, expect: str | None) -> int:
    """Put the reports in DIR, and the retests in DIR/second, into a store: Parquet files in a folder for each day.

    The same run is stored once: put in again with more reports, it replaces what is there. Any number of runs may be put in
    at the same time. Exit code: 0 it is in the store, 2 wrong usage, an unreadable folder or a full disk, 3 no report was
    found.
    """
    require_extra()
    from tfgpu_doctor.fleet.store import Store, StoreError
    from tfgpu_doctor.fleet.store_weeks import roll
    from tfgpu_doctor.fleet.store_write import NoDayError
    from tfgpu_doctor.fleet.store_write import ingest as put_in

    expected = expected_names(folder, expect) or []
    try:
        found = put_in(folder, Store(store_folder, create=True), expected=expected, day=day_of(day, "--day"))
        roll(Store(store_folder))
    except StoreError as error:
        refuse(str(error))
    except NoDayError:
        refuse(f"no report in {folder} says when it began; give the day of the run with --day")
    except OSError as error:
        refuse(f"{error.filename or folder}: {error.strerror or error}")
    for each in found.refused:
        if each.fault:
            note(f"left out: {each.file}: {each.why}")
    deliver(
        f"{found.run.day}, run {found.run.id}: {found.outcome}; {amount(found.nodes, 'node')}, "
        f"{amount(found.measurements, 'measurement')}\n",
        None,
    )
    return 0 if found.nodes else _NOT_STORED


def day_of(text: str | None, option: str) -> dt.date | None:
    """Return the day that an option names, or None."""
    try:
        return dt.date.fromisoformat(text) if text else None
    except ValueError:
        refuse(f"{option} {text} is not a day such as 2026-11-21")
