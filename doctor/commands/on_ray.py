"""The doctor on every node of a Ray cluster: one task a node, its report handed over the moment it arrives."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tfgpu_doctor.fleet.node import NodeOutcome, NodeReport
from tfgpu_doctor.fleet.order import NodeOrder
from tfgpu_doctor.fleet.reporting import missing_node

_LOOK_EVERY_S = 0.5
_GRACE_S = 30.0  # beyond the deadline that the node keeps itself
# A task that asks for no GPU sees all of them; one that takes all of a node's needs no list of them.
_VARIABLES = {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
_MOST_WORDS = 300  # characters of a reason


class RayError(Exception):
    """There is no cluster that could be used; the message says why, and what to do."""


@dataclass(frozen=True)
class RayNode:
    """A living node of the cluster."""

    id: str
    name: str
    gpus: float


@dataclass(frozen=True)
class NodeTask:
    """What every node gets: the order, files that it names, and how long the node may take (seconds)."""

    order: NodeOrder
    deadline_s: float
    takes_gpus: bool
    files: Mapping[str, bytes]
    extra: Sequence[str] = ()  # more options of `fleet node`


class RayCluster:
    """A connection to Ray. `address`: "auto" joins the cluster that runs, or starts one of this machine alone."""

    def __init__(self, address: str, install: str = "") -> None:
        self._address, self._install = address, install
        self.is_local = False

    def __enter__(self) -> RayCluster:  # noqa: PYI034 - Self came with Python 3.11
        import ray

        known = {"logging_level": "ERROR", "log_to_driver": False, "configure_logging": False}
        try:
            ray.init(address=self._address, **known)
        except ConnectionError as error:
            if self._address != "auto":
                raise RayError(f"no Ray cluster answers at {self._address}: {_short(error)}") from error
            ray.init(address="local", include_dashboard=False, **known)
            self.is_local = True
        except (RuntimeError, ValueError, OSError) as error:
            raise RayError(f"Ray could not be reached at {self._address}: {_short(error)}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import ray

        ray.shutdown()

    def nodes(self) -> list[RayNode]:
        """The nodes that live. What several share as a host name is told apart by Ray's own number."""
        import ray

        alive = [node for node in ray.nodes() if node["Alive"]]
        counts = Counter(node["NodeManagerHostname"] for node in alive)
        found = [RayNode(node["NodeID"], _name(node, counts), node["Resources"].get("GPU", 0.0)) for node in alive]
        return sorted(found, key=lambda node: node.name)

    def examine(
        self,
        nodes: Sequence[RayNode],
        task: NodeTask,
        on_look: Callable[[list[str], float], None] = lambda _n, _s: None,
    ) -> Iterator[tuple[str, NodeReport | bytes]]:
        """Each node's name and report as it arrives: its own document, or a report that says why there is none.

        `on_look` is told the nodes that are still out, and the seconds since the start.
        """
        import ray

        started = time.monotonic()
        out = {self._submit(node, task): node for node in nodes}
        try:
            while out:
                passed = time.monotonic() - started
                on_look([node.name for node in out.values()], passed)
                done, _ = ray.wait(list(out), num_returns=1, timeout=_LOOK_EVERY_S)
                late = list(out) if passed > task.deadline_s + _GRACE_S else []
                for each in done or late:
                    node = out.pop(each)
                    yield node.name, _too_late(node, task, passed) if each in late else _answer(node, each, passed)
                    if each in late:
                        _cancel(each)
        finally:
            for each in out:
                _cancel(each)

    def _submit(self, node: RayNode, task: NodeTask) -> Any:
        import ray
        from ray import cloudpickle
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from tfgpu_doctor.inside import ray_task

        cloudpickle.register_pickle_by_value(ray_task)
        environment: dict[str, Any] = {"env_vars": _VARIABLES}
        if self._install:
            environment["pip"] = [self._install]
        remote = ray.remote(ray_task.examine).options(
            num_cpus=0, num_gpus=node.gpus if task.takes_gpus else 0, max_retries=0, runtime_env=environment,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )  # fmt: skip
        options = ["--name", node.name, *task.order.options, *task.extra]
        return remote.remote(options, dict(task.files), task.deadline_s)


def _name(node: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    host = str(node["NodeManagerHostname"])
    return host if counts[host] == 1 else f"{host}-{node['NodeID'][:8]}"


def _answer(node: RayNode, reference: Any, seconds: float) -> NodeReport | bytes:
    """What a task that has ended gave, or why it gave nothing."""
    import ray
    from ray import exceptions

    why: dict[type[Exception], NodeOutcome] = {
        exceptions.RuntimeEnvSetupError: "not started",
        exceptions.TaskUnschedulableError: "disappeared",
        exceptions.NodeDiedError: "died",
        exceptions.WorkerCrashedError: "died",
        exceptions.OutOfMemoryError: "died",
    }
    try:
        found = ray.get(reference)
    except exceptions.RayError as error:
        outcome = next((word for kind, word in why.items() if isinstance(error, kind)), "died")
        return missing_node(node.name, outcome, _short(error), seconds=seconds)
    if "document" in found:
        return bytes(found["document"])
    return missing_node(node.name, found["outcome"], str(found["why"])[:_MOST_WORDS], seconds=seconds)


def _too_late(node: RayNode, task: NodeTask, seconds: float) -> NodeReport:
    more = f", or its {node.gpus:g} GPUs were not free" if task.takes_gpus and node.gpus else ""
    return missing_node(node.name, "hung", f"no answer within {seconds:.0f} s: it hangs{more}", seconds=seconds)


def _cancel(reference: Any) -> None:
    import ray

    with contextlib.suppress(ray.exceptions.RayError, ValueError):
        ray.cancel(reference, force=True)


def _short(error: Exception) -> str:
    """The first words of an error; Ray's go on for pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:_MOST_WORDS] or type(error).__name__
