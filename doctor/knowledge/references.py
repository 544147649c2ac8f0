"""Speeds that others reached, published or ask for: the rows of checks/data/references.json, and which of them applies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from tfgpu_doctor.knowledge.reading import Knowledge

Kind = Literal["measured", "published", "target"]
MATMUL, COPY = "matmul", "copy in the device"
# From Ampere on, tensor cores are equally fast in both formats.
_ALIKE = {"float16": "bfloat16", "bfloat16": "float16"}
_ALIKE_SINCE = 8.0  # compute capability
_WHOSE: dict[Kind, str] = {
    "measured": "what was measured on",
    "published": "what was published for",
    "target": "what is asked of",
}


class Conditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a speed depends on besides the model of the GPU; empty or None if it is not known or does not apply."""

    precision: str = ""  # "float32", "tf32", "float16", "bfloat16", "mixed_float16"
    batch: int | None = None  # per GPU
    xla: bool | None = None
    size: str = ""  # of matrices, or of a message
    length: int | None = None  # of a sequence
    data: str = ""  # what a training reads: "ImageNet", "synthetic"
    gpus: int = 1
    link: str = ""
    power_w: int | None = None  # the power limit
    timed_by: str = ""
    statistic: str = ""  # "median", "best of a search"
    software: str = ""
    machine: str = ""


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One speed of one model of GPU; the table itself describes the fields."""

    model: str  # NVML's name
    measurement: str
    value: float
    unit: str
    kind: Kind
    context: Conditions
    source: str
    checked: str
    n: int = 0
    sustained: bool = False
    commit: str = ""

    @property
    def said(self) -> str:
        """The row in words: "280.4 TFLOP/s, matmul in float16, Azure NDv4, 1,939 measured (https://...)"."""
        counted = f"{self.n:,} measured" if self.n > 1 else ""
        words = filter(
            None, (f"{number(self.value)} {self.unit}", f"{self.measurement}{_under(self.context)}", counted)
        )
        return f"{', '.join(words)} ({self.source})"


def number(value: float) -> str:
    """Return a value with four digits or all before its point, and without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _under(context: Conditions) -> str:
    """Return the conditions in words."""
    found = [
        f" in {context.precision}" if context.precision else "",
        f", {context.gpus} GPUs" if context.gpus > 1 else "",
        f", batch {context.batch}" if context.batch else "",
        {True: ", with XLA", False: ", without XLA", None: ""}[context.xla],
        f", length {context.length}" if context.length else "",
        f", at {context.power_w} W" if context.power_w else "",
    ]
    told = [context.size, context.link, context.data, context.statistic, context.software, context.machine]
    return "".join([*found, *(f", {each}" for each in told if each)])


def sustained_speed(knowledge: Knowledge, model: str, measurement: str, precision: str = "") -> Reference | None:
    """Return what healthy GPUs of a model reach in long work; None if nobody is known to have measured it.

    Of several rows, the one with the most GPUs; of equally many, the lowest, which asks the least of a machine.
    """
    rows = [
        row
        for row in _rows(knowledge, model, measurement, "measured")
        if row.sustained
        and row.context.gpus == 1
        and row.context.precision in _equally_fast(knowledge, model, precision)
    ]
    exact = [row for row in rows if row.context.precision == precision]
    return min(exact or rows, key=lambda row: (-row.n, row.value), default=None)


def _equally_fast(knowledge: Knowledge, model: str, precision: str) -> tuple[str, ...]:
    row = knowledge.gpu_called(model)
    if row is None or float(row.compute_capability) < _ALIKE_SINCE or precision not in _ALIKE:
        return (precision,)
    return (precision, _ALIKE[precision])


def target(knowledge: Knowledge, model: str, measurement: str) -> Reference | None:
    """Return the least that somebody's health check asks of a model; the lowest if several do."""
    rows = (row for row in _rows(knowledge, model, measurement, "target") if row.context.gpus == 1)
    return min(rows, key=lambda row: row.value, default=None)


def nearest(knowledge: Knowledge, model: str, measurement: str, context: Conditions) -> Reference | None:
    """Return the row that shares the most conditions with a measurement, measured rows before published, then targets."""
    order = ("measured", "published", "target")
    rows = sorted(_rows(knowledge, model, measurement), key=lambda row: order.index(row.kind))
    return max(rows, key=lambda row: _shared(row.context, context), default=None)


def compared(knowledge: Knowledge, model: str, measurement: str, value: float, context: Conditions) -> str:
    """Say how a measured value compares with what is known: a share where every condition is equal, else the nearest row."""
    row = nearest(knowledge, model, measurement, context)
    if row is None:
        return f"no reference for {model or 'this model'}"
    if row.context == context:
        return f"{value / row.value:.0%} of {_WHOSE[row.kind]} {row.model}: {row.said}"
    return f"the nearest row is {row.said}, which is not the same"


def _shared(one: Conditions, other: Conditions) -> int:
    return sum(getattr(one, name) == getattr(other, name) for name in one.__struct_fields__)


def _rows(knowledge: Knowledge, model: str, measurement: str, kind: Kind | None = None) -> Iterator[Reference]:
    row = knowledge.gpu_called(model)
    name = row.name if row else model
    return _of(knowledge.references, name, measurement, kind)


def _of(rows: Iterable[Reference], model: str, measurement: str, kind: Kind | None) -> Iterator[Reference]:
    return (row for row in rows if (row.model, row.measurement) == (model, measurement) and kind in (None, row.kind))
