"""All checks that the modules in the folders of this package define, in the order of diagnosis."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from tfgpu_doctor.model import Check, in_order


def _found() -> Iterator[Check]:
    """Yield the checks of all modules of all folders: a new module needs no registration."""
    for folder in pkgutil.iter_modules(__path__, f"{__name__}."):
        package = importlib.import_module(folder.name)
        for module in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{folder.name}."):
            defined = vars(importlib.import_module(module.name)).values()
            yield from (found for found in defined if isinstance(found, Check))


ALL_CHECKS: tuple[Check, ...] = in_order(_found())
