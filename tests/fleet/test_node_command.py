"""`fleet node`, as a scheduler starts it on a node."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest


def fleet_node(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "fleet", "node", *options],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_it_leaves_the_nodes_report_in_the_folder(tmp_path: pathlib.Path) -> None:
    done = fleet_node("--out", str(tmp_path), "--name", "rack 1/node 7", "--level", "quick")
    (path,) = tmp_path.iterdir()
    document = json.loads(path.read_text("utf-8"))
    assert (document["node"], document["outcome"]) == ("rack 1/node 7", "reported")
    assert document["order"] == "--level quick"
    assert document["exit_code"] == done.returncode
    assert document["report"]["target"]["python"] == sys.executable
    assert done.stdout.startswith("rack 1/node 7: ")
    assert "Traceback" not in done.stderr


def test_what_is_ignored_is_no_finding_of_the_node(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    common = ("--out", str(tmp_path / "empty"), "--name", "a", "--level", "quick", "--python", str(tmp_path / "bare"))
    codes, found = [], []
    for options in ((), ("--ignore", "PKG"), ("--select", "PKG002")):
        codes.append(fleet_node(*common, *options).returncode)
        document = json.loads((tmp_path / "empty/a.json").read_text("utf-8"))
        found.append([cause["id"] for cause in document["causes"] if cause["severity"] == "error"])
        assert document["order"] == " ".join(("--level quick", *options))
    assert ["PKG002" in each for each in found] == [True, False, True]
    assert (codes[0], found[2]) == (1, ["PKG002"])
    done = fleet_node(*common, "--ignore", "NOPE")
    assert (done.returncode, "no check is called 'NOPE'" in done.stderr) == (2, True)


def test_by_a_profile_it_tells_what_is_not_met_once(tmp_path: pathlib.Path) -> None:
    profile = tmp_path / "many.toml"
    profile.write_text('level = "quick"\ngpus = 64\n')
    done = fleet_node("--out", str(tmp_path), "--name", "a", "--profile", str(profile))
    document = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert done.returncode == document["exit_code"] == 1
    assert document["unmet"]
    assert not any("explained" in row for row in document["unmet"])
    assert document["profile"] == "many.toml"


def test_a_node_where_the_suites_cannot_run_says_so(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (tmp_path / "out").mkdir()
    asked = ("--suite", "multi_worker", "--python", str(tmp_path / "bare"))
    done = fleet_node("--out", str(tmp_path / "out"), "--name", "a", "--level", "quick", *asked)
    document = json.loads((tmp_path / "out/a.json").read_text("utf-8"))
    assert (done.returncode, document["outcome"]) == (3, "not started")
    assert "the suites multi_worker run in the doctor's own Python" in document["reason"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--suite", "no_such"), "there is no suite 'no_such'"),
        (("--profile", "ci", "--level", "deep"), "--profile sets level and suites: it cannot be combined"),
        (("--profile", "no_such"), "no_such"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: pathlib.Path, options: tuple[str, ...], told: str) -> None:
    done = fleet_node("--out", str(tmp_path), *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path: pathlib.Path) -> None:
    done = fleet_node("--out", str(tmp_path / "gone"), "--level", "quick")
    assert done.returncode == 2
    assert "there is no folder" in done.stderr
