"""The probes: each returns one fact about the current state, and never a judgment."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from tfgpu_doctor.collect.probe import Probe


def _found() -> Iterator[Probe]:
    """Those of all modules of this package: a new module needs no entry anywhere."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        defined = vars(importlib.import_module(module.name)).values()
        yield from (each for each in defined if isinstance(each, Probe))


# The slow ones come first: they run in separate child processes while the others read files.
ALL_PROBES: tuple[Probe, ...] = tuple(sorted(_found(), key=lambda each: (not each.starts_first, each.name)))
