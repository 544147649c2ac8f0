"""Fuzz the file readers: atheris mutates bytes, guided by code coverage.

    pip install atheris
    python tools/fuzz_files.py facts -max_total_time=300     # recorded machines: FactsError or a report, nothing else
    python tools/fuzz_files.py library -max_total_time=300   # shared libraries, and the loader's cache: Unloadable, or read

A file that violates this is written to crash-*: minimize it, and add a test with it.
"""

from __future__ import annotations

import io
import pathlib
import sys
import tempfile
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["tfgpu_doctor", "elftools"]):
    from tfgpu_doctor.collect.ldso.cache import parse_loader_cache
    from tfgpu_doctor.collect.ldso.shared_object import Unloadable, read_shared_object
    from tfgpu_doctor.diagnose.engine import diagnose
    from tfgpu_doctor.model.facts import FactsError, decode_facts, encode_facts

MACHINES = pathlib.Path(__file__).parent.parent / "tests/machines"


def facts(document: bytes) -> None:
    """A recorded machine is rejected, or is unchanged when written again and breaks no check."""
    try:
        machine = decode_facts(document)
    except FactsError:
        return
    assert decode_facts(encode_facts(machine)) == machine
    broken = [(result.id, result.reason) for result in diagnose(machine).results if result.outcome == "crash"]
    assert not broken, broken


def library(content: bytes) -> None:
    """A file that is not a shared library is reported as such."""
    try:
        read_shared_object(io.BytesIO(content), len(content), "x86_64")
    except Unloadable:
        pass
    parse_loader_cache(content, "x86_64")


def _machines() -> list[bytes]:
    return [path.read_bytes() for path in sorted(MACHINES.glob("*/*/facts.json"))[::5]]


def _libraries() -> list[bytes]:
    """Return small libraries of this machine, and its loader's cache."""
    folders = (pathlib.Path("/lib/x86_64-linux-gnu"), pathlib.Path("/usr/lib64"))
    found = [path for folder in folders for path in sorted(folder.glob("*.so*")) if path.is_file()]
    small = [path.read_bytes() for path in found if path.stat().st_size < 20_000][:20]
    cache = pathlib.Path("/etc/ld.so.cache")
    return [*small, cache.read_bytes()[:20_000]] if cache.exists() else small


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "facts": (facts, _machines),
    "library": (library, _libraries),
}


def main() -> None:
    """Start from valid files."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(__doc__)
    target, seeds = TARGETS[sys.argv.pop(1)]
    with tempfile.TemporaryDirectory() as folder:
        for place, seed in enumerate(seeds()):
            pathlib.Path(folder, str(place)).write_bytes(seed)
        atheris.Setup([*sys.argv, "-max_len=100000", folder], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
