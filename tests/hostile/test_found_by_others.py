"""What somebody found who tried to break the command without having seen its code."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment, doctor_argv, run_doctor, start_doctor
from locations import RECORDS
from made_up_fleet import MadeUpFleet

from tfgpu_doctor.collect.ldso.search_path import split_list
from tfgpu_doctor.fleet.compared import expected_names
from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_write import ingest
from tfgpu_doctor.tracing.reading import Unreadable, find_file


@pytest.mark.parametrize("command", ["check", "libraries"])
def test_an_empty_root_is_refused(command: str) -> None:
    done = run_doctor(command, "--root", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the folder of --root is empty" in done.stderr


def test_a_folder_is_looked_through_once_whatever_links_lead_to_it(tmp_path: pathlib.Path) -> None:
    for number in range(300):
        (tmp_path / f"plugins/profile/{number}").mkdir(parents=True)
    for name in ("loop", "again"):
        (tmp_path / "plugins" / name).symlink_to("..")
    with pytest.raises(Unreadable, match="holds no profile"):
        find_file(str(tmp_path))
    real = tmp_path / "elsewhere"
    real.mkdir()
    (real / "host.xplane.pb").write_bytes(b"")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "linked").symlink_to(real)
    assert find_file(str(logs)) == str(logs / "linked/host.xplane.pb")


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help"), ("--version",)])
def test_help_for_a_full_disk_is_no_failure_of_the_doctor(arguments: tuple[str, ...]) -> None:
    with pathlib.Path("/dev/full").open("w") as full:
        done = subprocess.run(
            doctor_argv(*arguments),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=clean_environment(),
        )
    assert "the doctor itself failed" not in done.stderr
    assert "standard output cannot be written" in done.stderr
    assert done.returncode == 2


def test_folders_that_stand_twice_in_a_variable_are_searched_once() -> None:
    assert split_list("/a:/b:/a") == ["/a", "/b"]
    assert split_list(":" * 60_000) == ["."]


@pytest.mark.skipif(sys.platform != "linux", reason="the loader's variable is that of Linux")
def test_sixty_thousand_folders_take_no_longer(tmp_path: pathlib.Path) -> None:
    few = run_doctor("libraries", cwd=tmp_path, environment={"LD_LIBRARY_PATH": ":"})
    many = run_doctor("libraries", cwd=tmp_path, environment={"LD_LIBRARY_PATH": ":" * 60_000})
    assert (many.returncode, many.stdout) == (few.returncode, few.stdout)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["check", "libraries"])
@pytest.mark.parametrize(("root", "why"), [("nowhere", "there is no such folder"), ("file", "it is not a folder")])
def test_a_root_that_is_no_folder_is_refused(tmp_path: pathlib.Path, command: str, root: str, why: str) -> None:
    (tmp_path / "file").write_text("")
    done = run_doctor(command, "--root", root, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--root {root}: {why}" in done.stderr


@pytest.mark.parametrize("program", ["/nonexistent/p x", "no-such-program-at-all", "/etc/passwd", "/tmp"])
def test_a_program_that_cannot_be_started_is_named(tmp_path: pathlib.Path, program: str) -> None:
    done = start_doctor("trace", "--record-with", program, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"{program.split(maxsplit=1)[0]} cannot be started: " in done.stderr
    assert len(done.stderr.splitlines()) == 1


_RECORD = str(RECORDS[next(iter(RECORDS))])


@pytest.mark.parametrize(
    "arguments",
    [
        ("accept", "run", "--profile", "ci", "--facts", _RECORD, "-o", "x"),
        ("bench", "threads", "-o", "x"),
        ("check", "--facts", _RECORD, "-o", "x"),
        ("fleet", "report", ".", "-o", "x"),
        ("fleet", "history", "--store", "x"),
        ("trace", "x"),
        ("trace", "--record-with", "true", "-o", "x"),
        ("watch", "--no-live", "-o", "x", "--", "true"),
        ("ticket", "--facts", _RECORD, "-o", "x"),
    ],
)
def test_a_working_folder_that_is_gone_is_no_failure_of_the_doctor(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "gone").mkdir()
    line = f'cd {tmp_path / "gone"} && rmdir {tmp_path / "gone"} && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *doctor_argv(*arguments)], capture_output=True, text=True, check=False,
        env=clean_environment(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "the doctor itself failed" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_is_recorded_in_a_working_folder_that_is_gone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "gone").mkdir()
    line = f'cd {tmp_path / "gone"} && rmdir {tmp_path / "gone"} && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *doctor_argv("trace", "--record-with", "true")], capture_output=True, text=True,
        check=False, env=clean_environment(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert "the program ended with exit code 0 before a profile was recorded" in done.stderr


@pytest.mark.parametrize("names", ["n[1-99999999]", "n[1-9][1-99999]", "n[1-60000],m[1-60000]", "n[1-"])
def test_more_nodes_than_any_cluster_has_are_refused(tmp_path: pathlib.Path, names: str) -> None:
    pytest.importorskip("duckdb", reason="the extra fleet is not installed")
    done = run_doctor("fleet", "report", str(tmp_path), "--expect", names)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--expect: " in done.stderr


def test_expected_nodes_may_be_written_as_slurm_does(tmp_path: pathlib.Path) -> None:
    assert expected_names(str(tmp_path), "n[1-3], m, ,k[1,7]") == ["n1", "n2", "n3", "m", "k1", "k7"]


def test_a_store_whose_only_run_is_damaged_inside_has_no_run(tmp_path: pathlib.Path) -> None:
    """Found by `tools/fuzz_files.py store`."""
    pytest.importorskip("duckdb", reason="the extra fleet is not installed")
    MadeUpFleet(3).write(tmp_path / "reports")
    ingest(str(tmp_path / "reports"), Store(str(tmp_path / "store"), create=True))
    for table in (tmp_path / "store").glob("*/*/*.parquet"):
        content = bytearray(table.read_bytes())
        content[8:-200] = bytes(len(content) - 208)  # the head and the foot are whole
        table.write_bytes(content)
    done = run_doctor("fleet", "history", "--store", str(tmp_path / "store"))
    assert done.returncode == 3
    assert "the store has no run that can be read" in done.stdout
