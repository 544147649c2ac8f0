"""Of a log of any length, a bounded part is kept as text: its head, the outputs of other tools, and its tail."""

from __future__ import annotations

import io

import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.kept_text import _DOCUMENT_BYTES, _HEAD_BYTES, _MOST_DOCUMENTS, _TAIL_BYTES, MARKERS
from tfgpu_doctor.log.lines import _BLOCK_BYTES
from tfgpu_doctor.log.signatures import Scanner

SIGNATURES = read_knowledge().log_signatures
MOST_BYTES = _HEAD_BYTES + _MOST_DOCUMENTS * _DOCUMENT_BYTES + _TAIL_BYTES
DULL = b"step 1000: loss 0.5, all is well, and nothing else happens here\n"  # 64 bytes
DOCUMENT = b"==============NVSMI LOG==============\nDriver Version : 550.54.15\n"

Part = tuple[int, str]


def kept(log: bytes) -> list[Part]:
    """The kept parts; each is where its number says that it is."""
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(log))
    texts = scanner.kept.texts()
    lines = log.split(b"\n")
    for number, text in texts:
        first, *others = text.encode().split(b"\n")
        assert lines[number - 1].endswith(first), f"line {number}"
        assert lines[number : number + len(others) - 1] == others[:-1], f"after line {number}"
    assert sum(len(text.encode()) for _, text in texts) <= MOST_BYTES
    return texts


def dull(lines: int) -> bytes:
    """Lines that differ, so that a wrong number does not pass."""
    return b"".join(b"%09d %s" % (number, DULL[10:]) for number in range(lines))


MEGABYTE = (1 << 20) // len(DULL)  # lines


def test_what_is_kept_is_far_less_than_2_megabytes() -> None:
    assert MOST_BYTES < 1_500_000


@every(
    "log",
    [b"one line", b"one\ntwo\n", b"one\r\ntwo\r\n", b"\n\n\n", "Grafikkarte: größer als 8 GB\n".encode(), dull(2000)],
)
def test_a_short_text_is_kept_whole(log: bytes) -> None:
    assert kept(log) == [(1, log.decode() if log.endswith(b"\n") else f"{log.decode()}\n")]


def test_of_nothing_nothing_is_kept() -> None:
    assert kept(b"") == []


def test_of_a_long_log_the_head_and_the_tail_are_kept() -> None:
    log = dull(MEGABYTE // 2)
    (first, head), (last, tail) = kept(log)
    assert (first, head.encode()) == (1, log[:_HEAD_BYTES])
    assert tail.encode() == log[-_TAIL_BYTES:]
    assert last == (len(log) - _TAIL_BYTES) // len(DULL) + 1


def test_the_head_ends_with_a_whole_line() -> None:
    log = b"a longer first line shifts all others\n" + dull(MEGABYTE // 2)
    (_, head), _ = kept(log)
    assert head.endswith("\n")
    assert _HEAD_BYTES - len(DULL) < len(head) <= _HEAD_BYTES


def test_a_log_as_long_as_its_head_and_tail_is_kept_whole() -> None:
    log = dull((_HEAD_BYTES + _TAIL_BYTES) // len(DULL))
    assert b"".join(text.encode() for _, text in kept(log)) == log


@every("marker", MARKERS, key=lambda marker: marker.decode())
def test_the_output_of_a_tool_is_kept_wherever_it_begins(marker: bytes) -> None:
    log = dull(MEGABYTE) + b"before " + marker.upper() + b"7.1 after\n" + dull(MEGABYTE)
    parts = kept(log)
    assert [number for number, _ in parts[:2]] == [1, MEGABYTE + 1]
    text = parts[1][1]
    assert text.startswith(f"before {marker.decode().upper()}7.1 after\n")
    assert _DOCUMENT_BYTES - len(DULL) < len(text) <= _DOCUMENT_BYTES
    assert len(parts) == 3


def test_markers_are_in_lower_case_and_differ() -> None:
    assert all(marker == marker.lower() for marker in MARKERS)
    assert len(set(MARKERS)) == len(MARKERS)


def test_a_marker_in_the_head_does_not_repeat_the_head() -> None:
    log = DOCUMENT + dull(MEGABYTE // 2)
    assert [number for number, _ in kept(log)][:1] == [1]
    assert len(kept(log)) == 2


def test_outputs_close_to_each_other_are_one_part() -> None:
    log = dull(MEGABYTE) + DOCUMENT * 20 + dull(MEGABYTE)
    assert [number for number, _ in kept(log)][:2] == [1, MEGABYTE + 1]
    assert len(kept(log)) == 3


def test_only_so_many_outputs_are_kept() -> None:
    log = (dull(MEGABYTE) + DOCUMENT) * 7 + dull(MEGABYTE)
    parts = kept(log)
    assert len(parts) == 1 + _MOST_DOCUMENTS + 1
    assert [number for number, _ in parts[1:-1]] == [
        MEGABYTE + 1 + place * (MEGABYTE + 2) for place in range(_MOST_DOCUMENTS)
    ]
    assert log.endswith(parts[-1][1].encode())


@pytest.mark.parametrize("shift", [*range(-8, 120, 8), -1, 1])
def test_a_marker_at_the_border_of_two_blocks_is_found(shift: int) -> None:
    before = dull(MEGABYTE - 2)
    before += b"x" * (_BLOCK_BYTES - len(before) - 1 - shift) + b"\n"
    assert len(before) == _BLOCK_BYTES - shift
    log = before + DOCUMENT + dull(MEGABYTE)
    parts = kept(log)
    assert parts[1][0] == MEGABYTE
    assert parts[1][1].startswith(DOCUMENT.decode())


def test_an_output_goes_on_in_the_next_block() -> None:
    before = dull(MEGABYTE - 1000)
    log = before + DOCUMENT + dull(MEGABYTE * 2)
    assert len(before) + _DOCUMENT_BYTES > _BLOCK_BYTES
    _, (number, text), _ = kept(log)
    assert number == MEGABYTE - 1000 + 1
    assert text.encode() == log[len(before) : len(before) + len(text)]
    assert len(text) > _DOCUMENT_BYTES - len(DULL)


def test_a_long_stream_is_kept_in_part() -> None:
    log = dull(MEGABYTE * 5) + DOCUMENT + dull(MEGABYTE * 15)
    assert len(log) > 20_000_000
    (_, head), (number, document), (last, tail) = kept(log)
    assert (len(head), number) == (_HEAD_BYTES, MEGABYTE * 5 + 1)
    assert document.startswith(DOCUMENT.decode())
    assert log.endswith(tail.encode())
    assert last > MEGABYTE * 20 - _TAIL_BYTES // len(DULL)


def test_characters_that_are_not_utf_8_do_no_harm() -> None:
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(b"\xff\xfe caf\xe9\nTensorFlow\n"))
    ((number, text),) = scanner.kept.texts()
    assert number == 1
    assert text.endswith("\nTensorFlow\n")


def test_one_line_of_many_megabytes_is_kept_in_part() -> None:
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(b"x" * (5 << 20) + b" the end\n"))
    texts = scanner.kept.texts()
    assert sum(len(text) for _, text in texts) <= MOST_BYTES
    assert {number for number, _ in texts} == {1}
    assert texts[-1][1].endswith(" the end\n")


def test_the_tail_is_as_long_where_the_last_block_is_short() -> None:
    log = dull(2 * MEGABYTE + 1)
    _, (_, tail) = kept(log)
    assert len(tail) == _TAIL_BYTES


def test_an_output_at_the_end_leaves_no_tail() -> None:
    log = dull(2 * MEGABYTE) + DOCUMENT
    parts = kept(log)
    assert [number for number, _ in parts] == sorted(number for number, _ in parts)
    assert parts[-1][1].endswith(DOCUMENT.decode())


def test_of_a_first_line_longer_than_the_head_the_beginning_is_kept() -> None:
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(b"TensorFlow does not find my GPU. " + b"x" * (2 * _HEAD_BYTES) + b"\n" + dull(MEGABYTE)))
    assert scanner.kept.texts()[0][1].startswith("TensorFlow does not find my GPU.")


HELP = """\
NVIDIA System Management Interface -- v590.48.01

    -r    --gpu-reset           Trigger reset of the GPU.
                                Typically useful if a double bit ECC error has
                                occurred.

Please see the nvidia-smi(1) manual page for more detailed information.

List of valid properties to query for the switch "--query-gpu":

"ecc.mode.current"
The ECC mode that the GPU is currently operating under.

Section about retired_pages properties
NVIDIA GPUs can retire pages of GPU device memory when they become unreliable, on a double bit ECC error.

"retired_pages.double_bit.count" or "retired_pages.dbe"
The number of GPU device memory pages that have been retired due to a double bit ECC error.

"""
ERROR = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected, double bit ECC error\n"


@pytest.mark.parametrize("before", [0, _BLOCK_BYTES - 900, _BLOCK_BYTES - 500, _BLOCK_BYTES - 100])
@pytest.mark.parametrize("line", ["", "> "])
def test_the_help_of_nvidia_smi_is_no_evidence(before: int, line: str) -> None:
    quoted = "".join(f"{line}{each}\n" for each in HELP.splitlines())
    log = dull(before // len(DULL)).decode() + quoted + ERROR
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(log.encode()))
    assert [hit.line for hit in scanner.found["ecc"].hits] == [log.count("\n")]
    assert scanner.lines == log.count("\n")
    assert "double bit" not in "".join(text for _, text in scanner.kept.texts()).replace(ERROR, "")


@pytest.mark.parametrize("help_", [HELP[:300], HELP[:500], HELP[-300:]])
def test_after_a_part_of_a_help_text_the_log_is_read(help_: str) -> None:
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(f"{help_}\n{ERROR}".encode()))
    assert f"{help_}\n".count("\n") + 1 in [hit.line for hit in scanner.found["ecc"].hits]


SHORT = st.sampled_from([b"one\n", b"\n", b"two \xe2\x82\xac\n", b"3\r\n", DOCUMENT, DULL])


@settings(deadline=None, derandomize=True, database=None)
@given(parts=st.lists(st.tuples(SHORT, st.integers(1, 4000)), max_size=8))
def test_every_part_is_where_its_number_says(parts: list[tuple[bytes, int]]) -> None:
    log = b"".join(text * times for text, times in parts)
    texts = kept(log)
    assert "".join(text for _, text in texts[:1]).encode() == log[: len(texts[0][1].encode())] if texts else log == b""
