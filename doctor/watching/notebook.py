"""`with tfgpu_doctor.watch(): model.fit(...)`, and the same as a callback of Keras."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from tfgpu_doctor._project import report_it
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.render.notebook import displayed, framed
from tfgpu_doctor.tracing import recorder_module
from tfgpu_doctor.watching.agent import LOOK_ANSWER_S, Agent, Look, make_look
from tfgpu_doctor.watching.hanging import AFTER_S
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.judged_apart import judge_apart
from tfgpu_doctor.watching.page import render_watch_text
from tfgpu_doctor.watching.reporter import Reporter
from tfgpu_doctor.watching.reporting import make_watch_report
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.rules import parse_rule
from tfgpu_doctor.watching.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

_TICK_S = 0.2
_WIDTH = 100


class InProcessAgent:
    """The process of the doctor itself: it records on the thread that asks."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._recorder = recorder_module().Recorder(None)
        self._recorder.own.add(threading.get_ident())
        self.pid = os.getpid()
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.full, self.seconds = "", "", False, 0.0
        self.changed_s = 0.0
        self.over: str | None = None
        self.lost, self.unable, self.answer_s = False, "", LOOK_ANSWER_S

    def ask(self, *, others: bool) -> None:
        """Look at once."""
        told = self._recorder.look(others)
        self.look, self.full = make_look(told, time.monotonic()), self.full or bool(told["recorded"])

    def start(self, folder: str, most_bytes: int) -> None:
        """Begin to record, until the program holds so much more memory."""
        self.problem = self._try(self._recorder.start, self._tensorflow, folder, most_bytes)
        self.recording, self.changed_s, self.full = "" if self.problem else "running", time.monotonic(), False

    def stop(self) -> None:
        """Write what was recorded."""
        self.problem, self.recording = self._try(self._recorder.stop, self._tensorflow), ""
        self.full, self.seconds = self._recorder.full, 0.0 if self.problem else self._recorder.seconds

    def _try(self, function: Any, *arguments: Any) -> str:
        try:
            function(*arguments)
        except (RuntimeError, ValueError, OSError, self._tensorflow.errors.OpError) as error:
            return str(error)
        return ""


class watch:  # noqa: N801 - used like a function
    """Watch what TensorFlow does in a `with` block: what its steps wait for, and whether it stands still.

    `hang_after` in seconds; `fail_if` are rules such as "gpu_idle > 40 % for 5 min". After the block `report` has the
    answer, which is printed too. With `live`, a line is printed for each change of the verdict. The object may watch one
    block after another; `report` is that of the last.
    """

    def __init__(
        self, *, fail_if: Sequence[str] = (), hang_after: float = AFTER_S, live: bool = True, show: bool = True
    ) -> None:
        """Raises ValueError for a rule that cannot be read."""
        self.report: WatchReport | None = None
        self._options = WatchOptions(
            "this program", hang_after_s=hang_after, rules=[parse_rule(rule) for rule in fail_if]
        )
        self._live, self._show = live, show
        self._running: tuple[threading.Thread, threading.Event] | None = None

    def __enter__(self) -> Self:
        """Begin to watch. Raises ImportError without TensorFlow, and RuntimeError within a block that it watches."""
        if self._running is not None:
            raise RuntimeError("this object watches a block already: call tfgpu_doctor.watch() for another one")
        self._begin(lambda: True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and print the report unless the block failed."""
        if self._stop() and self._show and kind is None:
            _print(self)

    def _begin(self, goes_on: Callable[[], bool]) -> None:
        """Watch on a thread until `_stop`, or until `goes_on` is false."""
        import tensorflow as tf

        self.report = None
        scratch, end = ExitStack(), threading.Event()
        folder = scratch.enter_context(scratch_folder())

        def watch_on() -> None:
            with scratch:
                self._watch(tf, folder, end, goes_on)

        thread = threading.Thread(target=watch_on, name="tfgpu-doctor", daemon=True)
        thread.start()
        self._running = thread, end

    def _stop(self) -> bool:
        """End, and return whether anything was to be ended."""
        running, self._running = self._running, None
        if running is None:
            return False
        thread, end = running
        end.set()
        thread.join()
        return True

    def _watch(self, tensorflow: Any, folder: str, end: threading.Event, goes_on: Callable[[], bool]) -> None:
        agent: Agent = InProcessAgent(tensorflow)
        told = Reporter(live=self._live, plain=True)
        watcher = Watcher(
            Host(), os.getpid(), self._options, folder=folder, agents=lambda: [agent], told=told, judge=judge_apart
        )
        watcher.tick()
        while not end.wait(_TICK_S) and goes_on():
            watcher.tick()
        if agent.recording:
            agent.stop()
        watcher.end()
        told.close()
        self.report = make_watch_report(watcher, exit_code=None)

    def _repr_html_(self) -> str:
        """The page in a frame, for a notebook that shows this object."""
        from tfgpu_doctor.watching.html_page import render_watch_html

        if self.report is None:
            return "<p>the block has not ended yet</p>"
        return framed(render_watch_html(self.report), "tfgpu-doctor watch")


def _print(watched: watch) -> None:
    """Print the text; in a notebook, show the page."""
    if watched.report is None:
        sys.stdout.write(
            "tfgpu-doctor: the training could not be watched: the doctor itself failed; "
            f"please {report_it('how the training was started')}\n"
        )
    elif not displayed(watched):
        sys.stdout.write(render_watch_text(watched.report, width=_WIDTH, colour=False))


class _TrainingWatch(watch):
    """Watches a training that may fail: Keras calls `on_train_end` only after one that did not."""

    def __enter__(self) -> Self:
        """Begin to watch the training that calls this, and end what is left of one before it."""
        self._stop()
        training = _training_of(sys._getframe())  # noqa: SLF001 - the documented way to the own stack
        thread = threading.get_ident()
        self._begin(lambda: training is None or _is_in(thread, training))
        return self


def _training_of(frame: FrameType | None) -> FrameType | None:
    """Return the call of `fit` that a frame belongs to; None in a loop of the program's own, whose end cannot be known."""
    while frame is not None and frame.f_code.co_name != "fit":
        frame = frame.f_back
    return frame


def _is_in(thread: int, call: FrameType) -> bool:
    """Whether a thread has not yet left that call."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to another thread's stack
    while frame is not None and frame is not call:
        frame = frame.f_back
    return frame is not None


def WatchCallback(**options: Any) -> Any:  # noqa: N802 - a class, made when Keras is there
    """Return a callback of Keras that watches from the begin of the training to its end; `options` are those of `watch`.

    It may watch one training after another: `watched.report` is that of the last. Of a training that fails nothing is
    printed. Raises ImportError without Keras.
    """
    try:
        import keras  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from tensorflow import keras

    class _Callback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        """Watches the training."""

        def __init__(self) -> None:
            super().__init__()
            self.watched = _TrainingWatch(**options)

        def on_train_begin(self, logs: object = None) -> None:  # noqa: ARG002 - Keras' signature
            """Begin to watch."""
            self.watched.__enter__()

        def on_train_end(self, logs: object = None) -> None:  # noqa: ARG002
            """End, and print the report."""
            self.watched.__exit__(None, None, None)

        def _implements_none(self) -> bool:
            return False

        # Keras 2 asks every callback, also one of Keras 3 that is passed to its `fit` (TF_USE_LEGACY_KERAS=1).
        _implements_train_batch_hooks = _implements_test_batch_hooks = _implements_none
        _implements_predict_batch_hooks = _implements_none

    return _Callback()
