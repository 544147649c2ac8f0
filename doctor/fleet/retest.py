"""Who is looked at a second time, and beside whom: a node is called bad when it fails twice, and its peer does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tfgpu_doctor.fleet.fleet import Fleet

_MOST = 0.5  # of the nodes: where more are in doubt, it is not the node


def chosen_again(fleet: Fleet, kinds: Mapping[str, str], seen: Collection[str], *, failures: bool) -> tuple[str, ...]:
    """The nodes in doubt, and a good peer of the same kind for each as far as there are any.

    Slow ones are in doubt, and with `failures` those that a check or a requirement failed on. `kinds`: node to the
    models of its GPUs; `seen` have had their second look.
    """
    doubted = [*fleet.statuses["suspect"], *(fleet.statuses["fails"] if failures else ())]
    if len(doubted) > _MOST * fleet.heard:
        return ()
    doubted = [node for node in doubted if node not in seen]
    free: dict[str, list[str]] = {}
    for node in fleet.statuses["good"]:
        free.setdefault(kinds.get(node, ""), []).append(node)
    peers = [free[kind].pop(0) for kind in (kinds.get(node, "") for node in doubted) if free.get(kind)]
    return tuple(sorted({*doubted, *peers}))
