"""The memory of a device that a graph needs at the same time: each tensor from the operation that makes it to the last one that reads it."""

from __future__ import annotations

from typing import Any

_NO_COPY = frozenset(("Identity", "Reshape", "ReadVariableOp", "Const", "Placeholder", "ExpandDims", "Squeeze"))


def peak_bytes(function: Any) -> int:
    """Bytes of a concrete function: what it captures, and the most that is alive of what it computes."""
    operations = function.graph.get_operations()
    source: dict[str, str] = {}  # a tensor to the one whose memory it shares
    last: dict[str, int] = {}
    for place, each in enumerate(operations):
        for result in each.outputs:
            source[result.name] = source[each.inputs[0].name] if each.type in _NO_COPY and each.inputs else result.name
        last.update((source[given.name], place) for given in each.inputs)
    last.update((source[result.name], len(operations)) for result in function.outputs)
    alive: dict[str, int] = {}
    most = 0
    for place, each in enumerate(operations):
        alive.update((result.name, bytes_of(result)) for result in each.outputs if each.type not in _NO_COPY)
        most = max(most, sum(alive.values()))
        alive = {name: size for name, size in alive.items() if last.get(name, -1) > place}
    return most + sum(map(bytes_of, function.captured_inputs)) + sum(map(bytes_of, function.variables))


def bytes_of(tensor: Any) -> int:
    if tensor.dtype.name in (
        "int32",
        "resource",
        "variant",
        "string",
    ):  # shapes, in the memory of the host, and handles
        return 0
    return int(tensor.dtype.size * tensor.shape.num_elements())
