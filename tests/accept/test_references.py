"""What GPUs of each model reached decides what the profile `server` asks of one; where nobody knows, it asks nothing."""

from __future__ import annotations

import pathlib

import msgspec
import pytest
from every import every
from healthy import broken, nvml_gpu
from judged import bench, judged, profile_of, red, rows_of, shipped
from of_models import KNOWLEDGE, WON, machine_of

from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.knowledge.references import MATMUL, sustained_speed
from tfgpu_doctor.knowledge.schema import GpuModel
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Comparison, Metric, Side
from tfgpu_doctor.model.facts.health import GpuHealth, Power

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


# A power limit below its default


def capped(limit_w: float, count: int = 1, **speeds: float) -> Facts:
    """H100s whose power is limited; 700 W are their default."""
    facts = machine_of(
        "NVIDIA H100 80GB HBM3", {"float32": 50.0, "float16": 700.0, **speeds}, count, power_limit_w=700.0
    )
    assert facts.stress
    gpus = tuple(msgspec.structs.replace(each, power_limit_w=limit_w) for each in facts.stress.gpus)
    return msgspec.structs.replace(facts, stress=msgspec.structs.replace(facts.stress, gpus=gpus))


LOW = "the power limit of GPU 0 is 400 of 700 W"


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("[reference-fractions]\nfloat16 = 0.75", "reference-fractions.float16"),
        ("[peak-fractions]\nfloat16 = 0.5", "peak-fractions.float16"),
        ("[metrics]\nfloat16 = '>= 600 TFLOP/s'", "metrics.float16"),
        ("suites = ['device_placement']\n[metrics]\n'device_placement/matmul 8192 in float16' = '>= 600 TFLOP/s'", "metrics.device_placement/matmul 8192 in float16"),
        ("suites = ['device_placement']\n[metric-fractions]\n'device_placement/matmul 8192 in float16' = 0.7", "metric-fractions.device_placement/matmul 8192 in float16"),
    ],
)  # fmt: skip
def test_a_row_that_is_missed_names_a_lowered_power_limit(toml: str, key: str, tmp_path: pathlib.Path) -> None:
    profile = profile_of(f"level = 'deep'\n{toml}\n[checks]\nselect = ['GPU']\n", tmp_path)
    product = Metric(
        suite="device_placement",
        name="matmul 8192 in float16",
        value=400.0,
        unit="TFLOP/s",
        device="GPU:0",
        limit=989.4,
    )
    for limit_w, said in ((400.0, True), (700.0, False), (699.9, False)):
        facts = capped(limit_w, float16=400.0)
        row = rows_of(judged(msgspec.structs.replace(facts, bench=bench(*WON, metrics=(product,))), profile))[key]
        assert row.outcome in ("missed", "explained")
        assert (LOW in row.measured) == said
        assert ("require less in the profile" in row.reason) == said


def test_a_row_that_is_met_does_not_name_it() -> None:
    row = rows_of(judged(capped(400.0), shipped("server")))["reference-fractions.float16"]
    assert (row.outcome, "power limit" in row.measured) == ("met", False)


def test_eight_gpus_with_one_limit_are_named_once_and_what_is_asked_of_them_too() -> None:
    row = rows_of(judged(capped(400.0, 8, float16=300.0), shipped("server")))["reference-fractions.float16"]
    every_gpu = ", ".join(f"GPU {index}" for index in range(8))
    assert row.measured.endswith(f"the power limit of {every_gpu} is 400 of 700 W")
    assert row.reason.startswith(f"{every_gpu}: at least ")
    assert row.reason.endswith("require less in the profile")


def test_copies_do_not_depend_on_the_power_limit(tmp_path: pathlib.Path) -> None:
    profile = profile_of(
        "level = 'deep'\n[checks]\nselect = ['GPU']\n[metrics]\nhost-to-device = '>= 99 GB/s'", tmp_path
    )
    row = rows_of(judged(capped(400.0), profile))["metrics.host-to-device"]
    assert (row.outcome, row.measured, row.reason) == ("missed", "GPU 0 25.3 GB/s", "")


def test_without_a_stress_test_the_limit_is_the_one_that_nvml_reads(tmp_path: pathlib.Path) -> None:
    health = GpuHealth(power=Power(enforced_limit_w=250.0, limit_w=350.0, default_limit_w=350.0))
    trained = Metric(suite="training", name="training cnn", value=900.0, unit="samples/s", device="GPU:0")
    facts = broken(nvml={"gpus": (nvml_gpu(health=health),)})
    facts = msgspec.structs.replace(facts, bench=bench(metrics=(trained,)))
    toml = "suites = ['training']\n[checks]\nselect = ['GPU']\n[metrics]\n'training/training cnn' = '>= 1000 samples/s'"
    row = rows_of(judged(facts, profile_of(toml, tmp_path)))["metrics.training/training cnn"]
    assert (row.outcome, row.measured) == (
        "missed", "900 samples/s on GPU:0; the power limit of GPU 0 is 250 of 350 W"
    )  # fmt: skip


# The host's CPUs


def lost_to(cpus: float, each: Comparison) -> Comparison:
    """A comparison of the GPU with the CPUs of its host, which are so many times as fast."""
    ratio = 1 / cpus
    return msgspec.structs.replace(
        each, ratio=ratio, interval=(0.96 * ratio, 1.04 * ratio), verdict="faster" if ratio > 1 else "slower",
        candidate=Side(name="on the GPU", device="GPU:0"), baseline=Side(name="on the CPU", device="CPU:0"),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["server", "cluster-node"])
@pytest.mark.parametrize("cpus", [0.8, 2.0])
@pytest.mark.parametrize(("float16", "accepted"), [(700.0, True), (300.0, False)])
def test_a_gpu_is_not_refused_because_its_host_has_many_cpus(
    name: str, cpus: float, float16: float, accepted: bool
) -> None:
    """224 CPUs compute a batch nearly as fast as the GPU, or faster. What the GPU itself reaches decides."""
    products = tuple(
        Metric(suite="device_placement", name=f"matmul 8192 in {precision}", value=value, unit="TFLOP/s", device="GPU:0", limit=limit)
        for precision, value, limit in (("float32", 50.0, 66.9), ("float16", float16, 989.4))
    )  # fmt: skip
    facts = capped(700.0, float16=float16)
    assert facts.stress
    (gpu,) = facts.stress.gpus
    rounds = msgspec.structs.replace(gpu, rounds=gpu.rounds * 21)  # of 43 s each
    found = msgspec.structs.replace(facts.stress, level="soak", seconds=940.0, gpus=(rounds,))
    run = bench(*(lost_to(cpus, each) for each in WON), metrics=products)
    certificate = judged(msgspec.structs.replace(facts, level="soak", stress=found, bench=run), shipped(name))
    assert (certificate.verdict == "accepted") == accepted, red(certificate)


def test_only_the_workstation_must_beat_its_cpu() -> None:
    assert shipped("workstation").profile.speed_ups
    assert not shipped("server").profile.speed_ups
    assert not shipped("cluster-node").profile.speed_ups
