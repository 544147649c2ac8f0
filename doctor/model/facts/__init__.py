"""Everything that the probes collected about one machine, and its JSON document."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.model.byte_order_mark import in_utf8
from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.facts.engines import Engines
from tfgpu_doctor.model.facts.gpu_holders import GpuHolders
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.keras import Keras
from tfgpu_doctor.model.facts.kernel import KernelLog, ModuleFiles, Services
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, Scheduler, System
from tfgpu_doctor.model.facts.notebooks import Notebooks
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Libraries, Nvml
from tfgpu_doctor.model.facts.preload import Preload, RunWithoutPreload
from tfgpu_doctor.model.facts.project import Project
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.facts.restart import Restart
from tfgpu_doctor.model.facts.schema_1 import facts_renamed
from tfgpu_doctor.model.facts.stress import Level, StressTest
from tfgpu_doctor.model.facts.xla import XlaFlags, XlaTools
from tfgpu_doctor.model.redaction import Count, Text, Version

SCHEMA = 2  # readers accept 1
_REPORT = (
    "this is a report and not a recorded machine: ask for the file that `tfgpu-doctor --record FILE` writes, or for the "
    "ticket.zip of `tfgpu-doctor ticket -o ticket.zip`"
)


class FactsError(ValueError):
    """A document that is not a record of a machine; the message says why."""


class Facts(Fact, frozen=True):
    """The snapshot of a machine. An unavailable fact is None, and `unknown` says why."""

    schema: Count = SCHEMA
    doctor: Version = ""  # the version that recorded it
    recorded: Text = ""  # UTC, ISO 8601
    quick: bool = False
    level: Level | None = None  # None in a record of a doctor that had only two: quick, and the full one
    simulated: bool = False  # a rehearsal: the GPUs and their driver are simulated
    unknown: dict[Text, Text] = {}
    system: System | None = None
    pci: Pci | None = None
    container: Container | None = None
    scheduler: Scheduler | None = None
    environment: Environment | None = None
    driver: Driver | None = None
    device_nodes: DeviceNodes | None = None
    driver_libraries: Libraries | None = None
    cuda_driver: CudaDriver | None = None
    nvml: Nvml | None = None
    target: Target | None = None
    tensorflow: TensorFlow | None = None
    cuda_libraries: Libraries | None = None
    resolution: Resolution | None = None
    xla_tools: XlaTools | None = None
    limits: Limits | None = None
    hosting: Hosting | None = None
    engines: Engines | None = None
    notebooks: Notebooks | None = None
    project: Project | None = None
    runtime: Runtime | None = None
    bench: Bench | None = None
    kernel_log: KernelLog | None = None
    module_files: ModuleFiles | None = None
    services: Services | None = None
    stress: StressTest | None = None
    keras: Keras | None = None
    xla_flags: XlaFlags | None = None
    preload: Preload | None = None
    run_without_preload: RunWithoutPreload | None = None
    restart: Restart | None = None
    gpu_holders: GpuHolders | None = None


class _Header(msgspec.Struct):
    schema: int
    causes: Any = None  # of every report, and of no record


FactType = TypeVar("FactType", bound=Fact)


def writable(fact: FactType) -> FactType:
    """The fact in a form that fits into JSON: bytes of names and variables that are not UTF-8 become question marks.

    Python represents such bytes as lone surrogates (PEP 383), which a UTF-8 document must not contain.
    """
    try:
        msgspec.json.encode(fact)
    except UnicodeEncodeError:
        return msgspec.convert(_without_surrogates(msgspec.to_builtins(fact)), type(fact))
    return fact


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(each) for each in value]
    return value


def encode_facts(facts: Facts) -> bytes:
    """The snapshot as an indented JSON document."""
    # The schema is written even though it is the default: a reader must be able to see it.
    document = {"schema": facts.schema, **msgspec.to_builtins(writable(facts))}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode_facts(document: bytes) -> Facts:
    """The snapshot in a JSON document, also one that an editor saved with a byte order mark. Raises FactsError."""
    document = in_utf8(document)
    try:
        header = msgspec.json.decode(document, type=_Header)
        if header.causes is not None:
            raise FactsError(_REPORT)
        if header.schema > SCHEMA:
            raise FactsError(
                f"it has schema {header.schema}, and this tfgpu-doctor reads up to {SCHEMA}: upgrade tfgpu-doctor"
            )
        if header.schema == 1:
            renamed = facts_renamed(msgspec.json.decode(document, type=dict[str, Any]))
            return msgspec.convert({**renamed, "schema": SCHEMA}, Facts)
        return msgspec.json.decode(document, type=Facts)
    except msgspec.ValidationError as error:
        raise FactsError(f"it is not a recorded machine: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FactsError(f"it is not JSON: {error}") from error
