"""The public names of a feature, imported from their modules on first use, for a short start-up time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def exported(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package; `modules` maps each public name to the module that defines it."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return find
