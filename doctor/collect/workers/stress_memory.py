"""Patterns written to the free memory of a GPU, read back and compared there."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATTERNS = ("0x55", "0xAA", "address", "random")
WORD_BYTES = 8  # TensorFlow keeps numbers of 4 bytes in the host's memory
ROW_WORDS = 1 << 13
KEPT_CHUNKS = 5  # for the expected values, for comparing, and for what the allocator cannot use
MOST_CHUNK_BYTES = 128 << 20
WRITING = 0.5  # of the time; reading back takes as long


def chunk_words(room_bytes: int) -> int:
    """The number of words to write at a time: whole rows, a sixteenth of a small memory."""
    return max(1, min(MOST_CHUNK_BYTES, room_bytes // 16) // WORD_BYTES // ROW_WORDS) * ROW_WORDS


class Writer:
    """Makes the content of a chunk, the same on every call."""

    def __init__(self, tf: Any, np: Any, size: int) -> None:
        self._tf, self._size = tf, size
        row = tf.constant(np.arange(ROW_WORDS, dtype="int64"))
        rows = tf.constant(np.arange(size // ROW_WORDS, dtype="int64")[:, None] * ROW_WORDS)
        self._places = tf.reshape(rows + row, (size,))

    def content(self, pattern: str, place: int) -> Any:
        """The content of the chunk at that place: one word throughout, the number of each word, or random bits."""
        if pattern == "address":
            return self._places + self._tf.constant(place * self._size, dtype="int64")
        if pattern == "random":
            return self._tf.random.stateless_uniform((self._size,), (place, 5), None, None, self._tf.int64)
        word = 0x5555555555555555 if pattern == "0x55" else -0x5555555555555556  # 0xAAAAAAAAAAAAAAAA
        return self._tf.fill((self._size,), self._tf.constant(word, dtype="int64"))


def count_differing(tf: Any, found: Any, expected: Any) -> int:
    return int(tf.reduce_sum(tf.cast(tf.not_equal(found, expected), tf.int64)))


def example(np: Any, found: Any, expected: Any) -> str:
    """The first word that differs, in two arrays on the host; empty if they are equal there."""
    places = np.flatnonzero(found != expected)
    if not len(places):
        return "equal when read again"
    at = int(places[0])
    mask = (1 << 64) - 1
    return "word %d: wrote 0x%016x, read 0x%016x" % (at, int(expected[at]) & mask, int(found[at]) & mask)


def write(tf: Any, writer: Writer, pattern: str, most: int, until: float) -> tuple[list[Any], bool]:
    """Chunks of the pattern: as many as requested, as fit, and as time allows; and whether no more fit."""
    chunks: list[Any] = []
    while len(chunks) < most and (not chunks or time.monotonic() < until):
        try:
            chunk = writer.content(pattern, len(chunks))
            int(chunk[-1])  # the write is complete when its last word can be read
        except tf.errors.ResourceExhaustedError:
            return chunks, True
        chunks.append(chunk)
    return chunks, False


def try_pattern(tf: Any, np: Any, device: str, pattern: str, room_bytes: int, seconds: float) -> dict[str, object]:
    """Write a pattern to that much memory, read it back, and return how much was compared and how many words differed.

    The time begins when the kernels are loaded: on an H200 that took half of it, and left half of the memory out.
    """
    size = chunk_words(room_bytes)
    row: dict[str, object] = {"pattern": pattern, "tested_bytes": 0, "mismatches": 0}
    with tf.device(device):
        writer = Writer(tf, np, size)
        count_differing(tf, writer.content(pattern, 0), writer.content(pattern, 0))
        started = time.monotonic()
        most = max(1, room_bytes // (size * WORD_BYTES) - KEPT_CHUNKS)
        chunks, full = write(tf, writer, pattern, most, started + seconds * WRITING)
        if full:
            row["fits"] = len(chunks) * size * WORD_BYTES
        compared = mismatches = 0
        for place, chunk in enumerate(chunks):
            if place and time.monotonic() > started + seconds:
                break
            expected = writer.content(pattern, place)
            found = count_differing(tf, chunk, expected)
            if found and not mismatches:
                row["example"] = "chunk %d, %s" % (place, example(np, chunk.numpy(), expected.numpy()))
            mismatches += found
            compared += 1
    row.update(tested_bytes=compared * size * WORD_BYTES, mismatches=mismatches, seconds=time.monotonic() - started)
    row["placed_on"] = chunks[0].device if chunks else ""
    return row
