"""Measure the speed and memory of reading large logs: generate logs, and run `tfgpu-doctor log` on each.

    python tools/measure_log.py [--megabytes 1000] [--folder /tmp] [--kinds prose,ci] [FILE ...]

The cause is at the very end of each generated log. MB/s is computed from CPU time, which other processes disturb less than
wall time. Named files are read unchanged.
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

from tfgpu_doctor.knowledge import read_knowledge

_CAUSE = "ValueError: Memory growth cannot differ between GPU devices\n"
_REPEATED = ("training", "tensorflow")  # these logs also repeat in practice


def training(chance: random.Random) -> Iterator[str]:
    """Yield the output of a training run."""
    for step in range(10**9):
        yield f"Epoch {step // 1000}/90 - step {step}: loss = {chance.random():.4f} - accuracy: {chance.random():.4f}\n"


def tensorflow(chance: random.Random) -> Iterator[str]:
    """Yield the output of a verbose TensorFlow."""
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
    """Yield text without repeated lines."""
    words = _words(chance, 5000)
    while True:
        yield " ".join(chance.choices(words, k=14)) + "\n"


def long_lines(chance: random.Random) -> Iterator[str]:
    """Yield the same in lines of about 200 characters."""
    words = _words(chance, 5000)
    while True:
        yield " ".join(chance.choices(words, k=31)) + "\n"


def random_words(chance: random.Random) -> Iterator[str]:
    """Yield letters without repeated words."""
    while True:
        yield f"{chance.getrandbits(400):0100x} ".replace("0", " ").replace("7", "q") + "\n"


def ci(chance: random.Random) -> Iterator[str]:
    """Yield the output of pip and pytest on a CI system, with a timestamp before each line."""
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
    """Yield the same in color."""
    for line in ci(chance):
        yield f"\x1b[36m{line[:29]}\x1b[0m\x1b[1m{line[29:-1]}\x1b[0m\n"


def noise(chance: random.Random) -> Iterator[str]:
    """Yield a line that matches, again and again: the slowest case."""
    for place in range(10**9):
        yield (
            f"2026-11-21 10:00:00.{chance.randrange(10**6):06}: I external/local_xla/xla/stream_executor/cuda/cuda_executor.cc"
            f":{place % 2000}] successful NUMA node read from SysFS had negative value (-1), but there must be one\n"
        )


def phrases(chance: random.Random) -> Iterator[str]:
    """Yield a line for each signature in turn, again and again."""
    examples = [row.example for row in read_knowledge().log_signatures if "\n" not in row.example]
    for place in range(10**9):
        yield f"2026-11-21 10:00:{place % 60:02}.{chance.randrange(10**6):06}: E {examples[place % len(examples)]}\n"


def xids(chance: random.Random) -> Iterator[str]:
    """Yield messages of the kernel that differ in their values."""
    for place in range(10**9):
        yield (
            f"[{place / 100:.6f}] NVRM: Xid (PCI:0000:{place % 8:02x}:00): 13, pid={chance.randrange(10**5)}, "
            f"Graphics SM Warp Exception on (GPC {place % 7}, TPC {place % 9}): Out Of Range Address\n"
        )


KINDS = {
    "training": training, "tensorflow": tensorflow, "prose": prose, "long lines": long_lines,
    "random words": random_words, "ci": ci, "coloured": coloured, "noise": noise,
    "phrases": phrases, "xids": xids,
}  # fmt: skip


def write(path: pathlib.Path, kind: str, megabytes: int) -> None:
    """Write a log of that kind and size; every line is generated, except for kinds that repeat in practice."""
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
    """Return the CPU seconds, the peak memory in MiB, and whether the cause was found."""
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "tfgpu_doctor", "log", str(path)]
        process = os.posix_spawn(
            sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        )
        _, _, usage = os.wait4(
            process, 0
        )  # the resources of this one child, which the subprocess module does not report
        output.seek(0)
        found = b"memory_growth_differs_between_gpus" in output.read()
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, found


def main() -> None:
    """Generate each kind of log, read it, and print the values."""
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
    headers = ("log", "MB", "seconds", "MB/s", "peak memory, MiB", "cause found")
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
