"""The thread in the user's program that records a profile of TensorFlow when asked through a Unix socket.

A request and an answer is a line of JSON: {"do": "start", "folder": ...}, {"do": "stop"} and {"do": "look"}; {"did": ...,
"error": ...}. Without a request it says {"did": "ready"} once TensorFlow is imported, and {"did": "ending"} when the
program is over. It may use the standard library alone, of any Python from 3.8 on. While it records, it also looks a
hundred times a second at what the main thread's Python does: TensorFlow's profile says nothing of that.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any, Dict, List, Optional

_LOOK_EVERY_S = 0.1  # for TensorFlow in sys.modules
_SAMPLE_EVERY_S = 0.01
_SWITCH_S = 0.0005  # with Python's own 5 ms the looks would fall where the main thread lets go of the GIL by itself
_LONGEST_S = 120.0  # a recording that nobody ends
_DEPTH = 40
_THREADS = 40  # of a look

Stack = List[List[Any]]  # of frames, innermost first: file, line, function


class Recorder:
    """Records when its connection says so, or when the program itself calls `start` and `stop`."""

    def __init__(self, connection: Optional[socket.socket]) -> None:
        self._maybe = connection
        self.folder = ""
        self.ending = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.samples: List[List[Any]] = []
        self.sampled = threading.Event()
        self.thread = self.began_ns = 0
        self.interval_s = sys.getswitchinterval()
        self.saying = threading.Lock()
        self.told_ready = False

    @property
    def connection(self) -> socket.socket:
        """The connection to the doctor; only a program that records itself has none."""
        assert self._maybe is not None
        return self._maybe

    def run(self) -> None:
        """Answer requests until the connection or the program ends."""
        # No name, no entry in threading.enumerate(): a program that joins all of its threads does not wait for this one.
        self.thread = threading.get_ident()
        try:
            tensorflow = self._tensorflow()
            if tensorflow is not None:
                self._visit(tensorflow)
        except Exception:  # noqa: BLE001 - the connection is lost: the program goes on
            pass

    def listen(self, listener: socket.socket) -> None:
        """Answer one doctor after the other, until the program ends."""
        self.thread = threading.get_ident()
        try:
            tensorflow = self._tensorflow()
            while tensorflow is not None and not self.ending.is_set():
                self._maybe = listener.accept()[0]
                self._visit(tensorflow)
                self._maybe.close()
                self._maybe, self.told_ready = None, False
        except Exception:  # noqa: BLE001 - the socket is gone: the program goes on
            pass

    def _visit(self, tensorflow: Any) -> None:
        try:
            self._say(did="ready", pid=os.getpid())
            self.told_ready = True
            self._serve(tensorflow)
        except Exception:  # noqa: BLE001 - the connection is lost, or speaks another language
            pass
        try:
            if self.folder:
                self.stop(tensorflow)
        except Exception:  # noqa: BLE001 - at its end a program may have no TensorFlow any more
            pass
        self.idle.set()

    def _serve(self, tensorflow: Any) -> None:
        waiting = b""
        while not self.ending.is_set():
            got = self.connection.recv(65536)
            if not got:
                return
            waiting += got
            while b"\n" in waiting:
                line, _, waiting = waiting.partition(b"\n")
                self._answer(tensorflow, json.loads(line.decode("utf-8")))

    def _tensorflow(self) -> Any:
        """TensorFlow, once the program has imported all of it; None if the program ends before."""
        if self._maybe is not None:
            self._maybe.setblocking(False)
        while not self.ending.is_set():
            module = sys.modules.get("tensorflow")
            spec = getattr(module, "__spec__", None)
            if module is not None and not getattr(spec, "_initializing", False) and hasattr(module, "profiler"):
                if self._maybe is not None:
                    self._maybe.setblocking(True)
                return module
            try:
                if self._maybe is not None and not self._maybe.recv(1, socket.MSG_PEEK):
                    return None  # nobody listens any more
            except BlockingIOError:
                pass
            self.ending.wait(_LOOK_EVERY_S)
        return None

    def _say(self, **words: object) -> None:
        with self.saying:
            self.connection.sendall(json.dumps(words).encode("utf-8") + b"\n")

    def _answer(self, tensorflow: Any, request: Dict[str, Any]) -> None:
        error = ""
        if request["do"] == "look":
            self._say(did="look", **self.look(bool(request.get("others"))))
            return
        try:
            if request["do"] == "start":
                self.start(tensorflow, request["folder"])
            elif request["do"] == "stop":
                self.stop(tensorflow)
        except Exception as problem:  # noqa: BLE001 - what TensorFlow raises is the answer
            error = "%s: %s" % (type(problem).__name__, problem)
        self._say(did=request["do"], error=error)

    def start(self, tensorflow: Any, folder: str) -> None:
        """Begin to record into a folder. Raises what TensorFlow raises: another profile may be under way."""
        self.idle.clear()
        try:
            options = tensorflow.profiler.experimental.ProfilerOptions(host_tracer_level=2)
            began_ns = time.time_ns()
            tensorflow.profiler.experimental.start(folder, options)
        except BaseException:  # also an interrupt: the end of the program would wait
            self.idle.set()
            raise
        self.folder, self.samples, self.began_ns = folder, [], began_ns
        self.sampled.clear()
        _thread.start_new_thread(self._sample, ())

    def stop(self, tensorflow: Any) -> None:
        """Write what was recorded; nothing happens if nothing is being recorded."""
        folder, self.folder = self.folder, ""
        if not folder:
            return
        try:
            self.sampled.wait(1.0)
            tensorflow.profiler.experimental.stop()
            with open(os.path.join(folder, "python_samples.json"), "w") as file:
                json.dump({"began_ns": self.began_ns, "every_s": _SAMPLE_EVERY_S, "samples": self.samples}, file)
            if not self.ending.is_set():
                _give_back_memory()
        finally:
            self.idle.set()

    def look(self, others: bool) -> Dict[str, Any]:
        """What the main thread does: its stack, and a key that stays only while it executes the same call.

        With `others`, the stacks of the other threads too, and how many workers TF_CONFIG names.
        """
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to another thread's stack
        main = frames.pop(threading.main_thread().ident or 0, None)
        found: Dict[str, Any] = {"stack": [], "key": ""}
        if main is not None:
            found = {"stack": _frames(main), "key": _key(main)}
        if others:
            own = (threading.get_ident(), self.thread)
            found["others"] = [_frames(frames[each]) for each in list(frames)[:_THREADS] if each not in own]
            found["workers"] = _workers(os.environ.get("TF_CONFIG", ""))
            found["own_thread"] = threading.get_native_id()
        del frames, main
        return found

    def end(self) -> None:
        """Tell that the program is over, and of what it died; then wait for a profile that is being written."""
        self.ending.set()
        try:
            if self.told_ready:
                problem = getattr(sys, "last_value", None)
                said = "" if problem is None else "%s: %s" % (type(problem).__name__, str(problem)[:300])
                self._say(did="ending", error=said)
            if self._maybe is not None:
                self._maybe.shutdown(socket.SHUT_RD)
        except (OSError, ValueError):
            pass
        self.idle.wait(20.0)

    def _sample(self) -> None:
        main, end = threading.main_thread().ident, time.monotonic() + _LONGEST_S
        self.interval_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self.interval_s, _SWITCH_S))
        try:
            self._look(main, end)
        finally:
            sys.setswitchinterval(self.interval_s)
            self.sampled.set()

    def forget(self) -> None:
        """In a process that this one forked: nothing is recorded there."""
        sys.setswitchinterval(self.interval_s)
        self.folder = ""
        self.idle.set()
        if self._maybe is not None:
            self._maybe.close()

    def _look(self, main: Optional[int], end: float) -> None:
        while self.folder and time.monotonic() < end and not self.ending.is_set():
            frames = sys._current_frames()  # noqa: SLF001 - the documented way to another thread's stack
            mine = frames.pop(main or 0, None)
            others = [_frames(frames[each]) for each in frames if each not in (threading.get_ident(), self.thread)]
            if mine is not None:
                self.samples.append([time.time_ns(), _frames(mine), [each for each in others if not _waits(each)]])
            del frames, mine
            self.ending.wait(_SAMPLE_EVERY_S)


def _give_back_memory() -> None:
    """Ask the allocator for what a profile needed: glibc keeps 150 MB of a recording of two seconds for the program.

    It takes some 25 ms, without the GIL: https://man7.org/linux/man-pages/man3/malloc_trim.3.html.
    """
    try:
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
    except Exception:  # noqa: BLE001 - another C library, or a Python without ctypes
        pass


def _frames(innermost: FrameType) -> Stack:
    """The stack, innermost first: file, line, function."""
    rows: Stack = []
    frame: Optional[FrameType] = innermost
    while frame is not None and len(rows) < _DEPTH:
        rows.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back
    return rows


def _key(innermost: FrameType) -> str:
    """The frames of a stack by identity, with the instruction of each."""
    words = []  # type: List[str]
    frame: Optional[FrameType] = innermost
    while frame is not None and len(words) < _DEPTH:
        words.append("%x.%x" % (id(frame), frame.f_lasti))
        frame = frame.f_back
    return " ".join(words)


def _workers(settings: str) -> int:
    """How many workers TF_CONFIG names: https://www.tensorflow.org/guide/distributed_training#TF_CONFIG."""
    try:
        cluster = json.loads(settings or "{}").get("cluster", {})
        return sum(len(cluster.get(role, ())) for role in ("chief", "worker"))
    except (AttributeError, TypeError, ValueError):
        return 0


def _waits(frames: Stack) -> bool:
    """Whether a thread only waits for another, by Python's own modules."""
    return str(frames[0][0]).endswith(("threading.py", "queue.py", "selectors.py", "socket.py"))
