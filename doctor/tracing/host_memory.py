"""Whether the machine's memory was too small for a program, as its recorder saw it: pages come back from swap."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_PAGES_A_SECOND = 500  # 2 MB; a disk that spins gives fewer, and then the kernel counts that all wait
_IN_SWAP_BYTES = 32 << 20
_STALLED = 0.2  # of the time


class HostMemory(msgspec.Struct):
    """What one recording saw: the major page faults of the program, pages that the machine read from swap (None: not known).

    `in_swap_bytes`: of the program, at the end. `stalled_s`: in which all that could run waited for memory ("full" of
    https://docs.kernel.org/accounting/psi.html), None where the kernel does not count it.
    """

    major_faults: int = 0
    swapped_in: int | None = None
    in_swap_bytes: int = 0
    stalled_s: float | None = None

    def swaps(self, seconds: float) -> bool:
        """Whether the program's own pages come back from swap all the time."""
        often = min(self.major_faults, self.swapped_in or 0) >= _PAGES_A_SECOND * seconds
        return seconds > 0 and often and self.in_swap_bytes >= _IN_SWAP_BYTES

    def stalls(self, seconds: float) -> bool:
        """Whether everything waits for memory for a good part of the time."""
        return seconds > 0 and (self.stalled_s or 0.0) >= _STALLED * seconds

    def said(self, seconds: float) -> Iterator[str]:
        """What tells that the memory is short; nothing if it is not."""
        if self.swaps(seconds):
            rate, held = f"{self.major_faults / seconds:,.0f}", f"{self.in_swap_bytes / 1e6:,.0f} MB"
            yield f"{rate} times a second the program waits for a page from swap, where {held} of it lie"
        if self.stalls(seconds):
            share = (self.stalled_s or 0.0) / seconds
            yield f"for {share:.0%} of the time all that could run waits for memory (/proc/pressure/memory)"
