"""A Jupyter kernel is looked into like any other program: started by `watch`, or with the start-up folder on its path."""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from doctor_command import clean_environment, doctor_argv
from recorded_training import LONG_S, recorded, wait_for, write_training

from tfgpu_doctor.host.recorded_program import RecordedProgram
from tfgpu_doctor.tracing.python_samples import FILE

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="watch needs Linux"),
    pytest.mark.skipif(importlib.util.find_spec("ipykernel") is None, reason="there is no ipykernel"),
]
CELL = """
import tensorflow, time
def train_here():
    end = time.monotonic() + 3
    while time.monotonic() < end: sum(range(2000))
train_here()
open("cell_is_done", "w").close()
"""


def client_of(connection: pathlib.Path) -> object:
    client = pytest.importorskip("jupyter_client").BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=LONG_S)
    return client


def kernel(folder: pathlib.Path) -> RecordedProgram:
    variables = {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder)}
    return recorded("-m", "ipykernel_launcher", "-f", str(folder / "connection.json"), "-s", "no-secret", **variables)


def test_a_kernel_is_recorded_while_a_cell_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_training(tmp_path)
    monkeypatch.chdir(tmp_path)
    with kernel(tmp_path) as program:
        wait_for((tmp_path / "connection.json").exists, program)
        time.sleep(0.5)
        client = client_of(tmp_path / "connection.json")
        assert program.ready() == [], "no cell has imported TensorFlow"
        client.execute(CELL)  # type: ignore[attr-defined]
        wait_for(program.ready, program)
        (talk,) = program.ready()
        assert talk.ask(do="start", folder=str(tmp_path / "kept"))["error"] == ""
        program.wait(1.0)
        assert talk.ask(do="stop")["error"] == ""
        wait_for((tmp_path / "cell_is_done").exists, program)
        client.stop_channels()  # type: ignore[attr-defined]
    assert "train_here" in (tmp_path / "kept" / FILE).read_text()


@pytest.mark.slow
def test_a_kernel_that_waits_for_cells_is_no_hang(tmp_path: pathlib.Path) -> None:
    """It serves requests, with TensorFlow imported; ended by the doctor's own end."""
    write_training(tmp_path)
    process = subprocess.Popen(
        doctor_argv("watch", "--no-live", "--hang-after", "5", "--on-hang", "stop", "-o", "report.json", "--format", "json",
                    "--", sys.executable, "-m", "ipykernel_launcher", "-f", str(tmp_path / "connection.json")),
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=clean_environment(TMPDIR=str(tmp_path), IPYTHONDIR=str(tmp_path / "ipython")),
    )  # fmt: skip
    try:
        wait_for((tmp_path / "connection.json").exists)
        time.sleep(0.5)
        client = client_of(tmp_path / "connection.json")
        client.execute("import tensorflow; open('cell_is_done', 'w').close()")  # type: ignore[attr-defined]
        wait_for((tmp_path / "cell_is_done").exists)
        client.stop_channels()  # type: ignore[attr-defined]
        time.sleep(14)
        assert process.poll() is None, "it was ended as if it hung"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LONG_S)
    assert '"hang": null' in (tmp_path / "report.json").read_text().replace('"hang":null', '"hang": null')
