"""The command as a user runs it, with a real target: in this process, or in one of its own where that matters."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from click.testing import CliRunner

from tfgpu_doctor.cli.main import run
from tfgpu_doctor.knowledge import read_knowledge

# Whether TensorFlow has a wheel for the Python that runs the tests, and the cause where it is not installed beside it.
HAS_WHEEL = f"{sys.version_info[0]}.{sys.version_info[1]}" in read_knowledge().tensorflow_releases[-1].pythons
NOT_INSTALLED = "wrong_python_environment" if HAS_WHEEL else "unsupported_python_version"
_OURS = ("CUDA", "TF_", "NVIDIA", "LD_", "SLURM", "PYTHON", "VIRTUAL_ENV", "CONDA", "TFGPU", "PYTEST_XDIST")


def clean_environment(**variables: str) -> dict[str, str]:
    """The environment of the tests without what would change a diagnosis, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, **variables}


def hear_interrupts() -> None:
    """In a child, before it becomes another program: hear Ctrl-C and SIGHUP, though the tests may run deaf to them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):  # nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def doctor_argv(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tfgpu_doctor", *arguments]


def run_doctor(
    *arguments: str,
    cwd: pathlib.Path | None = None,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run `tfgpu-doctor` to its end with the variables of `environment` and those named one by one, in this process.

    That saves a third of a second. What a process of its own has, signals, limits, a terminal, needs `start_doctor`.
    """
    wanted = clean_environment(**(environment or {}), **variables)
    without: dict[str, str | None] = dict.fromkeys(set(os.environ) - set(wanted))
    back = pathlib.Path.cwd()
    with CliRunner().isolation(input=stdin, env={**without, **wanted}) as (out, error, _):
        try:
            os.chdir(cwd or back)
            code = run(list(arguments))
        finally:
            os.chdir(back)
    said, wrong = (stream.getvalue().decode() for stream in (out, error))
    return subprocess.CompletedProcess(arguments, code, said, wrong)


def start_doctor(
    *arguments: str,
    cwd: pathlib.Path | None = None,
    timeout_s: float = 600,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        doctor_argv(*arguments), capture_output=True, text=True, timeout=timeout_s, cwd=cwd, input=stdin,
        env=clean_environment(**(environment or {}), **variables), check=False,
    )  # fmt: skip


def diagnose(
    *arguments: str, cwd: pathlib.Path | None = None, environment: Mapping[str, str] | None = None, **variables: str
) -> dict[str, Any]:
    """The JSON document of a run, after a look that nothing but the document was printed."""
    done = run_doctor(*arguments, "--format", "json", cwd=cwd, environment={**(environment or {}), **variables})
    assert done.stderr == ""
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def with_more_time(
    ask: Callable[[str], dict[str, Any]], has_told: Callable[[dict[str, Any]], bool], deadlines_s: Sequence[int]
) -> dict[str, Any]:
    """The document of the first deadline at which it tells what is wanted, or at which nothing ran out of time.

    Every process of an examination has the deadline, and on a busy machine each may be the one that takes longer.
    """
    for deadline_s in deadlines_s:
        document = ask(str(deadline_s))
        if has_told(document) or "did not respond within" not in json.dumps(document):
            break
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
