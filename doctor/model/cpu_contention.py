"""When other processes take the CPUs that a program needs, and what its steps would be without them.

The same numbers for the looks of `watch` at a running program and for a recording that `trace` reads.
"""

from __future__ import annotations

TAKEN = 0.25  # of the CPUs, by others: less is what every machine does beside a program
BUSY = 0.9  # of the CPUs, by all together: else a thread that waits for one has another reason
LEAST_CPUS = 0.1  # what a program gets at least: else the factor has no end


def others_take(others: float, cpus: float) -> bool:
    """Whether others use so many of the CPUs that a program may lack them."""
    return others >= TAKEN * cpus


def all_are_busy(used: float, cpus: float) -> bool:
    """Whether so many are in use that a thread which waits for one waits for another to end."""
    return used >= BUSY * cpus


def factor(own: float, queued: float, others: float | None) -> float:
    """How much more CPU time a program would get without the others, at most.

    What its threads queue for beyond what others use they wait for among themselves.
    """
    waited = queued if others is None else min(queued, others)
    return 1 + waited / max(own, LEAST_CPUS)


def share_without(share: float, faster: float) -> float:
    """The share of the steps that would be left to a bottleneck if it took so many times less, and all else as long."""
    left = share / faster
    return left / (left + 1 - share)
