"""Which numbers of a node are compared with its peers: rates and times, each with what it belongs to."""

from __future__ import annotations

import ast
import pathlib
import random
from collections.abc import Iterator
from itertools import permutations

import msgspec
import pytest
from locations import ROOT
from made_up_fleet import MadeUpFleet
from stressed import SPEEDS, soak_rounds, speed, stress, stress_round, stressed_gpu

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.accept.quantities import QUANTITIES
from tfgpu_doctor.fleet.measurements import better_of, measurements_of
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import Measurement
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.bench import Bench, Metric
from tfgpu_doctor.model.facts.health import GpuHealth, NvLink
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressedGpu, StressTest, Transfer

H100 = "NVIDIA H100 80GB HBM3"
# Units of metrics that say nothing about the speed of a node, or whose better direction depends on the metric: sizes at which
# something begins to pay, amounts of memory, errors, counts, and ratios to another device or to one of several GPUs.
NOT_COMPARED = {
    "", "%", "% from float32", "% of the largest logit", "KiB", "MiB", "answers", "events", "kernels", "of 1", "of its size",
    "of its value", "of the allowed", "of {}", "results", "samples", "side", "steps", "times as fast",
    "times as fast as one after the other", "times as fast as on the GPU", "times as fast as prefetch",
    "times as fast as the CPU", "times as fast as this process", "times fewer", "times one GPU", "times one worker",
    "times smaller",
}  # fmt: skip


def written_units() -> Iterator[tuple[str, str]]:
    """The unit of every metric that the suites write, with its place."""
    for path in sorted((ROOT / "perf_tests").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "metric":
                unit = node.args[2]
                if isinstance(unit, ast.JoinedStr):
                    words = [str(each.value) if isinstance(each, ast.Constant) else "{}" for each in unit.values]
                    yield "".join(words), f"{path.name}:{node.lineno}"
                else:
                    assert isinstance(unit, ast.Constant), f"{path.name}:{node.lineno}"
                    yield str(unit.value), f"{path.name}:{node.lineno}"


def test_every_unit_of_the_suites_is_a_rate_or_a_time_or_is_known_not_to_be_compared() -> None:
    found = dict(written_units())
    assert {unit for unit in found if better_of(unit) is None} == NOT_COMPARED, found
    assert {unit: better_of(unit) for unit in found if better_of(unit)} == {
        "GB/s": "higher", "GFLOP/s": "higher", "TFLOP/s": "higher", "samples/s": "higher", "ms": "lower", "s": "lower",
        "us": "lower", "us/element": "lower",
    }  # fmt: skip


def of_bench(*metrics: Metric, name: str = H100) -> tuple[Measurement, ...]:
    gpus = (StressedGpu(index=0, name=name), StressedGpu(index=1, name=name))
    return measurements_of(Facts(bench=Bench(metrics=metrics), stress=StressTest("deep", gpus=gpus)))


def test_what_is_no_speed_is_no_measurement() -> None:
    """A smaller crossover is the better GPU, an error of 0.2 the better one, and neither has noise that a limit fits."""
    found = of_bench(
        Metric(suite="device_placement", name="crossover of matmul", value=512, unit="side", device="GPU:0"),
        Metric(suite="numerics", name="error of matmul", value=0.2, unit="of the allowed", device="GPU:0"),
        Metric(suite="memory_growth", name="largest piece", value=900, unit="MiB", device="GPU:0"),
        Metric(suite="device_placement", name="matmul 64", value=3.0, unit="times as fast as the CPU", device="GPU:0"),
        Metric(suite="device_placement", name="eager dispatch", value=9.0, unit="us", device="GPU:0"),
        Metric(suite="training", name="training of the cnn", value=4e4, unit="samples/s", device="GPU:0"),
    )
    assert {(each.name, each.better) for each in found} == {
        ("device_placement eager dispatch", "lower"), ("training training of the cnn", "higher"),
    }  # fmt: skip


def test_what_all_gpus_do_together_is_compared_among_nodes_with_these_gpus() -> None:
    """Not among all nodes with this CPU: those with slower GPUs would be suspects."""
    metric = Metric(suite="mirrored_strategy", name="all-reduce of 1 GiB", value=300, unit="GB/s", device="GPU")
    (found,) = of_bench(metric)
    assert (found.model, found.device) == (H100, "GPU")
    storage = Metric(suite="training", name="reading from storage", value=2.0, unit="GB/s")
    assert [each.model for each in of_bench(storage)] == [""]


def test_the_first_import_after_a_start_is_no_slow_node() -> None:
    """It reads some 2 GB of files: 30 s instead of 4 s, once, on every node that was repaired or updated."""
    answered = Attempt(outcome="answered", seconds=40.0)
    assert measurements_of(Facts(runtime=Runtime(attempt=answered, import_seconds=30.0))) == ()


# Routes between GPUs

L40S = "NVIDIA L40S"


def copied(chance: random.Random, slow: dict[tuple[int, int], float]) -> tuple[Measurement, ...]:
    """The copies between any two of 4 GPUs."""
    transfers = tuple(
        Transfer(
            source=f"GPU:{source}", destination=f"GPU:{destination}",
            gb_per_s=390 * slow.get((source, destination), 1.0) * (1 + chance.gauss(0, 0.005)),
        )
        for source, destination in permutations(range(4), 2)
    )  # fmt: skip
    gpus = tuple(StressedGpu(index=index, name=H100) for index in range(4))
    return measurements_of(Facts(stress=StressTest("deep", gpus=gpus, transfers=transfers)))


def copying(seed: int, slow: dict[tuple[int, int], float]) -> MadeUpFleet:
    """Eight nodes; n00003 has slow routes."""
    fleet, chance = MadeUpFleet(8), random.Random(seed)
    for name, node in fleet.nodes.items():
        node["measurements"] = copied(chance, slow if name == "n00003" else {})
    return fleet


def test_each_route_between_gpus_is_a_device_of_its_own() -> None:
    found = copied(random.Random(1), {})
    assert len({each.device for each in found}) == len(found) == 12
    assert {(each.name, each.model) for each in found} == {("copy GPU to GPU", H100)}
    assert "GPU:1 to GPU:2" in {each.device for each in found}


def test_a_route_that_is_slow_twice_is_bad_although_the_other_routes_of_its_gpu_are_well(
    tmp_path: pathlib.Path,
) -> None:
    copying(1, {(1, 2): 0.3}).write(tmp_path)
    copying(2, {(1, 2): 0.3}).write(tmp_path / "second", only={"n00003", "n00004"})
    found = merge(str(tmp_path))
    assert found.statuses["bad"] == ("n00003",)
    assert [each.device for each in found.suspects] == ["GPU:1 to GPU:2"]


def test_another_slow_route_in_the_retest_is_not_the_same_trouble(tmp_path: pathlib.Path) -> None:
    copying(1, {(1, 2): 0.3}).write(tmp_path)
    copying(2, {(1, 3): 0.3}).write(tmp_path / "second", only={"n00003", "n00004"})
    found = merge(str(tmp_path))
    assert (found.statuses["bad"], found.statuses["suspect"]) == ((), ("n00003",))


def test_a_route_is_compared_with_its_own_earlier_runs(tmp_path: pathlib.Path) -> None:
    """One route of GPU 1 is slow for good on every node; earlier runs measured it and another one last."""

    def fleet(seed: int, routes: int) -> MadeUpFleet:
        made = copying(seed, {})
        for node in made.nodes.values():
            node["measurements"] = [
                msgspec.structs.replace(each, value=each.value * (0.5 if place == 3 else 1))
                for place, each in enumerate(node["measurements"][:routes])
            ]
        return made

    for run in range(3):
        fleet(run, 5 + run % 2).write(tmp_path / f"run{run}")
    fleet(9, 12).write(tmp_path / "now")
    found = merge(str(tmp_path / "now"), history=[str(tmp_path / f"run{run}") for run in range(3)])
    assert [each for each in found.suspects if each.against == "own history"] == []
    assert found.changes == ()


def machine(chance: random.Random, *, switched: bool = False, known: bool = True) -> Facts:
    """Eight GPUs, four at each processor; without NVSwitches, the copies between these take twice as long."""
    link = NvLink(index=0, active=True, remote="switch")
    boards = tuple(
        NvmlGpu(
            index=index, name=L40S, uuid=f"GPU-{index}", pci_address=f"00000000:{index + 1:02X}:00.0",
            health=GpuHealth(nvlinks=(link,) if switched else ()),
        )
        for index in range(8)
    )  # fmt: skip
    devices = tuple(
        PciDevice(
            address=f"0000:{index + 1:02x}:00.0", vendor="10de", device="26b9", class_code="030200",
            numa_node=index // 4 if known else None,
        )
        for index in range(8)
    )  # fmt: skip
    transfers = tuple(
        Transfer(
            source=f"GPU:{index}", destination=f"GPU:{(index + 1) % 8}",
            gb_per_s=(25 if index % 4 != 3 or switched else 13) * (1 + chance.gauss(0, 0.01)),
        )
        for index in range(8)
    )  # fmt: skip
    gpus = tuple(StressedGpu(index=index, name=L40S, uuid=f"GPU-{index}") for index in range(8))
    return Facts(
        pci=Pci(devices=devices), nvml=Nvml(attempt=Attempt(outcome="answered", seconds=1.0), gpus=boards),
        stress=StressTest("deep", gpus=gpus, transfers=transfers),
    )  # fmt: skip


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_a_route_between_processors_is_compared_with_its_like(tmp_path: pathlib.Path, nodes: int) -> None:
    """So few nodes are healthy machines, and two of their eight routes are half as fast as the others."""
    fleet, chance = MadeUpFleet(nodes), random.Random(nodes)
    for node in fleet.nodes.values():
        node["measurements"] = measurements_of(machine(chance))
    fleet.write(tmp_path)
    found = merge(str(tmp_path))
    assert (found.exit_code, found.suspects) == (0, ())
    assert {each.measurement: each.values for each in found.series} == {
        "copy GPU to GPU": 6 * nodes, "copy GPU to GPU between NUMA nodes": 2 * nodes,
    }  # fmt: skip


@pytest.mark.parametrize("options", [{"switched": True}, {"known": False}])
def test_where_all_routes_are_alike_or_nothing_is_known_they_are_one_measurement(options: dict[str, bool]) -> None:
    assert {each.name for each in measurements_of(machine(random.Random(1), **options))} == {"copy GPU to GPU"}


def test_the_speed_of_a_gpu_that_warms_up_is_the_one_that_accept_judges() -> None:
    """A bound that `fleet learn` takes from it would otherwise refuse the nodes that taught it."""
    warm = tuple(speed(name, teraflops=0.88 * usual) for name, usual in SPEEDS.items())
    broken_off = (speed("float16", teraflops=999.0, finite=False), speed("float16", teraflops=999.0, error="lost"))
    rounds = (*soak_rounds(3, speeds=warm), stress_round(speeds=(*warm, *broken_off)))
    test = stress(stressed_gpu(rounds=rounds), level="soak")
    found = {each.name: each.value for each in measurements_of(Facts(stress=test))}
    judged = {name: QUANTITIES[name].values(test) for name in SPEEDS}
    assert {name: {"GPU 0": found[f"{name} matrix product"]} for name in SPEEDS} == judged
    assert found["float16 matrix product"] == pytest.approx(56.32)
