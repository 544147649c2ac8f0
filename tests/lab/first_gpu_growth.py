"""What an administrator puts beside a .pth file: memory growth for the first GPU, whenever TensorFlow is imported."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec and spec.loader
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            gpus = module.config.list_physical_devices("GPU")
            module.config.experimental.set_memory_growth(gpus[0], True)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder())
