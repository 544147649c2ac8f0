"""`with tfgpu_doctor.trace(): model.fit(...)`: the answer for the user's own process, as in a notebook."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from contextlib import ExitStack
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.render.notebook import displayed, framed
from tfgpu_doctor.tracing.drawing import Drawing, draw
from tfgpu_doctor.tracing.examine import examine
from tfgpu_doctor.tracing.page import render_trace_text
from tfgpu_doctor.tracing.reading import Unreadable, find_file, read_profile
from tfgpu_doctor.tracing.recording import AGAIN, STARTUP
from tfgpu_doctor.tracing.result import TraceReport, make_report

if TYPE_CHECKING:
    from typing_extensions import Self

_WIDTH = 100
_TICK_S = 0.1
_LONGEST_S = 60.0


class trace:  # noqa: N801 - used like a function
    """Record what TensorFlow does in a `with` block, and print where its steps spend their time.

    The first recording begins at once and takes `seconds`; while it holds only the start of the training, or too few
    steps, a longer one follows. `report` has the answer after the block; it is None if nothing was recorded. The object may
    record one block after another; `report` is that of the last.
    """

    def __init__(self, *, seconds: float = 5.0, show: bool = True) -> None:
        self.report: TraceReport | None = None
        self.problem = ""
        self._drawing = Drawing()
        self._seconds, self._show = seconds, show
        self._running: tuple[threading.Thread, threading.Event] | None = None

    def __enter__(self) -> Self:
        """Begin to record. Raises ImportError without TensorFlow, and RuntimeError within a block that it records."""
        import tensorflow as tf

        if self._running is not None:
            raise RuntimeError("this object records a block already: call tfgpu_doctor.trace() for another one")
        self.report, self.problem, self._drawing = None, "", Drawing()
        scratch, end = ExitStack(), threading.Event()
        folder = scratch.enter_context(scratch_folder())

        def record() -> None:
            with scratch:
                self._record(tf, folder, end)

        thread = threading.Thread(target=record, name="tfgpu-doctor", daemon=True)
        thread.start()
        self._running = thread, end
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> None:
        """End the recording, and print the answer unless the block failed."""
        running, self._running = self._running, None
        assert running is not None
        thread, end = running
        end.set()
        thread.join()
        if self._show and kind is None:
            _show(self)

    def _record(self, tf: Any, scratch: str, end: threading.Event) -> None:
        recorder = recorder_module().Recorder(None)
        seconds, number = self._seconds, 0
        while not end.is_set() or not number:
            number += 1
            folder = os.path.join(scratch, str(number))
            os.makedirs(folder)
            try:
                recorder.start(tf, folder)
                self._wait(seconds, end)
                recorder.stop(tf)
                self._judge(folder)
            except (Unreadable, RuntimeError, ValueError, OSError, tf.errors.OpError) as error:
                self.problem = next(iter(str(error).splitlines()), "") or type(error).__name__
                return
            if self.report and self.report.verdict not in AGAIN:
                return
            seconds = min(_LONGEST_S, 2 * seconds)

    def _wait(self, seconds: float, end: threading.Event) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not end.is_set():
            end.wait(_TICK_S)

    def _judge(self, folder: str) -> None:
        profile = read_profile(find_file(folder))
        verdict = examine(profile)
        report = make_report(profile, verdict, "this program")
        if self.report is None or report.steps.count >= self.report.steps.count:
            self.report, self._drawing = report, draw(profile, verdict)

    def _repr_html_(self) -> str:
        """The page in a frame, for a notebook that shows this object."""
        from markupsafe import escape

        from tfgpu_doctor.tracing.html_page import render_trace_html

        if self.report is None:
            return f"<p>{escape(self.problem or 'nothing was recorded')}</p>"
        return framed(render_trace_html(self.report, None, self._drawing), "tfgpu-doctor trace")


def _show(answer: trace) -> None:
    """Print the text; in a notebook, show the page."""
    if answer.report is None:
        sys.stdout.write(f"tfgpu-doctor: nothing was recorded: {answer.problem or 'the block ended at once'}\n")
    elif not displayed(answer):
        sys.stdout.write(render_trace_text(answer.report, None, width=_WIDTH, colour=False))


def recorder_module() -> ModuleType:
    """The module that also runs in programs of other Pythons."""
    spec = importlib.util.spec_from_file_location("_tfgpu_doctor_recorder", os.path.join(STARTUP, "recorder.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
