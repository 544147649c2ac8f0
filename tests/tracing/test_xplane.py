"""An .xplane.pb is read as it was written: by the tests' own writer, and by TensorFlow."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import made_trace
import pytest
from doctor_command import clean_environment
from hypothesis import given
from hypothesis import strategies as st
from installed import skip_without_tensorflow
from made_trace import MadeEvent, MadeLine, MadePlane, Ref, encode

from tfgpu_doctor.tracing.events import Line, Plane, Value
from tfgpu_doctor.tracing.reading import find_file
from tfgpu_doctor.tracing.recorded import Kinds
from tfgpu_doctor.tracing.wire import CutOff
from tfgpu_doctor.tracing.xplane import read_planes

NAMES = st.text(max_size=200).map(lambda name: name.encode("utf-8", "replace").decode())
STATS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), NAMES.filter(bool), NAMES.filter(bool).map(Ref)
)
EVENTS = st.builds(
    MadeEvent, NAMES.filter(lambda name: not name.isdecimal()), st.floats(0, 1e6), st.floats(0, 1e6),
    st.dictionaries(NAMES.filter(bool), STATS, max_size=3),
)  # fmt: skip
LINES = st.builds(
    MadeLine, NAMES, st.lists(EVENTS, max_size=6), st.integers(0, 2**62), st.integers(-5, 2**40), NAMES
)  # fmt: skip
PLANES = st.builds(
    MadePlane, NAMES, st.lists(LINES, max_size=4), st.dictionaries(NAMES.filter(bool), STATS, max_size=3)
)

RECORD = """
import sys, tensorflow as tf
@tf.function
def train_step(rows):
    return tf.reduce_sum(tf.linalg.matmul(rows, rows))
rows = tf.ones((32, 32))
tf.profiler.experimental.start(sys.argv[1], tf.profiler.experimental.ProfilerOptions(host_tracer_level=2))
for each in tf.data.Dataset.range(20).map(lambda at: tf.cast(at, tf.float32)).batch(4).prefetch(1):
    with tf.profiler.experimental.Trace("train", step_num=int(each[0]), _r=1):
        train_step(rows * each[0])
tf.profiler.experimental.stop()
"""


def read(planes: list[MadePlane]) -> list[Plane]:
    return list(read_planes(encode(planes), lambda _: True))


def one_line(*events: MadeEvent, **more: object) -> tuple[Plane, Line]:
    (plane,) = read([MadePlane("/host:CPU", [MadeLine("thread", list(events), **more)])])  # type: ignore[arg-type]
    (line,) = plane.lines
    return plane, line


def told(stats: dict[str, made_trace.Stat]) -> dict[str, Value]:
    return {name: value.text if isinstance(value, Ref) else value for name, value in stats.items()}


def the_same(line: Line, plane: Plane, made: MadeLine) -> None:
    assert (line.number, line.name, line.begin_ns) == (made.number, made.name or made.display, made.begin_ns)
    assert [plane.names[each] for each in line.names] == [each.name for each in made.events]
    for place, each in enumerate(made.events):
        begin, duration = round(each.begin_ms * 1e9), round(each.duration_ms * 1e9)  # in ps, as it is written
        assert (line.starts_ns[place], line.ends_ns[place]) == (begin / 1000, (begin + duration) / 1000)
        assert plane.stats_of(line, place) == told(each.stats)


@given(st.lists(PLANES, max_size=3))
def test_what_is_written_is_read_back(made: list[MadePlane]) -> None:
    planes = read(made)
    assert [plane.name for plane in planes] == [each.name for each in made]
    for plane, each in zip(planes, made, strict=True):
        assert plane.stats == told(each.stats)
        for line, made_line in zip(plane.lines, each.lines, strict=True):
            the_same(line, plane, made_line)


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 129, 16_384, 3_000_000])
def test_events_of_any_length(size: int) -> None:
    """The length of a field takes one byte, or two, three, four."""
    before, long, behind = MadeEvent("a", 1, 2), MadeEvent("b", 3, 4, {"text": "x" * size}), MadeEvent("c", 5, 6)
    for events in ([long], [before, long, behind], [long, before, behind]):
        plane, line = one_line(*events)
        assert [plane.names[each] for each in line.names] == [each.name for each in events]
        assert plane.stats_of(line, events.index(long)) == {"text": "x" * size}
        assert line.ends_ns[-1] == (events[-1].begin_ms + events[-1].duration_ms) * 1e6


def test_events_without_times_or_name() -> None:
    """Protobuf leaves out what is nought."""
    content = made_trace.message(
        1, made_trace.message(3, made_trace.message(4, b"") + made_trace.message(4, b"\x18\x05"))
    )
    (plane,) = read_planes(content, lambda _: True)
    (line,) = plane.lines
    assert (list(line.names), list(line.starts_ns), list(line.ends_ns)) == ([0, 0], [0.0, 0.0], [0.0, 0.005])
    assert plane.names == {}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_display_behind_the_events_names_the_line(count: int) -> None:
    events = [MadeEvent("each", number, 1.0) for number in range(count)]
    (plane,) = read(
        [MadePlane("/device:GPU:0", [MadeLine("", events, display="Stream #7"), MadeLine("b", display="B")])]
    )
    assert [line.name for line in plane.lines] == ["Stream #7", "b"], "a name goes before a display"
    assert len(plane.lines[0]) == count


def test_a_number_is_shown_by_its_display() -> None:
    """XLA numbers its operations."""
    made = MadePlane("/device:GPU:0", [MadeLine("s", [MadeEvent("12"), MadeEvent("13"), MadeEvent("fusion")])])
    made.shown = {"12": "dot.3", "fusion": "never this"}
    assert sorted(read([made])[0].names.values()) == ["13", "dot.3", "fusion"]


def test_unwanted_events_are_counted_and_not_kept() -> None:
    events = [MadeEvent("noise", 1, 1, {"a": 1}), MadeEvent("work", 2, 1), MadeEvent("noise", 3, 1), MadeEvent("noise")]
    data = encode([MadePlane("/host:CPU", [MadeLine("thread", events, display="shown")])])
    (plane,) = read_planes(data, lambda name: name != "noise")
    (line,) = plane.lines
    assert (len(line), line.unwanted) == (1, 3)
    assert [plane.names[each] for each in line.names] == ["work"]
    assert (list(line.starts_ns), list(line.ends_ns)) == ([2_000_000.0], [3_000_000.0])


@given(st.data())
def test_a_cut_profile_gives_its_whole_planes(data: st.DataObject) -> None:
    pieces = [encode([plane]) for plane in (*made_trace.training(steps=3), MadePlane("/device:GPU:0", [MadeLine("s")]))]
    cut = data.draw(st.integers(1, sum(map(len, pieces)) - 1).filter(lambda at: at != len(pieces[0])))
    reader = read_planes(b"".join(pieces)[:cut], lambda _: True)
    if cut > len(pieces[0]):
        assert next(reader).name == "/host:CPU"
    with pytest.raises(CutOff):
        next(reader)


@given(st.binary(max_size=200))
def test_random_bytes_in_a_plane(content: bytes) -> None:
    harmless(made_trace.message(1, content))


@given(st.binary(max_size=200))
def test_random_bytes_in_a_line(content: bytes) -> None:
    harmless(made_trace.message(1, made_trace.message(3, content)))


@given(st.binary(max_size=40), st.integers(0, 3))
def test_random_bytes_in_an_event(content: bytes, more: int) -> None:
    harmless(made_trace.message(1, made_trace.message(3, made_trace.message(4, content) * (more + 1))))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(made_trace.number(4, 2**40), id="events-that-are-a-number"),
        pytest.param(made_trace.number(4, 1), id="events-that-are-a-small-number"),
        pytest.param(made_trace.message(4, made_trace.number(1, 2**64 - 1)), id="a-name-of-64-bits"),
        pytest.param(made_trace.message(4, b"\x08" + b"\xff" * 9 + b"\x7f"), id="a-name-of-70-bits"),
        pytest.param(made_trace.message(4, b"\x10" + b"\xff" * 9 + b"\x7f"), id="a-time-of-70-bits"),
        pytest.param(b"\x08" + b"\xff" * 9 + b"\x7f", id="a-line-of-70-bits"),
        pytest.param(b"\x22\x05\x08\x01", id="an-event-behind-the-end"),
    ],
)
def test_odd_lines(content: bytes) -> None:
    harmless(made_trace.message(1, made_trace.message(3, content)))


def harmless(data: bytes) -> None:
    """A profile with statistics that can be asked for, or a ValueError."""
    try:
        planes = list(read_planes(data, lambda _: True))
    except ValueError:
        return
    for plane in planes:
        for line in plane.lines:
            assert len(line.names) == len(line.starts_ns) == len(line.ends_ns) == len(line.stats_at)
            assert all(low <= high for low, high in zip(line.starts_ns, line.ends_ns, strict=True))


@pytest.mark.tensorflow
@pytest.mark.timed
@pytest.mark.slow
def test_a_profile_of_tensorflow_is_read_as_tensorflow_reads_it(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    done = subprocess.run(
        [sys.executable, "-c", RECORD, str(tmp_path)], capture_output=True, text=True, check=False,
        env=clean_environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    file = pathlib.Path(find_file(str(tmp_path)))
    theirs = list(_of_tensorflow(file))
    ours = list(_of_the_doctor(file))
    assert ours == theirs
    assert any(name == "train_step" for *_, name, _begin, _end in ours)
    assert sum(len(plane.lines) for plane in read_planes(file.read_bytes(), Kinds().wanted)) > 0


Row = tuple[str, int, str, str, float, float]


def _of_the_doctor(file: pathlib.Path) -> Iterator[Row]:
    for plane in read_planes(file.read_bytes(), lambda _: True):
        for line in plane.lines:
            at = float(line.begin_ns)
            for name, begin, end in zip(line.names, line.starts_ns, line.ends_ns, strict=True):
                yield plane.name, line.number, line.name, plane.names[name], begin + at, end + at


def _of_tensorflow(file: pathlib.Path) -> Iterator[Row]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(file.read_bytes())
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                begin, end = event.offset_ps / 1000, (event.offset_ps + event.duration_ps) / 1000
                at = float(line.timestamp_ns)
                name = plane.event_metadata[event.metadata_id].name
                yield plane.name, line.id, line.name or line.display_name, name, begin + at, end + at
