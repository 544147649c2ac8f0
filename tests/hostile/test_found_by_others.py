"""What somebody found who tried to break the command without having seen its code."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment, doctor_argv, run_doctor

from tfgpu_doctor.collect.ldso.search_path import split_list
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
