"""Fuzz the file readers: atheris mutates bytes, guided by code coverage.

    pip install atheris
    python tools/fuzz_files.py facts -max_total_time=300     # recorded machines: FactsError or a report, nothing else
    python tools/fuzz_files.py library -max_total_time=300   # shared libraries, and the loader's cache: Unloadable, or read

Also settings, profile, certificate, node (a report of a fleet's node), trace, ticket (a log in it) and document (of
pytest-benchmark): each is refused with its own error, or read. fleet (a folder of reports, with expected nodes and a retest),
store (of earlier runs) and known (a file for --known) need the extra `fleet`: one of their files is mutated, which its first
byte chooses, and the others are still compared.

A file that violates this is written to crash-*: minimize it, and add a test with it.
"""

from __future__ import annotations

import io
import pathlib
import shutil
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

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/support"))

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


def fleet(content: bytes) -> None:
    """A folder in which one file is broken is compared all the same, or its list of nodes is refused."""
    from tfgpu_doctor.fleet.compared import expected_names
    from tfgpu_doctor.fleet.formats import FLEET_FORMATS
    from tfgpu_doctor.fleet.merge import merge
    from tfgpu_doctor.fleet.page import render_fleet

    folder = HERE / "fleet"
    chosen = _broken_copy(_reports(), folder, content)
    try:
        found = merge(str(folder), expected=expected_names(str(folder), None))
    except SystemExit:
        assert chosen == "expected.json"
        return
    assert found.heard >= 2
    for format_ in FLEET_FORMATS:
        render_fleet(found, format_)


def store(content: bytes) -> None:
    """A store in which one file is broken is read without it, or refused."""
    import duckdb

    from tfgpu_doctor.fleet.history_page import render_history
    from tfgpu_doctor.fleet.history_read import history_of
    from tfgpu_doctor.fleet.store import Store, StoreError

    folder = HERE / "store"
    _broken_copy(_stored(), folder, content)
    try:
        render_history(history_of(Store(str(folder))), "text")
    except (StoreError, OSError, duckdb.Error):
        pass


def known(content: bytes) -> None:
    """A list of known issues is read, or refused by name."""
    from tfgpu_doctor.fleet.known import KnownError, read_known

    try:
        read_known(_written("known.toml", content))
    except KnownError:
        pass


def _broken_copy(whole: pathlib.Path, folder: pathlib.Path, content: bytes) -> str:
    """Copy a folder, with the content in place of the file that its first byte chooses; return the name of that."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = files[(content[:1] or b"\0")[0] % len(files)]
    chosen.write_bytes(content[1:])
    return str(chosen.relative_to(folder))


def _reports() -> pathlib.Path:
    """A folder with three reports, a list of expected nodes, and a retest."""
    from made_up_fleet import MadeUpFleet

    folder = HERE / "reports"
    if not folder.exists():
        MadeUpFleet(3).write(folder, whole=False)
        MadeUpFleet(3).write(folder / "second", only=["n00001"], whole=False)
        (folder / "expected.json").write_text('["n00000", "n00001", "n00002", "n9"]')
    return folder


def _stored() -> pathlib.Path:
    """A store with one run."""
    from tfgpu_doctor.fleet.store import Store
    from tfgpu_doctor.fleet.store_write import ingest

    folder = HERE / "whole-store"
    if not folder.exists():
        ingest(str(_reports()), Store(str(folder), create=True))
    return folder


def _seeds_of(whole: Callable[[], pathlib.Path]) -> list[bytes]:
    files = sorted(path for path in whole().rglob("*") if path.is_file())
    return [bytes([place]) + path.read_bytes() for place, path in enumerate(files)]


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
    "fleet": (fleet, lambda: _seeds_of(_reports)),
    "store": (store, lambda: _seeds_of(_stored)),
    "known": (
        known,
        lambda: [
            b'[[known]]\nnodes = ["n[1-4]", "m*"]\ncause = "GPU011"\nowner = "a"\nuntil = 2027-01-01\nwhy = "b"\n'
        ],
    ),
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
