"""`with tfgpu_doctor.watch(): model.fit(...)`, and the same as a callback of Keras."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfgpu_doctor._project import report_it
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.render.notebook import displayed, framed
from tfgpu_doctor.tracing import recorder_module
from tfgpu_doctor.watching.agent import Agent, Look, make_look
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
    from collections.abc import Sequence

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
        self.lost, self.unable = False, ""

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
    answer, which is printed too. With `live`, a line is printed for each change of the verdict.
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
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._scratch = scratch_folder()

    def __enter__(self) -> Self:
        """Begin to watch. Raises ImportError without TensorFlow."""
        import tensorflow as tf

        folder = self._scratch.__enter__()
        self._thread = threading.Thread(target=self._run, args=(tf, folder), name="tfgpu-doctor", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and print the report unless the block failed."""
        self._end.set()
        assert self._thread is not None
        self._thread.join()
        self._scratch.__exit__(None, None, None)
        if self._show and kind is None:
            _print(self)

    def _run(self, tensorflow: Any, folder: str) -> None:
        agent: Agent = InProcessAgent(tensorflow)
        told = Reporter(live=self._live, plain=True)
        watcher = Watcher(
            Host(), os.getpid(), self._options, folder=folder, agents=lambda: [agent], told=told, judge=judge_apart
        )
        while not self._end.is_set():
            watcher.tick()
            self._end.wait(_TICK_S)
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


def WatchCallback(**options: Any) -> Any:  # noqa: N802 - a class, made when Keras is there
    """Return a callback of Keras that watches from the begin of the training to its end; `options` are those of `watch`.

    Raises ImportError without Keras.
    """
    try:
        import keras  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from tensorflow import keras

    class _Callback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        """Watches the training."""

        def __init__(self) -> None:
            super().__init__()
            self.watched = watch(**options)
            self._began = False

        def on_train_begin(self, logs: object = None) -> None:  # noqa: ARG002 - Keras' signature
            """Begin to watch."""
            self.watched.__enter__()
            self._began = True

        def on_train_end(self, logs: object = None) -> None:  # noqa: ARG002
            """End, and print the report."""
            if self._began:
                self.watched.__exit__(None, None, None)

    return _Callback()
