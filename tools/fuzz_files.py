"""Fuzz the file readers: atheris mutates bytes, guided by code coverage.

    pip install atheris
    python tools/fuzz_files.py facts -max_total_time=300     # recorded machines: FactsError or a report, nothing else
    python tools/fuzz_files.py library -max_total_time=300   # shared libraries, and the loader's cache: Unloadable, or read

Also settings, profile, certificate, node (a report of a fleet's node), trace, ticket (a log in it) and document (of
pytest-benchmark): each is refused with its own error, or read.

A file that violates this is written to crash-*: minimize it, and add a test with it.
"""

from __future__ import annotations

import io
import pathlib
import sys
import tempfile
from collections.abc import Callable

import atheris
import msgspec

with atheris.instrument_imports(include=["tfgpu_doctor", "elftools"]):
    from tfgpu_doctor.accept.reading import read_profile as read_requirements
    from tfgpu_doctor.accept.verifying import verify
    from tfgpu_doctor.accept.vocabulary import ProfileError, Vocabulary
    from tfgpu_doctor.bench.pytest_document import DocumentError, read_document
    from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
    from tfgpu_doctor.collect.ldso.cache import parse_loader_cache
    from tfgpu_doctor.collect.ldso.shared_object import Unloadable, read_shared_object
    from tfgpu_doctor.diagnose.engine import diagnose
    from tfgpu_doctor.fleet.columns import Columns
    from tfgpu_doctor.fleet.node import Cause, Measurement, NodeReport, encode_node
    from tfgpu_doctor.fleet.reports_read import Heard, decode
    from tfgpu_doctor.model.facts import Facts, FactsError, decode_facts, encode_facts
    from tfgpu_doctor.ticket.contents import Source, make_ticket
    from tfgpu_doctor.ticket.identity import Identity
    from tfgpu_doctor.tracing.reading import Unreadable, read_profile

USER = "zaphodb"  # of the machine that the tickets come from
HERE = pathlib.Path(tempfile.mkdtemp(prefix="fuzz-"))
PROFILES = pathlib.Path(__file__).parent.parent / "doctor/accept/profiles"
TRACES = pathlib.Path(__file__).parent.parent.parent / "shared/traces"
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


def _written(name: str, content: bytes) -> str:
    path = HERE / name
    path.write_bytes(content)
    return str(path)


def settings(content: bytes) -> None:
    """Settings are read, or refused by name."""
    _written("tfgpu-doctor.toml", content)
    try:
        read_configuration(str(HERE))
    except ConfigurationError:
        pass


def profile(content: bytes) -> None:
    """A profile is read, or refused by name."""
    try:
        read_requirements(_written("x.toml", content), Vocabulary(("GPU001", "LOD001")))
    except ProfileError:
        pass


def certificate(content: bytes) -> None:
    """What was mutated is no intact certificate that the seed was not."""
    verify(content)


def node(content: bytes) -> None:
    """A report of a node can be compared, or the reason why not is known."""
    heard = decode(content)
    if isinstance(heard, Heard):
        try:
            Columns().add(heard)
        except msgspec.DecodeError:
            pass


def trace(content: bytes) -> None:
    """A profile of a training is read, or refused."""
    try:
        read_profile(_written("x.xplane.pb", content))
    except Unreadable:
        pass


def ticket(content: bytes) -> None:
    """Whatever the log of a ticket is, its user's name is not in the ticket."""
    made = make_ticket(Source(facts=Facts(), identity=Identity(users=frozenset({USER})), log=content))
    assert not any(USER.encode() in each for each in made.files.values())


def document(content: bytes) -> None:
    """A document of pytest-benchmark is read, or refused."""
    try:
        read_document(content)
    except DocumentError:
        pass


def _machines() -> list[bytes]:
    return [path.read_bytes() for path in sorted(MACHINES.glob("*/*/facts.json"))[::5]]


def _libraries() -> list[bytes]:
    """Return small libraries of this machine, and its loader's cache."""
    folders = (pathlib.Path("/lib/x86_64-linux-gnu"), pathlib.Path("/usr/lib64"))
    found = [path for folder in folders for path in sorted(folder.glob("*.so*")) if path.is_file()]
    small = [path.read_bytes() for path in found if path.stat().st_size < 20_000][:20]
    cache = pathlib.Path("/etc/ld.so.cache")
    return [*small, cache.read_bytes()[:20_000]] if cache.exists() else small


def _nodes() -> list[bytes]:
    found = NodeReport(
        node="n1", outcome="reported", settings={"driver": "550.54.15"}, checks={"GPU001": "pass"},
        measurements=(Measurement(name="float16 matrix product", value=700.0, unit="TFLOP/s", device="GPU:0"),),
        causes=(Cause(label="hardware_ecc_error", id="GPU011", title="3 errors", severity="error"),),
    )  # fmt: skip
    return [encode_node(found)]


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "facts": (facts, _machines),
    "library": (library, _libraries),
    "settings": (
        settings,
        lambda: [b'select = ["GPU", "DRV002"]\nfail-level = "warning"\ndeadline = 60\npython = "venv"\n'],
    ),
    "profile": (profile, lambda: [each.read_bytes() for each in PROFILES.glob("*.toml")]),
    "certificate": (
        certificate,
        lambda: [b'{"kind": "tfgpu-doctor certificate", "digest": "sha256:0", "requirements": []}'],
    ),
    "node": (node, _nodes),
    "trace": (trace, lambda: [each.read_bytes() for each in TRACES.glob("**/*.xplane.pb")][:20]),
    "ticket": (ticket, lambda: [f"/home/{USER}/a.py: MASTER_ADDR=10.1.2.3 uid=1000({USER})\n".encode()]),
    "document": (
        document,
        lambda: [b'{"machine_info": {}, "benchmarks": [{"fullname": "a::b", "extra_info": {"ratio": 2}}]}'],
    ),
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
