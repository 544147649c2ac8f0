"""Run the doctor on every node of a Ray cluster: one task per node, each report yielded as soon as it arrives."""

from __future__ import annotations

import base64
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

import tfgpu_doctor.collect.workers
from tfgpu_doctor.fleet.node import NodeOutcome, NodeReport
from tfgpu_doctor.fleet.order import NodeOrder
from tfgpu_doctor.fleet.reporting import missing_node
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.host.files import Files, write_whole
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.host.scratch import scratch_folder

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__)), "ray_driver.py")
_LOOK_EVERY_S = 0.2
_GRACE_S = 60.0  # added to the deadline that a node enforces itself: it may start slowly
_TO_JOIN_S = 300.0  # for Ray to start, and to install the doctor if requested
_LARGEST_BYTES = 64 << 20


class RayError(Exception):
    """No cluster can be used, or Ray ended; the message gives the reason."""


@dataclass(frozen=True)
class NodeTask:
    """The task of every node: the order, the files that it names, and the time limit in seconds."""

    order: NodeOrder
    deadline_s: float
    takes_gpus: bool
    files: Mapping[str, bytes]
    together: bool = False  # whether a suite spans the nodes
    extra: Sequence[str] = ()  # more options of `fleet node`
    install: str = ""  # the pip requirement that Ray installs on each node first


class _Row(msgspec.Struct):
    """A line of the journal."""

    kind: str
    local: bool = False
    nodes: tuple[str, ...] = ()
    name: str = ""
    seconds: float = 0.0
    document: str = ""  # the path of the report
    outcome: NodeOutcome = "died"
    why: str = ""


@dataclass
class OnRay:
    """One run on a cluster. `address`: "auto" joins a running cluster, or starts one on this machine alone."""

    address: str
    task: NodeTask
    on_join: Callable[
        [bool, Sequence[str]], None
    ]  # whether the cluster is this machine alone, and the names of its nodes
    on_look: Callable[[Sequence[str]], None] = lambda _names: None  # the nodes that are still running
    _out: dict[str, None] = field(default_factory=dict)
    _ended: bool = False

    def reports(self, reported: Sequence[str], only: Sequence[str] | None = None) -> Iterator[NodeReport]:
        """Yield the report of each node, or of the nodes in `only`, except those that have already `reported`.

        Raises RayError, and OSError for disk errors.
        """
        host, over, answers = Host(contained=False), threading.Event(), list[Completed]()
        with scratch_folder() as folder:
            argv = self._prepare(folder, reported, only)

            def run() -> None:
                answers.append(
                    host.run(
                        argv, deadline_s=_TO_JOIN_S + 2 * (self.task.deadline_s + _GRACE_S), until=threading.Event()
                    )
                )
                over.set()

            threading.Thread(target=run, daemon=True).start()
            offset = 0
            try:
                while True:
                    last = over.wait(_LOOK_EVERY_S)
                    rows, offset = _new_rows(os.path.join(folder, "journal"), offset)
                    for row in rows:
                        yield from self._taken(row, reported, only)
                    if last:
                        break
                    self.on_look(list(self._out))
            finally:
                host.stop()
                over.wait()
        yield from self._left(answers[0])

    def _prepare(self, folder: str, reported: Sequence[str], only: Sequence[str] | None) -> list[str]:
        """Write the order to a file, and return the command."""
        task = self.task
        order = {
            "address": self.address, "install": task.install, "reported": list(reported), "only": only,
            "deadline_s": task.deadline_s, "grace_s": _GRACE_S, "takes_gpus": task.takes_gpus, "together": task.together,
            "options": [*task.order.options, *task.extra],
            "files": {name: base64.b64encode(content).decode() for name, content in task.files.items()},
        }  # fmt: skip
        paths = [os.path.join(folder, name) for name in ("order", "journal", "documents")]
        write_whole(paths[0], msgspec.json.encode(order))
        os.mkdir(paths[2])
        return [sys.executable, _PROGRAM, *paths]

    def _taken(self, row: _Row, reported: Sequence[str], only: Sequence[str] | None) -> Iterator[NodeReport]:
        if row.kind == "error":
            raise RayError(f"no Ray cluster could be used at {self.address}: {row.why}")
        if row.kind == "joined":
            asked = row.nodes if only is None else only
            self._out = dict.fromkeys(name for name in asked if name not in set(reported))
            self.on_join(row.local, row.nodes)
        elif row.kind == "node":
            self._out.pop(row.name, None)
            yield _decoded(row) if row.document else missing_node(row.name, row.outcome, row.why, seconds=row.seconds)
        self._ended = self._ended or row.kind == "end"

    def _left(self, done: Completed) -> Iterator[NodeReport]:
        """Yield the reports for the nodes that had not responded when Ray ended."""
        if self._ended:
            return
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        how = done.not_started or done.signal or ("it hangs" if done.timed_out else f"exit code {done.exit_code}")
        why = f"Ray ended on this side: {': '.join([how, *lines[-1:]])[:300]}"
        if not self._out:
            raise RayError(f"no Ray cluster could be used at {self.address}: {why}")
        for name in self._out:
            yield missing_node(name, "disappeared", why)


def _new_rows(path: str, offset: int) -> tuple[list[_Row], int]:
    """Return the new, complete lines of the journal."""
    try:
        with Files().open_binary(path) as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return [], offset
    whole = content[: content.rfind(b"\n") + 1]
    return [decode_json(line, _Row) for line in whole.splitlines()], offset + len(whole)


def _decoded(row: _Row) -> NodeReport:
    """Return the node's own report, under the name that the cluster uses for it."""
    try:
        found = decode_json(Files().read_bytes(row.document, _LARGEST_BYTES), NodeReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return missing_node(row.name, "died", f"its report is corrupt, or from another version of the doctor: {error}")
    return msgspec.structs.replace(found, node=row.name)
