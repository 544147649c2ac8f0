"""The cluster of the suite multi_worker: what cannot come up is told and not waited for; a job's processes find each other."""

from __future__ import annotations

import pathlib
import random
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
from doctor_command import clean_environment
from installed import skip_without_tensorflow

from tfgpu_doctor.bench.names import SUITES
from tfgpu_doctor.fleet.tf_config import TfConfig
from tfgpu_doctor.perf_tests import peers
from tfgpu_doctor.perf_tests.children import ANSWER_S, ChildDied, children
from tfgpu_doctor.perf_tests.clusters import BadCluster, job_around, workers
from tfgpu_doctor.perf_tests.peers import free_addresses, look


def config(*addresses: str, index: int) -> TfConfig:
    return TfConfig(cluster={"worker": addresses}, role="worker", index=index)


def port() -> str:
    return free_addresses(1)[0].rpartition(":")[2]


def test_no_port_that_an_outgoing_connection_may_get() -> None:
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    addresses = free_addresses(8)
    assert len(set(addresses)) == 8
    assert all(int(address.rpartition(":")[2]) < lowest for address in addresses)


def test_a_seed_of_the_suites_does_not_choose_the_ports() -> None:
    drawn = []
    for _ in range(2):
        random.seed(17)
        drawn.append(free_addresses(8))
    assert drawn[0] != drawn[1]


def test_a_job_that_cannot_come_up_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BadCluster, match="is taken"), workers(2, config(own, free_addresses(1)[0], index=0)):
            pytest.fail("it came up")
    with pytest.raises(BadCluster, match="the same address"), workers(2, config(own, own, index=0)):
        pytest.fail("it came up")


def test_a_name_may_take_a_while_to_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    known = socket.getaddrinfo

    def later(host: str, *rest: Any, **named: Any) -> object:
        asked.append(host)
        if host == "sweep-1.sweep" and asked.count(host) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known("127.0.0.1" if host.startswith("sweep") else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", later)
    monkeypatch.setattr(peers, "_ASK_AGAIN_S", 0.01)
    pods = config(f"sweep-0.sweep:{port()}", f"sweep-1.sweep:{port()}", index=0)
    assert list(look(pods).unreachable.values()) == ["its name cannot be resolved (Name or service not known)"]
    asked.clear()
    assert look(pods, names_s=20).unreachable == {}


def test_which_job_this_is() -> None:
    assert job_around({}) is None
    assert job_around({"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "sweep-1"}) is None
    assert job_around({"SLURM_PROCID": "0", "SLURM_JOB_NODELIST": "alone"}) is None
    job = job_around({"SLURM_PROCID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)"})
    assert job is not None
    assert job.own_address.startswith("n2:")
    with pytest.raises(BadCluster, match="not JSON"):
        job_around({"TF_CONFIG": "worker"})


@pytest.mark.tensorflow
def test_one_that_cannot_start_is_told_while_the_other_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_tensorflow()
    first, second = free_addresses(2)
    good = {"TF_CONFIG": config(first, second, index=0).text, "CUDA_VISIBLE_DEVICES": "-1"}
    bad = {"TF_CONFIG": "{}", "CUDA_VISIBLE_DEVICES": "-1"}
    began = time.monotonic()
    with (
        pytest.raises(ChildDied, match="KeyError"),
        children("join_cluster", ({}, good), ({}, bad), start_s=10 * ANSWER_S),
    ):
        pytest.fail("it came up")
    assert time.monotonic() - began < 5 * ANSWER_S


@pytest.mark.tensorflow
@pytest.mark.slow
def test_the_processes_of_a_job_make_one_cluster() -> None:
    """Two runs of the suite as srun starts them, each with its own part of one job."""
    skip_without_tensorflow()
    first, second = free_addresses(2)
    argv = [
        sys.executable, "-m", "pytest", "-c", f"{SUITES}/pytest.ini", f"{SUITES}/test_multi_worker.py", "-q",
        "--tfgpu-budget", "full", "-k", "gradients",
    ]  # fmt: skip
    job = {
        "SLURM_JOB_NODELIST": f"{first},{second}", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_ID": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
    }  # fmt: skip
    ranks = [
        subprocess.Popen(argv, env=clean_environment(**job, SLURM_PROCID=place), stdout=subprocess.PIPE, text=True)
        for place in "01"
    ]
    said = [rank.communicate(timeout=400)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    assert all("1 passed, 1 skipped" in each for each in said), said
