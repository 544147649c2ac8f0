"""Signatures: each row matches what it says, and lines of any shape are read."""

from __future__ import annotations

import gzip
import io
import json
import random
import re

import pytest
from every import every, sampled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import LogSignature
from tfgpu_doctor.log.lines import LONGEST_BYTES, blocks
from tfgpu_doctor.log.signatures import Scanner

SIGNATURES = read_knowledge().log_signatures
STUB = b"failed call to cuInit: UNKNOWN ERROR (34)"


def scan(log: bytes | io.RawIOBase) -> Scanner:
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(log) if isinstance(log, bytes) else log)
    return scanner


@every("row", SIGNATURES, key=lambda row: row.name)
def test_a_row_finds_its_example(row: LogSignature) -> None:
    assert row.gate == row.gate.lower()
    assert all(row.gate.split("|"))
    found = scan(row.example.encode()).found[row.name]
    assert (found.count, found.hits[0].line) == (1, 1)
    assert found.hits[0].text == row.example.strip()


@settings(max_examples=10, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def holds_a_gate(row: LogSignature, data: st.DataObject) -> None:
    pattern = re.compile(row.pattern, re.MULTILINE)
    found = pattern.search(data.draw(st.from_regex(pattern)))
    if found:  # what is drawn does not heed lookarounds
        assert any(gate.encode() in found.group().encode().lower() for gate in row.gate.split("|"))


@pytest.mark.parametrize("first", sampled(range(5), 5))
def test_whatever_a_pattern_matches_holds_a_gate(first: int) -> None:
    for row in SIGNATURES[first::5]:
        holds_a_gate(row)


LOGGERS = [
    "2026-11-21 10:00:00.123456: E tensorflow/stream_executor/cuda/cuda_driver.cc:271] ",
    "E0000 00:00:1738697930.202924    7665 cuda_platform.cc:52] ",
]
CARRIERS = [
    "(pid=4242, ip=10.0.0.7) ", "[1,0]<stderr>:", "2026-11-21T10:00:00.1234567Z ", "\x1b[36m(worker pid=7)\x1b[0m ", "worker-1  | ",
    "    ", "> ", "# ", "(RayTrainWorker pid=123, ip=172.31.1.2) ", "2026-11-21 10:00:00,123 ", "[0]: ",
]  # fmt: skip


@every("row", SIGNATURES, key=lambda row: row.name)
def test_what_stands_before_a_message_does_not_matter(row: LogSignature) -> None:
    whole_line = row.pattern.startswith("^")
    prefixes = CARRIERS if whole_line else LOGGERS + CARRIERS
    log = "".join(f"{prefix}{row.example}\n" for prefix in prefixes)
    found = scan(log.encode()).found[row.name]
    assert {hit.line for hit in found.hits} == set(range(1, len(prefixes) + 1))


@every("row", SIGNATURES, key=lambda row: row.name)
def test_a_line_in_a_notebook_or_a_containers_log_is_read(row: LogSignature) -> None:
    notebook = "".join(
        f"      {json.dumps(line)},\n" for line in ("first\n", row.example + "\n", "\x1b[1mlast\x1b[0m\n")
    )
    assert row.name in scan(notebook.encode()).found
    assert row.name in scan(json.dumps({"log": row.example + "\n", "stream": "stderr"}).encode()).found


def test_a_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in SIGNATURES}) == len(SIGNATURES)


@pytest.mark.parametrize(
    "log",
    [
        STUB.decode().encode("utf-16"), STUB.decode().encode("utf-16-be"), b"\xef\xbb\xbf" + STUB, b"\xff\xfe\x80" + STUB,
        b"\0" * 5000 + STUB, STUB + b"\r", b"10%\r20%\r" + STUB + b"\r30%", b"\x1b[1;31m" + STUB + b"\x1b[0m",
        b"failed call to \x1b]8;;http://x\x1b\\cuInit\x1b]8;;\x1b\\: UNKNOWN ERROR (34)",
        b"x" * (3 * LONGEST_BYTES) + STUB + b"y" * 50_000, b"\n" * 100_000 + STUB, bytes(range(256)) * 50 + STUB,
    ],
    ids=["utf-16", "utf-16-be", "mark", "broken", "nul", "return", "progress", "colour", "link", "long", "empty", "junk"],
)  # fmt: skip
def test_lines_of_any_shape_are_read(log: bytes) -> None:
    assert "cuinit_stub" in scan(log).found


def test_a_message_across_a_cut_is_found() -> None:
    for shift in range(0, 80, 7):
        log = b"x" * (LONGEST_BYTES - shift) + STUB + b"y" * LONGEST_BYTES
        assert scan(log).found["cuinit_stub"].count == 1
    for shift in range(0, 80, 7):
        log = b"x" * ((1 << 20) - shift) + STUB + b"y" * (1 << 20)
        assert "cuinit_stub" in scan(log).found


def test_lines_are_numbered_from_1_over_blocks() -> None:
    dull = b"step 1: loss 0.5\n" * 100_000
    found = scan(dull + STUB + b"\n" + dull + STUB).found["cuinit_stub"]
    assert [hit.line for hit in found.hits] == [100_001, 200_002]
    assert found.count == 2


@pytest.mark.parametrize("end", ["\r\n", "\n", "\n\n", "\r\r\n"])
def test_lines_are_numbered_as_an_editor_does(end: str) -> None:
    log = end.join(["one", "10%\r20%\r30%", "x" * 3_000_000, "(34)", STUB.decode(), ""]).encode()
    (hit,) = scan(log).found["cuinit_stub"].hits
    assert hit.line == log[: log.index(STUB)].count(b"\n") + 1
    assert hit.text == STUB.decode()


def test_two_messages_in_one_long_line_are_two() -> None:
    line = b"NVRM: Xid (PCI:0000:01:00): 13, pid=1 " + b"x" * 20_000 + b"NVRM: Xid (PCI:0000:01:00): 79, pid=2 "
    found = scan(line + b"y" * 10_000).found["xid"]
    assert [hit.groups["xid"] for hit in found.hits] == ["13", "79"]
    assert {hit.line for hit in found.hits} == {1}


def test_a_message_in_a_progress_bar_is_read_alone() -> None:
    (hit,) = scan(b"10%\r" + STUB + b"\r20%\n").found["cuinit_stub"].hits
    assert hit.text == STUB.decode()


def test_of_many_lines_of_one_kind_the_first_are_kept_and_all_counted() -> None:
    log = b"".join(b"E%d failed call to cuInit: UNKNOWN ERROR (34)\n" % place for place in range(5000))
    found = scan(log).found["cuinit_stub"]
    assert found.count == 5000
    assert len(found.hits) < 100


def test_lines_that_differ_in_a_number_that_matters_are_told_apart() -> None:
    log = b"NVRM: Xid (PCI:0000:01:00): 13, pid=1\nNVRM: Xid (PCI:0000:01:00): 79, pid=2\nNVRM: Xid x\n"
    assert [hit.groups["xid"] for hit in scan(log).found["xid"].hits] == ["13", "79"]


def test_a_stream_that_gives_little_at_a_time() -> None:
    class Dripping(io.RawIOBase):
        def __init__(self) -> None:
            self._left = b"one\r\ntwo\n" + STUB + b"\nthree"

        def read(self, size: int = -1) -> bytes:
            part, self._left = self._left[:3], self._left[3:]
            return part

    assert "cuinit_stub" in scan(Dripping()).found


def test_what_is_shown_is_short_and_printable() -> None:
    text = scan(b"\x07\x08" * 10 + b"z" * 900 + STUB + b"\x00\x1b[2J" + b"w" * 900).found["cuinit_stub"].hits[0].text
    assert STUB.decode() in text
    assert len(text) <= 310
    assert text.isprintable()


def test_a_line_of_300_characters_is_shown_whole() -> None:
    line = STUB.decode().ljust(299) + "z"
    assert scan(line.encode()).found["cuinit_stub"].hits[0].text == line
    cut = scan(line.encode() + b"z").found["cuinit_stub"].hits[0].text
    assert (len(cut), cut[:290], cut[-4:]) == (300, line[:290], " ...")


def test_what_is_caught_is_printable() -> None:
    (hit,) = scan(b"Successfully opened dynamic library libcudart\x01\xe2\x80\xae.so").found["opened"].hits
    assert hit.groups == {"library": "libcudart  .so"}


def test_blocks_hold_whole_lines() -> None:
    chance = random.Random(7)
    log = b"\n".join(b"a" * chance.randint(0, 5000) for _ in range(2000))
    joined = b"".join(blocks(io.BytesIO(log)))
    assert joined == log + b"\n"


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([row.example.encode() for row in SIGNATURES]))))
def test_no_log_breaks_it(parts: list[bytes]) -> None:
    for glue in (b"\n", b"\r\n", b"", b"\0"):
        scanner = scan(glue.join(parts))
        for found in scanner.found.values():
            assert found.count >= len(found.hits) >= 1
            assert all(1 <= hit.line <= scanner.lines for hit in found.hits)


def test_a_compressed_log_is_silent() -> None:
    assert not scan(gzip.compress(STUB * 1000)).found


def test_a_text_made_of_phrases_is_not_searched_to_the_end_and_says_so() -> None:
    examples = [row.example.replace("\n", " ") for row in SIGNATURES]
    crowded = [" ".join(examples[start : start + 60]) for start in range(40)]
    last = "ValueError: Memory growth cannot differ between GPU devices"
    text = "\n".join([*(f"{number} {line}" for number in range(10) for line in crowded), last])
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(text.encode()))
    (words,) = scanner.passed_over
    assert re.fullmatch(r"\d+ parts of lines, each with more than 16 known phrases", words)
    assert scanner.found["growth_differs"].count > 0
    assert scanner.lines == len(text.splitlines())


@pytest.mark.parametrize(("lines", "passed_over"), [(200, 0), (201, 1), (205, 5)])
def test_the_first_200_lines_of_many_phrases_are_searched(lines: int, passed_over: int) -> None:
    gates = sorted({row.gate.split("|")[0].strip() for row in SIGNATURES}, key=lambda gate: (len(gate), gate))
    crowded = " ".join(gates[:30])  # so short that a line is not cut into parts
    text = [f"{crowded} {'x' * number}\n" for number in range(lines)]
    text[199] = f"{crowded} {STUB.decode()}\n"
    scanner = scan("".join(text).encode())
    told = [words.split(" ", 1)[0] for words in scanner.passed_over]
    assert told == ([str(passed_over)] if passed_over else [])
    assert [hit.line for hit in scanner.found["cuinit_stub"].hits] == [200]


@pytest.mark.slow
def test_a_phrase_without_its_message_is_given_up_after_many_lines() -> None:
    text = "\n".join(f"unknown error (303) {number}" for number in range(201_000))
    scanner = scan(text.encode())
    assert scanner.passed_over == ("messages of 1 kind, after 200,000 lines with a phrase of theirs alone",)
    again = scan(text.encode() + b"\nValueError: Memory growth cannot differ between GPU devices\n")
    assert "growth_differs" in again.found
