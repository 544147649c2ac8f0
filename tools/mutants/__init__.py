"""Which fault is switched on; this folder is copied beside the doctor as `tfgpu_mutants`.

TFGPU_MUTANT is the number of the fault. Where TFGPU_MUTANT_REACH names a folder, each process notes in a file of its own
which test reached which fault.
"""

from __future__ import annotations

import os

_seen: set[tuple[int, bytes]] = set()
chosen = int(os.environ.get("TFGPU_MUTANT", "-1"))
reach = os.environ.get("TFGPU_MUTANT_REACH", "")


def active(number: int) -> bool:
    """Whether a fault is switched on."""
    if reach:
        _note(number)
    return number == chosen


def _note(number: int) -> None:
    test = os.environb.get(b"PYTEST_CURRENT_TEST", b"")
    if (number, test) not in _seen:
        _seen.add((number, test))
        with open(os.path.join(reach, "%d" % os.getpid()), "a") as file:
            file.write("%d\t%s\n" % (number, test.decode()))
