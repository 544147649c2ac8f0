"""The reports of all nodes as columns of numbers for a database: every text is represented by its number."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.fleet.history_runs import Points, no_points
from tfgpu_doctor.fleet.reports_read import Heard, decode_checks, decode_settings
from tfgpu_doctor.fleet.troubles import Troubles

_Key = TypeVar("_Key")
_MOST_ALIKE = 4096  # cached texts of settings; if all nodes differ, a larger cache does not help
_LONGEST = 200
_LEAST_VALUE, _MOST_VALUE = 1e-15, 1e18  # in any unit of any measurement
FIRST, SECOND = 0, 1  # first test, retest
NO_GPU = "GPUs not known"


class Numbers(dict[_Key, int]):
    """A number for each item, in the order of first use."""

    def __missing__(self, key: _Key) -> int:
        number = self[key] = len(self)
        return number


class Alike:
    """Rows of (signature, name, value) for the texts of settings or checks; identical texts are decoded once."""

    def __init__(self, read: Callable[[bytes], dict[str, str]]) -> None:
        self._read = read
        self._known: dict[bytes, tuple[int, dict[str, str]]] = {}
        self._count = 0
        self.names, self.values = Numbers[str](), Numbers[str]()
        self.rows = (array("i"), array("i"), array("i"))

    def add(self, raw: bytes) -> tuple[int, dict[str, str]]:
        """Return the number of a text, and its content. Raises msgspec.DecodeError."""
        if found := self._known.get(raw):
            return found
        said = self._read(raw)
        found = (self._count, said)
        self._count += 1
        signatures, names, values = self.rows
        signatures.extend([found[0]] * len(said))
        names.extend(map(self.names.__getitem__, said))
        values.extend(map(self.values.__getitem__, said.values()))
        if len(self._known) < _MOST_ALIKE:
            self._known[raw] = found
        return found


class Node(msgspec.Struct, gc=False):
    """The data of each node in addition to the columns."""

    name: str
    kind: str
    processor: str
    outcome: str
    reason: str
    exit_code: int | None
    unjudged: str
    fails: bool  # it has a cause that is an error, or an unmet requirement


class Columns:
    """The first test of all nodes, and their retest."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.number_of = dict[str, int]()
        self.began: list[tuple[str, str]] = []  # node, and when its examination began
        self.kind_names = Numbers[str]()
        self.left_out = 0  # invalid values
        self.settings, self.checks = Alike(decode_settings), Alike(decode_checks)
        self.of_node = (array("i"), array("i"))  # signature of settings, of checks
        self.series = Numbers[tuple[str, str, str, str]]()  # name, model, unit, what is better
        self.devices = Numbers[str]()
        self.points = no_points()
        self.troubles = Troubles()

    def add(self, heard: Heard) -> None:
        """Add a node's report of the first test. Raises msgspec.DecodeError."""
        settings, said = self.settings.add(bytes(heard.settings))
        checks, _ = self.checks.add(bytes(heard.checks))
        number = self.number_of[heard.node] = len(self.nodes)
        self.of_node[0].append(settings)
        self.of_node[1].append(checks)
        fails = bool(heard.unmet) or any(cause.severity == "error" for cause in heard.causes)
        self.nodes.append(
            Node(
                heard.node, kind_of(said.get("GPU models", "")), said.get("processor", ""), heard.outcome,
                heard.reason[:_LONGEST], heard.exit_code, heard.unjudged[:_LONGEST], fails,
            )
        )  # fmt: skip
        self.began.append((heard.node, heard.began))
        self._measure(heard, number, FIRST, self.points)
        self.troubles.add(heard, number)

    def look_again(self, heard: Heard) -> bool:
        """Add the retest of a node; return false if there was no first test."""
        number = self.number_of.get(heard.node)
        if number is None:
            return False
        self._measure(heard, number, SECOND, self.points)
        self.troubles.look_again(heard, number)
        return True

    def remember(self, heard: Heard, points: Points) -> None:
        """Add what an earlier run measured on a node to `points`, unless the node has no report now."""
        number = self.number_of.get(heard.node)
        if number is not None:
            self._measure(heard, number, FIRST, points)

    def _measure(self, heard: Heard, number: int, look: int, points: Points) -> None:
        looks, nodes, series, devices, values = points
        for each in heard.measurements:
            value = each.value
            if _LEAST_VALUE <= value <= _MOST_VALUE:
                looks.append(look)
                nodes.append(number)
                series.append(self.series[each.name, each.model, each.unit, each.better])
                devices.append(self.devices[each.device])
                values.append(value)
            else:
                self.left_out += 1

    def measured_now(self) -> tuple[Any, Any, Any]:
        """Return node, series and device of every value of the first test, as numpy arrays."""
        look, node, series, device = map(numpy_of, self.points[:4])
        first = look == FIRST
        return node[first], series[first], device[first]

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the columns of each table by table name, as numpy arrays."""
        kinds = self.kind_names
        arrays: dict[str, dict[str, array[Any]]] = {
            "node": {
                "kind": array("i", [kinds[each] for each in self._kinds()]), "settings": self.of_node[0],
                "checks": self.of_node[1],
            },
            "setting": dict(zip(("signature", "name", "value"), self.settings.rows, strict=True)),
            "outcome": dict(zip(("signature", "name", "value"), self.checks.rows, strict=True)),
            "point": dict(zip(("look", "node", "series", "device", "value"), self.points, strict=True)),
        }  # fmt: skip
        return {name: {column: numpy_of(each) for column, each in table.items()} for name, table in arrays.items()}

    def _kinds(self) -> list[str]:
        """Return the kind of every node; one whose GPUs do not respond gets the kind of its CPU model, or of all nodes."""
        known = {node.kind for node in self.nodes if node.kind}
        by_processor: dict[str, set[str]] = {}
        for node in self.nodes:
            if node.kind:
                by_processor.setdefault(node.processor, set()).add(node.kind)
        for node in self.nodes:
            if not node.kind:
                alike = by_processor.get(node.processor, known)
                node.kind = next(iter(alike)) if len(alike) == 1 else NO_GPU
        return [node.kind for node in self.nodes]


def numpy_of(column: array[Any]) -> Any:
    """Return the numbers as a numpy array that shares their memory: while it exists, nothing can be appended."""
    import numpy as np

    return np.frombuffer(column, dtype="int32" if column.typecode == "i" else "float64")


def kind_of(models: str) -> str:
    """Return the models of a node's GPUs without counts, so that a node that lost a GPU keeps its peers."""
    words = [each.partition(" x ")[2] or each for each in models.split(", ")]
    return " + ".join(sorted(set(words)))
