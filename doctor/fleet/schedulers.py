"""The commands with which Slurm or Kubernetes takes nodes out of service and back, and what they say of them now."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tfgpu_doctor.fleet.acting import Held, Leaving
from tfgpu_doctor.fleet.draining import OURS
from tfgpu_doctor.fleet.node_sets import folded
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.host.json_text import read_json

Command = tuple[str, ...]
_READ_S = 60.0
_PLAIN_TIMES = {"SLURM_TIME_FORMAT": "standard"}
_ON_A_LINE = 50  # Kubernetes' nodes of one command
_KEY = "tfgpu-doctor/cause"  # of the label and the taint
_CORDONED = "tfgpu-doctor/cordoned"  # the label of a node that the doctor cordoned, too
_CONDITION = "TfgpuDoctor"  # as the node problem detector's: True means that there is a problem
_OUT = re.compile(r"drain|down|fail|maint", re.IGNORECASE)
_NOT_IN_A_VALUE = re.compile(r"[^A-Za-z0-9_.-]")


class SchedulerError(Exception):
    """The scheduler does not say which nodes are out of service; the message says why."""


class Scheduler(Protocol):
    """A scheduler whose nodes can leave service."""

    def held(self, host: Host) -> dict[str, Held]:
        """Return the nodes that are out of service; reads only. Raises SchedulerError."""

    def leave(self, leaving: Leaving) -> Iterator[Command]:
        """Yield the commands with which these nodes take no more work; what runs there goes on."""

    def come_back(self, nodes: Mapping[str, Held]) -> Iterator[Command]:
        """Yield the commands that take them back, each with what `held` said of it."""


class Slurm:
    """Slurm's drain. https://slurm.schedmd.com/scontrol.html"""

    def held(self, host: Host) -> dict[str, Held]:
        """Return the nodes with a reason, or in a state in which they take no job."""
        done = host.run(
            ["sinfo", "--noheader", "--Node", "--format=%N|%T|%H|%E"], deadline_s=_READ_S, variables=_PLAIN_TIMES
        )
        found: dict[str, Held] = {}
        for line in _answer(done, "sinfo").splitlines():
            name, _, rest = line.partition("|")
            state, _, rest = rest.partition("|")
            since, _, reason = rest.partition("|")
            if _OUT.search(state):
                found[name] = Held(reason, reason.startswith(OURS), _time(since))
        return found

    def leave(self, leaving: Leaving) -> Iterator[Command]:
        """One command for all nodes."""
        yield "scontrol", "update", f"NodeName={folded(leaving.nodes)}", "State=DRAIN", f"Reason={leaving.reason}"

    def come_back(self, nodes: Mapping[str, Held]) -> Iterator[Command]:
        """One command for all nodes."""
        if nodes:
            yield "scontrol", "update", f"NodeName={folded(list(nodes))}", "State=RESUME"


class Kubernetes:
    """A taint, a label and a condition of each node. https://kubernetes.io/docs/reference/kubectl/"""

    def __init__(self, *, cordon: bool = False) -> None:
        """Prepare. `cordon`: no pod at all is placed there any more, also none that tolerates the taint."""
        self._cordon = cordon

    def held(self, host: Host) -> dict[str, Held]:
        """Return the nodes with the doctor's label, and those that somebody cordoned."""
        done = host.run(["kubectl", "get", "nodes", "--output=json"], deadline_s=_READ_S)
        found: dict[str, Held] = {}
        try:
            for item in read_json(_answer(done, "kubectl"))["items"]:
                labels = item["metadata"].get("labels") or {}
                cause = labels.get(_KEY)
                if cause is not None or item["spec"].get("unschedulable"):
                    since, message = _condition_of(item.get("status") or {})
                    ours = cause is not None
                    reason = message if ours and message.startswith(OURS) else str(cause or "cordoned")
                    found[str(item["metadata"]["name"])] = Held(
                        reason, ours, _time(since), cordoned=ours and _CORDONED in labels
                    )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SchedulerError(f"kubectl's list of nodes cannot be read: {type(error).__name__}") from None
        return found

    def leave(self, leaving: Leaving) -> Iterator[Command]:
        """Label first: it is what marks the node as taken out, and as cordoned, by the doctor."""
        cause = _NOT_IN_A_VALUE.sub("-", leaving.cause)[:63].strip("-_.") or "unknown"
        cordoned = (f"{_CORDONED}=true",) if self._cordon else ()
        for nodes in _parts(leaving.nodes):
            yield "kubectl", "label", "node", *nodes, f"{_KEY}={cause}", *cordoned, "--overwrite"
            yield "kubectl", "taint", "node", *nodes, f"{_KEY}={cause}:NoSchedule", "--overwrite"
            if self._cordon:
                yield "kubectl", "cordon", *nodes
            yield from (_condition(node, "True", cause, leaving.reason) for node in nodes)

    def come_back(self, nodes: Mapping[str, Held]) -> Iterator[Command]:
        """Labels last, so that a node that comes back in part is still known as the doctor's. What others cordoned stays."""
        for some in _parts(list(nodes)):
            cordoned = [name for name in some if nodes[name].cordoned]
            yield from (
                _condition(node, "False", "NothingFound", "the last examination found nothing") for node in some
            )
            yield "kubectl", "taint", "node", *some, f"{_KEY}:NoSchedule-"
            if cordoned:
                yield "kubectl", "uncordon", *cordoned
                yield "kubectl", "label", "node", *cordoned, f"{_CORDONED}-"
            yield "kubectl", "label", "node", *some, f"{_KEY}-"


def _condition_of(status: dict[str, Any]) -> tuple[str, str]:
    """Since when the doctor's condition of a node is true, and its message, the reason; empty if it is not true."""
    found = [each for each in status.get("conditions") or () if each["type"] == _CONDITION and each["status"] == "True"]
    return (str(found[0].get("lastTransitionTime") or ""), str(found[0].get("message") or "")) if found else ("", "")


def _time(text: str) -> dt.datetime | None:
    """Return a time with its zone; one without a zone is local, as Slurm writes it. None if the text is none."""
    try:
        return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone()
    except ValueError:
        return None


def _condition(node: str, status: str, reason: str, message: str) -> Command:
    words = "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", reason)) if status == "True" else reason
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": _CONDITION, "status": status, "reason": words, "message": message, "lastTransitionTime": now,
    }  # fmt: skip
    patch = json.dumps({"status": {"conditions": [condition]}}, separators=(",", ":"))
    return "kubectl", "patch", "node", node, "--subresource=status", "--type=strategic", f"--patch={patch}"


def _parts(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(nodes), _ON_A_LINE):
        yield nodes[start : start + _ON_A_LINE]


def _answer(done: Completed, program: str) -> str:
    if done.not_started:
        raise SchedulerError(f"{program} cannot be started here: {done.not_started}")
    if done.exit_code != 0:
        why = (
            "no answer" if done.timed_out else (done.stderr.strip().splitlines() or [f"exit code {done.exit_code}"])[-1]
        )
        raise SchedulerError(f"{program} gives no list of nodes: {why[:200]}")
    return done.stdout.decode("utf-8", "replace")
