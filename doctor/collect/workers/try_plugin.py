"""Load a plugin of checks as the doctor would: it may hang, print, or end the process that imports it.

Runs in a child process of the doctor's own Python. argv: the value of an entry point, "module:attribute". Writes one line
to the standard output that it was started with: JSON, the error's words, or null.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Try, and tell."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what the plugin prints
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    module, _, attribute = sys.argv[1].partition(":")
    error: str | None = None
    try:
        found = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            found = getattr(found, name)
    except BaseException as problem:  # noqa: BLE001 - also SystemExit
        error = "%s: %s" % (type(problem).__name__, problem)
    os.write(answer, json.dumps(error).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
