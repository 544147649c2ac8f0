"""Real trainings with this TensorFlow, recorded by the doctor as a user would: the bottleneck is named."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from installed import skip_without_tensorflow
from recorded_program import is_too_busy, record_program

from tfgpu_doctor.tracing.recording import AGAIN

skip_without_tensorflow()
pytestmark = [pytest.mark.tensorflow]

PROGRAMS = pathlib.Path(__file__).parent / "programs.py"
# What a training waits for where other work has the CPUs: its pipeline, the threads of an iterator that ends, or the start of
# operations. Recorded again.
OF_STARVED = ("unexplained", "input_cpu_bound", "input_serial_map", "epoch_end", "launch_bound")
RING = pathlib.Path(__file__).parent / "ring_of_two.py"
# Further programs, all releases: tools/record_traces.py.
CHOSEN = {
    "py_function": "input_python", "run_eagerly": "eager", "retracing": "retracing", "slow_callback": "host_callback",
    "tiny_steps": "launch_bound", "small_operations": "launch_bound", "shuffle_buffer": "input_shuffle",
    "healthy_dense": "compute_bound", "healthy_recurrent": "compute_bound", "healthy_xla": "compute_bound",
    "stalling_source": "input_slow_source", "validation": "uneven_steps", "tf_checkpoints": "uneven_steps",
    "predicting_callback": "host_callback", "healthy_long_calls": "compute_bound",
    "healthy_dataset_loop": "compute_bound", "python_in_a_loop": "input_python",
    "slow_start": "compute_bound", "evaluation": "compute_bound",
}  # fmt: skip
MAKE_MANY_STEPS = (
    "tiny_steps",
    "small_operations",
    "shuffle_buffer",
    "healthy_dense",
    "healthy_recurrent",
    "healthy_xla",
    "slow_start",
    "evaluation",
)
_RECORDINGS = 3


@dataclass(frozen=True)
class Recorded:
    document: dict[str, Any]
    exit_code: int
    folder: pathlib.Path  # in which the doctor was started

    @property
    def verdict(self) -> str:
        return str(self.document["verdict"])

    @property
    def causes(self) -> dict[str, Any]:
        return {each["label"]: each for each in self.document["causes"]}


def recorded_until(
    enough: Callable[[Recorded], bool], folder: pathlib.Path, arguments: str, *more: str, for_s: int = 3
) -> Recorded:
    """Record a program; up to three times, as other work may have the CPUs. Skips the test where that work is all there is."""
    for number in range(_RECORDINGS):
        (place := folder / str(number)).mkdir()
        done = record_program(place, arguments, "--format", "json", *more, for_s=for_s)
        assert done.stdout, done.stderr
        found = Recorded(json.loads(done.stdout), done.returncode, place)
        if enough(found) or not (found.verdict in (*OF_STARVED, *AGAIN) or others_worked(found.document)):
            break
    skip_if_too_busy(found.verdict, found.document["why"])
    return found


def others_worked(document: dict[str, Any]) -> bool:
    """Whether other processes took the CPUs meanwhile: a wrong verdict on a quiet machine is a fault at once."""
    said = [*document["notes"], *(line for cause in document["causes"] for line in cause["evidence"])]
    return is_too_busy() or any("processes other than the program used" in line for line in said)


def skip_if_too_busy(verdict: str, why: str) -> None:
    if verdict in AGAIN and is_too_busy():
        pytest.skip(f"this machine is too busy to record a training: {why}")


def named(word: str) -> Callable[[Recorded], bool]:
    return lambda found: found.verdict == word


def of_programs(name: str) -> str:
    return f"{shlex.quote(str(PROGRAMS))} {name}"


def test_a_recording_is_kept_and_read_again(tmp_path: pathlib.Path) -> None:
    found = recorded_until(named("input_serial_map"), tmp_path, of_programs("serial_map"), "--save", "kept")
    document, folder = found.document, found.folder
    assert (found.verdict, found.exit_code) == ("input_serial_map", 1)
    assert document["steps"]["count"] >= 3
    assert document["gain"]["step_ms_at_best"] < document["steps"]["mean_ms"]
    assert any(stage["is_slowest"] and stage["path"].endswith("Map") for stage in document["pipeline"])
    assert sorted(each.name for each in (folder / "kept").iterdir()) == ["plugins", "python_samples.json"]
    again = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "trace", "kept", "--format", "json"],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert json.loads(again.stdout)["verdict"] == "input_serial_map"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_the_bottleneck_is_named(tmp_path: pathlib.Path, name: str) -> None:
    for_s = 1 if name in MAKE_MANY_STEPS else 3
    found = recorded_until(named(CHOSEN[name]), tmp_path, of_programs(name), for_s=for_s)
    assert found.verdict == CHOSEN[name]
    assert found.document["healthy"] is (CHOSEN[name] == "compute_bound")
    assert found.exit_code == (0 if found.document["healthy"] else 1)


CACHES = {
    "no_cache": ("Do the work of ", " once and not in every epoch: cache() behind it"),
    "random_pictures": ("Part of ", " is random, and cache() behind it would repeat that of the first epoch"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CACHES)
def test_a_cache_is_advised_where_nothing_is_random(tmp_path: pathlib.Path, name: str) -> None:
    # The end of an epoch may take more (epoch_end): each of these epochs has an iterator of its own.
    found = recorded_until(lambda each: "input_cpu_bound" in each.causes, tmp_path, of_programs(name))
    cause = found.causes["input_cpu_bound"]
    begin, advice = CACHES[name]
    assert cause["fix"]["text"].startswith(begin)
    assert advice in cause["fix"]["text"]
    assert any("read again" in line for line in cause["evidence"]) is (name == "no_cache")


SHORT = {
    "warm_up": ((4, 0), "1 of 3 steps build graphs or compile: this is the start of the training"),
    "too_short": ((3, 5), "it holds 2 whole steps; 3 are needed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("verdict", SHORT)
def test_a_program_that_profiles_too_few_of_its_steps(tmp_path: pathlib.Path, verdict: str) -> None:
    (steps, before), why = SHORT[verdict]
    code = f"import sys; sys.path.insert(0, {str(PROGRAMS.parent)!r}); import programs; programs.own_profile('logs', {steps}, {before})"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "trace", "logs", "--format", "json"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert (document["verdict"], document["healthy"], done.returncode) == (verdict, None, 3)
    assert why in document["why"]


@pytest.mark.slow
def test_reductions_between_two_processes_are_named(tmp_path: pathlib.Path) -> None:
    found = recorded_until(named("collectives"), tmp_path, shlex.quote(str(RING)))
    assert (found.verdict, found.exit_code) == ("collectives", 1)
    assert found.document["shares"]["collectives"] > 0.5
    assert any("CollectiveReduce" in line for line in found.document["causes"][0]["evidence"])


@pytest.mark.slow
def test_the_function_that_holds_the_steps_up_is_named(tmp_path: pathlib.Path) -> None:
    found = recorded_until(named("host_callback"), tmp_path, of_programs("slow_callback"))
    assert "on_train_batch_end (programs.py:" in str(found.causes["host_callback"])


@pytest.mark.slow
def test_in_the_program_itself(tmp_path: pathlib.Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(PROGRAMS.parent)!r}); import programs, tfgpu_doctor\n"
        "with tfgpu_doctor.trace(seconds=3) as answer:\n    programs.serial_map(float(sys.argv[1]))\n"
        "assert '<iframe' in answer._repr_html_()\nprint(answer.report.verdict, answer.report.why, sep='\\n')\n"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for seconds in ("12", "60", "60"):
        done = subprocess.run(
            [sys.executable, "-c", code, seconds],
            capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        *shown, verdict, why = done.stdout.split("\n")[:-1]
        if verdict == "input_serial_map":
            break
    skip_if_too_busy(verdict, why)
    assert verdict == "input_serial_map"
    assert "input_serial_map" in "\n".join(shown)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(1)", "the program ended with exit code 0 before a profile was recorded"),
        ("import os; os.kill(os.getpid(), 11)", "the program was ended by SIGSEGV before a profile was recorded"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the program was ended by SIGKILL (the kernel sends it where memory runs out",
        ),
    ],
)
def test_a_program_without_tensorflow(tmp_path: pathlib.Path, code: str, said: str) -> None:
    argv = [
        sys.executable,
        "-m",
        "tfgpu_doctor",
        "trace",
        "--record-with",
        f"{shlex.quote(sys.executable)} -c '{code}'",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_program_that_records_itself(tmp_path: pathlib.Path) -> None:
    """TensorFlow records one profile at a time."""
    (tmp_path / "own.py").write_text(
        "import time, tensorflow as tf\ntf.profiler.experimental.start('own')\ntime.sleep(300)\n"
    )
    argv = [
        sys.executable, "-m", "tfgpu_doctor", "trace", "--record-with", f"{shlex.quote(sys.executable)} own.py", "--after", "5",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "records a profile of its own" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps what a program gave back")
def test_a_recording_takes_no_memory_for_good(tmp_path: pathlib.Path) -> None:
    code = """
import sys, time, tensorflow as tf
from tfgpu_doctor.tracing.startup.recorder import Recorder
held = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
x = tf.ones((64, 256))
model = tf.keras.Sequential([tf.keras.layers.Dense(64) for _ in range(20)])
step = tf.function(lambda: tf.reduce_sum(model(x)))
def train():
    end = time.monotonic() + 2
    while time.monotonic() < end:
        step().numpy()
recorder = Recorder(None)
train()
before = held()
recorder.start(tf, sys.argv[1])
train()
during = held()
recorder.stop(tf)
print(before, during, held())
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment, check=True
    )
    before, during, after = map(float, done.stdout.split())
    assert list(tmp_path.rglob("*.xplane.pb"))
    assert after - before < 60, (
        f"{before:.0f} MiB before, {during:.0f} at the end of the recording, {after:.0f} after it"
    )
