"""What one node of a cluster reported: the document that every way of running the doctor on a fleet leaves for it."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.report import Outcome, Report

NODE_SCHEMA = 1
KIND = "tfgpu-doctor node"
# What became of the node: it reported itself, or whoever waited for it tells why it did not.
NodeOutcome = Literal["reported", "died", "hung", "not started", "disappeared", "interrupted"]
Direction = Literal["higher", "lower"]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 120


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A number that nodes of one kind share, but for a spread. `model`: of the device, whose peers it is compared with."""

    name: str  # "float16 matrix product"
    value: float
    unit: str  # "TFLOP/s", "GB/s", "s"
    device: str = ""  # "GPU:0"; empty for the node itself
    model: str = ""  # "NVIDIA H100 80GB HBM3", of the processor where no GPU takes part
    better: Direction = "higher"


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A root cause in short; the whole of it is in the report."""

    label: str
    id: str
    title: str
    severity: Severity


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a fleet's folder. What is compared stands beside the report, so that nobody has to look into it."""

    schema: int = NODE_SCHEMA
    kind: str = KIND
    node: str
    outcome: NodeOutcome
    reason: str = ""  # why it did not report
    began: str = ""  # UTC, ISO 8601
    seconds: float = 0.0
    order: str = ""  # what was asked of it: "--level deep --suite pipeline"
    doctor: str = ""  # version
    exit_code: int | None = None  # as `check` or `accept` would have ended; None where nothing was examined
    settings: dict[str, str] = {}  # what is the same on all nodes of one kind: versions, counts, limits
    measurements: tuple[Measurement, ...] = ()
    checks: dict[str, Outcome] = {}  # by id
    causes: tuple[Cause, ...] = ()
    unmet: tuple[str, ...] = ()  # requirements of a profile that are not met, in words
    profile: str = ""  # what it was accepted by
    report: Report | None = None


def file_name(node: str) -> str:
    """The name of a node's file: nothing in it leads out of the folder, and two nodes never share one."""
    import hashlib

    safe = _UNSAFE.sub("_", node)[:_LONGEST_NAME]
    if node and safe == node and not safe.startswith(".") and safe != "expected":  # expected.json names who was asked
        return f"{safe}.json"
    return f"{safe.lstrip('.') or 'node'}-{hashlib.sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.json"


def encode_node(report: NodeReport) -> bytes:
    """One line of JSON, with its schema and kind first."""
    document = {"schema": report.schema, "kind": report.kind, **msgspec.to_builtins(report)}
    return msgspec.json.encode(document) + b"\n"
