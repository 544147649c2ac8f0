"""What lies in a store: each run once, whole or not at all, whoever else writes; and tables that operators query."""

from __future__ import annotations

import datetime as dt
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from every import sampled

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

import duckdb
import msgspec
from doctor_command import run_doctor
from fleet_days import FleetDays, date
from locations import ROOT

from tfgpu_doctor.fleet.history_read import history_of
from tfgpu_doctor.fleet.node import Cause, Unmet
from tfgpu_doctor.fleet.store import TABLES, Store, StoreError, connect
from tfgpu_doctor.fleet.store_weeks import roll, weeks_of
from tfgpu_doctor.fleet.store_write import ingest
from tfgpu_doctor.model import Figure


def small(**options: Any) -> FleetDays:
    return FleetDays(12, gpus=2, measured=3, **options)


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Store:
    return Store(str(tmp_path / "store"), create=True)


def rows(store: Store, table: str, what: str = "*", where: str = "true") -> list[tuple[Any, ...]]:
    """As an operator asks."""
    query = f"select {what} from '{store.path}/day=*/run=*/{table}.parquet' where {where} order by all"
    return duckdb.execute(query).fetchall()


def change(folder: pathlib.Path, name: str, **fields: Any) -> None:
    path = folder / f"{name}.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), **fields}) + b"\n")


# Each run once


def test_the_same_run_twice_is_one(store: Store, tmp_path: pathlib.Path) -> None:
    small().write(tmp_path / "run", 0)
    first = ingest(str(tmp_path / "run"), store)
    shutil.copytree(tmp_path / "run", tmp_path / "copied")
    again = ingest(str(tmp_path / "copied"), store)
    assert (first.outcome, again.outcome) == ("added", "already there")
    assert first.run == again.run
    assert store.runs() == [first.run]
    assert rows(store, "nodes", "count(*)") == [(12,)]


def test_a_run_that_is_put_in_again_with_more_reports_replaces_the_first(store: Store, tmp_path: pathlib.Path) -> None:
    small().write(tmp_path / "run", 0)
    shutil.copytree(tmp_path / "run", tmp_path / "half")
    for name in os.listdir(tmp_path / "half")[:6]:
        os.unlink(tmp_path / "half" / name)
    assert ingest(str(tmp_path / "half"), store).outcome == "added"
    assert ingest(str(tmp_path / "run"), store).outcome == "replaced"
    assert ingest(str(tmp_path / "half"), store).outcome == "older than what is there"
    assert rows(store, "nodes", "count(*)") == [(12,)]


def test_a_report_that_stays_in_the_folder_does_not_replace_the_run_of_the_day_before(
    store: Store, tmp_path: pathlib.Path
) -> None:
    """A node that left service after the first run reports no more: its file is that of the first day in the second run, too."""
    fleet = small()
    for day in (0, 1):
        fleet.write(tmp_path / str(day), day)
    kept = min(os.listdir(tmp_path / "0"))
    shutil.copy(tmp_path / "0" / kept, tmp_path / "1" / kept)
    assert [ingest(str(tmp_path / str(day)), store).outcome for day in (0, 1)] == ["added", "added"]
    assert len(store.runs()) == 2
    assert ingest(str(tmp_path / "1"), store).outcome == "already there"
    assert len(store.runs()) == 2


def test_two_runs_of_a_day_are_two(store: Store, tmp_path: pathlib.Path) -> None:
    fleet = small()
    fleet.write(tmp_path / "a", 0)
    fleet.write(tmp_path / "b", 0)
    for name in fleet.names:
        change(tmp_path / "b", name, began="2026-01-01T14:00:00Z")
    for folder in ("a", "b"):
        ingest(str(tmp_path / folder), store)
    assert len(store.runs([date(0)])) == 2


def test_a_few_wrong_clocks_do_not_change_the_day(store: Store, tmp_path: pathlib.Path) -> None:
    fleet = small()
    fleet.write(tmp_path / "run", 5)
    for name, began in zip(
        fleet.names, ("1970-01-01T00:00:00Z", "2091-05-05T00:00:00Z", "soon", "", "99999"), strict=False
    ):
        change(tmp_path / "run", name, began=began)
    assert ingest(str(tmp_path / "run"), store).run.day == date(5)


def test_a_run_without_any_time_needs_its_day(store: Store, tmp_path: pathlib.Path) -> None:
    fleet = small(missing=1.1)
    fleet.write(tmp_path / "run", 0)
    done = run_doctor("fleet", "ingest", str(tmp_path / "run"), "--store", store.path)
    assert done.returncode == 2
    assert "--day" in done.stderr
    done = run_doctor("fleet", "ingest", str(tmp_path / "run"), "--store", store.path, "--day", "2026-02-03")
    assert done.returncode == 0
    assert rows(store, "nodes", "day, outcome, count(*)", "true group by all") == [(dt.date(2026, 2, 3), "died", 12)]


WRITER = """
import os, sys, time
from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_weeks import roll
from tfgpu_doctor.fleet.store_write import ingest
folder, path, begin = sys.argv[1:]
print("ready", flush=True)
while not os.path.exists(begin):
    time.sleep(0.001)
ingest(folder, Store(path, create=True))
roll(Store(path))
"""


@pytest.mark.slow
def test_many_writers_at_once(tmp_path: pathlib.Path) -> None:
    """Four days by two writers each, into a store that none of them finds."""
    fleet = small()
    for day in range(4):
        fleet.write(tmp_path / str(day), day)
    path, begin = str(tmp_path / "store"), tmp_path / "begin"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / str(each % 4)), path, str(begin)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in range(8)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    begin.touch()
    for writer in writers:
        writer.communicate(timeout=300)
    assert [writer.returncode for writer in writers] == [0] * 8
    store = Store(path)
    assert [run.day for run in store.runs()] == [date(day) for day in range(4)]
    assert rows(store, "nodes", "count(*)") == [(48,)]
    roll(store)
    assert len(list((tmp_path / "store/weeks").iterdir())) == 1
    assert [name for name in os.listdir(path) if name.endswith(".part")] == []


# What is damaged


@pytest.mark.parametrize("table", sampled(TABLES, 4))
def test_a_truncated_file_costs_one_run_and_is_told(store: Store, tmp_path: pathlib.Path, table: str) -> None:
    fleet = small()
    for day in range(8):
        fleet.write(tmp_path / str(day), day)
        ingest(str(tmp_path / str(day)), store)
    damaged = store.runs()[3]
    path = pathlib.Path(damaged.table(table))
    path.write_bytes(path.read_bytes()[:-1])
    found = history_of(store)
    assert found.runs == 7
    (note,) = [each for each in found.notes if damaged.id in each]
    assert table in note
    assert ingest(str(tmp_path / "3"), store).outcome == "added"
    assert history_of(store).runs == 8


def test_a_killed_writer_leaves_nothing_that_is_read(store: Store, tmp_path: pathlib.Path) -> None:
    fleet = small()
    fleet.write(tmp_path / "0", 0)
    ingest(str(tmp_path / "0"), store)
    run = store.runs()[0]
    shutil.copytree(run.folder, os.path.join(store.path, f".{run.id}.4711.part"))
    assert len(store.runs()) == 1
    assert rows(store, "runs", "count(*)") == [(1,)]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "is not a store"),
        (lambda path: (path / "x").mkdir(parents=True), "is not a store"),
        (lambda path: path.write_text(""), "cannot be read"),
        (lambda path: (path.mkdir(), (path / "store.json").write_text("{")), "cannot be read"),
        (lambda path: (path.mkdir(), (path / "store.json").write_text('{"kind": "tfgpu-doctor store", "schema": 9}')), "schema 9"),
    ],
)  # fmt: skip
def test_what_is_no_store_is_refused(make: Callable[[pathlib.Path], Any], why: str, tmp_path: pathlib.Path) -> None:
    make(tmp_path / "place")
    with pytest.raises(StoreError, match=why):
        Store(str(tmp_path / "place"))


def test_a_folder_of_other_files_never_becomes_a_store(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    done = run_doctor("fleet", "ingest", str(tmp_path), "--store", str(tmp_path))
    assert done.returncode == 2
    assert "contains other files" in done.stderr
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_pattern_in_the_path_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(StoreError, match="pattern"):
        Store(str(tmp_path / "a*"), create=True)


def test_a_quote_in_the_path_is_a_name(tmp_path: pathlib.Path) -> None:
    small().write(tmp_path / "run", 0)
    store = Store(str(tmp_path / "it's; drop"), create=True)
    ingest(str(tmp_path / "run"), store)
    assert history_of(store).nodes == 12


# What is in it


def test_every_table_has_what_the_reports_say(store: Store, tmp_path: pathlib.Path) -> None:
    fleet = small()
    cause = Cause(
        label="gpu_off_the_bus", id="KRN001", title="Xid 79", severity="error", devices=("GPU-1", "GPU-2"),
        figures=(Figure("errors", 12.0, device="GPU-1"),),
    )  # fmt: skip
    fleet.causes = lambda day, node: (cause,) if node == "n00003" else ()
    fleet.write(tmp_path / "run", 0)
    fleet.write(tmp_path / "run/second", 0)
    for name in fleet.names[4:]:
        os.unlink(tmp_path / f"run/second/{name}.json")
    change(
        tmp_path / "run", "n00004", unmet=[Unmet(key="copies", title="copies", required="40 GB/s", measured="20 GB/s")]
    )
    change(tmp_path / "run", "n00005", profile="hall-2")
    ingest(str(tmp_path / "run"), store, expected=[*fleet.names, "n99999"])
    assert rows(store, "runs", "nodes, reported, began::date") == [(13, 12, date(0))]
    assert rows(store, "nodes", "count(*), count(*) filter (retest)") == [(17, 4)]
    assert rows(store, "nodes", "outcome", "node = 'n99999'") == [("not heard of",)]
    assert rows(store, "nodes", "profile, kind", "node = 'n00005'") == [("hall-2", "NVIDIA H100 80GB HBM3")]
    assert rows(store, "causes", "node, retest, id, label, devices, severity, title") == [
        ("n00003", False, "KRN001", "gpu_off_the_bus", ["GPU-1", "GPU-2"], "error", "Xid 79"),
        ("n00003", True, "KRN001", "gpu_off_the_bus", ["GPU-1", "GPU-2"], "error", "Xid 79"),
        ("n00004", False, "copies", "unmet", [], "error", "copies: 40 GB/s required, 20 GB/s"),
    ]
    assert rows(store, "figures", "devices, name, value, device", "not retest") == [
        (["GPU-1", "GPU-2"], "errors", 12.0, "GPU-1")
    ]
    assert rows(store, "measurements", "count(*), count(*) filter (retest)") == [(16 * 6, 4 * 6)]
    assert rows(store, "settings", "value", "setting = 'GPU models' and node = 'n00001'") == [
        ("2 x NVIDIA H100 80GB HBM3",)
    ]
    assert rows(store, "checks", "count(distinct node)") == [(12,)]


def test_a_measurement_is_stored_as_it_was_reported(store: Store, tmp_path: pathlib.Path) -> None:
    small().write(tmp_path / "run", 0)
    ingest(str(tmp_path / "run"), store)
    report = msgspec.json.decode((tmp_path / "run/n00007.json").read_bytes())
    assert {
        (each["name"], each["device"], each["unit"], each["better"], each["model"], each["value"])
        for each in report["measurements"]
    } == set(rows(store, "measurements", "measurement, device, unit, better, model, value", "node = 'n00007'"))


def test_every_column_is_documented(store: Store, tmp_path: pathlib.Path) -> None:
    small().write(tmp_path / "run", 0)
    ingest(str(tmp_path / "run"), store)
    text = (ROOT / "docs/fleet.md").read_text("utf-8")
    for table in TABLES:
        (line,) = [each for each in text.splitlines() if each.startswith(f"| `{table}` |")]
        for name, *_ in duckdb.execute(f"describe from '{store.runs()[0].folder}/{table}.parquet'").fetchall():
            if name not in ("day", "run"):
                assert f"`{name}`" in line, f"{table}.{name}"


def test_the_documented_queries_run(store: Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = small()
    fleet.write(tmp_path / "run", 0)
    ingest(str(tmp_path / "run"), store)
    monkeypatch.chdir(os.path.dirname(store.path))
    text = (ROOT / "docs/fleet.md").read_text("utf-8")
    queries = [block.partition("```")[0] for block in text.split("```sql\n")[1:]]
    statements = [each for block in queries for each in block.split(";") if each.strip()]
    assert len(statements) >= 3
    for statement in statements:
        assert duckdb.execute(statement).description


# Weeks


def test_a_week_is_the_median_of_its_runs_and_made_again_when_they_change(store: Store, tmp_path: pathlib.Path) -> None:
    fleet = small()
    for day in range(12):
        fleet.write(tmp_path / str(day), day)
        ingest(str(tmp_path / str(day)), store)
    assert roll(store) == 3  # 2026-01-01 is a Thursday
    assert roll(store) == 0
    week = weeks_of(store.runs())[1]
    wanted = rows(
        store, "measurements", "node, measurement, device, median(ln(value))::float",
        "day between '2026-01-05' and '2026-01-11' group by all",
    )  # fmt: skip
    assert (
        duckdb.execute(f"select node, measurement, device, y from '{week.file(store)}' order by all").fetchall()
        == wanted
    )
    shutil.rmtree(os.path.join(store.path, "day=2026-01-06"))
    assert roll(store) == 1
    assert len(os.listdir(os.path.join(store.path, "weeks"))) == 3


def test_a_slow_query_writes_no_bar_into_the_document() -> None:
    from tfgpu_doctor.fleet.database import Database

    with connect() as connection:
        assert connection.execute("select current_setting('enable_progress_bar')").fetchall() == [(False,)]
    assert Database().rows("select current_setting('enable_progress_bar')") == [(False,)]
