"""The answer in each format says the same, and what a profile or a file is called changes nothing outside of its place."""

from __future__ import annotations

import html
import json
import os
import pathlib
import re
from typing import Any

import jsonschema
import made_trace
import pytest
from doctor_command import run_doctor
from document_shapes import SHAPES
from locations import ROOT
from made_trace import MadeEvent, MadeLine, MadePlane

from tfgpu_doctor.tracing.command import render
from tfgpu_doctor.tracing.compare import compare
from tfgpu_doctor.tracing.drawing import Drawing
from tfgpu_doctor.tracing.page import LEAST
from tfgpu_doctor.tracing.result import TraceReport

FORMATS = ("text", "markdown", "html", "json")
SCHEMA = ROOT / "doctor/tracing/trace.schema.json"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\ud800-\udfff]")
HOSTILE = (
    "\n✗ forged\n\n# forged\r::error::forged\n\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script><b>&amp; --> `code` ``` | "
    "[link](http://x) ![i](x) *a* _b_ ~~s~~ # @all ::set-output name=x::y %0A ##[error]no ##vso[task.x]y \u202eturned\u2066 "
    "'\"><img src=x onerror=alert(1)> {{ x }} {function} %s ${x} \x00 \ufffe \x85 \u2028\n- forged\n</details>\n```\n"
)
TRAININGS: dict[str, tuple[int, dict[str, Any]]] = {
    "compute_bound": (0, {}),
    "input_no_prefetch": (1, {"input_ms": 10, "compute_ms": 8}),
    "input_serial_map": (
        1, {"input_ms": 10, "compute_ms": 8, "stage": "Iterator::Root::Prefetch::BatchV2::Map"},
    ),
    "host_python": (1, {"compute_ms": 2}),
    "too_short": (3, {"steps": 2}),
}  # fmt: skip


def shown(text: str, format_: str) -> str:
    """The words of a document, without its markup."""
    text = html.unescape(text) if format_ == "html" else text
    return " ".join(text.replace("\\", "").split() if format_ == "markdown" else text.split())


@pytest.mark.parametrize("verdict", TRAININGS)
def test_all_formats_say_the_same(tmp_path: pathlib.Path, verdict: str) -> None:
    exit_code, training = TRAININGS[verdict]
    file = made_trace.save(tmp_path, made_trace.training(**training))
    done = {format_: run_doctor("trace", str(tmp_path), "--format", format_) for format_ in FORMATS}
    assert {(each.returncode, each.stderr) for each in done.values()} == {(exit_code, "")}
    document = json.loads(done["json"].stdout)
    assert (document["verdict"], document["file"]) == (verdict, str(file))
    assert document["healthy"] == {0: True, 1: False, 3: None}[exit_code]
    drawn = re.findall(r"^ +([\d.]+)%  \S.* (█*)$", done["text"].stdout, re.MULTILINE)
    assert len(drawn) == sum(share >= LEAST for share in document["shares"].values())
    assert all(len(bar) == pytest.approx(float(percent) * 0.3, abs=3) for percent, bar in drawn)
    for format_ in ("text", "markdown", "html"):
        words = shown(done[format_].stdout, format_)
        assert document["title"] in words
        assert document["verdict"] in words
        for cause in document["causes"][:1]:
            assert all(each in words for each in (*cause["evidence"], cause["fix"]["text"]))
            assert all(" ".join(line.split()) in words for line in cause["fix"]["code"].splitlines())
        at_best = document["gain"]["step_ms_at_best"]
        told = re.search(r"steps would take ([\d.]+) ms in place of ([\d.]+)", re.sub(r"</?b>", "", words))
        assert bool(told) == (at_best is not None)
        assert not told or (float(told[1]), float(told[2].rstrip("."))) == (
            round(at_best, 1),
            document["steps"]["mean_ms"],
        )
        for other in ({*TRAININGS} - {verdict}) | {"retracing", "eager"}:
            assert other not in words


@pytest.mark.parametrize("verdict", TRAININGS)
def test_the_document_follows_its_schema(tmp_path: pathlib.Path, verdict: str) -> None:
    made_trace.save(tmp_path, made_trace.training(**TRAININGS[verdict][1]))
    strictly(json.loads(run_doctor("trace", str(tmp_path), "--format", "json").stdout))


def test_a_comparison_follows_the_schema(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path, made_trace.training())
    done = run_doctor("trace", str(tmp_path), "--compare", str(tmp_path), "--format", "json")
    strictly(json.loads(done.stdout))


def strictly(document: object) -> None:
    schema = json.loads(SCHEMA.read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    kind(closed(schema)).validate(document)  # type: ignore[arg-type, unused-ignore]


def closed(schema: Any) -> Any:
    """The schema with nothing allowed that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    return {**made, "additionalProperties": False} if made.get("type") == "object" and "properties" in made else made


@pytest.mark.parametrize("format_", FORMATS)
def test_into_a_file(tmp_path: pathlib.Path, format_: str) -> None:
    made_trace.save(tmp_path, made_trace.training(**TRAININGS["input_no_prefetch"][1]))
    words = ("trace", str(tmp_path), "--format", format_)
    done = run_doctor(*words, "-o", str(tmp_path / "out"))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert (tmp_path / "out").read_text() == run_doctor(*words).stdout


def answer(folder: pathlib.Path, word: str, function: str = "", *, steps: int = 12) -> tuple[TraceReport, Drawing]:
    """The answer on a training whose names are all a word: of functions, stages, operations, streams, planes."""
    planes = made_trace.training(
        steps=steps, input_ms=10, compute_ms=8, function=function or word, operation=f"{word.replace(':', '')}:MatMul",
        stage=f"Iterator::Root::Prefetch::BatchV2{word.replace('::', ':')}x::Map{word.replace('::', ':')}x",
    )  # fmt: skip
    stats: dict[str, made_trace.Stat] = {"name": word, "cpu_budget": 8, "parallelism": word}
    for event in planes[0].lines[0].events:
        if event.name.startswith("Iterator"):
            event.stats = stats
    stream = MadeLine(f"Stream #1{word}", [MadeEvent(word, 20 * at + 11, 3, {"shapes": word}) for at in range(steps)])
    gpu = MadePlane(f"/device:GPU:0{word}", [stream], {"device_vendor": word, "compute_cap_major": word})
    samples = [[20_000_000 * at, [[f"/a/{word}.py", 3, word]], [[[f"/a/{word}.py", 4, word]]]] for at in range(steps)]
    (folder / "python_samples.json").write_text(json.dumps({"began_ns": 1, "every_s": 0.01, "samples": samples}))
    return made_trace.judged(made_trace.save(folder, [*planes, gpu]))


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_names_steer_nothing(tmp_path: pathlib.Path, format_: str) -> None:
    """Neither a terminal, nor a browser, nor the CI service that reads the log."""
    report, drawing = answer(tmp_path, HOSTILE)
    assert "forged" in str(report)
    document = render(report, compare(report, report), drawing, format_)
    document.encode()
    assert not CONTROL.search(document)
    if format_ in ("html", "markdown"):
        assert "<script>alert(1)" not in document
    assert format_ != "html" or "<img" not in document
    for line in document.splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("steps", [2, 12])
def test_hostile_names_stay_in_their_place(tmp_path: pathlib.Path, format_: str, steps: int) -> None:
    """The structure is that of a document with harmless names in the same places."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    harmless = answer(tmp_path / "a", "\x01x", steps=steps)
    hostile = answer(tmp_path / "b", HOSTILE, steps=steps)
    assert hostile[0].verdict == harmless[0].verdict
    shapes = [SHAPES[format_](render(*_with_itself(*each), format_)) for each in (hostile, harmless)]
    assert shapes[0] == shapes[1]


def _with_itself(report: TraceReport, drawing: Drawing) -> tuple[Any, Any, Drawing]:
    return report, compare(report, report), drawing


FILE_NAMES = {
    "lines": "a\nforged\n::error::forged\n.xplane.pb",
    "escapes": "\x1b[31mred\x1b]0;title\x07.xplane.pb",
    "markup": "<script>alert(1)<!-- |`*_[x](y).xplane.pb",
    "turned": "\u202eturned\u2066.xplane.pb",
    "no-text": os.fsdecode(b"\xff\xfe.xplane.pb"),
    "percent": "%s {x} {{ x }} ##[error]x.xplane.pb",
}


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", FILE_NAMES)
def test_hostile_names_of_files(tmp_path: pathlib.Path, name: str, format_: str) -> None:
    file = made_trace.save(tmp_path, made_trace.training(**TRAININGS["input_no_prefetch"][1]))
    file = file.rename(file.parent / FILE_NAMES[name])
    for arguments in ((str(tmp_path),), (str(file), "--compare", str(file))):
        for output in ([], ["-o", str(tmp_path / "out")]):
            done = run_doctor("trace", *arguments, "--format", format_, *output)
            assert (done.returncode, done.stderr) == (1, "")
            document = (tmp_path / "out").read_text() if output else done.stdout
            assert not CONTROL.search(document)
            starts = ("::", "forged") if format_ != "html" else ("::",)
            assert not any(line.lstrip().startswith(starts) or "##[" in line for line in document.splitlines())
            if format_ in ("html", "markdown"):
                assert "<script>alert" not in document


@pytest.mark.parametrize("name", FILE_NAMES)
def test_hostile_names_of_files_that_are_no_profile(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / FILE_NAMES[name]).write_text("no profile")
    done = run_doctor("trace", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert not CONTROL.search(done.stderr)
    assert "##[" not in done.stderr


def test_a_page_does_not_grow_with_the_profile(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    sizes = []
    for steps in (100, 2000):
        planes = made_trace.training(steps=steps, input_ms=10, compute_ms=8)
        made_trace.save(tmp_path / str(steps), planes)
        sizes.append(len(run_doctor("trace", str(tmp_path / str(steps)), "--format", "html").stdout))
    assert sizes[1] < 1.2 * sizes[0]


def test_no_colour_and_no_wide_line_without_a_terminal(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path, made_trace.training(**TRAININGS["host_python"][1]))
    lines = run_doctor("trace", str(tmp_path)).stdout.splitlines()
    code = made_trace.judged(tmp_path)[0].causes[0].fix.code
    assert not any("\x1b" in line for line in lines)
    assert "host.xplane.pb" in lines[0], "a name is never wrapped"
    assert all(len(line) <= 100 or line.strip() in code for line in lines[1:])
