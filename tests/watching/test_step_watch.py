"""A program that uses its CPUs and makes no step any more; and healthy ones that pause."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment, doctor_argv
from installed import skip_without_tensorflow

from tfgpu_doctor.watching.agent import Look
from tfgpu_doctor.watching.step_watch import StepWatch

POLL = (
    ("/usr/lib/python3.12/selectors.py", 9, "select"),
    ("/home/me/train.py", 31, "poll"),
    ("/home/me/train.py", 90, "<module>"),
)
FIT = (("/env/lib/site-packages/tensorflow/python/eager/execute.py", 53, "quick_execute"),)


def followed(
    recordings: list[tuple[float, int]],
    *,
    until_s: float,
    cpu: float = 1.0,
    after_s: float = 60.0,
    median_ms: float = 30.0,
) -> tuple[StepWatch, list[tuple[float, str]]]:
    """A watch that sees recordings (when, how many steps), and a look at the main thread each second."""
    watch, said = StepWatch(after_s), []
    waiting = list(recordings)
    for second in range(int(until_s)):
        while waiting and waiting[0][0] <= second:
            at_s, count = waiting.pop(0)
            if note := watch.recorded(at_s, count, median_ms):
                said.append((float(second), note))
        if note := watch.look(float(second), Look(float(second), POLL if second % 20 else FIT, str(second)), cpu):
            said.append((float(second), note))
    return watch, said


def test_a_loop_that_makes_no_step_is_told_once_with_its_place() -> None:
    _, said = followed([(10, 20), (40, 30), (160, 0), (200, 0), (300, 0), (420, 0), (600, 0)], until_s=900)
    ((at_s, note),) = said
    assert 460 <= at_s < 470
    assert note.startswith("no step was recorded for 5 min, in 4 recordings; before, a step took 30 ms")
    assert "poll (train.py:31) in 95 % of the looks" in note


def test_steps_that_come_again_are_told_and_make_it_patient() -> None:
    recordings: list[tuple[float, int]] = [
        (10, 20),
        (100, 0),
        (200, 0),
        (300, 0),
        (500, 40),
        (600, 0),
        (700, 0),
        (900, 0),
        (1700, 0),
    ]
    _, said = followed(recordings, until_s=2000)
    assert [note[:40] for _, note in said] == [
        "no step was recorded for 5 min, in 3 rec", "steps are made again after 6 min 40 s", "no step was recorded for 20 min, in 4 re",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("recordings", "more"),
    [
        ([(10, 20), (100, 0), (130, 0), (160, 0), (187, 5)], {}),  # a validation, a shuffle buffer, a checkpoint
        ([(100, 0), (200, 0), (400, 0)], {}),  # nobody knows its steps
        ([(10, 20), (100, 0)], {}),  # one recording without steps may be chance
        ([(10, 20), (100, 0), (200, 0), (300, 0)], {"cpu": 0.0}),  # that is a hang, or none: its main thread tells
        ([(10, 2), (100, 0), (200, 0), (300, 0), (400, 0)], {"median_ms": 20_000.0}),  # steps longer than a recording
    ],
)
def test_silent(recordings: list[tuple[float, int]], more: dict[str, float]) -> None:
    assert followed(recordings, until_s=900, **more)[1] == []


POLLS = """
import time
import tensorflow as tf

LONG_S = 600

def text(path):
    try:
        return open(path).read()
    except FileNotFoundError:
        return ""

class Stop(tf.keras.callbacks.Callback):
    ends = time.monotonic() + LONG_S
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = "tfgpu_watch_step_seconds " in text("metrics") or time.monotonic() > self.ends
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)

def poll():
    ends, told = time.monotonic() + LONG_S, False
    while time.monotonic() < ends and not told:
        for _ in range(100_000):
            sum(range(1000))
        told = "no step was recorded" in text("events")

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
rows = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 4)), tf.zeros((64, 1)))).batch(16).repeat()
model.fit(rows, epochs=10**6, steps_per_epoch=100, verbose=0, callbacks=[Stop()])
poll()
"""


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_real_training_that_ends_up_in_a_loop(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    done = subprocess.run(
        doctor_argv("watch", "--hang-after", "5", "--every", "5", "--on-hang", "stop", "-o", "report", "--events", "events", "--prometheus", "metrics", "--", sys.executable, "-c", POLLS),
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=clean_environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"),
    )  # fmt: skip
    assert done.returncode == 0, f"it is no hang: {done.stderr}"
    said = [line for line in done.stderr.splitlines() if "no step was recorded" in line]
    assert len(said) == 1, done.stderr
    place = f"poll (<string>:{POLLS.splitlines().index('            sum(range(1000))') + 1})"
    assert place in said[0]
    assert place in (tmp_path / "report").read_text().replace("\n", " ")
