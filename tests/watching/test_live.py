"""What is shown while a training runs: the sentence, the lines, and the last rows of a real terminal."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import select
import struct
import termios
import tty
from collections.abc import Iterator

import made_watch
import msgspec
import pytest
from rich.cells import cell_len

from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.tracing.tables import StageRow
from tfgpu_doctor.watching.live import Bottom, PlainLines, State, lines, sentence
from tfgpu_doctor.watching.reading import GpuReading, Reading

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\ud800-\udfff]")
MARK = b"\x05"  # the doctor never writes it
SENTENCE = "waiting for input 89 % of each step: `load (train.py:31)` in `MapAndBatch`"


def gpu(index: int = 0, **fields: object) -> GpuReading:
    return GpuReading(
        **{
            "at_s": 1.0, "index": index, "name": "NVIDIA A100", "uuid": f"GPU-{index}", "utilization": 0.34,
            "used_bytes": 12 << 30, "total_bytes": 40 << 30, "sm_mhz": 1410.0, "max_sm_mhz": 1410.0, "power_w": 212.0,
            "power_limit_w": 400.0, "temperature_c": 61.0, **fields,
        }  # type: ignore[arg-type]
    )  # fmt: skip


READING = Reading(at_s=1.0, cpu=1.6, cpus=2.0, queued=0.4, others_cpu=0.9)
STATE = State(
    seconds=42.5, verdict="input_python", title="The steps wait", sentence=SENTENCE, healthy=False, gpus=[gpu()],
    reading=READING, step_ms=29.9,
)  # fmt: skip


def hung() -> State:
    return State(seconds=700.0, verdict="input_python", title="t", sentence="s", hang=made_watch.hung().hang)


def traced(label: str, **fields: object) -> TraceReport:
    cause = made_watch.cause(label)
    report = msgspec.structs.replace(
        made_watch.input_bound(), verdict=label, title=cause.title, causes=(cause,), **fields
    )
    stage = StageRow(
        path="Root::Prefetch::MapAndBatch", name="", calls=9, busy_share=0.9, parallelism=1, is_slowest=True
    )
    return made_watch.traced(report, pipeline=(stage,) if label.startswith("input_") else ())


def test_the_sentence() -> None:
    assert sentence(traced("input_python")) == SENTENCE
    assert sentence(traced("host_python")) == "waiting for the program's Python 89 % of each step: `load (train.py:31)`"
    assert sentence(traced("uneven_steps")).startswith("other work between the steps 89 % of the steps' time")
    assert sentence(traced("epoch_end")).startswith("waiting for the end of old iterators 89 % of the steps' time")
    assert sentence(traced("new_iterators")).startswith("making new iterators 89 % of the steps' time")
    assert sentence(traced("input_memory")).startswith("waiting for input, for lack of memory 89 % of each step")
    assert sentence(traced("input_python"), "cpu_contention") == f"{SENTENCE}; behind it: cpu_contention"
    assert sentence(made_watch.traced(made_watch.healthy())) == "healthy: computation takes 97 % of each step"
    assert sentence(made_watch.traced(made_watch.from_outside())) == (
        "From outside, nothing shows a fault; what the steps wait for cannot be seen: "
        "the program was not started with the recorder"
    )


def test_the_sentence_of_hostile_names_is_one_line() -> None:
    hostile = made_watch.cause(word=f"{made_watch.HOSTILE}x (a.py:3)")
    report = msgspec.structs.replace(made_watch.traced(made_watch.input_bound()), causes=(hostile,))
    assert not CONTROL.search(sentence(report))
    odd = msgspec.structs.replace(report, verdict="odd", title=made_watch.HOSTILE, why=made_watch.HOSTILE, healthy=None)
    assert "forged" in sentence(odd)
    assert not CONTROL.search(sentence(odd, made_watch.HOSTILE))


def test_the_lines_of_a_gpu_and_of_cpus() -> None:
    status = f"✗ 00:42  29.9 ms a step  {SENTENCE}"
    line = "GPU 0 NVIDIA A100  util 34 %  mem 12.0/40.0 GiB  1410/1410 MHz  212/400 W  61 °C"
    assert lines(STATE, 200) == [line, status]
    assert lines(changed(STATE, gpus=[]), 200) == ["CPU 1.6 of 2 cores, 0.4 waiting, others 0.9", status]
    slowed = gpu(reasons=("gpu_idle", "hw_thermal_slowdown", "sw_power_cap"), tenants=((7, "python", None),))
    assert lines(changed(STATE, gpus=[slowed]), 200)[0] == f"{line}  slowed: heat, power limit  shared with python (7)"


def changed(state: State, **fields: object) -> State:
    return dataclasses.replace(state, **fields)  # type: ignore[arg-type]


def test_columns_stand_below_each_other_and_what_is_unknown_is_left_out() -> None:
    bare = GpuReading(at_s=1.0, index=1)
    found = lines(State(gpus=[gpu(), gpu(10, utilization=1.0), bare]), 200)
    assert found[0].index("mem") == found[1].index("mem")
    assert found[2] == "GPU 1"
    assert found[3] == "· 00:00  looking"


def test_a_hang_takes_the_sentences_place() -> None:
    assert lines(hung(), 200) == [
        "✗ 11:40  no step for 3 min 43 s: The training waits for its input pipeline, which gives nothing more"
    ]


@pytest.mark.parametrize("width", [0, 1, 2, 20, 79, 80, 300])
def test_lines_are_cut_to_the_width_and_cleaned(width: int) -> None:
    word = "画像" + made_watch.HOSTILE
    state = State(sentence=word, title=word, gpus=[gpu(name=word, tenants=((1, word, None),))], healthy=True)
    for line in lines(state, width):
        assert cell_len(line) <= width
        assert not CONTROL.search(line)


class Screen:
    """A small terminal: the cursor, a scroll region, what wipes and what scrolls."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.top, self.end = 0, rows - 1
        self.saved = (0, 0)
        self.history: list[str] = []

    def feed(self, data: str) -> None:
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.|.", data, re.DOTALL):
            if piece.startswith("\x1b["):
                self._sequence(piece[2:-1], piece[-1])
            elif piece == "\x1b7":
                self.saved = self.row, self.column
            elif piece == "\x1b8":
                self.row, self.column = self.saved
            elif piece in ("\n", "\x1bD"):
                self._down()
            elif piece == "\r":
                self.column = 0
            else:
                assert piece >= " ", repr(piece)
                self.cells[self.row][self.column] = piece
                self.column = min(self.columns - 1, self.column + 1)

    def _down(self) -> None:
        if self.row != self.end:
            self.row = min(self.rows - 1, self.row + 1)
            return
        gone = self.cells.pop(self.top)
        if self.top == 0:
            self.history.append("".join(gone).rstrip())
        self.cells.insert(self.end, [" "] * self.columns)

    def _sequence(self, text: str, kind: str) -> None:
        values = [int(each) if each else 0 for each in text.split(";")]
        if kind == "r":
            self.top, self.end = (values[0] or 1) - 1, (values[1] if len(values) > 1 else self.rows) - 1
            self.row = self.column = 0
        elif kind == "H":
            self.row, self.column = values[0] - 1, values[1] - 1
        elif kind == "A":
            self.row = max(self.top if self.row >= self.top else 0, self.row - values[0])
        elif kind == "B":
            self.row = min(self.end if self.row <= self.end else self.rows - 1, self.row + values[0])
        elif kind == "K":
            assert values == [2]
            self.cells[self.row] = [" "] * self.columns
        elif kind == "J":
            self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)
            self.cells[self.row + 1 :] = [[" "] * self.columns for _ in self.cells[self.row + 1 :]]
        else:
            assert kind == "m", kind

    def resize(self, columns: int, rows: int) -> None:
        """As xterm does: rows go away at the top if the cursor would be outside; the region is the whole screen again."""
        away = max(0, self.row - rows + 1)
        self.history += ["".join(line).rstrip() for line in self.cells[:away]]
        kept = [(line + [" "] * columns)[:columns] for line in self.cells[away:]][:rows]
        self.cells = kept + [[" "] * columns for _ in range(rows - len(kept))]
        self.row, self.columns, self.rows = self.row - away, columns, rows
        self.column = min(self.column, columns - 1)
        self.top, self.end = 0, rows - 1

    @property
    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.cells]


class Terminal:
    """A pseudo terminal with a screen behind it, to which a program and the doctor write."""

    def __init__(self, columns: int = 100, rows: int = 12) -> None:
        self.outer, self.fd = os.openpty()
        tty.setraw(self.fd)
        self.screen = Screen(columns, rows)
        self.size(columns, rows)
        self.writes: list[str] = []

    def size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if (columns, rows) != (self.screen.columns, self.screen.rows):
            self.screen.resize(columns, rows)

    def program(self, text: str) -> None:
        os.write(self.fd, text.replace("\n", "\r\n").encode())
        self.drain()

    def drain(self) -> str:
        """What was written since, also onto the screen: up to a mark, as the kernel hands it over later."""
        data, unmarked = b"", [self.fd]
        while not data.endswith(MARK):
            readable, writable, _ = select.select((self.outer,), unmarked, (), 0.05)
            if readable:
                data += os.read(self.outer, 65536)
            if writable:  # it takes a byte at once
                unmarked.remove(self.fd)
                os.write(self.fd, MARK)
        text = data.removesuffix(MARK).decode()
        self.screen.feed(text)
        return text

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.outer)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    found = Terminal()
    yield found
    found.close()


def bottom(terminal: Terminal, term: str = "xterm-256color") -> Bottom:
    return Bottom(terminal.fd, term=term)


def shown_on(terminal: Terminal) -> list[str]:
    return lines(STATE, terminal.screen.columns - 1)


def test_the_program_scrolls_above_the_lines(terminal: Terminal) -> None:
    live = bottom(terminal)
    terminal.program("".join(f"line {at}\n" for at in range(9)) + "at work")
    for at in range(9, 30):
        live.show(STATE)
        terminal.drain()
        assert terminal.screen.lines[-2:] == shown_on(terminal)
        assert terminal.screen.lines[terminal.screen.row] == "at work", "the cursor is where the program had it"
        terminal.program(f"\rline {at:<4}\nat work")
    screen = terminal.screen
    assert screen.lines[-2:] == shown_on(terminal)
    said = [*screen.history, *screen.lines[:-2]]
    assert said == [*(f"line {at}" for at in range(30)), "at work"], "no line of the program is lost or overwritten"


def test_the_rows_are_given_back(terminal: Terminal) -> None:
    live = bottom(terminal)
    terminal.program("before\n")
    live.show(STATE)
    terminal.drain()
    assert (terminal.screen.top, terminal.screen.end) == (0, 9)
    live.close()
    assert "\x1b[r" in terminal.drain()
    assert (terminal.screen.top, terminal.screen.end) == (0, 11)
    assert terminal.screen.lines == ["before", *[""] * 11]
    assert (terminal.screen.row, terminal.screen.column) == (1, 0)
    live.close()
    assert terminal.drain() == "", "once is enough"


def test_a_picture_is_one_write_and_keeps_the_programs_colour(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = bottom(terminal)
    writes: list[bytes] = []
    real = os.write

    def write(fd: int, data: bytes) -> int:
        writes.append(data)
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    live.show(STATE)
    live.show(STATE)
    assert len(writes) == 2
    for data in writes:
        text = data.decode()
        assert text.count("\x1b7") == text.count("\x1b8")
        assert text.endswith("\x1b[0m\x1b8")
    assert "\x1bD" not in writes[1].decode(), "nothing scrolls if the rows are there already"


@pytest.mark.parametrize("sizes", [[(60, 9), (120, 20)], [(100, 30), (100, 8)], [(30, 12)], [(100, 11), (100, 12)]])
def test_another_size_of_the_terminal(terminal: Terminal, sizes: list[tuple[int, int]]) -> None:
    live = bottom(terminal)
    terminal.program("".join(f"line {at}\n" for at in range(20)))
    live.show(STATE)
    terminal.drain()
    for columns, rows in sizes:
        terminal.size(columns, rows)
        live.show(STATE)
        terminal.drain()
        assert terminal.screen.end == rows - 3
        assert terminal.screen.lines[-2:] == shown_on(terminal)
        assert sum("GPU 0" in line for line in terminal.screen.lines) == 1, "the earlier picture is gone"
        terminal.program("more\n")
    live.close()
    terminal.drain()
    said = [*terminal.screen.history, *terminal.screen.lines]
    assert [line for line in said if line] == [*(f"line {at}" for at in range(20)), *["more"] * len(sizes)]


def test_another_size_just_before_the_end(terminal: Terminal) -> None:
    live = bottom(terminal)
    terminal.program("".join(f"line {at}\n" for at in range(20)))
    live.show(STATE)
    terminal.drain()
    terminal.size(100, 18)
    live.close()
    terminal.drain()
    assert terminal.screen.end == 17
    assert not any("GPU" in line or "✗" in line for line in terminal.screen.lines)
    assert "line 19" in terminal.screen.lines


def test_a_terminal_that_becomes_too_small_is_left_to_the_program(terminal: Terminal) -> None:
    live = bottom(terminal)
    live.show(STATE)
    terminal.drain()
    terminal.size(100, 6)
    live.show(STATE)
    terminal.drain()
    assert terminal.screen.end == 5
    live.show(STATE)
    assert terminal.drain() == ""
    terminal.size(100, 7)
    live.show(STATE)
    terminal.drain()
    assert terminal.screen.lines[-2:] == shown_on(terminal)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_can_do_nothing(terminal: Terminal, term: str) -> None:
    live = bottom(terminal, term)
    live.show(STATE)
    live.close()
    assert terminal.drain() == ""


def test_no_terminal() -> None:
    out, into = os.pipe()
    live = Bottom(into, term="xterm")
    live.show(STATE)
    live.close()
    os.close(into)
    assert os.read(out, 10) == b""
    os.close(out)


def test_a_terminal_that_is_gone() -> None:
    terminal = Terminal()
    live = bottom(terminal)
    live.show(STATE)
    os.close(terminal.outer)
    live.show(STATE)
    live.close()
    os.close(terminal.fd)


def test_a_terminal_that_takes_nothing_delays_nothing(terminal: Terminal) -> None:
    """As after Ctrl-S; what was begun is finished later, so that the cursor never stays in the doctor's rows."""
    live = bottom(terminal)
    live.show(STATE)
    os.set_blocking(terminal.fd, False)
    for _ in range(100):
        live.show(STATE)
    os.set_blocking(terminal.fd, True)
    text = terminal.drain()
    live.close()
    text += terminal.drain()
    assert text.count("\x1b7") == text.count("\x1b8")
    assert terminal.screen.end == 11


def test_many_gpus_take_a_third_of_the_rows(terminal: Terminal) -> None:
    live = bottom(terminal)
    live.show(State(sentence="s", gpus=[gpu(index) for index in range(8)]))
    terminal.drain()
    found = terminal.screen.lines[-4:]
    assert [line[:5] for line in found[:2]] == ["GPU 0", "GPU 1"]
    assert found[2:] == ["… 6 more GPUs", "· 00:00  s"]
    assert terminal.screen.end == 7


def test_a_gpu_that_is_lost_leaves_no_line(terminal: Terminal) -> None:
    live = bottom(terminal)
    terminal.program("before")
    live.show(State(sentence="s", gpus=[gpu(0), gpu(1)]))
    live.show(State(sentence="s", gpus=[gpu(0)]))
    terminal.drain()
    assert [line for line in terminal.screen.lines if line] == [
        "before", lines(State(gpus=[gpu(0)]), 99)[0], "· 00:00  s"
    ]  # fmt: skip
    assert terminal.screen.end == 9


def test_plain_lines_are_one_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    plain = PlainLines()
    plain.show(State())
    for seconds in (42.0, 43.0):
        plain.show(changed(STATE, seconds=seconds))
    plain.show(hung())
    plain.show(changed(STATE, seconds=3723.0))
    plain.show(State(verdict="odd", title=made_watch.HOSTILE))
    plain.close()
    printed = capsys.readouterr()
    assert printed.out == ""
    told = printed.err.splitlines()
    assert told[:3] == [
        f"tfgpu-doctor: 00:42 {SENTENCE}",
        "tfgpu-doctor: 11:40 no step for 3 min 43 s: The training waits for its input pipeline, which gives nothing more",
        f"tfgpu-doctor: 1:02:03 {SENTENCE}",
    ]
    assert len(told) == 4
    assert not CONTROL.search(told[3])
