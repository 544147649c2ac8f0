"""The report of one node: the document that every way of running the doctor on a fleet writes."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from tfgpu_doctor.model import Figure, Severity
from tfgpu_doctor.model.report import Outcome, Report

NODE_SCHEMA = 1
KIND = "tfgpu-doctor node"
# The node reported itself, or the process that waited for it gives the reason why it did not.
NodeOutcome = Literal["reported", "died", "hung", "busy", "not granted", "not started", "disappeared", "interrupted"]
Direction = Literal["higher", "lower"]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 120


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A number that nodes of one kind share, except for a spread. `model`: the device model, compared with its peers."""

    name: str  # "float16 matrix product"
    value: float
    unit: str  # "TFLOP/s", "GB/s", "s"
    device: str = ""  # "GPU:0"; empty for the node itself
    model: str = ""  # "NVIDIA H100 80GB HBM3"; the CPU model if no GPU takes part
    better: Direction = "higher"


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of a root cause; the report has the details. `id`, `label` and `devices` are its key: the words may differ."""

    label: str
    id: str
    title: str
    severity: Severity
    devices: tuple[str, ...] = ()  # the GPUs that have it; empty for the node
    figures: tuple[Figure, ...] = ()


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement of the profile that the node does not meet. `key` stays the same at the next examination."""

    key: str  # "speed-ups.training/step[cnn]"
    title: str
    required: str
    measured: str = ""

    @property
    def words(self) -> str:
        """The requirement beside what was measured."""
        return f"{self.title}: {self.required} required, {self.measured}"


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as its vendor knows it; empty if NVML does not say."""

    device: str  # as causes name it
    index: int
    name: str = ""
    serial: str = ""
    part_number: str = ""
    uuid: str = ""
    vbios: str = ""
    pci_address: str = ""


class DriverCode(msgspec.Struct, frozen=True, kw_only=True):
    """Xids or SXids of one code in the kernel log since the last boot."""

    kind: str  # "xid", "sxid"
    code: int
    count: int
    pci_address: str = ""
    text: str = ""  # of the last one
    age_s: float | None = None  # of the last one, when the node was looked at


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a fleet's folder. The compared values are outside `report`, so the comparison does not decode it."""

    schema: int = NODE_SCHEMA
    kind: str = KIND
    node: str
    outcome: NodeOutcome
    reason: str = ""  # why it did not report, or did not measure all that was asked for
    began: str = ""  # UTC, ISO 8601
    seconds: float = 0.0
    order: str = ""  # the options of its examination: "--level deep --suite pipeline"
    doctor: str = ""  # version
    exit_code: int | None = None  # that of `check` or `accept`; None if nothing was examined
    unjudged: str = ""  # why the examination could not judge the node (exit code 3)
    settings: dict[str, str] = {}  # normally the same on all nodes of one kind: versions, counts, limits
    measurements: tuple[Measurement, ...] = ()
    checks: dict[str, Outcome] = {}  # by id
    partly: dict[str, str] = {}  # by id, why a check judged only a part of the GPUs; an older doctor does not say it
    causes: tuple[Cause, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    profile: str = ""  # the profile that was checked
    driver: str = ""
    boards: tuple[Board, ...] = ()
    driver_codes: tuple[DriverCode, ...] = ()
    report: Report | None = None


def file_name(node: str) -> str:
    """Return the name of a node's file: it never leads out of the folder, and two nodes never share one."""
    import hashlib

    safe = _UNSAFE.sub("_", node)[:_LONGEST_NAME]
    if (
        node and safe == node and not safe.startswith(".") and safe != "expected"
    ):  # expected.json lists the expected nodes
        return f"{safe}.json"
    return f"{safe.lstrip('.') or 'node'}-{hashlib.sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.json"


def encode_node(report: NodeReport) -> bytes:
    """Return one line of JSON that begins with schema and kind."""
    document = {"schema": report.schema, "kind": report.kind, **msgspec.to_builtins(report)}
    return msgspec.json.encode(document) + b"\n"
