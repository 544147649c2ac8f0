"""Runs at the start of a Python that is to be profiled, and waits for its import of TensorFlow. Changes nothing else.

It may use the standard library alone, of any Python from 3.8 on, and must never raise.
"""

import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Finder:
    """Finds no module, but hears of the first that is looked for under TensorFlow's name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002 - Python's signature
        if name == "tensorflow" and self in sys.meta_path:
            sys.meta_path.remove(self)
            _listen()


def _listen() -> None:
    socket_path = os.environ.get("TFGPU_DOCTOR_TRACE_SOCKET", "")
    try:
        recorder, meeting = _module("recorder"), _module("meeting")
        if socket_path:
            meeting.begin(recorder.Recorder, socket_path)
        else:  # the user put this folder on PYTHONPATH: a doctor may come later
            meeting.wait_here(recorder.Recorder, os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
    except Exception as problem:  # noqa: BLE001 - the user's program runs whatever happens here
        sys.stderr.write("tfgpu-doctor: this program is not recorded: %r\n" % (problem,))


def _module(name: str) -> Any:
    """A module beside this one, by its path: the folder is on the search path no more."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("_tfgpu_doctor_" + name, os.path.join(_HERE, name + ".py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _next_sitecustomize() -> None:
    """Run the module of this name that would have run without this one: the user's, or a distribution's."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != _HERE]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found, unused-ignore] # noqa: F401
    except ImportError as problem:
        if mine is not None:
            sys.modules["sitecustomize"] = mine
        if getattr(problem, "name", "") != "sitecustomize":
            raise


if os.path.exists(os.environ.get("TFGPU_DOCTOR_TRACE_SOCKET", "/")):
    sys.meta_path.insert(0, _Finder())
_next_sitecustomize()
