"""Profiles of TensorFlow that a test makes up, as protocol buffers (XSpace) and as Chrome's JSON.

The messages: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

import gzip
import json
import lzma
import pathlib
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.tracing.drawing import Drawing, draw
from tfgpu_doctor.tracing.examine import examine
from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.reading import find_file, read_profile
from tfgpu_doctor.tracing.result import TraceReport, make_report


@dataclass(frozen=True)
class Ref:
    """A text that lies beside the names of the statistics, and to which a statistic refers."""

    text: str


Stat = int | float | str | Ref


@dataclass
class MadeEvent:
    """An event of a line; times in ms after the line's begin."""

    name: str
    begin_ms: float = 0.0
    duration_ms: float = 0.0
    stats: dict[str, Stat] = field(default_factory=dict)


@dataclass
class MadeLine:
    """A thread or a stream. `display` is what protobuf writes behind the events."""

    name: str
    events: list[MadeEvent] = field(default_factory=list)
    begin_ns: int = 0
    number: int = 0
    display: str = ""


@dataclass
class MadePlane:
    """A host or a device. `shown` maps names of events to what is displayed for them."""

    name: str
    lines: list[MadeLine] = field(default_factory=list)
    stats: dict[str, Stat] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)


def varint(value: int) -> bytes:
    """A number as protocol buffers write it; a negative one has ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def number(key: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(key << 3) + varint(value)


def message(key: int, content: bytes | str) -> bytes:
    """A field that holds a text or another message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(key << 3 | 2) + varint(len(content)) + content


class _Names:
    """Texts with numbers of their own, from 1 on."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers) + 1)


def encode(planes: Iterable[MadePlane]) -> bytes:
    """An XSpace."""
    return b"".join(message(1, encode_plane(plane)) for plane in planes)


def encode_plane(plane: MadePlane) -> bytes:
    """An XPlane: the fields in the order of their numbers, as protobuf writes them."""
    names, statistics = _Names(), _Names()
    lines = b"".join(message(3, encode_line(line, names, statistics)) for line in plane.lines)
    stats = b"".join(message(6, _stat(name, value, statistics)) for name, value in plane.stats.items())
    called = b"".join(
        message(4, number(1, key) + message(2, number(1, key) + message(2, name) + _shown(plane.shown.get(name))))
        for name, key in names.numbers.items()
    )
    told = b"".join(
        message(5, number(1, key) + message(2, number(1, key) + message(2, name)))
        for name, key in statistics.numbers.items()
    )
    return number(1, 1) + message(2, plane.name) + lines + called + told + stats


def _shown(text: str | None) -> bytes:
    return message(4, text) if text else b""


def encode_line(line: MadeLine, names: _Names, statistics: _Names) -> bytes:
    """An XLine; the display's name comes last."""
    head = (number(1, line.number) if line.number else b"") + (message(2, line.name) if line.name else b"")
    begin = number(3, line.begin_ns) if line.begin_ns else b""
    events = b"".join(message(4, _event(each, names, statistics)) for each in line.events)
    display = number(10, 7) + message(11, line.display) if line.display else b""
    return head + begin + events + display


def _event(event: MadeEvent, names: _Names, statistics: _Names) -> bytes:
    stats = b"".join(message(4, _stat(name, value, statistics)) for name, value in event.stats.items())
    return number(1, names.of(event.name)) + _time(2, event.begin_ms) + _time(3, event.duration_ms) + stats


def _time(key: int, milliseconds: float) -> bytes:
    """Picoseconds; protobuf leaves a nought out."""
    value = round(milliseconds * 1_000_000_000)
    return number(key, value) if value else b""


def _stat(name: str, value: Stat, statistics: _Names) -> bytes:
    head = number(1, statistics.of(name))
    if isinstance(value, Ref):
        return head + number(7, statistics.of(value.text))
    if isinstance(value, str):
        return head + message(5, value)
    if isinstance(value, float):
        return head + varint(2 << 3 | 1) + struct.pack("<d", value)
    return head + number(4, value)


def save(folder: pathlib.Path, planes: Iterable[MadePlane], date: str = "2026_11_23_10_00_00") -> pathlib.Path:
    """Write the profile into a folder as TensorFlow does, and return the file."""
    return save_bytes(folder, encode(planes), date=date)


def save_bytes(folder: pathlib.Path, content: bytes, date: str = "2026_11_23_10_00_00") -> pathlib.Path:
    """Write some bytes where TensorFlow writes a profile, and return the file."""
    file = folder / "plugins/profile" / date / "host.xplane.pb"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def training(
    *,
    steps: int = 12,
    step_ms: float = 20.0,
    input_ms: float = 0.0,
    compute_ms: float = 18.0,
    function: str = "train_step",
    stage: str = "Iterator::Root::BatchV2",
    operation: str = "MatMul:MatMul",
) -> list[MadePlane]:
    """A training: each step waits for input, and then calls a tf.function whose graph runs on another thread."""  # fmt: skip
    python, worker = MadeLine("python", number=1), MadeLine("tf_Compute/7", number=2)
    for step in range(steps + 1):  # the last tells where the one before ends
        at = step * step_ms
        if input_ms:
            python.events += [
                MadeEvent("IteratorGetNextOp::DoCompute", at, input_ms, {"id": step}),
                *_asked(stage, at + 0.001, input_ms - 0.002),
            ]
        at += input_ms
        python.events += [
            MadeEvent(function, at, compute_ms + 0.5, {"tf_function_call": Ref("notTraced-nonXla"), "count": step}),
            MadeEvent(f"EagerLocalExecute: __inference_{function}_106", at + 0.1, compute_ms + 0.3),
            MadeEvent("FunctionRun", at + 0.2, compute_ms + 0.1, {"id": 1000 + step, "ratio": 0.5}),
        ]
        worker.events += [
            MadeEvent("ExecutorState::Process", at + 0.25, compute_ms, {"id": 1000 + step}),
            MadeEvent(operation, at + 0.3, compute_ms - 0.1, {"shape": "(float[64,64])"}),
            MadeEvent("ThreadpoolListener::Record", at + 0.3, 0.01),
        ]
    return [MadePlane("/host:CPU", [python, worker])]


def _asked(stage: str, at_ms: float, duration_ms: float) -> list[MadeEvent]:
    """The stages of a pipeline, each of which asks the next: nearly all of the time is the last one's own."""
    names = stage.split("::")
    return [
        MadeEvent("::".join(names[:count]), at_ms + 0.001 * count, duration_ms - 0.002 * count, {"cpu_budget": 8})
        for count in range(2, len(names) + 1)
    ]


def short_name(name: str) -> str:
    """How TensorFlow 2.3 and later show an event in Chrome's JSON: MatMul for dense/MatMul:MatMul, Iterator::Map."""
    if name.startswith("Iterator::"):
        return f"Iterator::{name.rpartition('::')[2]}"
    return name.rpartition(":")[2] if re.fullmatch(r"[^: ]+:[A-Za-z]\w*", name) else name


def chrome_events(planes: Iterable[MadePlane], shown: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """The same in Chrome's JSON: names of processes and threads, and complete events in µs."""
    found: list[dict[str, Any]] = []
    for pid, plane in enumerate(planes, 1):
        found.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}})
        for tid, line in enumerate(plane.lines, 1):
            found.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": line.name}})
            found += [
                {
                    "ph": "X", "pid": pid, "tid": tid, "name": shown(event.name),
                    "ts": line.begin_ns / 1000 + event.begin_ms * 1000, "dur": event.duration_ms * 1000,
                    "args": {name: value.text if isinstance(value, Ref) else str(value) for name, value in event.stats.items()}
                    | ({"long_name": event.name} if shown(event.name) != event.name else {}),
                }
                for event in line.events
            ]  # fmt: skip
    return found


def save_chrome(file: pathlib.Path, events: list[dict[str, Any]], *, as_list: bool = False) -> pathlib.Path:
    """Write events as the name of the file says: .json or .json.gz."""
    text = json.dumps(events if as_list else {"displayTimeUnit": "ns", "traceEvents": events}).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


def judged_recording(recordings: pathlib.Path, name: str, folder: pathlib.Path) -> TraceReport:
    """The report on a compressed recording, with the looks at Python that are kept beside it; `folder` gets both."""
    save_bytes(folder, lzma.decompress((recordings / f"{name}.xplane.pb.xz").read_bytes()))
    looks = recordings / f"{name}.{FILE}.xz"
    if looks.exists():
        (folder / FILE).write_bytes(lzma.decompress(looks.read_bytes()))
    return judged(folder)[0]


def judged(path: pathlib.Path | str) -> tuple[TraceReport, Drawing]:
    """The report on a folder or file, and what its page draws."""
    file = find_file(str(path))
    profile = read_profile(file)
    verdict = examine(profile)
    return make_report(profile, verdict, file), draw(profile, verdict)
