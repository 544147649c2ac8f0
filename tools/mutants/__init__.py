"""Switch on one fault; this folder is copied next to the installed doctor as `tfgpu_mutants`.

TFGPU_MUTANT is the number of the fault. If TFGPU_MUTANT_REACH names a folder, each process records in a separate file
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
