"""How fast a large log is read, and in how much memory: logs are made, and `tfgpu-doctor log` run on each.

    python tools/measure_log.py [--megabytes 1000] [--folder /tmp] [--kinds prose,ci] [FILE ...]

The cause stands at the very end of each log that is made. MB/s is by the processor's time, which others on the machine
disturb less than the clock. Files that are named are read as they are.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import random
import sys
import tempfile
from collections.abc import Iterator

from tabulate import tabulate

_CAUSE = "ValueError: Memory growth cannot differ between GPU devices\n"
_REPEATED = ("training", "tensorflow")  # these repeat themselves in life as well


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


def _words(chance: random.Random, count: int) -> list[str]:
    return ["".join(chance.choices("etaoinshrdlucmfwygpbvk", k=chance.randint(2, 9))) for _ in range(count)]


def prose(chance: random.Random) -> Iterator[str]:
    """Text of which no line comes twice."""
    words = _words(chance, 5000)
    while True:
        yield " ".join(chance.choices(words, k=14)) + "\n"


def long_lines(chance: random.Random) -> Iterator[str]:
    """The same in lines of some 200 characters."""
    words = _words(chance, 5000)
    while True:
        yield " ".join(chance.choices(words, k=31)) + "\n"


def random_words(chance: random.Random) -> Iterator[str]:
    """Letters of which not even a word comes twice."""
    while True:
        yield f"{chance.getrandbits(400):0100x} ".replace("0", " ").replace("7", "q") + "\n"


def ci(chance: random.Random) -> Iterator[str]:
    """What pip and pytest print on a CI system, with its times before each line."""
    words = _words(chance, 3000)
    for place in range(10**9):
        one, two, three = chance.choices(words, k=3)
        version = f"{chance.randrange(9)}.{chance.randrange(40)}.{chance.randrange(20)}"
        yield f"2026-11-21T10:{place // 60 % 60:02}:{place % 60:02}.{chance.randrange(10**7):07}Z " + chance.choice(
            (
                f"Collecting {one}=={version} (from -r requirements.txt (line {place % 300}))\n",
                f"  Downloading {one}-{version}-cp311-cp311-manylinux_2_17_x86_64.whl.metadata ({place % 90}.1 kB)\n",
                f"Requirement already satisfied: {one}<3,>={version} in /opt/lib/python3.11/site-packages (from {two})\n",
                f"tests/{one}/test_{two}.py::test_{three}_is_not_{one}[{version}] PASSED [ {place % 100}%]\n",
                f"tests/{one}/test_{two}.py::test_{three}_fails FAILED [ {place % 100}%]\n",
                f'  File "/opt/lib/python3.11/site-packages/{one}/{two}.py", line {place % 900}, in {three}\n',
                f"E       AssertionError: could not open {one}: assert {place} == {chance.randrange(10**6)}\n",
                f"WARNING: the module {one}.{two} is deprecated since version {version}; use {three} instead\n",
            )
        )


def coloured(chance: random.Random) -> Iterator[str]:
    """The same in colours."""
    for line in ci(chance):
        yield f"\x1b[36m{line[:29]}\x1b[0m\x1b[1m{line[29:-1]}\x1b[0m\n"


def noise(chance: random.Random) -> Iterator[str]:
    """A line that matters, again and again: the slowest that a log can be."""
    for place in range(10**9):
        yield (
            f"2026-11-21 10:00:00.{chance.randrange(10**6):06}: I external/local_xla/xla/stream_executor/cuda/cuda_executor.cc"
            f":{place % 2000}] successful NUMA node read from SysFS had negative value (-1), but there must be one\n"
        )


KINDS = {
    "training": training, "tensorflow": tensorflow, "prose": prose, "long lines": long_lines,
    "random words": random_words, "ci": ci, "coloured": coloured, "noise": noise,
}  # fmt: skip


def write(path: pathlib.Path, kind: str, megabytes: int) -> None:
    """A log of that kind and size; every line is made, but for what repeats itself in life."""
    size = megabytes * 10**6
    lines = KINDS[kind](random.Random(1))
    with path.open("w") as file:
        if kind in _REPEATED:
            made = "".join(itertools.islice(lines, 100_000))
            for _ in range(max(1, size // len(made))):
                file.write(made)
        while file.tell() < size:
            file.writelines(itertools.islice(lines, 10_000))
        file.write(_CAUSE)


def read(path: pathlib.Path) -> tuple[float, float, bool]:
    """Seconds of the processor, the most memory in MiB, and whether the cause was found."""
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "tfgpu_doctor", "log", str(path)]
        process = os.posix_spawn(
            sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        )
        _, _, usage = os.wait4(process, 0)  # what this one child used, which the subprocess module does not tell
        output.seek(0)
        found = b"memory_growth_differs_between_gpus" in output.read()
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, found


def main() -> None:
    """Make each kind of log, read it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    rows = []
    for path in options.files:
        seconds, memory, found = read(path)
        rows.append((path.name, path.stat().st_size / 1e6, seconds, path.stat().st_size / 1e6 / seconds, memory, found))
    for kind in () if options.files else options.kinds.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = pathlib.Path(folder, "log")
            write(path, kind, options.megabytes)
            seconds, memory, found = read(path)
            size = path.stat().st_size / 1e6
            rows.append((kind, size, seconds, size / seconds, memory, found))
    headers = ("log", "MB", "seconds", "MB/s", "most memory, MiB", "cause found")
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
