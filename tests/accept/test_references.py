"""What GPUs of each model reached decides what the profile `server` asks of one; where nobody knows, it asks nothing."""

from __future__ import annotations

import pathlib

import msgspec
import pytest
from every import every
from judged import judged, profile_of, red, rows_of, shipped
from of_models import KNOWLEDGE, machine_of

from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.knowledge.references import MATMUL, sustained_speed
from tfgpu_doctor.knowledge.schema import GpuModel

DATA_CENTRE = [gpu for gpu in KNOWLEDGE.gpus if gpu.line == "data centre"]
ASKED = ("float32", "float16")
OF_PEAK = 0.6  # what large products reach of the data sheet, on boards that their power limit does not hold back
_PEAKS = {"float32": "fp32", "float16": "fp16"}
UNKNOWN = 7.0  # TFLOP/s of a model that nobody measured


def usual(gpu: GpuModel) -> dict[str, float]:
    """What a healthy GPU of the model reaches: as it was measured, else as its data sheet says."""
    found = {}
    for precision in ASKED:
        row = sustained_speed(KNOWLEDGE, gpu.name, MATMUL, precision)
        peak = gpu.peak_teraflops.get(_PEAKS[precision])
        found[precision] = row.value if row else OF_PEAK * peak if peak else UNKNOWN
    return found


def known(gpu: GpuModel, precision: str) -> bool:
    return bool(sustained_speed(KNOWLEDGE, gpu.name, MATMUL, precision) or gpu.peak_teraflops.get(_PEAKS[precision]))


@every("gpu", DATA_CENTRE, key=lambda gpu: gpu.name, least=49)
def test_a_healthy_gpu_of_each_model_is_accepted(gpu: GpuModel) -> None:
    certificate = judged(machine_of(gpu.name, usual(gpu)), shipped("server"))
    assert (certificate.verdict, red(certificate)) == ("accepted", [])


@every(
    "gpu", [gpu for gpu in DATA_CENTRE if any(known(gpu, each) for each in ASKED)], key=lambda gpu: gpu.name, least=24
)
def test_half_of_it_is_refused_where_it_is_known(gpu: GpuModel) -> None:
    for precision in ASKED:
        if not known(gpu, precision):
            continue
        half = {**usual(gpu), precision: usual(gpu)[precision] / 2}
        certificate = judged(machine_of(gpu.name, half), shipped("server"))
        assert certificate.verdict == "not accepted", precision
        assert rows_of(certificate)[f"reference-fractions.{precision}"].outcome in ("missed", "explained")


@pytest.mark.parametrize("teraflops", [18.5, 20.0, 24.0, 27.3])
def test_a_t4_at_70_w_is_accepted(teraflops: float) -> None:
    certificate = judged(machine_of("Tesla T4", {"float32": 4.2, "float16": teraflops}), shipped("server"))
    assert red(certificate) == []


@pytest.mark.parametrize("model", ["NVIDIA B200", "NVIDIA GH200 480GB", "NVIDIA Unheard-of 1"])
def test_without_a_reference_nothing_is_asked(model: str) -> None:
    certificate = judged(machine_of(model, {"float32": 1.0, "float16": 700.0}), shipped("server"))
    row = rows_of(certificate)["reference-fractions.float32"]
    assert (row.outcome, certificate.verdict) == ("not judged", "accepted")
    assert row.reason.startswith(f"no reference for {model}")
    assert row.measured == "GPU 0 1 TFLOP/s"


@pytest.mark.parametrize(("power_limit_w", "outcome"), [(60.0, "met"), (350.0, "missed")])
def test_less_of_the_peak_is_asked_of_a_board_with_little_power(power_limit_w: float, outcome: str) -> None:
    facts = machine_of("NVIDIA A2", {"float32": 4.0, "float16": 0.32 * 18}, power_limit_w=power_limit_w)
    assert rows_of(judged(facts, shipped("server")))["reference-fractions.float16"].outcome == outcome


def test_the_row_says_where_its_limit_comes_from() -> None:
    row = rows_of(judged(machine_of("NVIDIA A100-SXM4-40GB", {"float32": 18.0, "float16": 140.0}), shipped("server")))[
        "reference-fractions.float16"
    ]
    assert (row.outcome, row.measured) == ("missed", "GPU 0 140 TFLOP/s")
    assert row.reason.startswith(
        "GPU 0: at least 210.3 TFLOP/s, 75% of 280.4 TFLOP/s, matmul in float16, median, SuperBench"
    )
    assert "1,939 measured (https://github.com/microsoft/superbench-results)" in row.reason


def test_a_slice_of_a_gpu_has_its_share() -> None:
    facts = machine_of("NVIDIA A100-SXM4-40GB MIG 3g.20gb", {"float32": 7.0, "float16": 100.0})
    assert facts.stress
    (gpu,) = facts.stress.gpus
    slice_ = msgspec.structs.replace(gpu, multiprocessors=42, mig=True)
    facts = msgspec.structs.replace(facts, stress=msgspec.structs.replace(facts.stress, gpus=(slice_,)))
    assert rows_of(judged(facts, shipped("server")))["reference-fractions.float16"].outcome == "met"


def test_power_is_compared_with_what_is_asked_of_the_model(tmp_path: pathlib.Path) -> None:
    profile = profile_of('level = "deep"\n[checks]\nselect = ["GPU"]\n[reference-fractions]\npower = 0.75\n', tmp_path)
    facts = machine_of("NVIDIA L40S", {"float16": 200.0}, power_limit_w=300.0)
    row = rows_of(judged(facts, profile))["reference-fractions.power"]
    assert (row.outcome, row.measured.partition(";")[0]) == ("met", "GPU 0 297 W")
    unknown = machine_of("NVIDIA Unheard-of 1", {"float16": 200.0})
    row = rows_of(judged(unknown, profile))["reference-fractions.power"]
    assert (row.outcome, row.reason) == ("not judged", "no reference for NVIDIA Unheard-of 1 for power under load")


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html", "junit"])
def test_every_form_shows_what_was_not_judged(form: str) -> None:
    certificate = judged(machine_of("NVIDIA B200", {"float32": 60.0, "float16": 1500.0}), shipped("server"))
    document = render_certificate(certificate, form)
    assert "not judged" in document
    assert "NVIDIA B200" in document
