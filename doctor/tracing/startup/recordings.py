"""One recording after the other of what TensorFlow does in this process, with looks at its Python.

It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from typing import Any, Dict, Optional, Set

_SAMPLE_EVERY_S = 0.01
_DENSE_EVERY_S, _DENSE_S = 0.004, 0.5  # at first: a short recording, too, needs some looks
_SWITCH_S = 0.0005  # with Python's own 5 ms the looks would fall where the main thread lets go of the GIL by itself
_LONGEST_S = 120.0  # a recording that nobody ends
_SHORTEST_S = 0.1  # with fewer steps nothing can be judged, however much they need
_SWING_BYTES = 256 << 20  # up to its peak the program's own memory may grow: a large record comes and goes


def beside(name: str) -> Any:
    """A module in this folder, which is on no search path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_tfgpu_doctor_" + name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_looks, _giving_way, _sources = beside("looks"), beside("giving_way"), beside("sources")
_helper_thread, _processors = beside("helper_thread"), beside("processors")


class GaveWay(RuntimeError):
    """The program began or ended a profile of its own, and the doctor's recording was dropped."""


class Recordings:
    """Begins and ends them. `own` are the threads of the doctor; `idle` is set while nothing is being recorded."""

    def __init__(self, own: Set[int], ending: threading.Event) -> None:
        self.own, self.ending = own, ending
        self.folder = ""
        self.full = False
        self.seconds = 0.0  # that the last one took
        self.over = False  # it ended by itself, and nobody has asked for its end yet
        self.idle = threading.Event()
        self.idle.set()
        self._looks = _looks.Looks()
        self._sources: Any = None  # of the recording under way
        self._counted: Any = None  # the counters at its begin
        self._problem: Optional[BaseException] = None  # of a recording that ended by itself
        self._sampled = threading.Event()  # Python switches threads as the program wants it
        self._sampled.set()
        self._began_ns, self._began_s = 0, 0.0
        self._interval_s = sys.getswitchinterval()
        self._changing = threading.RLock()  # held while a recording begins or ends
        self._giving_way = _giving_way.GivingWay(self._changing, self._give_way)
        self._sampler = _helper_thread.HelperThread(own)

    def prepare(self) -> None:
        """Start the thread that looks at Python, for all recordings. RuntimeError where Python starts none any more."""
        self._sampler.begin(stays=True)

    def start(self, tensorflow: Any, folder: str, most_bytes: int = 0) -> None:
        """Begin to record into a folder. Raises what TensorFlow raises: another profile may be under way.

        With `most_bytes` it ends by itself once the program holds so much more than it ever held.
        """
        with self._changing:
            self._sampler.begin(stays=False)
            self.idle.clear()
            self._giving_way.begin()
            try:
                began_ns, held = time.time_ns(), _held_bytes()
                held = max(held, min(_peak_bytes(), held + _SWING_BYTES))
                # Without options: these are as wished, and 2.22.0rc0 warns of each option, and ignores it.
                tensorflow.profiler.experimental.start(folder)
            except BaseException:  # also an interrupt: the end of the program would wait
                self._giving_way.clear()
                self._giving_way.end()
                self._sampler.call(_helper_thread.nothing)
                self.idle.set()
                raise
            self.folder, self._looks, self._began_ns = folder, _looks.Looks(), began_ns
            self._began_s = time.monotonic()
            self._sources, self._counted = _sources.Sources(), _processors.counted()
            self.full, self.over, self._problem = False, False, None
            self._interval_s = sys.getswitchinterval()
            self._sampled.clear()
            self._sampler.call(self._sample, tensorflow, folder, held + most_bytes if most_bytes else 0)

    def stop(self, tensorflow: Any) -> None:
        """Write what was recorded; nothing happens if nothing is being recorded.

        Raises what TensorFlow raises, and GaveWay.
        """
        with self._changing:
            folder, self.folder, self.over = self.folder, "", False
            if not folder:
                problem, self._problem = self._problem, None
                if problem is not None:
                    raise problem
                return
            self.seconds = time.monotonic() - self._began_s
            try:
                self._sampled.wait(1.0)
                read = self._read()
                tensorflow.profiler.experimental.stop()
                self._looks.write(os.path.join(folder, "python_samples.json"), self._began_ns, _SAMPLE_EVERY_S, read)
                if not self.ending.is_set():
                    _give_back_memory()
            finally:
                self._looks = _looks.Looks()
                self._giving_way.end()
                self.idle.set()

    def _read(self) -> Dict[str, Any]:
        """What the program read, and what it got of its CPUs; nothing where that fails, as the profile itself has to be ended."""
        try:
            return {**self._sources.found(), "processors": _processors.between(self._counted, _processors.counted())}
        except Exception:  # noqa: BLE001 - the program is another's
            return {}

    def _give_way(self) -> None:
        """Drop what is being recorded: the program asks TensorFlow's profiler for something."""
        folder, self.folder = self.folder, ""
        if not folder:
            return
        self._problem = GaveWay("AlreadyExists: the program records a profile of its own")
        try:
            sys.modules["tensorflow"].profiler.experimental.stop(save=False)
        except Exception:  # noqa: BLE001 - the program is told by TensorFlow itself what it can do
            pass
        self._giving_way.end()
        self.idle.set()

    def _sample(self, tensorflow: Any, folder: str, most_bytes: int) -> None:
        sys.setswitchinterval(min(self._interval_s, _SWITCH_S))
        try:
            by_itself = self._look(folder, most_bytes)
        finally:
            sys.setswitchinterval(self._interval_s)
            self._sampled.set()
        if by_itself:
            self._end(tensorflow, folder)

    def _look(self, folder: str, most_bytes: int) -> bool:
        """Look until the recording ends; return whether it is to end by itself."""
        main, began_s = threading.main_thread().ident, time.monotonic()
        while self.folder == folder and not self.ending.is_set():
            passed_s = time.monotonic() - began_s
            if passed_s > _LONGEST_S:
                return True
            if most_bytes and passed_s >= _SHORTEST_S and _held_bytes() > most_bytes:
                self.full = True
                return True
            self._looks.add(main, self.own)
            self._sources.look()
            self.ending.wait(_DENSE_EVERY_S if passed_s < _DENSE_S else _SAMPLE_EVERY_S)
        return False

    def _end(self, tensorflow: Any, folder: str) -> None:
        """End the recording from its own side; the next "stop" tells how that went."""
        with self._changing:
            if self.folder != folder:
                return
            try:
                self.stop(tensorflow)
                self.over = True
            except Exception as problem:  # noqa: BLE001 - what TensorFlow raises is the answer
                self._problem = problem

    def forget(self, ending: threading.Event) -> None:
        """In a process that this one forked: nothing is recorded there.

        A lock may be held, for ever, by a thread that is not there any more: an event's as well.
        """
        if not self._sampled.is_set():
            sys.setswitchinterval(self._interval_s)
        self._giving_way.end()
        self._changing = self._giving_way.changing = threading.RLock()
        self.folder, self.ending = "", ending
        self.idle, self._sampled = threading.Event(), threading.Event()
        self.idle.set()
        self._sampled.set()
        self._sampler.forget()


def _held_bytes() -> int:
    """The memory that the process holds; 0 where there is no /proc."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _peak_bytes() -> int:
    """The most memory that the process ever held; 0 where there is no /proc."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


def _give_back_memory() -> None:
    """Ask the allocator for what a profile needed: glibc keeps 150 MB of a recording of two seconds for the program.

    It takes some 25 ms, without the GIL: https://man7.org/linux/man-pages/man3/malloc_trim.3.html.
    """
    try:
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
    except Exception:  # noqa: BLE001 - another C library, or a Python without ctypes
        pass
