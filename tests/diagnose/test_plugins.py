"""Checks of other distributions: found by their entry point, shown when they break, never dropped."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from doctor_command import clean_environment, doctor_argv
from healthy import healthy
from locations import TESTS

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.diagnose.plugin_checks import describe_plugin
from tfgpu_doctor.diagnose.plugins import merge
from tfgpu_doctor.model import CannotTell, Check, Evidence, NotMeasured, Skip, Yielded, check

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


def run_with(site: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    facts = TESTS / "machines/synthetic/workstation-healthy/facts.json"
    return subprocess.run(
        doctor_argv("--facts", str(facts), *arguments), capture_output=True, text=True,
        env=clean_environment(PYTHONPATH=os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])), check=False,
    )  # fmt: skip


def doctor_with(site: pathlib.Path, *arguments: str, warns: str = "") -> dict[str, Any]:
    done = run_with(site, "--format", "json", *arguments)
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
        ("import os; os._exit(0)", "it ended the process that it ran in (exit code 0)"),
        ("import os; os.kill(os.getpid(), 9)", "it ended the process that it ran in (SIGKILL"),
        ("import sys; sys.stdout.write('{'); sys.stdout.flush(); raise OSError('none')", "OSError: none"),
        ("raise OSError('\\udce9')", "OSError: ?"),
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


CHECK = """
import os, signal, sys, time
from tfgpu_doctor.model import Evidence, Finding, check

@check("ACME001", "nothing is wrong")
def nothing_is_wrong(driver):
    {}
    yield Evidence("fine")
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("os._exit(0)", "it ended the process that it ran in (exit code 0)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it ended the process that it ran in (SIGSEGV"),
        ("os.write(2, b'::error::x\\nlast words'); os._exit(3)", "(exit code 3); the last that it printed: last words"),
        ("raise ValueError('no branch')", "ValueError: no branch"),
        ("while True: yield Evidence('again')", "ValueError: it yielded more than 1000 results"),
        ("yield 5", "TypeError: it yielded 5, which is no Finding and no Evidence"),
        (
            "yield Finding('bad', severity='fatal')",
            "it gave something else than a check gives: Invalid enum value 'fatal'",
        ),
        ("yield Finding('bad \\udce9')", "UnicodeEncodeError"),
    ],
)
def test_whatever_a_check_of_a_plugin_does_the_document_says_it(tmp_path: pathlib.Path, body: str, words: str) -> None:
    install(tmp_path, "acme", CHECK.format(body), "acme = acme:nothing_is_wrong")
    document = doctor_with(tmp_path)
    (result,) = (each for each in document["results"] if each["id"] == "ACME001")
    assert result["outcome"] == "crash"
    assert words in result["reason"]
    assert document["counts"]["pass"] > 50
    assert document["healthy"] is False


@pytest.mark.slow
def test_a_check_of_a_plugin_that_hangs_is_a_crash(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", CHECK.format("time.sleep(600)"), "acme = acme:nothing_is_wrong")
    (result,) = doctor_with(tmp_path, "--select", "ACME001")["results"]
    assert (result["outcome"], result["reason"]) == ("crash", "the plugin acme: it did not end within 20 s")


@pytest.mark.parametrize("printing", ["print('::error::forged')", "os.write(1, b'::error::forged')"])
def test_a_plugin_that_prints_does_not_speak_in_the_document(tmp_path: pathlib.Path, printing: str) -> None:
    install(tmp_path, "acme", f"import os; {printing}\n" + CHECK.format(printing), "acme = acme:nothing_is_wrong")
    (result,) = doctor_with(tmp_path, "--select", "ACME001")["results"]
    assert (result["outcome"], result["evidence"]) == ("pass", ["fine"])


def test_a_plugin_does_not_run_in_the_doctors_process(tmp_path: pathlib.Path) -> None:
    marks = f"open({str(tmp_path / 'mark')!r} + str(os.getppid()), 'w').close()"
    install(tmp_path, "acme", f"import os\n{marks}\n" + CHECK.format("pass"), "acme = acme:nothing_is_wrong")
    facts = TESTS / "machines/synthetic/workstation-healthy/facts.json"
    with subprocess.Popen(
        doctor_argv("--facts", str(facts), "--format", "json"), stdout=subprocess.DEVNULL,
        env=clean_environment(PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])),
    ) as process:  # fmt: skip
        process.wait()
    assert [path.name for path in tmp_path.glob("mark*")] == [f"mark{process.pid}"]


@pytest.mark.parametrize(
    ("body", "outcome"), [("raise Skip('not here')", "skip"), ("raise CannotTell('no value')", "skip")]
)
def test_a_check_of_a_plugin_may_skip(tmp_path: pathlib.Path, body: str, outcome: str) -> None:
    source = "from tfgpu_doctor.model import CannotTell, Skip\n" + CHECK.format(body)
    install(tmp_path, "acme", source, "acme = acme:nothing_is_wrong")
    (result,) = doctor_with(tmp_path, "--select", "ACME001")["results"]
    assert (result["outcome"], result["reason"]) == (outcome, body.split("'")[1])


@pytest.mark.parametrize("kind", [Skip, NotMeasured, CannotTell])
def test_what_a_check_of_a_plugin_raised_arrives_as_such(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: type[Skip]
) -> None:
    """`CannotTell` alone leaves the checks that come after it undetermined."""
    source = f"from tfgpu_doctor.model import {kind.__name__}\n" + CHECK.format(f"raise {kind.__name__}('no value')")
    (tmp_path / "acme.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (described,) = describe_plugin("acme:nothing_is_wrong")
    with pytest.raises(Skip, match=r"^no value$") as raised:
        described.function(driver=healthy().driver)
    assert type(raised.value) is kind


@pytest.mark.slow
def test_a_plugin_that_hangs_is_a_crash(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", "import time; time.sleep(600)", "acme = acme:driver_is_supported")
    assert "it did not end within 20 s" in doctor_with(tmp_path)["results"][-1]["reason"]


def found(*checks: Check) -> Callable[[str], list[Check]]:
    return lambda _value: list(checks)


POINT = EntryPoint("acme", "acme:x", "tfgpu_doctor.checks")


def test_an_id_that_is_taken_is_refused() -> None:
    @check("DRV001", "a copy")
    def copy() -> Yielded:
        yield from ()

    _, broken = merge(ALL_CHECKS, [POINT], found(copy))
    assert "the id DRV001 is already in use" in broken[0].error


def test_a_ring_is_refused_and_costs_no_other() -> None:
    @check("ACME001", "one", after=("ACME002",))
    def one() -> Yielded:
        yield from ()

    @check("ACME002", "two", after=("ACME001",))
    def two() -> Yielded:
        yield from ()

    checks, broken = merge(ALL_CHECKS, [POINT], found(one, two))
    assert checks == ALL_CHECKS
    assert "CycleError" in broken[0].error


def test_a_fact_that_does_not_exist_is_refused() -> None:
    @check("ACME001", "the links are up")
    def links(drivr: object, knowledge: object) -> Yielded:
        yield Evidence("never reached")

    checks, (broken,) = merge(ALL_CHECKS, [POINT], found(links))
    assert checks == ALL_CHECKS
    assert broken.error == (
        "ACME001 needs the fact 'drivr', which this doctor does not have (a parameter for a fact of another release needs a "
        "default); did you mean driver?"
    )


def test_a_parameter_with_a_default_may_name_a_fact_of_another_release() -> None:
    @check("ACME001", "the links are up")
    def links(driver: object, knowledge: object, fact_of_next_year: object = None) -> Yielded:
        yield Evidence(f"{fact_of_next_year}")

    checks, broken = merge(ALL_CHECKS, [POINT], found(links))
    assert ([each.id for each in checks if each.id == "ACME001"], broken) == (["ACME001"], ())
    result = diagnose(healthy(), checks=[each for each in checks if each.id == "ACME001"]).results[0]
    assert (result.outcome, result.evidence) == ("pass", ("None",))


def test_a_plugin_with_a_fact_that_does_not_exist_is_a_crash(tmp_path: pathlib.Path) -> None:
    install(tmp_path, "acme", PLUGIN.replace("driver, knowledge", "no_such_fact"), "acme = acme:driver_is_supported")
    document = doctor_with(tmp_path)
    crash = document["results"][-1]
    assert (crash["id"], crash["outcome"]) == ("plugin:acme", "crash")
    assert "ACME001 needs the fact 'no_such_fact'" in crash["reason"]


@pytest.mark.parametrize("body", ["return", "for _ in (): yield Evidence('never')"])
def test_a_check_of_a_plugin_that_says_nothing_is_skipped(tmp_path: pathlib.Path, body: str) -> None:
    source = CHECK.replace('    yield Evidence("fine")\n', "").format(body)
    install(tmp_path, "acme", source, "acme = acme:nothing_is_wrong")
    (result,) = doctor_with(tmp_path, "--select", "ACME001")["results"]
    assert (result["outcome"], result["reason"]) == ("skip", "it yielded neither evidence nor a finding")


def test_a_cause_that_is_not_in_the_doctors_list_is_refused(tmp_path: pathlib.Path) -> None:
    body = "yield Finding('the rack is full', cause='driver_to_old')"
    install(tmp_path, "acme", CHECK.format(body), "acme = acme:nothing_is_wrong")
    (result,) = doctor_with(tmp_path, "--select", "ACME001")["results"]
    assert (result["outcome"], result["findings"]) == ("crash", [])
    assert result["reason"] == (
        "the plugin acme: it found 'the rack is full' with the cause 'driver_to_old', which is not in the doctor's list "
        "(without a cause, a finding is 'undetermined'); did you mean driver_too_old?"
    )


@pytest.mark.parametrize("cause", ["", ", cause='undetermined'", ", cause='gpu_lost'"])
def test_a_cause_of_the_doctors_list_is_taken(tmp_path: pathlib.Path, cause: str) -> None:
    install(tmp_path, "acme", CHECK.format(f"yield Finding('it is so'{cause})"), "acme = acme:nothing_is_wrong")
    (result,) = doctor_with(tmp_path, "--select", "ACME001")["results"]
    assert result["outcome"] == "fail"


@pytest.mark.parametrize("format_", ["text", "markdown", "html", "github", "junit", "sarif"])
def test_a_crash_of_a_plugin_is_not_blamed_on_the_doctor(tmp_path: pathlib.Path, format_: str) -> None:
    install(tmp_path, "acme", CHECK.format("raise OSError('none')"), "rack = acme:nothing_is_wrong")
    done = run_with(tmp_path, "--select", "ACME001", "--format", format_)
    words = " ".join(re.sub(r"&#39;|&quot;|<[^>]*>", " ", done.stdout).split())
    assert done.returncode == 3
    assert "the plugin rack: OSError: none" in " ".join(done.stdout.split())
    assert "of the doctor crashed" not in words
    if format_ in ("text", "markdown", "html"):
        assert "A check of the plugin rack crashed; what it examines was not judged." in words


@pytest.mark.parametrize("named", ["'not checks'", "[1, 2]", "7"])
def test_what_is_no_check_is_refused(tmp_path: pathlib.Path, named: str) -> None:
    install(tmp_path, "acme", f"what = {named}", "acme = acme:what")
    (crash,) = (each for each in doctor_with(tmp_path)["results"] if each["id"] == "plugin:acme")
    assert "TypeError" in crash["reason"]


def test_without_plugins_there_are_the_doctors_own() -> None:
    assert merge(ALL_CHECKS, []) == (ALL_CHECKS, ())
