"""Choose the nodes for the retest, and the good peers to retest with them: a node that fails twice is called bad."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tfgpu_doctor.fleet.fleet import Fleet

_MOST = 0.5  # of the nodes: if more are in doubt, the cause is not a single node


def chosen_again(fleet: Fleet, kinds: Mapping[str, str], seen: Collection[str], *, failures: bool) -> tuple[str, ...]:
    """Return the nodes in doubt, and a good peer of the same kind for each while there are any.

    Slow nodes are in doubt, and with `failures` also nodes on which a check or a requirement failed. A slow group is not:
    so many nodes at once have no fault of their own that a retest would confirm. `kinds`: the GPU models of each node;
    `seen`: the nodes that have had their retest.
    """
    grouped = {node for group in fleet.slow_groups for node in group.nodes} - {each.node for each in fleet.suspects}
    slow = [node for node in fleet.statuses["suspect"] if node not in grouped]
    doubted = [*slow, *(fleet.statuses["fails"] if failures else ())]
    if len(doubted) > _MOST * fleet.heard:
        return ()
    doubted = [node for node in doubted if node not in seen]
    free: dict[str, list[str]] = {}
    for node in fleet.statuses["good"]:
        free.setdefault(kinds.get(node, ""), []).append(node)
    peers = [free[kind].pop(0) for kind in (kinds.get(node, "") for node in doubted) if free.get(kind)]
    return tuple(sorted({*doubted, *peers}))
