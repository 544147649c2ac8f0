"""What somebody else wrote, wherever a command reads it: it speaks to no terminal, no CI service and no tracker."""

from __future__ import annotations

import json
import pathlib
from itertools import count

import pytest
from doctor_command import make_target, run_doctor
from every import sampled
from hostile_words import ENTRANCES, HOSTILE, PLAIN, as_name, spoken

from tfgpu_doctor.bench.history import PastRun, history_of
from tfgpu_doctor.bench.history_page import render_history
from tfgpu_doctor.model.facts.bench import Bench, Comparison

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
ALL_AT_ONCE = "\n".join(HOSTILE)


def said(entrance: str, text: str, folder: pathlib.Path) -> list[str]:
    """What the text in that place says to others, in any format or on standard error."""
    found = []
    folder.mkdir()
    variables = ENTRANCES[entrance].make(folder, text) or {}
    for format_, arguments in ENTRANCES[entrance].runs(text):
        done = run_doctor(*arguments, cwd=folder, environment=variables)
        found += [f"{format_}: {each}" for each in spoken(done.stdout, format_)]
        found += [f"{format_}, standard error: {each}" for each in spoken(done.stderr, "text")]
        if format_ == "json" and done.stdout:
            json.loads(done.stdout)
    return found


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_text_speaks_to_others(entrance: str, tmp_path: pathlib.Path) -> None:
    assert said(entrance, ALL_AT_ONCE, tmp_path / "here") == []


@pytest.mark.slow
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_text_speaks_at_the_begin_of_its_field(entrance: str, tmp_path: pathlib.Path) -> None:
    found = {text: said(entrance, text, tmp_path / str(place)) for place, text in enumerate(HOSTILE)}
    assert {text: each for text, each in found.items() if each} == {}


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_stays_as_it_is(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.log").write_text(f"failed call to cuInit: UNKNOWN ERROR (34) {text}\n", "utf-8")
    assert text in run_doctor("log", "x.log", cwd=tmp_path).stdout
    assert text in run_doctor("log", f"nowhere/{text}", cwd=tmp_path).stderr


def test_an_error_of_an_import_speaks_to_nobody(tmp_path: pathlib.Path) -> None:
    """The one of TensorFlow, as `fleet node` prints it, and as the page of the kubelet shows it."""
    target = make_target(tmp_path / "venv", f"raise ImportError({ALL_AT_ONCE!r})")
    message = tmp_path / "message"
    done = run_doctor("fleet", "node", "--out", str(tmp_path), "--python", str(target), "--message", str(message))
    printed = (done.stdout, message.read_text("utf-8"), done.stderr)
    assert "forged" in done.stdout
    assert [spoken(each, "text") for each in printed] == [[], [], []]


@pytest.mark.parametrize("options", [(), ("-v",)])
@pytest.mark.parametrize(
    "text", sampled(["\x1b[2J\x9b\u202e", "\r##vso[task.complete]", "\n::error::", "\n✗ forged"], 2), ids=ascii
)
def test_a_folder_speaks_to_nobody(text: str, options: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", "").rename(tmp_path / as_name(text))
    (site,) = target.glob("lib/python3*/site-packages")
    (site / "tensorflow/libtensorflow_framework.so.2").write_bytes(b"\x7fELF")
    for command in ("libraries", "fix", "check"):
        done = run_doctor(command, "--python", str(target), *(options if command == "libraries" else ()))
        assert [spoken(each, "text") for each in (done.stdout, done.stderr)] == [[], []], command


@pytest.mark.parametrize("format_", ["text", "markdown"])
@pytest.mark.parametrize("text", [ALL_AT_ONCE, *HOSTILE], ids=count())
def test_a_saved_run_speaks_to_nobody(text: str, format_: str) -> None:
    comparison = Comparison(suite=text, name=text, verdict="faster", ratio=2.0)
    runs = [PastRun(kept=1.8e9, name=text, bench=Bench(comparisons=(comparison,)))]
    assert spoken(render_history(history_of(text, runs), format_), format_) == []
    assert spoken(render_history(history_of(text, []), format_), format_) == []


def test_json_keeps_the_text(tmp_path: pathlib.Path) -> None:
    line = "failed call to cuInit: UNKNOWN ERROR (34) ##vso[a]b ::error::c"
    (tmp_path / "x.log").write_text(line + "\n", "utf-8")
    done = run_doctor("log", "x.log", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["causes"][0]["evidence"] == [line]
    assert spoken(done.stdout, "json") == []
