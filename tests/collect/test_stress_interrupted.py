"""A load that is stopped in its middle, however that happens, leaves no process behind: the GPU is given back."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts
from installed import skip_without_tensorflow
from stand_in_run import make_stand_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tensorflow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes through /proc"),
]

LONG_S = 300.0  # for TensorFlow to be imported three times on a slow machine
END_S = 150.0
LATE_S = 30.0  # the work would take minutes


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A target whose TensorFlow takes the processor for two GPUs."""
    skip_without_tensorflow()
    return make_stand_in(tmp_path_factory.mktemp("placeholder") / "venv", 2)


def comes_true(condition: Callable[[], object], within_s: float) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end and not condition():
        time.sleep(0.05)
    return bool(condition())


def read(pid: int, name: str) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def runs(pid: int) -> bool:
    return read(pid, "stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def children(doctor: int) -> list[int]:
    """The processes that the doctor started."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if read(pid, "stat").rpartition(b")")[2].split()[1:2] == [str(doctor).encode()]]


def loading(doctor: int) -> list[int]:
    """Those of them that load a GPU, with TensorFlow's library in their memory."""
    mine = [pid for pid in children(doctor) if b"stress_gpu.py" in read(pid, "cmdline")]
    return [pid for pid in mine if b"libtensorflow_framework" in read(pid, "maps")]


def start(target: pathlib.Path, *arguments: str) -> subprocess.Popen[str]:
    argv = doctor_argv(
        "check", "--level", "deep", "--even-if-busy", "--python", str(target), "--format", "json", *arguments
    )
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        preexec_fn=hear_interrupts,
    )


@pytest.mark.usefixtures("own_tmpdir")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_no_process_of_a_load_outlives_the_doctor(stand_in: pathlib.Path, number: signal.Signals) -> None:
    with start(stand_in, "--deadline", "900") as doctor:
        try:
            # One process for each GPU.
            assert comes_true(lambda: len(loading(doctor.pid)) == 2 or doctor.poll() is not None, LONG_S)
            assert doctor.poll() is None
            started = children(doctor.pid)
            doctor.send_signal(number)
            output, errors = doctor.communicate(timeout=END_S)
            gone = comes_true(lambda: not any(map(runs, started)), END_S)
        finally:
            doctor.kill()
    assert len(started) >= 2
    assert gone
    if number == signal.SIGKILL:
        assert doctor.returncode == -signal.SIGKILL
    else:
        assert doctor.returncode == 130, errors
        document = json.loads(output)
        assert (document["interrupted"], document["level"]) == (True, "deep")
        reasons = {result["id"]: result["reason"] for result in document["results"] if result["outcome"] == "skip"}
        assert "interrupted" in reasons.get("LOD005", "interrupted")


def test_a_load_that_takes_too_long_leaves_nothing_behind_and_a_fact(
    stand_in: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The processor takes minutes for what a GPU does in a second, so the deadline comes first."""
    record = tmp_path / "machine.json"
    with start(stand_in, "--deadline", "60", "--record", str(record)) as doctor:
        assert comes_true(lambda: loading(doctor.pid) or doctor.poll() is not None, LONG_S)
        started = children(doctor.pid)
        _, errors = doctor.communicate(timeout=LONG_S)
    assert not any(map(runs, started)), errors
    found = json.loads(record.read_bytes())
    assert found["level"] == "deep"
    if "stress" in found:  # else TensorFlow itself took the time
        assert [gpu["attempt"]["outcome"] for gpu in found["stress"]["gpus"]]
        assert found["stress"]["seconds"] < 60 + LATE_S
