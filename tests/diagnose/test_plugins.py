"""Checks of other distributions: found by their entry point, shown when they break, never dropped."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from doctor_command import clean_environment, doctor_argv
from locations import TESTS

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.plugins import merge
from tfgpu_doctor.model import Yielded, check

PLUGIN = '''
from tfgpu_doctor.model import Evidence, Finding, Fix, check

@check("ACME001", "the driver is one that Acme supports", after=("DRV001",))
def driver_is_supported(driver, knowledge):
    """Acme supports few drivers.

    Fix: install one of them.
    """
    if driver.version not in ("550.54.15",):
        yield Finding(f"driver {driver.version!r} is not one of Acme's", cause="driver_too_old", fix=Fix("ask Acme"))
    yield Evidence(driver.version)
'''


def install(site: pathlib.Path, module: str, source: str, entry: str) -> None:
    """A distribution with an entry point, as pip would leave it."""
    (site / f"{module}.py").write_text(source)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tfgpu_doctor.checks]\n{entry}\n")


def doctor_with(site: pathlib.Path, *arguments: str, warns: str = "") -> dict[str, Any]:
    facts = TESTS / "machines/synthetic/workstation-healthy/facts.json"
    done = subprocess.run(
        doctor_argv("--facts", str(facts), "--format", "json", *arguments), capture_output=True, text=True,
        env=clean_environment(PYTHONPATH=os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])), check=False,
    )  # fmt: skip
    assert done.stderr == warns
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_plugins_check_runs(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", PLUGIN, "acme = acme:driver_is_supported")
    document = doctor_with(tmp_path, "--select", "ACME001")
    (result,) = document["results"]
    assert result["outcome"] == "fail"
    assert "is not one of Acme's" in result["findings"][0]["message"]


def test_a_plugin_that_does_not_import_is_a_crash(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", "import nothing_of_that_name", "acme = acme:driver_is_supported")
    document = doctor_with(tmp_path)
    crash = document["results"][-1]
    assert crash["id"] == "plugin:acme"
    assert crash["outcome"] == "crash"
    assert "nothing_of_that_name" in crash["reason"]
    assert document["healthy"] is False


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "it ended the process that loaded it (exit code 0)"),
        ("import os; os.kill(os.getpid(), 9)", "it ended the process that loaded it (SIGKILL"),
        ("import sys; sys.stdout.write('{'); sys.stdout.flush(); raise OSError('none')", "OSError: none"),
    ],
)
def test_a_plugin_that_ends_the_process_that_loads_it_is_a_crash(
    tmp_path: pathlib.Path, source: str, words: str
) -> None:
    install(tmp_path, "acme", source, "acme = acme:driver_is_supported")
    document = doctor_with(tmp_path)
    crash = document["results"][-1]
    assert (crash["id"], crash["outcome"]) == ("plugin:acme", "crash")
    assert words in crash["reason"]
    assert document["healthy"] is False


def test_a_plugin_that_prints_while_it_is_loaded_does_not_speak_in_the_document(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", "print('::error::forged')" + PLUGIN, "acme = acme:driver_is_supported")
    (result,) = doctor_with(tmp_path, "--select", "ACME001", warns="::error::forged\n")["results"]
    assert result["outcome"] == "fail"


@pytest.mark.slow
def test_a_plugin_that_hangs_is_a_crash(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", "import time; time.sleep(600)", "acme = acme:driver_is_supported")
    assert "it was not loaded within 20 s" in doctor_with(tmp_path)["results"][-1]["reason"]


def test_an_id_that_is_taken_is_refused() -> None:
    @check("DRV001", "a copy")
    def copy() -> Yielded:
        yield from ()

    class Point(EntryPoint):
        def load(self) -> object:
            return copy

    _, broken = merge(ALL_CHECKS, [Point("acme", "acme:copy", "tfgpu_doctor.checks")])
    assert "the id DRV001 is already in use" in broken[0].error


def test_a_ring_is_refused_and_costs_no_other() -> None:
    @check("ACME001", "one", after=("ACME002",))
    def one() -> Yielded:
        yield from ()

    @check("ACME002", "two", after=("ACME001",))
    def two() -> Yielded:
        yield from ()

    class Point(EntryPoint):
        def load(self) -> object:
            return [one, two]

    checks, broken = merge(ALL_CHECKS, [Point("acme", "acme:x", "tfgpu_doctor.checks")])
    assert checks == ALL_CHECKS
    assert "CycleError" in broken[0].error


@pytest.mark.parametrize("found", ["not checks", [1, 2], 7])
def test_what_is_no_check_is_refused(found: object) -> None:
    class Point(EntryPoint):
        def load(self) -> object:
            return found

    checks, broken = merge(ALL_CHECKS, [Point("acme", "acme:x", "tfgpu_doctor.checks")])
    assert len(checks) == len(ALL_CHECKS)
    assert broken[0].name == "acme"


def test_without_plugins_there_are_the_doctors_own() -> None:
    assert merge(ALL_CHECKS, []) == (ALL_CHECKS, ())
