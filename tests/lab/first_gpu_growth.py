"""What an administrator puts beside a .pth file: memory growth for the first GPU, whenever TensorFlow is imported."""

import importlib.abc
import importlib.util
import sys


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            gpus = module.config.list_physical_devices("GPU")
            module.config.experimental.set_memory_growth(gpus[0], True)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
