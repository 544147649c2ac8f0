"""A program that profiles itself does so as if nobody else recorded: with TensorFlow itself."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment
from installed import skip_without_tensorflow

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

BEGIN = """
import json, os, sys, threading, time
import tensorflow as tf
from tensorflow.profiler.experimental import start as early_start  # a name from before the doctor came
from tfgpu_doctor.tracing.startup.recorder import Recorder
recorder = Recorder(None)
said = []
def record(name, do="start"):
    os.makedirs(name, exist_ok=True)
    try:
        recorder.start(tf, name) if do == "start" else recorder.stop(tf)
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
def train(seconds=0.3):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tf.linalg.matmul(tf.ones((64, 64)), tf.ones((64, 64))).numpy()
def profiles(folder):
    return sum(name.endswith(".xplane.pb") for _, _, names in os.walk(folder) for name in names)
def tell(**words):
    print("\\nTOLD", json.dumps(words))
import tensorflow.python.profiler.profiler_v2 as inner
lock = inner._profiler_lock
train()
tell_first = record("doctor/1")
train()
"""
OWN = {
    "start": "tf.profiler.experimental.start('own'); train(); tf.profiler.experimental.stop()",
    "start-by-an-early-name": "early_start('own'); train(); tf.profiler.experimental.stop()",
    "with": "with tf.profiler.experimental.Profile('own'): train()",
    "summary": (
        "tf.summary.trace_on(graph=True, profiler=True, profiler_outdir='own')\ntf.function(lambda: tf.ones(3))()\n"
        "with tf.summary.create_file_writer('own').as_default(): tf.summary.trace_export('t', step=0)"
    ),
}


def told(folder: pathlib.Path, code: str) -> dict[str, object]:
    skip_without_tensorflow()
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, check=False, cwd=folder,
        env=clean_environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"), timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = next(each for each in done.stdout.splitlines() if each.startswith("TOLD "))
    words: dict[str, object] = json.loads(line.removeprefix("TOLD "))
    return words


@pytest.mark.parametrize("name", OWN)
def test_a_profile_of_its_own_comes_first(tmp_path: pathlib.Path, name: str) -> None:
    """The doctor's is dropped, and the next one works."""
    code = f"""
{OWN[name]}
stopped = record("doctor/1", "stop")
again = record("doctor/2"); train()
tell(first=tell_first, stopped=stopped, again=again, stopped_again=record("doctor/2", "stop"), own=profiles("own"),
     doctor=[profiles("doctor/1"), profiles("doctor/2")], lock=inner._profiler_lock is lock)
"""
    assert told(tmp_path, code) == {
        "first": "", "stopped": "GaveWay: AlreadyExists: the program records a profile of its own", "again": "",
        "stopped_again": "", "own": 1, "doctor": [0, 1], "lock": True,
    }  # fmt: skip


def test_an_end_without_a_begin_is_refused_as_ever(tmp_path: pathlib.Path) -> None:
    """It does not end the doctor's recording in the place of the program's."""
    code = """
try: tf.profiler.experimental.stop(); own = ""
except tf.errors.UnavailableError: own = "refused"
tell(own=own, doctor=profiles("doctor/1"))
"""
    assert told(tmp_path, code) == {"own": "refused", "doctor": 0}


def test_while_the_program_records_the_doctor_is_refused(tmp_path: pathlib.Path) -> None:
    """What the program records is whole; a refusal leaves nothing behind in TensorFlow."""
    code = """
record("doctor/1", "stop")
tf.profiler.experimental.start("own"); train()
refused = record("doctor/2"); nothing = record("doctor/2", "stop"); train()
tf.profiler.experimental.stop()
tell(refused=refused[:19], nothing=nothing, own=profiles("own"), lock=inner._profiler_lock is lock)
"""
    assert told(tmp_path, code) == {"refused": "AlreadyExistsError:", "nothing": "", "own": 1, "lock": True}


def test_a_recording_ends_once_it_needs_its_memory(tmp_path: pathlib.Path) -> None:
    code = """
record("doctor/1", "stop")
def held(): return int(open("/proc/self/statm").read().split()[1]) * 4096
os.makedirs("doctor/2")
@tf.function
def step():
    made = tf.ones((8, 8))
    for _ in range(300):
        made = tf.tanh(made) + 1.0
    return made
step()
recorder.start(tf, "doctor/2", 10 << 20)
end = time.monotonic() + 60
while time.monotonic() < end and not profiles("doctor/2"):
    step().numpy()
full = recorder.full
problem = record("doctor/2", "stop")
tell(ended=time.monotonic() < end, full=full, problem=problem, looks=os.path.exists("doctor/2/python_samples.json"))
"""
    assert told(tmp_path, code) == {"ended": True, "full": True, "problem": "", "looks": True}
