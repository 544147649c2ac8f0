"""The programs that train on several replicas: each replica's values lie on its device, and readings are long enough."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from installed import skip_without_scipy, skip_without_tensorflow
from locations import TESTS
from stand_in_hardware import MEMORY_MIB
from stand_in_run import run_on_stand_in, write_placeholder

from tfgpu_doctor.accept.rules_units import largest_all_reduce
from tfgpu_doctor.fleet.tf_config import TfConfig
from tfgpu_doctor.perf_tests.children import children
from tfgpu_doctor.perf_tests.clusters import Workers
from tfgpu_doctor.perf_tests.peers import free_addresses
from tfgpu_doctor.perf_tests.timing import LEAST_READING_S
from tfgpu_doctor.perf_tests.variables import BUSY_VARIABLE

skip_without_tensorflow()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
REPLICAS, KIB = {"replicas": 2, "batch": 128}, 1 << 10


def on_gpus(folder: pathlib.Path, count: int, **more: str) -> dict[str, str]:
    """The variables of a process on a machine with that many GPUs."""
    path = os.pathsep.join([str(write_placeholder(folder, count)), str(TESTS / "support")])
    return {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count))), **more}


def test_each_value_lies_on_the_device_of_its_replica(tmp_path: pathlib.Path) -> None:
    with children("replicate", (REPLICAS, on_gpus(tmp_path / "two", 2))) as (child,):
        assert child.ready["kind"] == "GPU"
        assert child.ask(f"all-reduce {64 * KIB}").values["devices"] == ["GPU:0", "GPU:1"]


def test_gradients_are_compared_without_tf32(tmp_path: pathlib.Path) -> None:
    with children("replicate", (REPLICAS, on_gpus(tmp_path / "two", 2))) as (child,):
        assert child.ask("check").values["tf32"] is False


@pytest.mark.parametrize("free_mib", [3000, MEMORY_MIB])
def test_parts_of_one_gpu_fit_into_its_free_memory(tmp_path: pathlib.Path, free_mib: int) -> None:
    """As on a GPU with 4 GB of which a desktop holds some."""
    variables = on_gpus(tmp_path / "one", 1)
    (tmp_path / "one/memory/1").write_text(json.dumps({"0": MEMORY_MIB - free_mib}))
    with children("replicate", (REPLICAS, variables)) as (child,):
        assert child.ready["kind"] == "parts of one GPU"
        part_mib = child.ready["part_mib"]
        assert 0 < 2 * part_mib <= min(4096, free_mib // 2)
        assert 0 < child.ready["most_bytes"] <= part_mib << 17  # an eighth
        assert child.ask(f"all-reduce {256 * KIB}").values["seconds"] > 0


def test_workers_with_several_gpus_each(tmp_path: pathlib.Path) -> None:
    cluster = tuple(free_addresses(2))
    configs = [TfConfig(cluster={"worker": cluster}, role="worker", index=place).text for place in (0, 1)]
    variables = on_gpus(tmp_path / "two", 2)
    none: dict[str, bool] = {}
    orders = [(none, {**variables, "TF_CONFIG": config}) for config in configs]
    with children("join_cluster", *orders) as started:
        both = Workers(started, 2, spans=False)
        assert both.replicas == 4
        for seen in both.ask("all-reduce"):
            assert set(map(tuple, seen["devices"].values())) == {("GPU:0", "GPU:1")}
            assert (
                min(seen["reading_s"].values()) >= LEAST_READING_S / 2
            )  # what all workers read on average is not shorter
        for seen in [started[0].ask("alone").values, *both.ask("together")]:
            assert seen["reading_s"] >= LEAST_READING_S / 2


def test_gpus_that_others_use_are_not_loaded(tmp_path: pathlib.Path) -> None:
    skip_without_scipy()
    busy = {BUSY_VARIABLE: json.dumps({"GPU:1": "a game (7) computes on it"})}
    suites = ["mirrored_strategy", "multi_worker"]
    bench = run_on_stand_in(tmp_path, 2, suites, only="all_reduce and not 4", variables=busy)
    assert not bench.failed
    assert list(bench.skipped) == ["test_mirrored_strategy.py::test_all_reduce"]
    assert {each.device for each in bench.metrics} == {"CPU"}


def test_parts_of_one_gpu_are_no_link_that_a_profile_asks_for(tmp_path: pathlib.Path) -> None:
    skip_without_scipy()
    bench = run_on_stand_in(tmp_path, 1, ["mirrored_strategy"], only="all_reduce")
    assert [each.device for each in bench.metrics] == ["parts of one GPU"]
    assert largest_all_reduce(bench) == []
