"""The same recording in Chrome's JSON gets the same answer as in protocol buffers."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import made_trace
import msgspec
import pytest
from doctor_command import run_doctor
from made_trace import MadeEvent, MadeLine, MadePlane

from tfgpu_doctor.tracing.chrome_trace import read_chrome_trace
from tfgpu_doctor.tracing.reading import find_file
from tfgpu_doctor.tracing.recorded import Kinds

GPU = MadePlane(
    "/device:GPU:0",
    [
        MadeLine("Stream #7(Compute)", [MadeEvent("gemm", 20 * at + 11, 6, {"shapes": "half[64,64]"}) for at in range(13)]),
        MadeLine("Stream #8(MemcpyH2D)", [MadeEvent("MemcpyH2D", 20 * at + 10, 1) for at in range(13)]),
    ],
)  # fmt: skip
TRAININGS = {
    "compute_bound": made_trace.training(),
    "input_no_prefetch": made_trace.training(input_ms=10, compute_ms=8),
    "input_serial_map": made_trace.training(input_ms=10, compute_ms=8, stage="Iterator::Root::Prefetch::BatchV2::Map"),
    "host_python": made_trace.training(compute_ms=2),
    "too_short": made_trace.training(steps=2),
    "launch_bound": [*made_trace.training(compute_ms=18), GPU],
}
FORMS = {"plain": ("trace.json", False), "list": ("list.trace.json", True), "gz": ("host.trace.json.gz", False)}
SAME = ("verdict", "title", "why", "healthy", "steps", "shares", "causes", "gain", "pipeline", "operations", "notes")


def answer(path: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(made_trace.judged(path)[0])
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verdict", TRAININGS)
def test_both_forms_get_the_same_answer(tmp_path: pathlib.Path, verdict: str, form: str) -> None:
    name, as_list = FORMS[form]
    planes = TRAININGS[verdict]
    chrome = made_trace.save_chrome(tmp_path / name, made_trace.chrome_events(planes), as_list=as_list)
    theirs, ours = answer(chrome), answer(made_trace.save(tmp_path, planes))
    assert ours["verdict"] == verdict
    assert {key: theirs[key] for key in SAME} == {key: ours[key] for key in SAME}
    assert theirs["gpu"] == ours["gpu"]
    assert theirs["events"] == ours["events"]


@pytest.mark.parametrize("verdict", TRAININGS)
def test_short_names_get_the_same_answer(tmp_path: pathlib.Path, verdict: str) -> None:
    """TensorFlow 2.3 and later put the whole name into an argument, and show a part of it."""
    planes = TRAININGS[verdict]
    events = made_trace.chrome_events(planes, made_trace.short_name)
    assert {"MatMul:MatMul"} == {each["args"].get("long_name") for each in events if each["name"] == "MatMul"}
    theirs, ours = (
        answer(made_trace.save_chrome(tmp_path / "t.json", events)),
        answer(made_trace.save(tmp_path, planes)),
    )
    assert {key: theirs[key] for key in SAME} == {key: ours[key] for key in SAME}


@pytest.mark.parametrize("form", FORMS)
def test_the_command_reads_each_form(tmp_path: pathlib.Path, form: str) -> None:
    name, as_list = FORMS[form]
    file = made_trace.save_chrome(
        tmp_path / name, made_trace.chrome_events(TRAININGS["input_no_prefetch"]), as_list=as_list
    )
    done = run_doctor("trace", str(file), "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["verdict"] == "input_no_prefetch"


@pytest.mark.parametrize("name", ["host.trace.json.gz", "host.trace.json"])
def test_a_folder_of_older_releases(tmp_path: pathlib.Path, name: str) -> None:
    """They wrote JSON alone; later ones wrote both, and then the protocol buffer is read."""
    folder = tmp_path / "plugins/profile/2020_01_01"
    folder.mkdir(parents=True)
    file = made_trace.save_chrome(folder / name, made_trace.chrome_events(TRAININGS["compute_bound"]))
    assert find_file(str(tmp_path)) == str(file)
    assert answer(tmp_path)["verdict"] == "compute_bound"
    newer = made_trace.save(tmp_path, TRAININGS["compute_bound"], date="2020_01_01")
    assert find_file(str(tmp_path)) == str(newer)


def test_white_space_before_the_text(tmp_path: pathlib.Path) -> None:
    text = json.dumps({"traceEvents": made_trace.chrome_events(TRAININGS["compute_bound"])}, indent=4)
    (tmp_path / "trace.json").write_text("\n  \t" + text)
    assert answer(tmp_path / "trace.json")["verdict"] == "compute_bound"


def test_names_may_come_last_and_in_any_order(tmp_path: pathlib.Path) -> None:
    events = made_trace.chrome_events(TRAININGS["input_no_prefetch"])
    turned = answer(made_trace.save_chrome(tmp_path / "turned.json", events[::-1]))
    straight = answer(made_trace.save_chrome(tmp_path / "straight.json", events))
    assert {key: turned[key] for key in SAME} == {key: straight[key] for key in SAME}


def test_columns() -> None:
    """Times in ns, arguments as numbers where they are numbers, unwanted events counted, other kinds of events left out."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "M", "pid": 3, "tid": 9, "name": "thread_name", "args": {"name": "python"}},
        {"ph": "M", "pid": 3, "tid": 9, "name": "thread_sort_index", "args": {"sort_index": 9}},
        {"ph": "X", "pid": 3, "tid": 9, "name": "work", "ts": 1.5, "dur": 0.25, "args": {"id": "-12", "b": 1.5, "c": "x", "d": True}},
        {"ph": "X", "pid": 3, "tid": 9, "name": "ThreadpoolListener::Record", "ts": 2, "dur": 1},
        {"ph": "X", "pid": 3, "tid": 9, "name": "instant", "ts": 3},
        {"ph": "X", "pid": 3, "tid": 9, "name": "Record", "ts": 3, "args": {"long_name": "ThreadpoolListener::Record"}},
        {"ph": "X", "pid": 3, "tid": 9, "name": "odd", "ts": 3, "dur": 0, "args": {"long_name": 7}},
        {"ph": "B", "pid": 3, "tid": 9, "name": "begun", "ts": 4},
        {"ph": "C", "pid": 4, "tid": 1, "name": "counter", "ts": 4, "args": {"bytes": 5}},
        {},
    ]  # fmt: skip
    (plane,) = read_chrome_trace(json.dumps(events).encode(), Kinds().wanted)
    (line,) = plane.lines
    assert (plane.name, line.name, line.unwanted) == ("/host:CPU", "python", 2)
    assert [plane.names[each] for each in line.names] == ["work", "instant", "odd"]
    assert (list(line.starts_ns), list(line.ends_ns)) == ([1500.0, 3000.0, 3000.0], [1750.0, 3000.0, 3000.0])
    assert plane.stats_of(line, 0) == {"id": -12, "b": 1.5, "c": "x", "d": True}
    assert plane.stats_of(line, 1) == {}
