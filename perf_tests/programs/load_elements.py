"""Load an element for each number on standard input, with Python alone; TensorFlow is not imported."""

from __future__ import annotations

import json
import os
import sys

COUNTS = 64
WORDS = 20_000


def load(number: int) -> list[int]:
    """Count the words of a generated text by their hashes: Python's lock lets one thread of a process do this at a time."""
    counts, word = [0] * COUNTS, number
    for _ in range(WORDS):
        word = (1103515245 * word + 12345) % (1 << 31)
        counts[(word >> 16) % COUNTS] += 1
    return counts


def main() -> None:
    """Process requests: a number per line."""
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"counts": load(int(line))}), flush=True)


if __name__ == "__main__":
    main()
