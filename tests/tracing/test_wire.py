"""Protocol buffers' wire format, against an encoder of the tests' own and against bytes that are no message."""

from __future__ import annotations

import contextlib
import itertools
import struct

import made_trace
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfgpu_doctor.tracing.wire import BYTES, FIXED32, FIXED64, VARINT, CutOff, double, fields, signed, text, varint

UNSIGNED = st.integers(0, 2**64 - 1)
NUMBERED = st.tuples(
    st.integers(1, 2**29 - 1), st.one_of(UNSIGNED, st.binary(max_size=300), st.floats(allow_nan=False))
)


def encoded(number: int, value: bytes | float) -> bytes:
    if isinstance(value, bytes):
        return made_trace.message(number, value)
    if isinstance(value, int):
        return made_trace.number(number, value)
    return made_trace.varint(number << 3 | FIXED64) + struct.pack("<d", value)


def decoded(data: bytes) -> list[tuple[int, bytes | float]]:
    found: list[tuple[int, bytes | float]] = []
    for number, kind, value, end in fields(data, 0, len(data)):
        given: dict[int, bytes | float] = {VARINT: value, FIXED64: double(value), BYTES: data[value:end]}
        found.append((number, given[kind]))
    return found


@given(UNSIGNED, st.binary(max_size=4), st.binary(max_size=4))
def test_a_number_is_read_back_wherever_it_lies(value: int, before: bytes, behind: bytes) -> None:
    written = made_trace.varint(value)
    assert varint(before + written + behind, len(before)) == (value, len(before) + len(written))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xff\x7f", 16383),
        (b"\x80\x80\x01", 16384),
        (b"\x80\x00", 0),
    ],
)
def test_numbers_around_a_byte_s_edge(written: bytes, value: int) -> None:
    assert varint(written, 0) == (value, len(written))


@pytest.mark.parametrize("written", [b"", b"\x80", b"\xff\xff"])
def test_a_number_that_does_not_end(written: bytes) -> None:
    with pytest.raises(IndexError):
        varint(written, 0)
    with pytest.raises(CutOff):
        list(fields(b"\x08" + written, 0, 1 + len(written)))


@pytest.mark.parametrize("length", [10, 11, 1000, 1_000_000])
def test_an_endless_number_is_given_up(length: int) -> None:
    with pytest.raises(ValueError, match="no number") as caught:
        varint(b"\xff" * length + b"\x01", 0)
    assert not isinstance(caught.value, CutOff)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_is_read_back(value: int) -> None:
    assert signed(varint(made_trace.varint(value), 0)[0]) == value


@given(st.floats(allow_nan=False))
def test_a_double_is_read_back(value: float) -> None:
    assert double(int.from_bytes(struct.pack("<d", value), "little")) == value


@given(st.lists(NUMBERED, max_size=8))
def test_the_fields_of_a_message_are_read_back(wanted: list[tuple[int, bytes | float]]) -> None:
    assert decoded(b"".join(encoded(*each) for each in wanted)) == wanted


def test_four_bytes() -> None:
    data = made_trace.varint(3 << 3 | FIXED32) + b"\x01\x02\x00\x00"
    assert list(fields(data, 0, len(data))) == [(3, FIXED32, 513, 5)]


def test_fields_between_two_offsets_alone_are_read() -> None:
    data = made_trace.number(1, 5) + made_trace.number(2, 6) + made_trace.number(3, 7)
    assert list(fields(data, 2, 4)) == [(2, VARINT, 6, 4)]
    assert list(fields(data, 2, 2)) == []


@given(st.lists(NUMBERED, min_size=1, max_size=4), st.data())
def test_a_message_that_is_cut_gives_its_whole_fields(
    wanted: list[tuple[int, bytes | float]], data: st.DataObject
) -> None:
    pieces = [encoded(*each) for each in wanted]
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole) - 1))
    complete = next(count for count in range(len(pieces)) if cut < sum(map(len, pieces[: count + 1])))
    if cut == sum(map(len, pieces[:complete])):  # between two fields nobody can tell
        assert decoded(whole[:cut]) == wanted[:complete]
        return
    reader = fields(whole[:cut], 0, cut)
    assert len(list(itertools.islice(reader, complete))) == complete
    with pytest.raises(CutOff):
        next(reader)


@given(st.binary(max_size=400))
def test_random_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    """And they end: each field is behind the one before, and none reaches behind the end."""
    at = 0
    with contextlib.suppress(ValueError):
        for _, kind, value, end in fields(data, 0, len(data)):
            assert at < end <= len(data)
            assert kind != BYTES or at < value <= end
            at = end


def test_the_number_0_ends_a_message() -> None:
    reader = fields(made_trace.number(1, 5) + bytes(10), 0, 12)
    assert next(reader) == (1, VARINT, 5, 2)
    with pytest.raises(CutOff, match="zeros follow from byte 2"):
        next(reader)


@pytest.mark.parametrize("kind", [3, 4, 6, 7])
def test_a_kind_of_field_that_nobody_writes(kind: int) -> None:
    with pytest.raises(ValueError, match="no field of a message") as caught:
        list(fields(bytes([1 << 3 | kind, 1]), 0, 2))
    assert not isinstance(caught.value, CutOff)


@given(st.text())
def test_text_is_read_back(words: str) -> None:
    data = b"##" + words.encode("utf-8", "replace") + b"##"
    assert text(data, 2, len(data) - 2) == words.encode("utf-8", "replace").decode()


def test_text_that_is_no_text() -> None:
    assert text(b"a\xffb", 0, 3) == "a\N{REPLACEMENT CHARACTER}b"
