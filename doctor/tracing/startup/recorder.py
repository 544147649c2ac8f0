"""The thread in the user's program that records a profile of TensorFlow when asked through a Unix socket.

A request and an answer is a line of JSON: {"do": "start", "folder": ..., "most_bytes": ...}, {"do": "stop"} and {"do":
"look"}; {"did": ..., "error": ...}. With `most_bytes` a recording ends by itself once the program holds so much more;
the answer to "stop" then says "full", and always how many "seconds" were recorded. Without a request it says {"did":
"ready"} once TensorFlow is imported, and {"did": "ending"} when the program is over. It may use the standard library
alone, of any Python from 3.8 on. While it records, it also looks at what the program's Python does: TensorFlow's profile
says nothing of that.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import threading
from typing import Any, Dict, Optional, Set

_LOOK_EVERY_S = 0.1  # for TensorFlow in sys.modules
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "HOROVOD_RANK", "RANK")


def _beside(name: str) -> Any:
    """A module in this folder, which is on no search path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_tfgpu_doctor_" + name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_looks, _recordings, _helper_thread = _beside("looks"), _beside("recordings"), _beside("helper_thread")


class Recorder:
    """Records when its connection says so, or when the program itself calls `start` and `stop`."""

    def __init__(self, connection: Optional[socket.socket]) -> None:
        self._maybe = connection
        self.ending = threading.Event()
        self.own: Set[int] = set()  # threads
        self._recordings = _recordings.Recordings(self.own, self.ending)
        self._helper = _helper_thread.HelperThread(self.own)
        self.saying = threading.Lock()
        self.told_ready = False

    @property
    def connection(self) -> socket.socket:
        """The connection to the doctor; only a program that records itself has none."""
        assert self._maybe is not None
        return self._maybe

    @property
    def full(self) -> bool:
        """Whether the last recording ended by itself, as it needed the memory that it may."""
        return bool(self._recordings.full)

    @property
    def seconds(self) -> float:
        """How long the last recording was."""
        return float(self._recordings.seconds)

    def prepare(self) -> None:
        """Start the threads that a recording needs, as long as Python starts any. RuntimeError where it does not."""
        self._helper.begin(stays=True)
        self._recordings.prepare()

    def run(self) -> None:
        """Answer requests until the connection or the program ends."""
        # No name, no entry in threading.enumerate(): a program that joins all of its threads does not wait for this one.
        self.own.add(threading.get_ident())
        try:
            tensorflow = self._tensorflow()
            if tensorflow is not None:
                self._visit(tensorflow)
        except Exception:  # noqa: BLE001 - the connection is lost: the program goes on
            pass

    def listen(self, listener: socket.socket) -> None:
        """Answer one doctor after the other, until the program ends."""
        self.own.add(threading.get_ident())
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
            self.stop(tensorflow)
        except Exception:  # noqa: BLE001 - at its end a program may have no TensorFlow any more
            pass
        self._recordings.idle.set()

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
        if request["do"] == "look":
            self._say(did="look", **self.look(bool(request.get("others"))))
        else:  # TensorFlow may need long, or for ever: looks are answered meanwhile
            self._helper.call(self._do, tensorflow, request)

    def _do(self, tensorflow: Any, request: Dict[str, Any]) -> None:
        answer: Dict[str, Any] = {"did": request["do"], "error": ""}
        try:
            if request["do"] == "start":
                self.start(tensorflow, request["folder"], int(request.get("most_bytes", 0)))
            elif request["do"] == "stop":
                self.stop(tensorflow)
                answer.update({"seconds": self.seconds}, **({"full": True} if self.full else {}))
        except Exception as problem:  # noqa: BLE001 - what TensorFlow raises is the answer
            answer["error"] = "%s: %s" % (type(problem).__name__, problem)
        self._say(**answer)

    def start(self, tensorflow: Any, folder: str, most_bytes: int = 0) -> None:
        """Begin to record into a folder. Raises what TensorFlow raises: another profile may be under way."""
        self._recordings.start(tensorflow, folder, most_bytes)

    def stop(self, tensorflow: Any) -> None:
        """Write what was recorded; nothing happens if nothing is being recorded. Raises what TensorFlow raises."""
        self._recordings.stop(tensorflow)

    def look(self, others: bool) -> Dict[str, Any]:
        """What the main thread does; with `others`, the other threads too, and how many workers TF_CONFIG names."""
        own = self.own | {threading.get_ident()}
        found: Dict[str, Any] = _looks.look(threading.main_thread().ident, own, others)
        found["rank"], found["recorded"] = _rank(), self._recordings.over
        if others:
            found["workers"] = _workers(os.environ.get("TF_CONFIG", ""))
            found["own_thread"] = threading.get_native_id()
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
        self._recordings.idle.wait(20.0)

    def forget(self) -> None:
        """In a process that this one forked: nothing is recorded there."""
        self.ending, self.saying = threading.Event(), threading.Lock()
        self.told_ready = False
        self._recordings.forget(self.ending)
        self._helper.forget()
        if self._maybe is not None:
            self._maybe.close()


def _workers(settings: str) -> int:
    """How many workers TF_CONFIG names: https://www.tensorflow.org/guide/distributed_training#TF_CONFIG."""
    try:
        cluster = json.loads(settings or "{}").get("cluster", {})
        return sum(len(cluster.get(role, ())) for role in ("chief", "worker"))
    except (AttributeError, TypeError, ValueError):
        return 0


def _rank() -> str:
    """Which process of several this is, as its launcher or TF_CONFIG says; empty if nobody does."""
    try:
        task = json.loads(os.environ.get("TF_CONFIG", "") or "{}").get("task", {})
        if "index" in task:
            return "%s %d of TF_CONFIG" % (str(task.get("type", "task"))[:20], int(task["index"]))
    except (AttributeError, TypeError, ValueError):
        pass
    found = next((name for name in _RANKS if os.environ.get(name, "").isdigit()), "")
    return "%s %s" % (found, os.environ[found]) if found else ""
