"""`watch` around a program's own code, more than once: as a block, and as a callback of Keras."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import types

import pytest
from doctor_command import clean_environment
from installed import skip_without_tensorflow

from tfgpu_doctor.watching.notebook import WatchCallback, watch
from tfgpu_doctor.watching.result import WatchReport

LONG_S = 300.0
TRAINING = """
import copy, sys, threading, time
import tensorflow as tf
import tfgpu_doctor

class Fails(tf.keras.callbacks.Callback):
    def __init__(self, error):
        super().__init__()
        self.error = error
    def on_train_batch_end(self, batch, logs=None):
        raise self.error

def fit(*callbacks):
    rows = tf.data.Dataset.from_tensors((tf.zeros((4, 8)), tf.zeros((4, 1))))
    model.fit(rows, verbose=0, callbacks=list(callbacks))

def fail(error, *callbacks):
    try:
        fit(*callbacks, Fails(error))
    except type(error) as raised:
        assert raised is error, raised

def watching():
    return [each for each in threading.enumerate() if each.name == "tfgpu-doctor"]

def comes_true(condition):
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)
    return condition()

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
callback = tfgpu_doctor.WatchCallback(live=False)
"""


def run(folder: pathlib.Path, code: str) -> str:
    """What a program prints that trains with the callback."""
    skip_without_tensorflow()
    done = subprocess.run(
        [sys.executable, "-c", TRAINING + code], capture_output=True, text=True, check=False, timeout=LONG_S, cwd=folder,
        env=clean_environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", TMPDIR=str(folder)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert [each.name for each in folder.iterdir() if each.name.startswith("tfgpu")] == []
    return done.stdout


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_callback_watches_one_training_after_the_other(tmp_path: pathlib.Path) -> None:
    said = run(
        tmp_path,
        "fit(callback)\nfirst = callback.watched.report\nassert first\n"
        "fit(callback)\nassert callback.watched.report and callback.watched.report is not first\n"
        "assert not watching()\n"
        "fit(copy.deepcopy(callback))\n",  # as a search of hyperparameters does for each trial
    )
    assert said.count("watched for") == 3


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("error", ["ValueError('mine')", "KeyboardInterrupt()"])
def test_a_training_that_fails_is_watched_no_longer(tmp_path: pathlib.Path, error: str) -> None:
    """Keras then does not call `on_train_end`; the program goes on, perhaps with a callback of its own for the next."""
    said = run(
        tmp_path,
        f"fail({error}, callback)\nassert comes_true(lambda: not watching()), watching()\n"
        "assert callback.watched.report\nprint('NOTHING SO FAR')\n"
        f"fail({error}, callback)\nfit(callback)\nassert callback.watched.report\nassert not watching()\n",
    )
    assert said.startswith("NOTHING SO FAR\n")
    assert said.count("watched for") == 1


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_loop_of_the_programs_own_may_call_the_callback(tmp_path: pathlib.Path) -> None:
    said = run(
        tmp_path,
        "def begin():\n    callback.set_model(model)\n    callback.on_train_begin()\n"
        "begin()\ntime.sleep(1)\nassert len(watching()) == 1\n"
        "begin()\ntime.sleep(1)\nassert len(watching()) == 1\n"
        "callback.on_train_end()\ncallback.on_train_end()\nassert not watching()\n",
    )
    assert said.count("watched for") == 1


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that has what a block of no length needs of TensorFlow."""
    made = types.ModuleType("tensorflow")
    vars(made)["errors"] = types.SimpleNamespace(OpError=ValueError)
    monkeypatch.setitem(sys.modules, "tensorflow", made)


@pytest.mark.usefixtures("tensorflow")
def test_one_object_watches_two_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[WatchReport | None] = []
    watched = watch(live=False)
    for _ in range(2):
        with watched:
            assert watched.report is None
        reports.append(watched.report)
    assert None not in reports
    assert all("ended before it was recorded" in each.why for each in reports if each)
    assert reports[0] is not reports[1]
    assert capsys.readouterr().out.count("watched for") == 2


def test_the_fit_of_keras_2_takes_a_callback_of_keras_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tf_keras` asks every callback for hooks of which Keras 3 knows nothing (its callbacks.py, `CallbackList`)."""
    keras = types.ModuleType("keras")
    vars(keras)["callbacks"] = types.SimpleNamespace(Callback=type("Callback", (), {}))
    monkeypatch.setitem(sys.modules, "keras", keras)
    callback = WatchCallback(live=False)
    assert [getattr(callback, f"_implements_{each}_batch_hooks")() for each in ("train", "test", "predict")] == [
        False
    ] * 3


@pytest.mark.usefixtures("tensorflow")
def test_one_object_watches_one_block_at_a_time() -> None:
    with watch(live=False, show=False) as watched, pytest.raises(RuntimeError, match="watches a block already"):
        watched.__enter__()
    assert watched.report is not None
