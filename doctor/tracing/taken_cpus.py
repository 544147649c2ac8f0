"""Whether others took the CPUs that a program needed, or its quota ended, as its recorder saw it."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.cpu_contention import LEAST_CPUS, all_are_busy, factor, others_take, share_without

_QUEUED = 0.25  # of what the program gets: what its threads wait for
_THROTTLED = 0.1  # of the periods: then what waits for the quota is in the kernel's queues, too
_MOST_CPUS = 1 << 16
# What takes longer where threads wait for a CPU, and is told by time alone: work in turn with the computation, and what goes on
# beside it, or hands over from thread to thread. Operations and compilations are counted.
_IN_TURN = ("input_no_prefetch", "epoch_end", "uneven_steps")
_BESIDE = (
    "input_python", "input_serial_map", "input_slow_source", "input_cpu_bound", "input_per_element", "input_shuffle",
    "launch_bound",
)  # fmt: skip


class TakenCpus(msgspec.Struct):
    """CPUs used on average by the program (`own`) and by `others`, of the `allowed` ones that it may run on.

    `interrupts`: what the kernel needed for them. `stolen`: CPUs that other virtual machines had meanwhile. `queued`: threads of
    the program that waited for a CPU, on average. `throttled`: the share of the periods in which a quota was used up. None where
    it is not known.
    """

    allowed: float = 0
    own: float | None = None
    others: float | None = None
    interrupts: float = 0
    stolen: float = 0
    queued: float | None = None
    throttled: float | None = None

    @property
    def factor(self) -> float:
        """How much more CPU time the program would get without the others, at most; 1 where none of them is in its way."""
        if self.own is None or self.others is None or self.queued is None or (self.throttled or 0.0) >= _THROTTLED:
            return 1.0
        whole, taken = self.allowed, self.others + self.stolen
        possible = all(0 <= each <= 2 * whole for each in (self.own, self.others, self.stolen))
        if not (0 < whole <= _MOST_CPUS and possible):
            return 1.0
        if not others_take(taken, whole) or not all_are_busy(self.own + taken + self.interrupts, whole):
            return 1.0
        waited = self._waited
        return 1.0 if waited < max(LEAST_CPUS, _QUEUED * self.own) else factor(self.own, waited, None)

    @property
    def _waited(self) -> float:
        """CPUs that the program would have used besides; of the stolen ones its part."""
        own, others = self.own or 0.0, self.others or 0.0
        return min(self.queued or 0.0, others) + self.stolen * own / max(own + others, LEAST_CPUS)

    @property
    def said(self) -> str:
        """What others took, or how often the quota was used up; empty where the program got the CPUs that it needs."""
        if (throttled := self.throttled or 0.0) >= _THROTTLED:
            share = f"{min(throttled, 1.0):.0%}"
            return (
                f"in {share} of the periods of this recording the quota of CPU time was used up: raise it, if it is not meant so "
                "(docker's --cpus, limits.cpu of a pod)"
            )
        if self.own is None or self.others is None or self.factor == 1.0:
            return ""
        stolen = f", and other virtual machines {self.stolen:.1f}," if self.stolen >= LEAST_CPUS else ""
        return (
            f"while this was recorded, processes other than the program used {self.others:.1f}{stolen} of the "
            f"{amount(round(self.allowed), 'CPU')} that it may run on, and its threads waited for {self._waited:.1f} more than "
            f"the {self.own:.1f} that they got: without them its steps may be shorter"
        )

    @property
    def doubt(self) -> str:
        """The same of a bottleneck which may come from that alone."""
        return (
            f"{self.said}, and this may be no bottleneck; record again while they are quiet" if self.factor > 1 else ""
        )

    def explain(self, label: str, share: float, high: float) -> bool:
        """Whether a cause of this share may be none, below `high`, on CPUs that nobody else uses.

        Work in turn would take that much less time. Of the rest it is only known that a step takes so much less at best, and
        all of that may be this wait: a healthy training waited in 68 % of the time for batches while it got a sixth of the
        CPU time that it wanted, and another in 56 % for the start of operations, with a third.
        """
        faster = self.factor
        if faster == 1.0 or label not in (*_IN_TURN, *_BESIDE):
            return False
        left = share_without(share, faster) if label in _IN_TURN else 1 - faster * (1 - share)
        return left < high
