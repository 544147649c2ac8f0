"""Run one task on every node of a Ray cluster, and record each result as soon as it arrives.

Runs in a child process: Ray ends the process that imports it if a cluster does not respond, and writes to
standard output. argv: a file with the order as JSON, a file for the journal (JSON lines), a folder for the documents.
It ends when its standard input closes.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOK_EVERY_S = 0.5
LONGEST_REASON = 300  # characters


class Journal:
    """One JSON object per line, each written as a whole."""

    def __init__(self, path: str) -> None:
        self._path = path

    def note(self, kind: str, **known: Any) -> None:
        """Write one entry."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **known}) + "\n")


def main() -> None:
    """Join the cluster, examine its nodes, and leave."""
    with open(sys.argv[1], encoding="utf-8") as file:
        order = SimpleNamespace(**json.load(file))
    journal, folder = Journal(sys.argv[2]), sys.argv[3]
    threading.Thread(target=leave_with_the_doctor, daemon=True).start()
    import ray

    local = join(ray, order.address, journal)
    nodes = living(ray)
    journal.note("joined", local=local, nodes=[node["name"] for node in nodes])
    missing = [node for node in nodes if node["name"] not in order.reported]
    asked = [node for node in missing if order.only is None or node["name"] in order.only]
    examine(ray, asked, order, journal, folder)
    journal.note("end")
    ray.shutdown()


def leave_with_the_doctor() -> None:
    """End when the doctor closes standard input, or has exited: the workers of this driver end with it."""
    os.read(0, 1)
    os._exit(0)


def join(ray: Any, address: str, journal: Journal) -> bool:
    """Whether the cluster was started on this machine alone, because no other is running."""
    known = {"logging_level": "ERROR", "log_to_driver": False}
    try:
        ray.init(address=address, **known)
    except ConnectionError as error:
        if address != "auto":
            journal.note("error", why=short(error))
            os._exit(1)
        ray.init(address="local", include_dashboard=False, **known)
        return True
    except (RuntimeError, ValueError, OSError) as error:
        journal.note("error", why=short(error))
        os._exit(1)
    return False


def living(ray: Any) -> list[dict[str, Any]]:
    """The nodes that are alive, by name. Nodes that share a host name are distinguished by Ray's own id."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    counts = Counter(node["NodeManagerHostname"] for node in alive)
    found = []
    for node in alive:
        host = str(node["NodeManagerHostname"])
        name = host if counts[host] == 1 else "%s-%s" % (host, node["NodeID"][:8])
        address, gpus = node["NodeManagerAddress"], node["Resources"].get("GPU", 0)
        found.append({"id": node["NodeID"], "name": name, "address": address, "gpus": gpus})
    return sorted(found, key=lambda node: node["name"])


def examine(ray: Any, nodes: list[dict[str, Any]], order: Any, journal: Journal, folder: str) -> None:
    """One task per node; a node that does not start it, or does not respond once it has, is given up at the deadline."""
    began = Starts(ray)
    submitted = time.monotonic()
    out = {
        submit(ray, node, order, variables_of(nodes, place, order), began.queue): node
        for place, node in enumerate(nodes)
    }
    while out:
        done, _ = ray.wait(list(out), num_returns=1, timeout=LOOK_EVERY_S)
        now = time.monotonic()
        began.look(now)
        for each in done:
            node = out.pop(each)
            journal.note("node", name=node["name"], seconds=now - submitted, **answer(ray, each, folder))
        for each, node in list(out.items()):
            since = began.at.get(node["name"], submitted)
            if now - since > order.deadline_s + order.grace_s:
                told = gave_up(node, now - since, order, started=node["name"] in began.at)
                journal.note("node", name=node["name"], seconds=now - submitted, **told)
                ray.cancel(each, force=True)
                del out[each]


class Starts:
    """When each node began its task: one that waits for GPUs is busy, and not hung."""

    def __init__(self, ray: Any) -> None:
        from ray.util.queue import Queue
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self.queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        self.at: dict[str, float] = {}

    def look(self, now: float) -> None:
        """Note the nodes that have begun since the last look."""
        from ray.exceptions import RayError

        try:
            names = self.queue.get_nowait_batch(self.queue.qsize())
        except RayError:  # the node with the queue is gone
            return
        self.at.update((name, now) for name in names if name not in self.at)


def say_began(queue: Any, name: str) -> None:
    """Called on the node; a node whose message is lost is given up as early as one that never began."""
    from ray.exceptions import RayError

    try:
        queue.put(name, timeout=10)
    except RayError:
        pass


def gave_up(node: dict[str, Any], passed: float, order: Any, started: bool) -> dict[str, str]:
    """The outcome of a node that gave no result, and the reason."""
    if started:
        return {"outcome": "hung", "why": "no response within %.0f s: the node hangs" % passed}
    if order.takes_gpus and node["gpus"]:
        why = "its %g GPUs were not free within %.0f s: other work on the cluster holds them" % (node["gpus"], passed)
        return {"outcome": "busy", "why": why}
    return {"outcome": "not started", "why": "Ray started no worker on the node within %.0f s" % passed}


def variables_of(nodes: list[dict[str, Any]], place: int, order: Any) -> dict[str, str]:
    """The environment variables for a node's task: a suite that spans nodes needs the addresses of all of them."""
    # A task that requests no GPU must still see all of them.
    found = {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
    if order.together and len(nodes) > 1:
        found["TFGPU_DOCTOR_HOSTS"] = ",".join(node["address"] for node in nodes)
        found["TFGPU_DOCTOR_INDEX"] = str(place)
    return found


def submit(ray: Any, node: dict[str, Any], order: Any, variables: dict[str, str], began: Any) -> Any:
    """Start a node's task, which takes either no GPU or all GPUs of the node."""
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from tfgpu_doctor.collect.workers import ray_task

    cloudpickle.register_pickle_by_value(ray_task)
    environment: dict[str, Any] = {"env_vars": variables}
    if order.install:
        environment["pip"] = [order.install]
    remote = ray.remote(ray_task.examine).options(
        num_cpus=0,
        num_gpus=node["gpus"] if order.takes_gpus else 0,
        max_retries=0,
        runtime_env=environment,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node["id"], soft=False),
    )
    files = {name: base64.b64decode(content) for name, content in order.files.items()}
    return remote.remote(
        ["--name", node["name"], *order.options], files, order.deadline_s, partial(say_began, began, node["name"])
    )


def answer(ray: Any, reference: Any, folder: str) -> dict[str, Any]:
    """The result of a task that has ended: its document's path, or why there is none."""
    from ray import exceptions

    outcomes = {
        exceptions.RuntimeEnvSetupError: "not started",
        exceptions.TaskUnschedulableError: "disappeared",
    }
    try:
        found = ray.get(reference)
    except exceptions.RayError as error:
        outcome = next((word for kind, word in outcomes.items() if isinstance(error, kind)), "died")
        return {"outcome": outcome, "why": short(error)}
    if "document" not in found:
        return {"outcome": found["outcome"], "why": str(found["why"])[:LONGEST_REASON]}
    path = os.path.join(folder, "%d" % len(os.listdir(folder)))
    with open(path, "wb") as file:
        file.write(found["document"])
    return {"document": path}


def short(error: BaseException) -> str:
    """The first words of an error without Ray's long text: the exception of a traceback, or pip's own message."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = [line.strip() for line in lines if line.lstrip().startswith("ERROR: ")]
    raised = [line for line in lines if not line.startswith(" ") and "Traceback (most recent call last)" not in line]
    told = [*raised[:1], *said[:2]] if said else (raised or lines)[:2]
    return " ".join(told)[:LONGEST_REASON] or type(error).__name__


if __name__ == "__main__":
    main()
