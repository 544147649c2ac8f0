"""A profile, its events sorted by what they mean: the threads of the host, the streams of the GPUs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing.data_sources import DataSources
from tfgpu_doctor.tracing.events import Line, Plane, Value
from tfgpu_doctor.tracing.intervals import Interval
from tfgpu_doctor.tracing.python_samples import Sample

PASSED_OVER = "passed over"
_LATEST_NS = 1 << 62  # in the year 2116
_NUMBER = re.compile(r"\(\d+\)$")  # of an XLA program
_TEMPLATE = re.compile(r"\[\d+\]")


class Kinds:
    """What the name of an event means, by the table trace_events; names are looked up once."""

    def __init__(self) -> None:
        self._rows = [(re.compile(row.pattern), row.kind) for row in read_knowledge().trace_events]
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the kind, or "other" where no row matches."""
        kind = self._known.get(name)
        if kind is None:
            kind = next((kind for pattern, kind in self._rows if pattern.match(name)), "other")
            self._known[name] = kind
        return kind

    def wanted(self, name: str) -> bool:
        """Whether an event says anything."""
        return self.of(name) != PASSED_OVER


@dataclass(slots=True)
class Event:
    """An event; times in ms since the profile began. Its times stay in the columns of the line: there may be millions."""

    name: str
    line: Line
    place: int

    @property
    def begin(self) -> float:
        """When it began."""
        return (self.line.starts_ns[self.place] + self.line.offset_ns) / 1e6

    @property
    def end(self) -> float:
        """When it ended."""
        return (self.line.ends_ns[self.place] + self.line.offset_ns) / 1e6

    @property
    def interval(self) -> Interval:
        """Begin and end in ms."""
        line, place = self.line, self.place
        return ((line.starts_ns[place] + line.offset_ns) / 1e6, (line.ends_ns[place] + line.offset_ns) / 1e6)

    @property
    def duration(self) -> float:
        """The duration in ms."""
        begin, end = self.interval
        return end - begin


@dataclass(slots=True)
class Thread:
    """A thread of the host: its events by kind, in the order of the file."""

    name: str
    line: Line
    plane: Plane
    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    of_loop: bool = False  # a thread of tf.data's that runs the model: a loop over a dataset inside of a graph

    def stats(self, event: Event) -> dict[str, Value]:
        """What the profiler says of an event."""
        return self.plane.stats_of(event.line, event.place)

    @property
    def of_pipeline(self) -> bool:
        """Whether it is a thread of tf.data's own."""
        return self.name.startswith("tf_data") and not self.of_loop

    @property
    def prepares_batches(self) -> bool:
        """Whether it works for the pipeline; the thread on which a graph waits for its next batch does not."""
        return self.of_pipeline and "get_next" not in self.name


@dataclass(slots=True)
class Stream:
    """A line of a GPU's plane: kernels and copies."""

    name: str
    plane: Plane
    events: list[Event]

    def stats(self, event: Event) -> dict[str, Value]:
        """What the profiler says of an event."""
        return self.plane.stats_of(event.line, event.place)


@dataclass(slots=True)
class Profile:
    """What one recording holds; all times in ms since it began (`origin_ns`, since 1970)."""

    origin_ns: int
    threads: list[Thread]
    gpus: dict[str, list[Stream]]
    devices: dict[str, dict[str, Value]]
    events: int
    began_ns: int = 0  # since 1970; 0 if the profile does not say
    cut_off: str = ""
    programs: dict[str, int] = field(default_factory=dict)  # of XLA: how often each was compiled
    samples: list[Sample] = field(default_factory=list)
    sources: DataSources = field(default_factory=DataSources)  # empty if another tool has recorded
    errors: tuple[str, ...] = ()  # what TensorFlow's profiler says of its own work, warnings among them

    @property
    def end(self) -> float:
        """When the last event ended."""
        ends = [max(thread.line.ends_ns) + thread.line.begin_ns for thread in self.threads if len(thread.line)]
        on_gpus = [event.end for streams in self.gpus.values() for stream in streams for event in stream.events]
        return max((max(ends, default=self.origin_ns) - self.origin_ns) / 1e6, max(on_gpus, default=0.0))


def make_profile(planes: Iterable[Plane], kinds: Kinds, cut_off: str = "") -> Profile:
    """Sort the events of a recording."""
    planes = list(planes)
    lines = [line for plane in planes for line in plane.lines if len(line)]
    origin = min((int(line.begin_ns + min(line.starts_ns)) for line in lines), default=0)
    for line in lines:
        line.offset_ns = float(line.begin_ns - origin)
    profile = Profile(origin, [], {}, {}, sum(len(line) + line.unwanted for line in lines), _began(planes), cut_off)
    for plane in planes:
        if is_gpu(plane.name):
            profile.devices[plane.name] = plane.stats
            profile.gpus[plane.name] = [_stream(plane, line) for line in plane.lines if len(line)]
        elif plane.name == "/host:metadata":
            profile.programs = dict(Counter(_NUMBER.sub("", name) for name in plane.names.values()))
        elif plane.name.startswith(("/host:", "/job:")):
            profile.threads += [_thread(plane, line, kinds) for line in plane.lines if len(line)]
    return profile


def _began(planes: list[Plane]) -> int:
    """When the recording began: releases from 2.15 on say it, lines count from then."""
    told = next((plane.stats["profile_start_time"] for plane in planes if "profile_start_time" in plane.stats), 0)
    return told if isinstance(told, int) and 0 <= told < _LATEST_NS else 0


def is_gpu(name: str) -> bool:
    """Whether a plane is a GPU's: /device:GPU:0, also with a job and a task before it."""
    return "/device:GPU:" in name or name.startswith("/gpu:")


def template(name: str) -> str:
    """An iterator's name without the numbers of its repetitions: Repeat[12]::Map is Repeat::Map."""
    return _TEMPLATE.sub("", name) if "[" in name else name


def _thread(plane: Plane, line: Line, kinds: Kinds) -> Thread:
    thread = Thread(line.name, line, plane)
    names = plane.names
    lists: dict[int, tuple[str, list[Event]]] = {}
    for place, number in enumerate(line.names):
        found = lists.get(number)
        if found is None:
            name = names.get(number, "")
            found = lists[number] = (template(name), thread.events[kinds.of(name)])
        found[1].append(Event(found[0], line, place))
    return thread


def _stream(plane: Plane, line: Line) -> Stream:
    events = [Event(plane.names.get(number, ""), line, place) for place, number in enumerate(line.names)]
    return Stream(line.name, plane, sorted(events, key=lambda each: each.begin))
