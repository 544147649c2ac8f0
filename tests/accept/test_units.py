"""Requirements in units: amounts, spreads, and what is refused with which words."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
import pytest
from healthy import healthy
from judged import bench, comparison, judged, profile_of, red, rows_of, shipped
from of_models import WON, machine_of
from stressed import left_alone, readings, speed, stress, stress_round, stressed_gpu, transfer, transfers, under_stress

from tfgpu_doctor.accept.amounts import amount_of
from tfgpu_doctor.accept.rules_suites import suites_due
from tfgpu_doctor.accept.vocabulary import ProfileError, all_reduces
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Metric

DEEP = "level = 'deep'\n[checks]\nselect = ['GPU']\n"
TWO = {"float16": 280.0}


def on_two(**changes: Any) -> Facts:
    """Two GPUs that differ by 4 % in speed, the second on a slower link."""
    speeds = [stress_round(speeds=(speed("float16", teraflops=each),)) for each in (280.0, 268.8)]
    gpus = (stressed_gpu(0, rounds=(speeds[0],)), stressed_gpu(1, rounds=(speeds[1],)))
    slow = transfer("host", "GPU:1", gb_per_s=12.1)
    copies = tuple(each for each in transfers(0, 1) if (each.source, each.destination) != ("host", "GPU:1"))
    return under_stress(stress(*gpus, **{"transfers": (*copies, slow), **changes}))


def all_reduce(size: str, value: float, device: str = "GPU") -> Metric:
    return Metric(suite="mirrored_strategy", name=f"all-reduce of {size}", value=value, unit="GB/s", device=device)


def trained(value: float, device: str = "GPU:0", **changes: Any) -> Metric:
    fields = {"suite": "training", "name": "training cnn", "value": value, "unit": "samples/s", "device": device}
    return Metric(**{**fields, **changes})


def by(toml: str, facts: Facts, folder: pathlib.Path) -> dict[str, Any]:
    return rows_of(judged(facts, profile_of(toml, folder)))


@pytest.mark.parametrize(
    ("toml", "key", "outcome", "measured"),
    [
        ("[metrics]\nhost-to-device = '>= 24 GB/s'", "metrics.host-to-device", "missed", "GPU 0 25.3 GB/s, GPU 1 12.1 GB/s"),
        ("[metrics]\nhost-to-device = '>= 12 GB/s'", "metrics.host-to-device", "met", "GPU 0 25.3 GB/s, GPU 1 12.1 GB/s"),
        ("[metrics]\ndevice-to-host = '>= 25.3 GB/s'", "metrics.device-to-host", "met", "GPU 0 25.3 GB/s, GPU 1 25.3 GB/s"),
        ("[metrics]\ndevice-to-device = '>=11.1 GB/s'", "metrics.device-to-device", "missed", "GPU 0 to GPU 1 11 GB/s, GPU 1 to GPU 0 11 GB/s"),
        ("[metrics]\nfloat16 = '>= 270 TFLOP/s'", "metrics.float16", "missed", "GPU 0 280 TFLOP/s, GPU 1 268.8 TFLOP/s"),
        ("[metrics]\npower = '<= 350 W'", "metrics.power", "met", "GPU 0 348 W, GPU 1 348 W"),
        ("[metrics]\npower = '>= 349 W'", "metrics.power", "missed", "GPU 0 348 W, GPU 1 348 W"),
        ("[spreads]\nfloat16 = '<= 5 %'", "spreads.float16", "met", "4.0 %: GPU 0 280 TFLOP/s, GPU 1 268.8 TFLOP/s"),
        ("[spreads]\nfloat16 = '<= 3.9%'", "spreads.float16", "missed", "4.0 %: GPU 0 280 TFLOP/s, GPU 1 268.8 TFLOP/s"),
        ("[spreads]\nhost-to-device = '<= 10 %'", "spreads.host-to-device", "missed", "52.2 %: GPU 0 25.3 GB/s, GPU 1 12.1 GB/s"),
    ],
)  # fmt: skip
def test_what_the_stress_test_measures(
    toml: str, key: str, outcome: str, measured: str, tmp_path: pathlib.Path
) -> None:
    row = by(DEEP + toml, on_two(), tmp_path)[key]
    assert (row.outcome, row.measured) == (outcome, measured)
    assert row.profile == "mine.toml"


def test_the_row_says_what_is_required(tmp_path: pathlib.Path) -> None:
    rows = by(DEEP + "[metrics]\nhost-to-device = '>= 24 GB/s'\n[spreads]\nfloat16 = '<= 5 %'", on_two(), tmp_path)
    assert rows["metrics.host-to-device"].required == "at least 24 GB/s on every GPU"
    assert rows["spreads.float16"].required == "at most 5 % of the fastest, among the GPUs"


def test_pageable_memory_says_nothing_about_the_link(tmp_path: pathlib.Path) -> None:
    pageable = tuple(each for each in transfers(0, 1) if each.host_memory != "pinned")
    row = by(DEEP + "[metrics]\nhost-to-device = '>= 1 GB/s'", on_two(transfers=pageable), tmp_path)[
        "metrics.host-to-device"
    ]
    assert (row.outcome, row.reason) == (
        "not measured", "GPU 0: no copy from pinned memory was timed; GPU 1: no copy from pinned memory was timed"
    )  # fmt: skip


def test_a_copy_that_arrives_changed_has_no_speed(tmp_path: pathlib.Path) -> None:
    changed = tuple(msgspec.structs.replace(each, mismatches=3) for each in transfers(0, 1))
    row = by(DEEP + "[metrics]\ndevice-to-device = '>= 1 GB/s'", on_two(transfers=changed), tmp_path)[
        "metrics.device-to-device"
    ]
    assert row.outcome == "not measured"


def test_one_pair_without_a_speed_is_no_pass(tmp_path: pathlib.Path) -> None:
    broken = tuple(
        msgspec.structs.replace(each, error="no peer access", copies=0) if each.source == "GPU:1" else each
        for each in transfers(0, 1)
    )
    toml = DEEP + "[metrics]\ndevice-to-device = '>= 1 GB/s'"
    row = by(toml, on_two(transfers=broken), tmp_path)["metrics.device-to-device"]
    assert (row.outcome, row.reason) == ("not measured", "GPU 1 to GPU 0: no copy between two GPUs was timed")


def copied(gpus: int, steps: int, gb_per_s: float = 200.0) -> Facts:
    """GPUs in a ring, each of which copied to the next `steps` ones before the time was over."""
    ring = [
        transfer(f"GPU:{place}", f"GPU:{(place + step) % gpus}", host_memory="", gb_per_s=gb_per_s)
        for step in range(1, steps + 1)
        for place in range(gpus)
    ]
    with_host = [each for each in transfers(*range(gpus)) if "host" in (each.source, each.destination)]
    return under_stress(stress(*map(stressed_gpu, range(gpus)), transfers=(*with_host, *ring)))


@pytest.mark.parametrize(
    ("gpus", "steps", "told"),
    [
        (2, 1, "GPU 0 to GPU 1 200 GB/s, GPU 1 to GPU 0 200 GB/s"),
        (4, 1, " (4 of 12 routes; no time was left for the other 8)"),
        (4, 3, "200 GB/s (GPU 0 to GPU 1) to 200 GB/s (GPU 0 to GPU 1)"),
        (8, 1, " (8 of 56 routes; no time was left for the other 48)"),
        (8, 7, "200 GB/s (GPU 0 to GPU 1) to 200 GB/s (GPU 0 to GPU 1)"),
    ],
)
def test_copies_between_gpus_say_how_many_of_the_routes_had_time(
    gpus: int, steps: int, told: str, tmp_path: pathlib.Path
) -> None:
    toml = DEEP + "[metrics]\ndevice-to-device = '>= 190 GB/s'\n[spreads]\ndevice-to-device = '<= 5 %'"
    rows = by(toml, copied(gpus, steps), tmp_path)
    row = rows["metrics.device-to-device"]
    assert (row.outcome, row.required) == ("met", "at least 190 GB/s on every route between GPUs that was copied over")
    assert row.measured.endswith(told)
    assert rows["spreads.device-to-device"].measured.endswith(told)


def test_a_slow_route_among_those_that_had_time_is_missed(tmp_path: pathlib.Path) -> None:
    facts = copied(8, 1)
    assert facts.stress
    slow = msgspec.structs.replace(facts.stress.transfers[-1], gb_per_s=40.0)
    found = msgspec.structs.replace(facts.stress, transfers=(*facts.stress.transfers[:-1], slow))
    row = by(
        DEEP + "[metrics]\ndevice-to-device = '>= 190 GB/s'", msgspec.structs.replace(facts, stress=found), tmp_path
    )["metrics.device-to-device"]
    assert row.outcome == "missed"
    assert "GPU 7 to GPU 0 40 GB/s (8 of 56 routes" in row.measured


def test_a_gpu_that_no_other_copied_to_is_no_pass(tmp_path: pathlib.Path) -> None:
    """The copies ended before each GPU had sent and received."""
    facts = copied(4, 1)
    assert facts.stress
    found = msgspec.structs.replace(facts.stress, transfers=facts.stress.transfers[:-1], transfers_error="it died")
    row = by(
        DEEP + "[metrics]\ndevice-to-device = '>= 190 GB/s'", msgspec.structs.replace(facts, stress=found), tmp_path
    )["metrics.device-to-device"]
    assert (row.outcome, row.reason) == (
        "not measured",
        "no copy from GPU 3 to another GPU was timed; no copy from another GPU to GPU 0 was timed",
    )


def test_one_gpu_without_a_value_is_no_pass(tmp_path: pathlib.Path) -> None:
    silent = stressed_gpu(1, rounds=(stress_round(readings=readings(power_w=None)),))
    row = by(DEEP + "[metrics]\npower = '>= 100 W'", under_stress(stress(stressed_gpu(0), silent)), tmp_path)[
        "metrics.power"
    ]
    assert (row.outcome, row.reason) == ("not measured", "GPU 1: NVML did not report the power")


@pytest.mark.parametrize("facts", [healthy(), under_stress(stress(stressed_gpu(0), left_alone(1)))])
def test_without_a_stress_test_of_every_gpu_nothing_passes(facts: Facts, tmp_path: pathlib.Path) -> None:
    toml = (
        DEEP
        + "[reference-fractions]\nfloat32 = 0.1\n[metrics]\nfloat32 = '>= 1 TFLOP/s'\n[spreads]\nfloat32 = '<= 99 %'"
    )
    certificate = judged(facts, profile_of(toml, tmp_path))
    rows = rows_of(certificate)
    assert red(certificate) == ["level"]
    for key in ("reference-fractions.float32", "metrics.float32", "spreads.float32"):
        assert (rows[key].outcome, rows[key].explained_by) == ("explained", ("level",))


def test_one_gpu_has_no_spread(tmp_path: pathlib.Path) -> None:
    certificate = judged(under_stress(), profile_of(DEEP + "[spreads]\nfloat32 = '<= 5 %'", tmp_path))
    row = rows_of(certificate)["spreads.float32"]
    assert (row.outcome, row.reason) == ("not judged", "there is only one GPU: a spread needs two")
    assert certificate.verdict == "accepted"


SUITES = (
    "suites = ['training']\nsuites-of-several-gpus = ['mirrored_strategy']\n[checks]\nselect = ['GPU']\n[metrics]\n"
)


@pytest.mark.parametrize(
    ("toml", "metrics", "key", "outcome", "measured"),
    [
        ("'training/training cnn' = '>= 9000 samples/s'", (trained(9100.0), trained(40.0, "CPU:0")), "training/training cnn", "met", "9,100 samples/s on GPU:0 of 2"),
        ("'training/training cnn' = '>= 9000 samples/s'", (trained(8900.0),), "training/training cnn", "missed", "8,900 samples/s on GPU:0 of 2"),
        ("'training/training cnn' = '>= 9000 samples/s'", (trained(9100.0), trained(8000.0, "GPU:1")), "training/training cnn", "missed", "9,100 samples/s on GPU:0, 8,000 samples/s on GPU:1"),
        ("all-reduce = '>= 230 GB/s'", (all_reduce("256 MiB", 229.0), all_reduce("17 MiB", 90.0)), "mirrored_strategy/all-reduce", None, None),
        ("all-reduce = '>= 230 GB/s'", (all_reduce("1024 MiB", 232.0), all_reduce("2 MiB", 40.0)), "mirrored_strategy/all-reduce", "met", "232 GB/s on GPU (all-reduce of 1024 MiB)"),
        ("all-reduce = '>= 230 GB/s'", (all_reduce("128 MiB", 199.0), all_reduce("2 MiB", 400.0)), "mirrored_strategy/all-reduce", "missed", "199 GB/s on GPU (all-reduce of 128 MiB)"),
    ],
)  # fmt: skip
def test_what_suites_measure(
    toml: str, metrics: tuple[Metric, ...], key: str, outcome: str | None, measured: str | None, tmp_path: pathlib.Path
) -> None:
    facts = msgspec.structs.replace(on_two(), bench=bench(*WON, metrics=metrics))
    row = by(SUITES + toml, facts, tmp_path)[f"metrics.{key}"]
    if outcome is None:  # no size of the table: nothing is guessed
        assert row.outcome == "not measured"
    else:
        assert (row.outcome, row.measured) == (outcome, measured)


def test_replicas_on_a_cpu_use_no_link(tmp_path: pathlib.Path) -> None:
    size = all_reduces()[-1].removeprefix("all-reduce of ")
    together = comparison("mirrored_strategy", "against_cpu")
    facts = msgspec.structs.replace(on_two(), bench=bench(*WON, together, metrics=(all_reduce(size, 999.0, "CPU"),)))
    assert (
        by(SUITES + "all-reduce = '>= 1 GB/s'", facts, tmp_path)["metrics.mirrored_strategy/all-reduce"].outcome
        == "not measured"
    )


def test_what_no_suite_measured_is_explained_by_the_suite(tmp_path: pathlib.Path) -> None:
    facts = msgspec.structs.replace(on_two(), bench=bench(comparison()))
    certificate = judged(facts, profile_of(SUITES + "'training/training cnn' = '>= 1 samples/s'", tmp_path))
    row = rows_of(certificate)["metrics.training/training cnn"]
    assert (row.outcome, row.explained_by) == ("explained", ("suites.training",))


def test_another_unit_is_not_compared(tmp_path: pathlib.Path) -> None:
    facts = msgspec.structs.replace(on_two(), bench=bench(*WON, metrics=(trained(9100.0, unit="ms"),)))
    row = by(SUITES + "'training/training cnn' = '>= 9000 samples/s'", facts, tmp_path)["metrics.training/training cnn"]
    assert (row.outcome, row.reason) == ("not measured", "it was measured in ms")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[metrics]\nhost_to_device = '>= 24 GB/s'", "metrics: there is no metric with a unit 'host_to_device'; did you mean host-to-device?"),
        ("[metrics]\nhost-to-device = '24 GB/s'", "metrics.\"host-to-device\": '24 GB/s' is not a limit with a unit; write \">= 24 GB/s\""),
        ("[metrics]\nhost-to-device = '>= 24 MB/s'", "metrics.\"host-to-device\": it is measured in GB/s, not in MB/s; write \">= 24 GB/s\""),
        ("[metrics]\nhost-to-device = 24", "metrics.\"host-to-device\": Expected `str`, got `int`"),
        ("[metrics]\n'training/training cn' = '>= 1 samples/s'", "metrics: there is no metric with a unit 'training/training cn'; did you mean training/training cnn?"),
        ("[metrics]\n'training/training cnn' = '>= 1 samples/s'", "metrics: 'training/training cnn' is measured by the suite 'training': add it to `suites`"),
        ("[metrics]\nall-reduce = '>= 230 GB/s'", "metrics: 'all-reduce' is measured by the suite 'mirrored_strategy': add it to `suites`"),
        ("[metrics]\npower = '>= 300 W'", "metrics: the stress test measures them, but level is 'standard': deep or soak is required"),
        ("[spreads]\nfloat16 = '>= 5 %'", "spreads.\"float16\": a spread has an upper limit: write \"<= 5 %\""),
        ("[spreads]\nfloat16 = '<= 5 GB/s'", "spreads.\"float16\": it is measured in %, not in GB/s; write \"<= 5 %\""),
        ("[spreads]\nfp16 = '<= 5 %'", "spreads: there is no quantity of the stress test 'fp16'; did you mean float16?"),
        ("[spreads]\nfloat16 = '<= 5 %'", "spreads: the stress test measures them, but level is 'standard': deep or soak is required"),
        ("[reference-fractions]\ndevice-to-device = 0.5", "reference-fractions: there is no quantity with references 'device-to-device'"),
        ("[reference-fractions]\nfloat16 = 75", "reference-fractions.\"float16\": Expected `float` <= 1.0"),
        ("suites-of-several-gpus = ['mirored']", "suites-of-several-gpus: there is no suite 'mirored'; did you mean mirrored_strategy?"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(toml: str, said: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProfileError) as caught:
        profile_of(toml, tmp_path)
    assert str(caught.value).startswith(f"mine.toml: {said}")


@pytest.mark.parametrize(
    "text", ["", ">=", ">= GB/s", "> 3 GB/s", ">= -3 GB/s", ">= 3", ">= 1e3 GB/s", ">= inf GB/s", "= 3 %"]
)
def test_what_is_no_amount(text: str) -> None:
    assert amount_of(text) is None


def test_the_own_suite_names_its_own_units(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_ingest.py").write_text("")
    own = tmp_path / "test_ingest.py"
    toml = f"suites = ['{own}']\n[checks]\nselect = ['GPU']\n[metrics]\n'ingest/rows' = '>= 5000 rows/s'"
    rows = Metric(suite="ingest", name="rows", value=5200.0, unit="rows/s", device="")
    row = by(toml, msgspec.structs.replace(healthy(), bench=bench(metrics=(rows,))), tmp_path)["metrics.ingest/rows"]
    assert (row.outcome, row.measured) == ("met", "5,200 rows/s")


def test_suites_of_several_gpus_are_asked_of_several_gpus_alone() -> None:
    server = shipped("server")
    one = machine_of("NVIDIA A100-SXM4-40GB", TWO)
    two = machine_of("NVIDIA A100-SXM4-40GB", {"float32": 18.0, "float16": 280.0}, 2)
    assert "suites.mirrored_strategy" not in rows_of(judged(one, server))
    assert red(judged(two, server)) == ["suites.mirrored_strategy"]
    assert two.bench
    measured = msgspec.structs.replace(two.bench, metrics=(all_reduce(all_reduces()[-1][14:], 230.0),))
    certificate = judged(msgspec.structs.replace(two, bench=measured), server)
    assert (certificate.verdict, rows_of(certificate)["suites.mirrored_strategy"].profile) == ("accepted", "server")


def test_suites_of_several_nodes_are_asked_in_a_job_across_nodes_alone() -> None:
    node = shipped("cluster-node").profile
    facts = machine_of("NVIDIA A100-SXM4-40GB", TWO)
    assert facts.bench
    assert "multi_worker" not in suites_due(node, facts)
    assert suites_due(node, facts, several_nodes=True)["multi_worker"] == "suites-of-several-nodes"
    failed = msgspec.structs.replace(facts.bench, failed={"test_multi_worker.py::test_gradients[2]": "a worker died"})
    assert "multi_worker" in suites_due(node, msgspec.structs.replace(facts, bench=failed))


@pytest.mark.parametrize(
    "run",
    [
        {"skipped": {"test_made_up.py::test_long": "the time budget of 60 s ended while it ran"}},
        {"skipped": {"all tests": "the time budget of 60 s ended before the first test"}},
        {"problems": ("pytest ended with exit code 4: no such file",)},
        {},
    ],
)
def test_a_suite_of_several_nodes_that_was_ordered_and_measured_nothing_is_not_accepted(
    run: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    toml = 'suites-of-several-nodes = ["multi_worker"]\n[checks]\nselect = ["GPU"]'
    ordered = bench(suites=("multi_worker",), **run)
    certificate = judged(msgspec.structs.replace(healthy(), bench=ordered), profile_of(toml, tmp_path))
    assert red(certificate) == ["suites.multi_worker"]
    assert (certificate.verdict, certificate.exit_code) == ("not accepted", 1)
    row = rows_of(certificate)["suites.multi_worker"]
    assert (row.outcome, row.profile) == ("missed" if "problems" in run else "not measured", "mine.toml")
