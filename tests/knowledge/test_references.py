"""The table of references: every row is of a known model, has its unit and conditions, and agrees with the data sheets."""

from __future__ import annotations

import re

import pytest
from every import every
from locations import TESTS

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.references import (
    COPY,
    MATMUL,
    Conditions,
    Reference,
    compared,
    nearest,
    sustained_speed,
    target,
)

KNOWLEDGE = read_knowledge()
UNITS = {
    MATMUL: "TFLOP/s", COPY: "GB/s", "host to device": "GB/s", "device to host": "GB/s", "kernel launch": "us",
    "all-reduce": "GB/s", "power": "W", "memory bandwidth": "GB/s", "training of ResNet-50 v1.5": "samples/s",
    "inference of ResNet-50 v1.5": "samples/s", "fine-tuning of BERT-Large": "samples/s",
    "pre-training of BERT-Large": "samples/s",
}  # fmt: skip
PEAKS = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "fp16"}
A100 = "NVIDIA A100-SXM4-40GB"
each_row = every("row", KNOWLEDGE.references, key=lambda row: f"{row.model}: {row.said}", least=240)


def test_no_row_stands_twice() -> None:
    keys = [(row.model, row.measurement, row.kind, row.context) for row in KNOWLEDGE.references]
    assert [key for key in keys if keys.count(key) > 1] == []


@each_row
def test_a_row_is_of_a_known_model_and_has_its_unit(row: Reference) -> None:
    model = KNOWLEDGE.gpu_named(row.model)
    assert model is not None
    assert model.name == row.model
    assert row.unit == UNITS[row.measurement]
    assert row.value > 0
    assert row.context.gpus >= 1


@each_row
def test_a_row_names_its_source_and_its_version(row: Reference) -> None:
    assert row.source.startswith("https://") or (TESTS.parent / row.source).is_file()  # a page of this project's own
    if "github.com" in row.source:
        assert re.fullmatch(r"[0-9a-f]{8,40}", row.commit)
    else:
        assert not row.commit


@each_row
def test_what_the_speed_depends_on_is_said(row: Reference) -> None:
    needed = {
        MATMUL: ("precision",), "all-reduce": ("size", "link"), "kernel launch": ("timed_by",),
        "training of ResNet-50 v1.5": ("precision", "batch", "software", "data"),
        "fine-tuning of BERT-Large": ("precision", "batch", "software", "data", "length"),
        "pre-training of BERT-Large": ("precision", "batch", "software", "data", "length"),
    }.get(row.measurement, ())  # fmt: skip
    assert [name for name in needed if not getattr(row.context, name)] == []
    if row.measurement == "training of ResNet-50 v1.5":
        assert row.context.xla is not None


@each_row
def test_no_speed_is_above_the_data_sheet(row: Reference) -> None:
    """GeForce and workstation boards exceed theirs by their clock; the others are below."""
    model = KNOWLEDGE.gpu_named(row.model)
    assert model
    if row.measurement == MATMUL and (peak := model.peak_teraflops.get(PEAKS[row.context.precision])):
        assert row.value <= peak * (1.0 if model.line == "data centre" else 1.25)
    if row.measurement in (COPY, "memory bandwidth") and model.memory_bandwidth_gb_per_s:
        assert row.value <= model.memory_bandwidth_gb_per_s


@each_row
def test_what_a_search_found_counts_as_sustained_for_large_products_alone(row: Reference) -> None:
    if row.sustained and "search" in row.context.statistic:
        assert min(map(int, row.context.size.split("x"))) >= 4096


def test_a_target_is_below_what_was_measured() -> None:
    for measurement in ("host to device", "device to host", "all-reduce"):
        measured = [row for row in KNOWLEDGE.references if (row.measurement, row.kind) == (measurement, "measured")]
        for row in measured:
            asked = [
                other.value
                for other in KNOWLEDGE.references
                if (other.model, other.measurement, other.kind) == (row.model, measurement, "target")
                and (other.context.gpus, other.context.size) == (row.context.gpus, row.context.size)
            ]
            assert all(each < row.value for each in asked)


def test_a_population_counts_before_a_single_gpu() -> None:
    row = sustained_speed(KNOWLEDGE, A100, MATMUL, "float16")
    assert row
    assert (row.value, row.n, row.context.machine) == (280.44, 1939, "Azure NDv4")


def test_from_ampere_on_both_16_bit_formats_are_alike() -> None:
    a10g = sustained_speed(KNOWLEDGE, "A10G", MATMUL, "float16")
    assert a10g
    assert a10g.context.precision == "bfloat16"
    assert sustained_speed(KNOWLEDGE, "Tesla T4", MATMUL, "float16")
    assert sustained_speed(KNOWLEDGE, "Tesla T4", MATMUL, "bfloat16") is None


def test_a_maximum_over_short_products_is_not_asked_of_a_gpu() -> None:
    assert sustained_speed(KNOWLEDGE, "NVIDIA L4", MATMUL, "bfloat16") is None
    near = nearest(KNOWLEDGE, "NVIDIA L4", MATMUL, Conditions(precision="float16"))
    assert near
    assert near.value == 91.4


def test_the_lowest_target_counts() -> None:
    found = target(KNOWLEDGE, "NVIDIA A100 80GB PCIe", "host to device")
    assert found
    assert (found.value, found.context.machine) == (21, "Azure nc24ads_a100_v4")


@pytest.mark.parametrize("model", ["", "NVIDIA Unheard-of 1"])
def test_where_nothing_is_known_that_is_said(model: str) -> None:
    assert compared(KNOWLEDGE, model, MATMUL, 1.0, Conditions()) == f"no reference for {model or 'this model'}"


def test_a_slice_of_a_gpu_is_of_its_model() -> None:
    row = KNOWLEDGE.gpu_called("NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    assert row
    assert row.name == A100
