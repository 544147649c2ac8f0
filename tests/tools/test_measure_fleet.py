"""tools/measure_fleet.py: only a store that was filled to its end, with the same numbers, is queried."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment
from locations import ROOT


def run(folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/measure_fleet.py"), "--folder", str(folder), "--store", "store"]
    return subprocess.run(
        [*command, *options],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_store_of_other_numbers_is_refused(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("numpy")
    same = ("--days", "2", "--nodes", "4")
    made = run(tmp_path, *same, "--seed", "7")
    assert made.returncode == 0, made.stderr
    truth = tmp_path / "store.planted.json"
    written = json.loads(truth.read_text())
    assert (written["days"], written["nodes"], written["seed"]) == (2, 4, 7)
    assert len(written["planted"]) > 1

    found = run(tmp_path, *same)
    assert found.returncode == 0, found.stderr
    assert "seed 7" in found.stdout
    for options, told in (
        (("--days", "3", "--nodes", "4"), "store was made with --days 2, and not 3: remove it"),
        (("--days", "2"), "store was made with --nodes 4, and not 2000: remove it"),
        ((*same, "--seed", "8"), "store was made with --seed 7, and not 8: remove it"),
    ):
        refused = run(tmp_path, *options)
        assert told in refused.stderr
        assert refused.returncode == 1
    truth.unlink()
    refused = run(tmp_path, *same)
    assert "store was not filled to its end (store.planted.json is not there): remove it" in refused.stderr
    assert refused.returncode == 1


def test_what_is_planted_is_written_once_all_days_are_there(tmp_path: pathlib.Path) -> None:
    """The store cannot be made here; what stands beside it from an earlier one does not stay either."""
    pytest.importorskip("duckdb")
    pytest.importorskip("numpy")
    truth = tmp_path / "store.planted.json"
    truth.write_text(json.dumps({"days": 2, "nodes": 4, "seed": 7, "planted": []}))
    (tmp_path / "store").symlink_to("absent/folder")
    made = run(tmp_path, "--days", "2", "--nodes", "4")
    assert made.returncode == 1
    assert not truth.exists()
