"""TF_CONFIG: derived from what launchers tell, and each common mistake named with what to change."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess

import pytest
from doctor_command import clean_environment, run_doctor
from hypothesis import given
from hypothesis import strategies as st
from locations import ROOT

from tfgpu_doctor.fleet.launched import HOSTS, INDEX, SERVICE, WORKERS, expand, tasks_per_node
from tfgpu_doctor.fleet.tf_config import (
    TfConfig,
    TfConfigError,
    derive,
    faults,
    faults_among,
    faults_here,
    read_tf_config,
)
from tfgpu_doctor.perf_tests.peers import all_gone, free_addresses, look

FOREIGN = "192.0.2.1"  # RFC 5737: of documentation, no machine's


def config(*addresses: str, index: int = 0, role: str = "worker") -> TfConfig:
    return TfConfig(cluster={"worker": addresses}, role=role, index=index)


def said(found: object) -> str:
    return "; ".join(str(each) for each in found)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("text", "names"), [
    ("n1", ["n1"]),
    ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]),
    ("rack[1-2]n[09-10]-ib", ["rack1n09-ib", "rack1n10-ib", "rack2n09-ib", "rack2n10-ib"]),
    ("a,b", ["a", "b"]),
])  # fmt: skip
def test_slurms_lists(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize("text", ["", "a[", "a[1-", "a]1[", "a[x]", "a[1-999999999]", "a,,b", "a[1-60000]b[1-60000]"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"Slurm|more than"):
        expand(text)


@given(text=st.text("ab[]0123-,", max_size=20))
def test_any_text_is_a_list_or_refused(text: str) -> None:
    try:
        assert all(name and "[" not in name for name in expand(text))
    except ValueError:
        pass


def test_slurms_tasks() -> None:
    assert tasks_per_node("2(x3),1") == (2, 2, 2, 1)
    with pytest.raises(ValueError, match="Slurm"):
        tasks_per_node("two")


SLURM = {"SLURM_JOB_NODELIST": "gpu[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_ID": "0"}
# As Slurm 22.05 set them in the batch script of a job on two nodes.
BATCH = {
    "SLURM_JOB_ID": "14", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)",
    "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_GTIDS": "0",
}  # fmt: skip


def test_from_slurm() -> None:
    block = derive({**SLURM, "SLURM_PROCID": "2"}, port=5000)
    assert block == config("gpu1:5000", "gpu1:5001", "gpu2:5000", "gpu2:5001", index=2)
    cyclic = derive({**SLURM, "SLURM_PROCID": "1", "SLURM_NODEID": "1", "SLURM_LOCALID": "0"}, port=5000)
    assert cyclic == block
    step = {**SLURM, "SLURM_STEP_NODELIST": "gpu2", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_PROCID": "0"}
    assert derive(step, port=5000) == config("gpu2:5000")


@pytest.mark.parametrize("step", [{}, {"SLURM_STEP_ID": "4294967291"}, {"SLURM_STEP_ID": "4294967290"}])
def test_a_batch_script_is_no_process_of_the_cluster(step: dict[str, str]) -> None:
    """It runs once: what it exports would make every process worker 0."""
    with pytest.raises(TfConfigError, match="in each process that srun starts"):
        derive({**BATCH, **step})
    done = run_doctor("fleet", "tfconfig", environment={**BATCH, **step})
    assert (done.returncode, done.stdout) == (2, "")
    assert "srun bash -c 'TF_CONFIG=$(tfgpu-doctor fleet tfconfig) && export TF_CONFIG && exec " in done.stderr
    alone = {**BATCH, **step, "SLURM_JOB_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "1"}
    assert derive(alone, port=5000) == config("n1:5000")
    in_srun = {"SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    assert derive({**BATCH, **in_srun, "SLURM_PROCID": "1", "SLURM_NODEID": "1"}, port=5000) == config(
        "n1:5000", "n2:5000", index=1
    )


@pytest.mark.parametrize("place", ["the message", "docs/fleet.md", "the help"])
@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_training_starts_only_with_a_cluster_that_can_work(place: str, code: int, tmp_path: pathlib.Path) -> None:
    """In the shown command; `export A=$(false)` succeeds."""
    texts = {
        "the message": lambda: run_doctor("fleet", "tfconfig", environment=BATCH).stderr,
        "docs/fleet.md": lambda: (ROOT / "docs/fleet.md").read_text("utf-8"),
        "the help": lambda: run_doctor("fleet", "tfconfig", "--help").stdout,
    }
    text = " ".join(texts[place]().split())
    (shown,) = re.findall(r"(?:export )?TF_CONFIG=\$\(tfgpu-doctor fleet tfconfig\).*? exec python train\.py", text)
    for name, script in (("tfgpu-doctor", f"echo mine; exit {code}"), ("python", 'echo "trains with $TF_CONFIG"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", shown], capture_output=True, text=True, check=False,
        env=clean_environment(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}"),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "" if code else "trains with mine\n")


def test_every_task_of_a_job_derives_one_cluster() -> None:
    found = [derive({**SLURM, "SLURM_PROCID": str(place)}) for place in range(4)]
    assert list(faults_among([each for each in found if each])) == []


def test_from_kubernetes() -> None:
    pod = {"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "train-1", WORKERS: "3", SERVICE: "workers"}
    assert derive(pod, port=5000) == config(
        "train-0.workers:5000", "train-1.workers:5000", "train-2.workers:5000", index=1
    )
    for lacking in (WORKERS, SERVICE):
        with pytest.raises(TfConfigError, match=WORKERS):
            derive({name: value for name, value in pod.items() if name != lacking})
    with pytest.raises(TfConfigError, match="completion index"):
        derive({**pod, "HOSTNAME": "elsewhere"})


def test_from_the_hosts_that_a_launcher_names() -> None:
    ray = {HOSTS: "10.0.0.1:77, 10.0.0.2,10.0.0.2", INDEX: "2"}
    assert derive(ray, port=5000) == config("10.0.0.1:77", "10.0.0.2:5000", "10.0.0.2:5001", index=2)
    assert derive({HOSTS: "a,b", "JOB_COMPLETION_INDEX": "1"}, port=9) == config("a:9", "b:9", index=1)
    with pytest.raises(TfConfigError, match=INDEX):
        derive({HOSTS: "a,b"})


def test_one_that_is_set_comes_first() -> None:
    mine = config("a:1", "b:2", index=1)
    assert derive({"TF_CONFIG": mine.text, **SLURM, "SLURM_PROCID": "0"}) == mine
    assert derive({}) is None


@pytest.mark.parametrize(("text", "what"), [
    ("{'cluster': 1}", "json.dumps"),
    ("[]", "has no cluster"),
    ('{"cluster": {"worker": ["a:1"]}}', "which process"),
    ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}', "which process"),
    ('{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}', "list of host:port"),
    ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}', "count from 0"),
    ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": true}}', "count from 0"),
])  # fmt: skip
def test_what_cannot_be_read(text: str, what: str) -> None:
    with pytest.raises(TfConfigError, match=what):
        read_tf_config(text)


@pytest.mark.parametrize(("wrong", "what"), [
    (config("a:1", "b:1", index=2), "from 0 to 1"),
    (config("a:1", role="chief"), "the cluster has none"),
    (config("a:1", "a:1"), "its own port"),
    (config("a", "b:1"), "is not host:port"),
    (config("http://a", "b:1"), "is not host:port"),
    (config("a:99999", "b:1"), "is not host:port"),
    (config("0.0.0.0:1", "b:1"), "others cannot reach"),
    (config("127.0.0.1:1", "b:1"), "loopback"),
    (config("a:1", "localhost:1"), "loopback"),
    (TfConfig(cluster={"chief": ("a:1", "b:1")}, role="chief", index=0), "more than one chief"),
    (TfConfig(cluster={"workers": ("a:1",)}, role="workers", index=0), "TensorFlow knows"),
])  # fmt: skip
def test_each_mistake_is_named(wrong: TfConfig, what: str) -> None:
    assert what in said(faults(wrong))


def test_what_is_right_has_no_fault() -> None:
    chief = TfConfig(cluster={"chief": ("a:1",), "worker": ("b:1", "c:1")}, role="chief", index=0)
    for right in (config("a:1", "b:1"), config("127.0.0.1:1", "localhost:2"), config("[::1]:1"), chief):
        assert list(faults(right)) == []


def test_mistakes_between_processes() -> None:
    pair = [config("a:1", "b:1", index=place) for place in range(2)]
    assert list(faults_among(pair)) == []
    twice = said(faults_among([pair[0], pair[0]]))
    assert "2 processes are configured as worker 0" in twice
    assert "no process is worker 1" in twice
    assert "worker 1 is b:1 in one and c:1 in the other" in said(faults_among([pair[0], config("a:1", "c:1", index=1)]))


def test_a_port_that_is_taken_and_one_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        free = free_addresses(1)[0]
        found = config(address, free)
        assert "is taken" in said(faults_here(found, look(found)))
        assert list(faults_here(config(free, address), look(config(free, address)))) == []


def test_an_address_of_another_interface() -> None:
    wrong = config(f"{FOREIGN}:5000", free_addresses(1)[0])
    assert "not an address of this machine; it reaches the others by 127.0.0.1" in said(faults_here(wrong, look(wrong)))


def test_a_name_that_nobody_knows() -> None:
    wrong = config(free_addresses(1)[0], "no-such-host.invalid:5000")
    seen = said(faults_here(wrong, look(wrong)))
    assert "worker 1 at no-such-host.invalid:5000 cannot be reached" in seen
    assert "misspelled" in seen


def test_who_listens_no_more_is_gone() -> None:
    addresses = free_addresses(3)
    with socket.create_server(("127.0.0.1", int(addresses[2].rpartition(":")[2]))):
        assert all_gone(addresses, 0) == [1]


def test_the_command() -> None:
    first, second = free_addresses(2)
    done = run_doctor("fleet", "tfconfig", environment={HOSTS: f"{first},{second}", INDEX: "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "cluster": {"worker": [first, second]}, "task": {"type": "worker", "index": 1},
    }  # fmt: skip
    done = run_doctor("fleet", "tfconfig", TF_CONFIG=config(first, first, index=1).text)
    assert done.returncode == 1
    assert "worker 0 and worker 1 have the same address" in done.stderr
    done = run_doctor("fleet", "tfconfig")
    assert (done.returncode, done.stdout) == (2, "")
