"""What `fleet history` says is getting slower: planted drifts are found, healthy fleets are left alone."""

from __future__ import annotations

import itertools
import json
import pathlib
import statistics
from typing import Any

import jsonschema
import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

import numpy as np
from doctor_command import run_doctor
from fleet_days import FleetDays, Noise, normal, skewed, student
from locations import ROOT
from made_up_fleet import MODELS

from tfgpu_doctor.fleet.formats import FLEET_FORMATS
from tfgpu_doctor.fleet.history import History
from tfgpu_doctor.fleet.history_lines import Lines
from tfgpu_doctor.fleet.history_page import render_history
from tfgpu_doctor.fleet.history_read import history_of
from tfgpu_doctor.fleet.history_runs import MOST_RUNS, EarlierRuns, medians, spread
from tfgpu_doctor.fleet.history_slopes import changes_of, theil_sen
from tfgpu_doctor.fleet.history_windows import windows_of
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_weeks import roll
from tfgpu_doctor.fleet.store_write import ingest


def filled(fleet: FleetDays, folder: pathlib.Path, days: int) -> Store:
    store = Store(str(folder / "store"), create=True)
    for day in range(days):
        fleet.write(folder / str(day), day)
        ingest(str(folder / str(day)), store)
    roll(store)
    return store


def slower(found: History) -> set[tuple[str, str, str]]:
    return {(each.node, each.device, each.measurement) for each in found.slower}


@pytest.mark.slow
def test_drifts_of_all_kinds_are_found_and_nothing_else(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(30, gpus=4, measured=6, seed=91, missing=0.02, remembered=0.3)
    name = [each for each, _, _ in fleet.measured]
    fleet.drifts[3, 1, 2] = lambda day: 0.1 * day / 120  # all the time
    fleet.drifts[7, 0, 5] = lambda day: 0.1 * max(0, day - 95) / 25  # of late
    fleet.drifts[9, 3, 0] = lambda day: 0.1 * (day > 70)  # on one day
    fleet.drifts[11, 2, 1] = lambda day: -0.2 * day / 120  # it gets faster
    fleet.drifts[13, 2, 1] = lambda day: 0.3 * (day % 17 == 0)  # now and then
    fleet.fleet = lambda day, measurement: 0.03 * (day > 60) - 0.02 * (day > 110)
    found = history_of(filled(fleet, tmp_path, 120))
    assert slower(found) == {
        ("n00003", "GPU:1", name[2]), ("n00007", "GPU:0", name[5]), ("n00009", "GPU:3", name[0]),
    }  # fmt: skip
    (steady,) = [each for each in found.slower if each.node == "n00003"]
    assert steady.per_month == pytest.approx(np.exp(0.1 / 120 * 30) - 1, rel=0.25)
    assert found.fleet == ()


@pytest.mark.slow
@pytest.mark.parametrize("noise", [normal, student(3), skewed], ids=["normal", "t3", "skewed"])
def test_a_healthy_fleet_is_left_alone_on_every_day(noise: Noise, tmp_path: pathlib.Path) -> None:
    """A store of 45 days, looked at on each day from the first that has slopes; it has other days before the driver changes."""
    fleet = FleetDays(30, gpus=4, measured=4, seed=4711, noise=noise, remembered=0.5, missing=0.02)
    fleet.fleet = lambda day, measurement: 0.04 * (day > 20) * (measurement % 2)
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(45):
        fleet.write(tmp_path / str(day), day)
        ingest(str(tmp_path / str(day)), store)
        assert slower(history_of(store)) == set(), f"on day {day}"


def test_it_does_not_matter_which_nodes_were_measured_on_a_day() -> None:
    """Half of the nodes are 8 % slower than the others, and more and more of them are measured alone."""
    chance = np.random.default_rng(5)
    level = np.where(np.arange(200) < 100, 0.08, 0.0)[:, None]
    values = (level + 0.005 * chance.standard_normal((200, 12))).astype("float32")
    values[:100, 1::4] = np.nan
    values[100:, 10] = np.nan
    found = changes_of(_lines(values))
    assert np.nanmax(np.abs(found.change)) < 0.03
    assert abs(found.fleet) < 0.01


def test_the_slope_is_that_of_theil_and_sen() -> None:
    chance = np.random.default_rng(6)
    for _ in range(50):
        values, days = chance.standard_normal(11), np.cumsum(chance.uniform(1, 9, 11))
        values[chance.random(11) < 0.2] = np.nan
        there = [(day, value) for day, value in zip(days, values, strict=True) if not np.isnan(value)]
        slopes = [(b - a) / (t - s) for (s, a), (t, b) in itertools.combinations(there, 2)]
        assert theil_sen(values, days) == pytest.approx(statistics.median(slopes))


@pytest.mark.parametrize("at", range(2, 11))
def test_a_step_is_seen_wherever_it_is_in_a_window(at: int) -> None:
    chance = np.random.default_rng(at)
    values = (0.005 * chance.standard_normal((200, 12))).astype("float32")
    values[7, at:] += 0.1
    found = changes_of(_lines(values))
    assert found.change[7] == pytest.approx(0.1, abs=0.02) or at in (2, 10)  # half of a third
    assert found.certain[7] / found.noise[7] > 3 or at in (2, 10)
    assert np.nanmax(np.abs(np.delete(found.change, 7))) < 0.03


def test_two_points_that_were_slow_are_no_change() -> None:
    values = (0.005 * np.random.default_rng(1).standard_normal((200, 12))).astype("float32")
    for place in range(11):
        values[place, place : place + 2] += 0.5
    found = changes_of(_lines(values))
    assert np.nanmax(found.certain) < 0.03


def _lines(values: Any) -> Lines:
    return Lines(
        ("m", "model", "s", "lower"), ("GPU:0",), np.arange(len(values), dtype="int32"),
        np.zeros(len(values), dtype="int32"), np.arange(values.shape[1], dtype="float64"), values,
    )  # fmt: skip


def test_too_few_days_have_no_slopes_and_say_so(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(10, gpus=1, measured=2)
    fleet.drifts[3, 0, 0] = lambda day: 0.1 * day
    found = history_of(filled(fleet, tmp_path, 4))
    assert found.slower == ()
    assert any("no slopes" in each for each in found.notes)


def test_a_fleet_that_gets_slower_as_a_whole_is_told(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(12, gpus=1, measured=2)
    fleet.fleet = lambda day, measurement: 0.01 * day * (measurement == 1)
    found = history_of(filled(fleet, tmp_path, 14))
    assert found.slower == ()
    (told,) = found.fleet
    assert (told.measurement, told.nodes) == (fleet.measured[1][0], 12)
    assert found.exit_code == 1


def test_each_model_is_compared_with_itself(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(24, gpus=1, measured=2, models=2)
    fleet.drifts[5, 0, 1] = lambda day: 0.04 * day
    found = history_of(filled(fleet, tmp_path, 14))
    assert [(each.node, each.model) for each in found.slower] == [("n00005", MODELS[1])]


@pytest.mark.slow
def test_weeks_and_their_runs_give_the_same(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the files of the weeks, they are made of the runs in memory."""
    fleet = FleetDays(12, gpus=1, measured=2)
    fleet.drifts[5, 0, 1] = lambda day: 0.003 * day
    store = filled(fleet, tmp_path, 70)
    assert all("weeks" in point.sql for point in windows_of(store, store.runs(), None)[-1].points)
    with monkeypatch.context() as patch:
        patch.setattr("tfgpu_doctor.fleet.history_windows.medians_of", None)  # the files are read
        found = history_of(store)
    assert [each.node for each in found.slower] == ["n00005"]
    for path in pathlib.Path(store.path, "weeks").iterdir():
        path.unlink()
    assert history_of(store) == found
    first = min(store.runs())
    path = pathlib.Path(first.table("measurements"))
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"\xff" * 40 + content[48:])
    roll_of = history_of(store)
    assert [each for each in roll_of.notes if first.id in each]
    assert roll_of.runs == 69


# The command


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    fleet = FleetDays(12, gpus=2, measured=3)
    fleet.drifts[4, 1, 1] = lambda day: 0.01 * day
    return filled(fleet, tmp_path_factory.mktemp("fleet"), 14)


@pytest.mark.parametrize("format_", FLEET_FORMATS)
def test_every_format_says_what_is_getting_slower(store: Store, format_: str) -> None:
    done = run_doctor("fleet", "history", "--store", store.path, "--format", format_)
    assert done.returncode == 1, done.stderr
    assert "n00004" in done.stdout
    assert "n00005" not in done.stdout
    if format_ == "json":
        schema = json.loads((ROOT / "doctor/fleet/history.schema.json").read_text("utf-8"))
        jsonschema.validate(json.loads(done.stdout), schema)


def test_one_node_has_all_of_its_measurements(store: Store) -> None:
    found = history_of(store, node="n00006")
    assert len(found.lines) == 6
    assert found.slower == ()
    assert all(each.change is not None and each.days in (13, 14) and each.points == 12 for each in found.lines)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--since", "soon"), "is not a day"), (("--node", "n77777"), "n77777"),
        (("--between", "2026-01-01", "2031-01-01"), "2031-01-01"), (("--between", "2026-01-01"), "requires 2 arguments"),
    ],
)  # fmt: skip
def test_wrong_usage_is_refused(store: Store, options: tuple[str, ...], why: str) -> None:
    done = run_doctor("fleet", "history", "--store", store.path, *options)
    assert done.returncode == 2
    assert why in done.stderr


def test_an_empty_store_is_no_pass(tmp_path: pathlib.Path) -> None:
    Store(str(tmp_path / "store"), create=True)
    done = run_doctor("fleet", "history", "--store", str(tmp_path / "store"))
    assert done.returncode == 3
    assert "empty" in done.stdout


def test_names_from_elsewhere_do_no_harm(tmp_path: pathlib.Path) -> None:
    hostile = "\n✗ forged\r::error::forged\x1b[31m<script>alert(1)</script>| a |\u202e\n## forged\n\"} 1'\\"
    fleet = FleetDays(8, gpus=1, measured=2)
    fleet.names = [f"{hostile}{place}" for place in range(8)]
    fleet.measured = [(f"{hostile}{name}", unit, usual) for name, unit, usual in fleet.measured]
    fleet.drifts[4, 0, 1] = lambda day: 0.05 * day
    found = history_of(filled(fleet, tmp_path, 14))
    assert len(found.slower) == 1
    for format_ in FLEET_FORMATS:
        text = render_history(found, format_)
        if format_ == "json":
            continue  # its readers escape
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<script>alert" not in text or format_ != "html"
        forged = [line for line in text.splitlines() if line.lstrip().startswith(("::error", "## forged", "✗ forged"))]
        assert not forged or format_ == "html"


# The comparison of a run with the store


def test_a_run_is_compared_with_the_store(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(20, gpus=2, measured=4)
    fleet.own *= 5  # nodes that differ by a tenth, each steady by itself
    fleet.drifts[7, 1, 2] = lambda day: 0.2 * (day == 14)
    store = filled(fleet, tmp_path, 15)  # the run itself is in the store, and is no history of itself
    found = merge(str(tmp_path / "14"), store=store)
    assert {(each.node, each.device, each.against) for each in found.suspects} == {("n00007", "GPU:1", "own history")}
    assert found == merge(str(tmp_path / "14"), history=[str(tmp_path / str(day)) for day in range(14)])
    done = run_doctor("fleet", "report", str(tmp_path / "14"), "--store", store.path, "--format", "json")
    assert [each["node"] for each in json.loads(done.stdout)["suspects"]] == ["n00007"]


def test_a_run_older_than_the_store_is_compared_with_what_was_before_it(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(20, gpus=1, measured=2)
    store = filled(fleet, tmp_path, 6)
    assert merge(str(tmp_path / "0"), store=store).changes == ()
    assert merge(str(tmp_path / "3"), store=store) == merge(
        str(tmp_path / "3"), history=[str(tmp_path / str(day)) for day in range(3)]
    )


# Earlier runs


def test_the_medians_are_those_of_the_runs_that_have_a_value() -> None:
    chance = np.random.default_rng(3)
    node, series, device = (each.ravel().astype("int32") for each in np.meshgrid(range(20), range(3), range(4)))
    runs = EarlierRuns((node, series, device), 9)
    values = chance.uniform(1, 2, (9, len(node)))
    there = chance.random(values.shape) < 0.7
    for run in range(9):
        some = there[run]
        extra = np.array([99], dtype="int32")  # of a node that is not measured now
        nodes, all_series, devices = (np.concatenate([each[some], extra]) for each in (node, series, device))
        runs.add(nodes, all_series, devices, np.append(values[run][some], 1.0))
    table = runs.table()
    columns = (table[name].tolist() for name in ("node", "series", "device", "y"))
    found = {(node_, series_, device_): y for node_, series_, device_, y in zip(*columns, strict=True)}
    wanted = {
        key: statistics.median(np.log(values[:, place][there[:, place]]))
        for place, key in enumerate(zip(node.tolist(), series.tolist(), device.tolist(), strict=True))
        if there[:, place].any()
    }
    assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("width", [0, 1, 2, 5, 6])
def test_medians_leave_out_what_is_missing(width: int) -> None:
    chance = np.random.default_rng(width)
    rows = chance.standard_normal((100, width))
    rows[chance.random(rows.shape) < 0.4] = np.nan
    wanted = [statistics.median([each for each in row if not np.isnan(each)] or [float("nan")]) for row in rows]
    assert medians(rows.copy()).tolist() == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("count", [0, 1, MOST_RUNS, MOST_RUNS + 1, 365, 1000])
def test_many_runs_are_spread_evenly(count: int) -> None:
    chosen = spread(range(count))
    assert len(chosen) == min(count, MOST_RUNS)
    if count:
        assert (chosen[0], chosen[-1]) == (0, count - 1)
        steps = {b - a for a, b in itertools.pairwise(chosen)}
        assert not steps or max(steps) - min(steps) <= 1
