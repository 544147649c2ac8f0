"""Run pip install with uv, which takes a third of the time; fall back to pip if uv fails.

tox uses it as its install_command. tox-uv does the same, but uses the first of a list of Pythons even if it is missing.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

_PIP = [sys.executable, "-I", "-m", "pip"]


def main(arguments: list[str]) -> int:
    """Install the packages in the arguments into the environment of this Python."""
    if not importlib.util.find_spec("pip"):  # an environment that tox-uv made
        _run([sys.executable, "-I", "-m", "ensurepip"])
    if importlib.util.find_spec("uv") or _run([*_PIP, "install", "-q", "uv"]) == 0:
        uv = [sys.executable, "-I", "-m", "uv", "pip", "install", "-q", "--python", sys.executable]
        if _run([*uv, *arguments]) == 0:
            return 0
        print("uv could not install it (it does not read pip's configuration); trying pip", file=sys.stderr)
    return _run([*_PIP, "install", "-q", *arguments])


def _run(argv: list[str]) -> int:
    return subprocess.run(argv, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
