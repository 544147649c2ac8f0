"""TensorFlow's profiler serves one at a time: the program's own profiles come before the doctor's. Without TensorFlow."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
import types
from typing import Any

import pytest

from tfgpu_doctor.tracing.startup import recorder as recording
from tfgpu_doctor.tracing.startup.giving_way import GivingWay

V2 = "tensorflow.python.profiler.profiler_v2"


class Refused(Exception):
    """As TensorFlow's AlreadyExistsError and UnavailableError."""


@pytest.fixture
def inner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module as TensorFlow's, with `start` and `stop` that look at its own globals."""
    module: Any = types.ModuleType(V2)
    code = """
def start(folder, options=None):
    global _profiler
    with _profiler_lock:
        if _profiler is not None: raise Refused("AlreadyExists")
        if folder == "served": _profiler = folder; raise Refused("AlreadyExists, by the server")
        _profiler = folder
def stop(save=True):
    global _profiler
    with _profiler_lock:
        if _profiler is None: raise Refused("Unavailable")
        if save: written.append(_profiler)
        _profiler = None
"""
    vars(module).update(_profiler=None, _profiler_lock=threading.Lock(), Refused=Refused, written=[])
    exec(code, vars(module))
    experimental = types.SimpleNamespace(start=module.start, stop=module.stop)
    tensorflow: Any = types.ModuleType("tensorflow")
    tensorflow.profiler = types.SimpleNamespace(experimental=experimental)
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setitem(sys.modules, V2, module)
    return module


@pytest.fixture
def recorder(inner: Any) -> recording.Recorder:
    return recording.Recorder(None)


def record(recorder: recording.Recorder, folder: pathlib.Path) -> None:
    recorder.start(sys.modules["tensorflow"], str(folder))


def test_a_recording_that_nobody_disturbs(recorder: recording.Recorder, inner: Any, tmp_path: pathlib.Path) -> None:
    lock = inner._profiler_lock
    record(recorder, tmp_path)
    assert inner._profiler_lock is not lock
    recorder.stop(sys.modules["tensorflow"])
    assert inner.written == [str(tmp_path)]
    assert inner._profiler_lock is lock
    assert (tmp_path / "python_samples.json").exists()


def test_the_program_begins_its_own(recorder: recording.Recorder, inner: Any, tmp_path: pathlib.Path) -> None:
    lock = inner._profiler_lock
    record(recorder, tmp_path)
    inner.start("own")
    with pytest.raises(RuntimeError, match="the program records a profile of its own"):
        recorder.stop(sys.modules["tensorflow"])
    recorder.stop(sys.modules["tensorflow"])  # it is told once
    with pytest.raises(Refused):
        record(recorder, tmp_path)
    assert inner._profiler == "own", "a refusal ends nobody's profile"
    inner.stop()
    assert inner.written == ["own"]
    assert inner._profiler_lock is lock
    assert os.listdir(tmp_path) == []
    record(recorder, tmp_path)
    recorder.stop(sys.modules["tensorflow"])
    assert inner.written == ["own", str(tmp_path)]


def test_the_program_s_end_does_not_end_the_doctor_s(
    recorder: recording.Recorder, inner: Any, tmp_path: pathlib.Path
) -> None:
    record(recorder, tmp_path)
    with pytest.raises(Refused, match="Unavailable"):
        inner.stop()
    assert inner.written == []


def test_a_refusal_by_the_server_leaves_nothing(recorder: recording.Recorder, inner: Any) -> None:
    """TensorFlow itself would keep the session, and refuse all that come later."""
    with pytest.raises(Refused, match="by the server"):
        record(recorder, pathlib.Path("served"))
    assert inner._profiler is None


def test_threads_that_come_at_once(recorder: recording.Recorder, inner: Any, tmp_path: pathlib.Path) -> None:
    refused = []

    def own() -> None:
        for _ in range(50):
            try:
                inner.start("own")
                inner.stop()
            except Refused as error:
                refused.append(error)

    thread = threading.Thread(target=own)
    thread.start()
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        try:
            record(recorder, tmp_path / str(number))
            recorder.stop(sys.modules["tensorflow"])
        except (Refused, RuntimeError):
            pass
    thread.join()
    assert refused == [], "the program never hears of the doctor"
    assert inner.written.count("own") == 50
    assert type(inner._profiler_lock) is type(threading.Lock())


def test_a_release_without_the_lock_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(V2)
    monkeypatch.setitem(sys.modules, V2, module)
    giving = GivingWay(threading.RLock(), lambda: None)
    giving.begin()
    giving.end()
    assert not hasattr(module, "_profiler_lock")
