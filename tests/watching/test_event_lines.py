"""The file of changes: one JSON object a line, written at once, and a disk that fails disturbs nothing."""

from __future__ import annotations

import datetime as dt
import json
import os
import pathlib
import re
import resource
from typing import Any

import made_watch

from tfgpu_doctor.watching.event_lines import EventLines
from tfgpu_doctor.watching.reading import GpuReading

NOON = dt.datetime(2026, 11, 23, 12, 0, tzinfo=dt.timezone.utc)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\ud800-\udfff]")


def lines_of(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: pathlib.Path, notes: list[str]) -> EventLines:
    return EventLines(str(path), notes.append, now=lambda: NOON)


def test_each_change_is_a_line(tmp_path: pathlib.Path) -> None:
    notes: list[str] = []
    events = written(tmp_path / "events.jsonl", notes)
    report = made_watch.hung()
    assert report.hang
    events.verdict(made_watch.turn(120.0, "input_python", "cpu_contention"))
    assert len(lines_of(tmp_path / "events.jsonl")) == 1, "a line is there at once"
    events.machine(made_watch.contention(), 130.0)
    events.hang(report.hang)
    events.machine_end("cpu_contention", 600.0)
    events.rule(made_watch.with_rules().rules[0], 62.0)
    events.gpu_lost(GpuReading(at_s=700.0, index=1, name="NVIDIA A100", uuid="GPU-1"), 700.0)
    events.end(report)
    found = lines_of(tmp_path / "events.jsonl")
    assert notes == []
    assert [each["event"] for each in found] == ["verdict", "machine", "hang", "machine_end", "rule", "gpu_lost", "end"]
    assert [each["seconds"] for each in found] == [120.0, 130.0, 723.0, 600.0, 62.0, 700.0, 723.0]
    assert {each["at"] for each in found} == {"2026-11-23T12:00:00.000000Z"}
    assert all(list(each)[:3] == ["at", "seconds", "event"] for each in found)
    verdict, machine, hang, over, rule, lost, end = found
    assert (verdict["verdict"], verdict["causes"]) == ("input_python", ["cpu_contention"])
    assert (machine["label"], machine["slowed_s"]) == ("cpu_contention", 250.0)
    assert over["label"] == "cpu_contention"
    assert (hang["kind"], hang["no_step_for_s"]) == ("input", 223.0)
    assert (rule["rule"], rule["broken"]) == ("step_ms > 10 for 1 min", True)
    assert (lost["index"], lost["uuid"]) == (1, "GPU-1")
    assert (end["verdict"], end["healthy"], end["exit_code"], end["broken_rules"]) == ("hang", False, -15, [])


def test_lines_are_appended_to_those_of_an_earlier_run(tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        written(tmp_path / "events.jsonl", []).end(made_watch.with_rules())
    found = lines_of(tmp_path / "events.jsonl")
    assert [each["broken_rules"] for each in found] == [["step_ms > 10 for 1 min"]] * 2


def test_hostile_names_make_no_line_and_steer_nothing(tmp_path: pathlib.Path) -> None:
    word = made_watch.HOSTILE
    written(tmp_path / "events.jsonl", []).add("machine", 1.0, {"title": word, "event": "end", word: [word]})
    text = (tmp_path / "events.jsonl").read_text("utf-8")
    assert text.count("\n") == 1
    assert not CONTROL.search(text)
    assert "##[" not in text
    assert lines_of(tmp_path / "events.jsonl")[0]["event"] == "machine"


def test_a_full_disk_is_noted_once_and_leaves_no_half_line(tmp_path: pathlib.Path) -> None:
    """The limit on the size of files stands in for a disk that takes only a part of a line."""
    notes: list[str] = []
    path = tmp_path / "events.jsonl"
    events = written(path, notes)
    events.end(made_watch.healthy())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        for _ in range(3):
            events.end(made_watch.healthy())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (note,) = notes
    assert f"{path} cannot be written" in note
    assert len(lines_of(path)) == 1
    events.end(made_watch.healthy())
    assert len(lines_of(path)) == 2


def test_a_vanished_folder_is_noted_once_and_tried_again(tmp_path: pathlib.Path) -> None:
    notes: list[str] = []
    folder = tmp_path / "a\nb"
    events = written(folder / "events.jsonl", notes)
    for _ in range(3):
        events.end(made_watch.healthy())
    (note,) = notes
    assert "No such file or directory" in note
    assert "\n" not in note
    folder.mkdir()
    events.end(made_watch.healthy())
    assert len(lines_of(folder / "events.jsonl")) == 1
    assert len(notes) == 1


def test_a_pipe_that_nobody_reads_blocks_nothing(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    notes: list[str] = []
    written(tmp_path / "pipe", notes).end(made_watch.healthy())
    assert "not a regular file" in notes[0]
