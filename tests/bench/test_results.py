"""The file of results."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import msgspec
import pytest

from tfgpu_doctor.bench.references import history_here
from tfgpu_doctor.host.results import KeptRun, Results, ResultsError
from tfgpu_doctor.model.facts.bench import Bench

WRITE = """
import sys
from tfgpu_doctor.host.results import KeptRun, Results
for number in range(25):
    Results(sys.argv[1]).keep(KeptRun(float(number), sys.argv[2], "here", b"{}"))
"""


def test_what_was_kept_comes_back_in_order(tmp_path: pathlib.Path) -> None:
    results = Results(str(tmp_path / "new" / "results.sqlite"))
    assert results.of_place("here") == []
    runs = [KeptRun(1.0, "", "here", b"1"), KeptRun(2.0, "good", "there", b"2"), KeptRun(3.0, "good", "here", b"3")]
    for run in runs:
        results.keep(run)
    assert results.of_place("here") == [runs[0], runs[2]]
    assert results.named("good") == runs[1:]


def test_runs_that_end_at_the_same_time_lose_nothing(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "results.sqlite")
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, path, name]) for name in ("one", "two", "three")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(Results(path).of_place("here")) == 75


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_what_was_whole(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "results.sqlite")
    Results(path).keep(KeptRun(1.0, "", "here", b"1"))
    writer = subprocess.Popen([sys.executable, "-c", WRITE.replace("range(25)", "range(10**6)"), path, "one"])
    while len(Results(path).named("one")) < 3:
        assert writer.poll() is None
    writer.kill()
    writer.wait()
    kept = Results(path).of_place("here")
    assert kept[0].document == b"1"
    assert all(run.document == b"{}" for run in kept[1:])


def test_a_file_that_is_no_database_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_bytes(b"something else entirely, and long enough to be looked at" * 20)
    with pytest.raises(ResultsError, match=r"results\.sqlite cannot be used.*delete it"):
        Results(str(path)).of_place("here")


def test_a_folder_that_cannot_hold_it_is_no_empty_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "taken").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    assert Results(str(tmp_path / "new" / "results.sqlite")).newest_last() == []
    for place in ("taken", "loop"):
        with pytest.raises(ResultsError, match=f"{place}/results.sqlite cannot be used .*; delete it"):
            Results(str(tmp_path / place / "results.sqlite")).newest_last()


def test_the_machine_is_examined_only_for_runs_that_are_saved(tmp_path: pathlib.Path) -> None:
    results = Results(str(tmp_path / "results.sqlite"))
    assert history_here(results, lambda: pytest.fail("examined")).runs == ()
    results.keep(KeptRun(1.0, "", "here", msgspec.json.encode(Bench())))
    assert [run.kept for run in history_here(results, lambda: "here").runs] == [1.0]
    elsewhere = history_here(results, lambda: "elsewhere")
    assert (elsewhere.place, elsewhere.runs) == ("elsewhere", ())
