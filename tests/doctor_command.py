"""The command as a user runs it: in a process of its own, with a real target."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

_OURS = ("CUDA", "TF_", "NVIDIA", "LD_", "SLURM", "PYTHON", "VIRTUAL_ENV", "CONDA", "TFGPU")


def clean_environment(**variables: str) -> dict[str, str]:
    """The environment of the tests without what would change a diagnosis, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, **variables}


def hear_interrupts() -> None:
    """In a child, before it becomes another program: hear Ctrl-C, though the tests themselves may run deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def doctor_argv(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tfgpu_doctor", *arguments]


def run_doctor(
    *arguments: str, cwd: pathlib.Path | None = None, timeout_s: float = 180, stdin: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `tfgpu-doctor` to its end."""
    return subprocess.run(
        doctor_argv(*arguments), capture_output=True, text=True, timeout=timeout_s, cwd=cwd, input=stdin,
        env=clean_environment(**variables), check=False,
    )  # fmt: skip


def diagnose(*arguments: str, cwd: pathlib.Path | None = None, **variables: str) -> dict[str, Any]:
    """The JSON document of a run, after a look that nothing but the document was printed."""
    done = run_doctor(*arguments, "--format", "json", cwd=cwd, **variables)
    assert done.stderr == ""
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def make_target(folder: pathlib.Path, tensorflow: str | None, version: str = "2.20.0") -> pathlib.Path:
    """A virtual environment whose package tensorflow is the given source; none where that is None."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    if tensorflow is not None:
        (site,) = folder.glob("lib/python3*/site-packages")
        (site / "tensorflow").mkdir()
        (site / "tensorflow/__init__.py").write_text(tensorflow)
        info = site / f"tensorflow-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\n\n")
        (info / "RECORD").write_text("tensorflow/__init__.py,,\n")
        (info / "INSTALLER").write_text("pip\n")
    return folder
