"""A trace in Chrome's JSON, as TensorFlow wrote it until 2.3 and as its trace viewer exports it, in the profile's columns.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.tracing.events import Line, Plane, Value

_NUMBER = re.compile(r"-?[0-9]{1,20}")


class _Event(msgspec.Struct):
    ph: str = ""
    pid: int | str = 0
    tid: int | str = 0
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] | None = None


class _Document(msgspec.Struct):
    traceEvents: list[_Event] = []  # noqa: N815 - the format's name


def read_chrome_trace(text: bytes, wanted: Callable[[str], bool]) -> list[Plane]:
    """Read the complete events ("X") and the names of processes and threads. Raises msgspec.DecodeError."""
    if text.lstrip()[:1] == b"[":
        events = decode_json(text, list[_Event])
    else:
        events = decode_json(text, _Document).traceEvents
    planes: dict[int | str, Plane] = {}
    lines: dict[tuple[int | str, int | str], Line] = {}
    numbers: dict[str, int] = {}
    arguments: list[dict[str, Any]] = []
    for event in events:
        plane = planes.get(event.pid)
        if plane is None:
            plane = planes[event.pid] = Plane(
                "", stats_reader=lambda line, place: _stats(arguments[line.stats_at[place]])
            )
        line = lines.get((event.pid, event.tid))
        if line is None:
            line = lines[event.pid, event.tid] = Line()
            plane.lines.append(line)
        if event.ph == "M":
            _name(event, plane, line)
        elif event.ph == "X":
            name = _whole_name(event)
            if not wanted(name):
                line.unwanted += 1
                continue
            number = numbers.setdefault(name, len(numbers))
            plane.names[number] = name
            line.names.append(number)
            line.starts_ns.append(event.ts * 1000.0)
            line.ends_ns.append((event.ts + event.dur) * 1000.0)
            line.stats_at.append(len(arguments))
            line.stats_end.append(len(arguments))
            arguments.append(event.args or {})
    for plane in planes.values():
        plane.lines = [line for line in plane.lines if len(line)]
    return [plane for plane in planes.values() if plane.lines or plane.name]


def _whole_name(event: _Event) -> str:
    """The name as the protocol buffer has it: from TensorFlow 2.3 on, the event's own may be shorter (MatMul, Iterator::Map)."""
    whole = (event.args or {}).get("long_name")
    return whole if whole and isinstance(whole, str) else event.name


def _name(event: _Event, plane: Plane, line: Line) -> None:
    name = str((event.args or {}).get("name", ""))
    if event.name == "process_name":
        plane.name = name
    elif event.name == "thread_name":
        line.name = name


def _stats(arguments: dict[str, Any]) -> dict[str, Value]:
    return {name: _number(value) for name, value in arguments.items()}


def _number(value: Any) -> Value:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return value if isinstance(value, int | float) else str(value)
