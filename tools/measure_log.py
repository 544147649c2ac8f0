"""How fast a large log is read, and in how much memory: a log is made, and `tfgpu-doctor log` run on it.

    python tools/measure_log.py [--megabytes 1000] [--folder /tmp]

`training` is what training prints; `tensorflow` is what a verbose TensorFlow prints, with addresses and sizes; `prose`
is text of which no line comes twice. The cause stands at the very end.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tabulate import tabulate

_CAUSE = "ValueError: Memory growth cannot differ between GPU devices\n"


def training(chance: random.Random) -> Iterator[str]:
    """What training prints."""
    for step in range(10**9):
        yield f"Epoch {step // 1000}/90 - step {step}: loss = {chance.random():.4f} - accuracy: {chance.random():.4f}\n"


def tensorflow(chance: random.Random) -> Iterator[str]:
    """What a verbose TensorFlow prints."""
    for place in range(10**9):
        head = f"2026-11-21 10:{place // 60 % 60:02}:{place % 60:02}.{chance.randrange(10**6):06}: I "
        address, size = f"{chance.getrandbits(44):x}", chance.randrange(10**7)
        yield (
            head
            + f"external/local_tsl/tsl/framework/bfc_allocator.cc:1095] InUse at {address} of size {size} next {place}\n"
        )


def prose(chance: random.Random) -> Iterator[str]:
    """Text of which no line comes twice."""
    words = ["".join(chance.choices("etaoinshrdlucmfwygpbvk", k=chance.randint(2, 9))) for _ in range(5000)]
    while True:
        yield " ".join(chance.choices(words, k=14)) + "\n"


def write(path: pathlib.Path, kind: str, megabytes: int) -> None:
    """A log of that kind and size; for `prose` every line is made, else the first of them are repeated."""
    size = megabytes * 10**6
    lines = globals()[kind](random.Random(1))
    with path.open("w") as file:
        while kind == "prose" and file.tell() < size:
            file.writelines(itertools.islice(lines, 10_000))
        made = "" if kind == "prose" else "".join(itertools.islice(lines, 100_000))
        for _ in range(size // len(made) if made else 0):
            file.write(made)
        file.write(_CAUSE)


def main() -> None:
    """Make each kind of log, read it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    rows = []
    for kind in ("training", "tensorflow", "prose"):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = pathlib.Path(folder, "log")
            write(path, kind, options.megabytes if kind != "prose" else min(options.megabytes, 200))
            started = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "tfgpu_doctor", "log", str(path)], capture_output=True, text=True, check=False
            )
            spent = time.perf_counter() - started
            found = "memory_growth_differs_between_gpus" in done.stdout
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            rows.append((kind, path.stat().st_size / 1e6, spent, path.stat().st_size / 1e6 / spent, peak, found))
    headers = ("log", "MB", "seconds", "MB/s", "peak MiB of all so far", "cause found")
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
