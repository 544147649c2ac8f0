"""`fleet run` on a real Ray cluster of several nodes on this machine: one killed, one that hangs, one that is broken."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from doctor_command import hear_interrupts
from installed import skip_without_scipy, skip_without_tensorflow

pytest.importorskip("ray", reason="Ray is not installed in this Python")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Ray's test cluster")]

# Read by every Python of a node: stops the doctor, and nothing else, while a file is there.
SITE = """
import os, sys, time
if "tfgpu_doctor" in sys.orig_argv:
    open({started!r}, "a").write(f"{{os.getpid()}}\\n")
    while os.path.exists({held!r}):
        time.sleep(0.1)
"""
PATIENCE_S = 240
_RAY_WAITED = re.compile(
    r"timed out during startup|Timed out after|Failed to (start|connect to).*GCS|GCS.*(failed|timed out)"
)
LONG_S = 900  # for a run with the longest deadline
EXPECTED = {"good0": "reported", "good1": "reported", "killed": "died", "hanging": "hung", "broken": "not started"}


def children() -> set[int]:
    """The processes that this one started and that still run."""
    found: set[int] = set()
    for file in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that ended
            found.update(map(int, file.read_text().split()))
    return found


def patiently(start: Callable[[], Any]) -> Any:
    """Start a node of Ray's, again if need be: Ray waits 30 s for it, which a busy machine exceeds (ray/_private/node.py)."""
    for attempt in range(4):
        before = children()
        try:
            return start()
        except Exception as error:
            for pid in children() - before:  # what it had started by then, Ray leaves
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if attempt == 3 or not (isinstance(error, TimeoutError) or _RAY_WAITED.search(str(error))):
                raise
    raise AssertionError


class Node:
    """A node of the cluster whose doctor waits as long as `held` is there."""

    def __init__(self, cluster: Any, folder: pathlib.Path, *, hold: bool = False, broken: bool = False) -> None:
        folder.mkdir()
        self.held, self.started = folder / "held", folder / "started"
        if hold:
            self.held.touch()
        (folder / "sitecustomize.py").write_text(SITE.format(started=str(self.started), held=str(self.held)))
        if broken:
            (folder / "msgspec.py").write_text("raise ImportError('this one is broken')\n")
        variables = {"PYTHONPATH": str(folder)}
        self.ray = patiently(lambda: cluster.add_node(num_cpus=1, num_gpus=2, env_vars=variables))
        self.id: str = self.ray.node_id

    def pids(self) -> list[int]:
        return [int(line) for line in self.started.read_text().split()] if self.started.exists() else []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    # Ray kills tasks while the machine's memory is nearly full, by whomever; the nodes are this machine.
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", str(PATIENCE_S))  # 30 s by default
    head = {"num_cpus": 1, "include_dashboard": False}
    found = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    yield found
    found.shutdown()


def start(cluster: Any, out: pathlib.Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tfgpu_doctor", "fleet", "run", "--ray", cluster.address, "--out", str(out)]
    return subprocess.Popen(
        [*command, "--level", "quick", *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    )  # fmt: skip


def reports(out: pathlib.Path) -> dict[str, dict[str, Any]]:
    """By the end of the node's name, which is the beginning of Ray's number for it."""
    paths = [path for path in out.glob("*.json") if path.name != "expected.json"]
    found = [json.loads(path.read_text("utf-8")) for path in paths]
    return {each["node"].rpartition("-")[2]: each for each in found}


def wait_for(what: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.1)


def alive(pid: int) -> bool:
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


def is_late(report: dict[str, Any]) -> bool:
    """Whether a busy machine may explain an outcome: the doctor did not end in time, or Ray gave up a node or its task."""
    ours = ("the doctor ended with ", "its report is corrupt")
    of_ray = report["outcome"] in ("died", "disappeared") and not report["reason"].startswith(ours)
    return of_ray or report["outcome"] == "hung"


def examined_while_one_dies(
    cluster: Any, folder: pathlib.Path, deadline_s: int
) -> tuple[dict[str, Node], subprocess.Popen[str], str]:
    """New nodes of each kind, and the run of the doctor that examined them, with what it wrote to standard error."""
    folder.mkdir()
    nodes = {
        name: Node(cluster, folder / name, hold=name in ("killed", "hanging"), broken=name == "broken")
        for name in EXPECTED
    }
    run = start(cluster, folder / "out", "--deadline", str(deadline_s))
    wait_for(lambda: nodes["killed"].pids() and nodes["hanging"].pids())
    cluster.remove_node(nodes["killed"].ray, allow_graceful=False)
    _, errors = run.communicate(timeout=LONG_S)
    return nodes, run, errors


def test_who_dies_hangs_or_is_broken_is_named_and_all_others_report(cluster: Any, tmp_path: pathlib.Path) -> None:
    for deadline_s in (60, 240):
        folder = tmp_path / str(deadline_s)
        out = folder / "out"
        nodes, run, errors = examined_while_one_dies(cluster, folder, deadline_s)
        found = reports(out)
        outcomes = {name: found[node.id[:8]] for name, node in nodes.items()}
        if not any(each["outcome"] != EXPECTED[name] and is_late(each) for name, each in outcomes.items()):
            break
        for name in EXPECTED.keys() - {"killed"}:
            cluster.remove_node(nodes[name].ray, allow_graceful=False)
    good = [nodes["good0"], nodes["good1"]]
    killed, hanging, broken = (nodes[name] for name in ("killed", "hanging", "broken"))
    assert run.returncode == 1, errors
    assert {found[node.id[:8]]["outcome"] for node in good} == {"reported"}
    assert all(found[node.id[:8]]["report"]["results"] for node in good)
    assert found[killed.id[:8]]["outcome"] == "died"
    assert found[hanging.id[:8]]["outcome"] == "hung"
    assert " s" in found[hanging.id[:8]]["reason"]
    assert found[broken.id[:8]]["outcome"] == "not started"
    assert "this one is broken" in found[broken.id[:8]]["reason"]
    assert len(found) == len(json.loads((out / "expected.json").read_text())) == 6
    assert "Traceback" not in errors
    wait_for(lambda: not any(map(alive, [*killed.pids(), *hanging.pids()])))

    # The same command does what is missing, and leaves alone what is there.
    before = {node.id: (out / f"{found[node.id[:8]]['node']}.json").stat().st_mtime_ns for node in good}
    hanging.held.unlink()
    again = start(cluster, out, "--deadline", "240")
    _, errors = again.communicate(timeout=LONG_S)
    found = reports(out)
    assert found[hanging.id[:8]]["outcome"] == "reported", errors
    assert found[killed.id[:8]]["outcome"] == "disappeared"
    assert before == {node.id: (out / f"{found[node.id[:8]]['node']}.json").stat().st_mtime_ns for node in good}
    assert again.returncode == 1


def test_after_an_interrupt_what_has_arrived_is_there_and_nothing_runs_on(cluster: Any, tmp_path: pathlib.Path) -> None:
    held = [Node(cluster, tmp_path / f"held{number}", hold=True) for number in range(2)]
    out = tmp_path / "out"
    run = start(cluster, out)
    wait_for(lambda: all(node.pids() for node in held) and len(reports(out)) == 1)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    assert "rerun to resume" in errors
    (arrived,) = reports(out).values()
    assert arrived["outcome"] == "reported"
    wait_for(lambda: not any(alive(pid) for node in held for pid in node.pids()))


def test_another_order_needs_another_folder(cluster: Any, tmp_path: pathlib.Path) -> None:
    first = start(cluster, tmp_path / "out")
    first.communicate(timeout=LONG_S)
    second = start(cluster, tmp_path / "out", "--level", "standard")
    _, errors = second.communicate(timeout=LONG_S)
    assert second.returncode == 2
    assert "set another folder" in errors


def test_a_cluster_that_does_not_answer_is_named(tmp_path: pathlib.Path) -> None:
    environment = {
        **os.environ,
        "RAY_gcs_rpc_server_reconnect_timeout_s": "1",
        "RAY_gcs_server_request_timeout_seconds": "2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "fleet", "run", "--ray", "127.0.0.1:1", "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False, timeout=LONG_S, env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_who_is_slow_is_looked_at_again_beside_a_good_peer(cluster: Any, tmp_path: pathlib.Path) -> None:
    from tfgpu_doctor.fleet.node import Measurement, NodeReport, encode_node, file_name

    nodes = [Node(cluster, tmp_path / f"node{number}") for number in range(2)]
    out = tmp_path / "out"
    out.mkdir()
    host = os.uname().nodename
    living = sorted(f"{host}-{node.node_id[:8]}" for node in (cluster.head_node, *(node.ray for node in nodes)))
    peer, _, slow = living  # the first of those that are good is the peer
    good = [*living[:2], *(f"zz{number}" for number in range(12))]
    for number, name in enumerate([slow, *good]):
        speed = Measurement(
            name="float16 matrix product", value=500.0 if name == slow else 700.0 + number / 10, unit="TFLOP/s", model="H100",
            device="GPU:0",
        )  # fmt: skip
        report = NodeReport(
            node=name, outcome="reported", order="--level quick", exit_code=0, measurements=(speed,),
            settings={"GPU models": "1 x H100"},
        )  # fmt: skip
        (out / file_name(name)).write_bytes(encode_node(report))
    run = start(cluster, out)
    text, errors = run.communicate(timeout=LONG_S)
    second = {json.loads(path.read_text())["node"] for path in (out / "second").glob("*.json")}
    assert second == {slow, peer}, errors
    assert run.returncode == 1
    assert slow in text


def test_the_nodes_of_a_cluster_train_together(cluster: Any, tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    skip_without_scipy()
    for number in range(2):
        Node(cluster, tmp_path / f"node{number}")
    profile = tmp_path / "together.toml"
    profile.write_text('gpus = 0\nlevel = "standard"\nsuites = ["multi_worker"]\nbudget = "300s"\n')
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tfgpu_doctor", "fleet", "run", "--ray", cluster.address, "--out", str(out)]
    done = subprocess.run(
        [*command, "--profile", str(profile), "--no-retest"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    found = list(reports(out).values())
    assert len(found) == 3
    names = {each["name"] for report in found for each in report["measurements"]}
    # A node by itself measures two workers, and then four.
    assert "multi_worker all-reduce of 64 KiB, 3 workers" in names, [done.stderr, [each["unmet"] for each in found]]
    assert not [name for name in names if ", 2 workers" in name or ", 4 workers" in name]


def test_a_node_whose_tensorflow_is_broken_is_named(cluster: Any, tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    good, broken = Node(cluster, tmp_path / "good"), Node(cluster, tmp_path / "broken")
    hiding = tmp_path / "broken" / "tensorflow"
    hiding.mkdir()
    (hiding / "__init__.py").write_text("raise ImportError('half of an installation')\n")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tfgpu_doctor", "fleet", "run", "--ray", cluster.address, "--out", str(out)]
    done = subprocess.run([*command, "--no-retest"], capture_output=True, text=True, check=False, timeout=600)
    found = {id: report for id, report in reports(out).items() if report["outcome"] == "reported"}
    labels = {node.id: {cause["id"] for cause in found[node.id[:8]]["causes"]} for node in (good, broken)}
    assert labels[broken.id] - labels[good.id] == {"PKG004"}, done.stderr
    assert "half of an installation" in json.dumps(found[broken.id[:8]]["report"]["causes"])
    assert done.returncode == 1


def test_a_node_whose_gpus_are_taken_is_busy_and_not_judged(cluster: Any, tmp_path: pathlib.Path) -> None:
    taken = Node(cluster, tmp_path / "taken")
    code = (
        f"import ray, time\nray.init(address={cluster.address!r}, log_to_driver=False)\n"
        "@ray.remote(num_gpus=2)\ndef hold():\n    time.sleep(600)\n"
        "job = hold.remote()\n"
        "while ray.available_resources().get('GPU', 0):\n    time.sleep(0.1)\n"
        "print('held', flush=True)\nray.get(job)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    command = [
        sys.executable,
        "-m",
        "tfgpu_doctor",
        "fleet",
        "run",
        "--ray",
        cluster.address,
        "--level",
        "deep",
        "--no-retest",
    ]
    try:
        for deadline_s in (30, 180):
            out = tmp_path / f"out{deadline_s}"
            done = subprocess.run(
                [*command, "--out", str(out), "--deadline", str(deadline_s)],
                text=True,
                capture_output=True,
                timeout=LONG_S,
                check=False,
            )
            others = [each for id, each in reports(out).items() if id != taken.id[:8]]
            if not any(map(is_late, others)):
                break
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    found = reports(out)[taken.id[:8]]
    assert found["outcome"] == "busy", done.stderr
    assert "its 2 GPUs were not free" in found["reason"]
    assert "hung" not in done.stdout
    document = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "fleet", "report", str(out), "--format", "json"],
        text=True, capture_output=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    statuses = json.loads(document.stdout)["statuses"]
    assert [name[-8:] for name in statuses["not judged"] if name.endswith(taken.id[:8])] == [taken.id[:8]]
    assert statuses["silent"] == []
