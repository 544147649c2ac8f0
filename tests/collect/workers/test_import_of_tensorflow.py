"""How TensorFlow is imported: as in a user's program, whose folder may hide a module, and with its progress told."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from healthy import target

import tfgpu_doctor.collect.workers
from tfgpu_doctor.checks.python.import_order import no_local_file_hides_modules
from tfgpu_doctor.checks.tensorflow.runs import _IMPORTING
from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.runtime import runtime
from tfgpu_doctor.host import Host
from tfgpu_doctor.model import Finding

if TYPE_CHECKING:
    from collect.workers.conftest import Interpreter

PROGRAM = pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent / "run_tensorflow.py"
WITHOUT_GPU = (
    "import types; __version__ = '2.99.0'; config = types.SimpleNamespace(list_physical_devices=lambda kind: [])\n"
)
# What TensorFlow itself imports of the standard library, and what a file of such a name makes of that.
NEEDS = {
    "token": "import inspect", "enum": "import re", "keyword": "import collections, inspect", "operator": "import random",
    "struct": "import ctypes, zipfile", "json": "import json.decoder", "linecache": "import linecache; linecache.getline",
    "traceback": "from traceback import format_exc", "textwrap": "from textwrap import dedent",
}  # fmt: skip


@pytest.fixture
def site(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "site/tensorflow").mkdir(parents=True)
    return tmp_path / "site"


@pytest.fixture
def work(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def install(site: pathlib.Path, source: str) -> None:
    (site / "tensorflow/__init__.py").write_text(source)


def answer_of(interpreter: Interpreter, site: pathlib.Path, work: pathlib.Path, **variables: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for row in interpreter.answers("run_tensorflow", "GPU", cwd=work, python=None, PYTHONPATH=str(site), **variables):
        merged.update(row)
    return merged


def fails_for_the_user(interpreter: Interpreter, site: pathlib.Path, work: pathlib.Path) -> bool:
    (work / "train.py").write_text("import tensorflow\n")
    return interpreter.run("train.py", cwd=work, PYTHONPATH=str(site)).returncode != 0


@pytest.mark.parametrize("name", NEEDS)
def test_a_local_file_hides_also_what_this_program_has_imported_itself(
    interpreter: Interpreter, site: pathlib.Path, work: pathlib.Path, name: str
) -> None:
    """bitfumes/fastapi-course#7: a token.py in the project."""
    install(site, f"{NEEDS[name]}\n{WITHOUT_GPU}")
    (work / f"{name}.py").write_text("SECRET = 'mine'\n")
    answer = answer_of(interpreter, site, work)
    assert ("import_error" in answer) == fails_for_the_user(interpreter, site, work), answer
    if "import_error" in answer:
        files = [row["file"] for row in answer["culprits"]]
        assert str(work / f"{name}.py") in files or name in answer["import_error"], answer
        assert answer["import_traceback"][-1].startswith(answer["import_error"][:20])


@pytest.mark.parametrize("name", ["token", "enum", "struct"])
def test_local_files_hide_nothing_where_the_path_is_safe(
    interpreter: Interpreter, site: pathlib.Path, work: pathlib.Path, name: str
) -> None:
    if interpreter.version < (3, 11):
        pytest.skip("this Python knows no safe path")
    install(site, f"{NEEDS[name]}\n{WITHOUT_GPU}")
    (work / f"{name}.py").write_text("raise SystemExit('nobody may import this')\n")
    assert answer_of(interpreter, site, work, PYTHONSAFEPATH="1")["version"] == "2.99.0"


def test_a_local_file_that_offers_the_same_hides_nothing_that_is_missed(
    interpreter: Interpreter, site: pathlib.Path, work: pathlib.Path
) -> None:
    install(site, f"import json; json.loads('1')\n{WITHOUT_GPU}")
    (work / "json.py").write_text("def loads(text): return 1\ndef dumps(value): raise SystemExit('not the program')\n")
    answer = answer_of(interpreter, site, work)
    assert (answer["version"], answer["gpus_listed"]) == ("2.99.0", True)


def test_the_working_folder_does_not_run_before_tensorflow(
    interpreter: Interpreter, site: pathlib.Path, work: pathlib.Path
) -> None:
    install(site, WITHOUT_GPU)
    (work / "struct.py").write_text("open('ran', 'w').close()\n")
    assert answer_of(interpreter, site, work)["version"] == "2.99.0"
    assert not (work / "ran").exists()


def test_the_file_is_the_finding(site: pathlib.Path, work: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, f"import inspect\n{WITHOUT_GPU}")
    (work / "token.py").write_text("VALUE = 'a bearer token'\n")
    monkeypatch.chdir(work)
    host = Host(environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)})
    found = runtime.function(host=host, request=Request(python=sys.executable, deadline_s=120.0))
    assert "token" in found.import_error
    there = target(working_folder=str(work))
    (finding,) = no_local_file_hides_modules.function(there, found)
    assert isinstance(finding, Finding)
    assert finding.cause == "local_module_shadows_tensorflow"
    assert str(work / "token.py") in finding.message


SLOW = "import sys, time, types\ntime.sleep(0.03); import colorsys; time.sleep(0.03); import chunks_of_it\n"


def test_the_progress_of_a_slow_import_is_told(site: pathlib.Path, work: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """By a clock that tells every hundredth of a second in place of every five seconds."""
    install(
        site, SLOW + WITHOUT_GPU + "assert [type(each) for each in sys.meta_path].count(type(sys.meta_path[0])) == 1\n"
    )
    (site / "chunks_of_it.py").touch()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.read_text().replace("TOLD_EVERY_S = 5.0", "TOLD_EVERY_S = 0.01"))
    done = subprocess.run(
        [sys.executable, str(program), "GPU"], cwd=work, capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(site)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    phases = [row["phase"] for row in map(json.loads, done.stdout.splitlines()) if "phase" in row]
    told = [each for each in phases if _IMPORTING.fullmatch(each)]
    assert len(told) >= 2
    assert phases == ["importing TensorFlow", *told, "listing the GPUs"]
