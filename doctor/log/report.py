"""The result for a log."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.model import Confidence, Severity


class Line(msgspec.Struct, frozen=True):
    """A line of the log: its number, from 1, and its text."""

    line: int
    text: str


class LogCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that a log indicates; `ask` says what to request next where the log alone is not conclusive."""

    label: str
    title: str
    severity: Severity
    confidence: Confidence
    evidence: tuple[str, ...]
    lines: tuple[int, ...]
    fix: str
    ask: str = ""


class Noise(msgspec.Struct, frozen=True):
    """Lines that are harmless by themselves: the number of one kind, and the first."""

    name: str
    count: int
    line: Line


class ToldReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report of the doctor in the log: its first line, its format, its verdict, and the causes that it names."""

    line: int
    format: str
    subject: str
    healthy: bool | None  # None: it states neither that the machine works nor an error
    verdict: str
    causes: tuple[str, ...]


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a log: the causes, most likely first (empty if the log shows none), and the noise."""

    schema: int = 2
    lines: int
    context: dict[str, str]
    stated: dict[str, str] = {}  # what the author of the text says of the machine; no program printed it
    extracted: dict[str, tuple[str, ...]]  # what the log reports about the machine and the errors, each value once
    gpu_used: Line | None = None  # a line that shows that TensorFlow created a GPU device, or computes on it
    causes: tuple[LogCause, ...]
    noise: tuple[Noise, ...]
    reports: tuple[ToldReport, ...] = ()  # of the doctor, in the log; their lines are no part of the rest
    passed_over: tuple[str, ...] = ()  # what was not searched to the end, because no program prints so much of it
    interrupted: bool = False  # Ctrl-C: what follows in the log was not read
    damaged: str = ""  # why a compressed log could not be read to its end
    empty: bool = False  # there was nothing to judge
