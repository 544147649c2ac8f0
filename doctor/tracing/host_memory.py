"""Whether the machine's memory was too small for a program, as its recorder saw it: pages come back from swap."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_PAGE_S = 1e-4  # for a page from a fast disk: 0.08 ms were measured; for a slow one the kernel counts that all wait
_IN_SWAP_BYTES = 32 << 20
_WORTH_A_WORD = 0.1  # of the time


class HostMemory(msgspec.Struct):
    """What one recording saw: the major page faults of the program, pages that the machine read from swap (None: not known).

    `in_swap_bytes`: of the program, at the end. `stalled_s`: in which all that could run waited for memory ("full" of
    https://docs.kernel.org/accounting/psi.html), None where the kernel does not count it.
    """

    major_faults: int = 0
    swapped_in: int | None = None
    in_swap_bytes: int = 0
    stalled_s: float | None = None

    def from_swap(self, seconds: float) -> float:
        """How often in a second the program waits for a page of its own from swap."""
        if seconds <= 0 or self.in_swap_bytes < _IN_SWAP_BYTES:
            return 0.0
        return min(self.major_faults, self.swapped_in or 0) / seconds

    def stalled(self, seconds: float) -> float:
        """The share of the time in which all that could run waited for memory."""
        return (self.stalled_s or 0.0) / seconds if seconds > 0 else 0.0

    def waits(self, seconds: float) -> float:
        """The share of the time, of 1, in which the program waits for memory, about."""
        return min(1.0, max(self.from_swap(seconds) * _PAGE_S, self.stalled(seconds)))

    def said(self, seconds: float) -> Iterator[str]:
        """What tells that the memory is short."""
        rate, stalled = self.from_swap(seconds), self.stalled(seconds)
        if rate * _PAGE_S >= _WORTH_A_WORD:
            held = f"{self.in_swap_bytes / 1e6:,.0f} MB"
            yield f"{rate:,.0f} times a second the program waits for a page from swap, where {held} of it lie"
        if stalled >= _WORTH_A_WORD:
            yield f"for {stalled:.0%} of the time all that could run waits for memory (/proc/pressure/memory)"
