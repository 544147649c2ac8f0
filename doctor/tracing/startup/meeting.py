"""How the recorder in the user's program meets a doctor: one that waits for it, or one that comes later.

It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import _thread
import atexit
import os
import socket
import stat
from typing import Any

_CONNECT_S = 2.0


def begin(recorder_class: Any, path: str) -> None:
    """Connect to the socket, and start the thread; not one of `threading`'s, whose list is the program's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_S)
    connection.connect(path)
    connection.settimeout(None)
    recorder = recorder_class(connection)
    recorder.prepare()

    atexit.register(recorder.end)
    os.register_at_fork(after_in_child=recorder.forget)
    _thread.start_new_thread(recorder.run, ())


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another program that starts now was faster


def wait_here(recorder_class: Any, base: str) -> None:
    """Listen for a doctor that may come later, at BASE/tfgpu-doctor-UID/PID, which only this user can reach."""
    recorder = recorder_class(None)
    recorder.prepare()
    folder = os.path.join(base, "tfgpu-doctor-%d" % os.getuid())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise OSError("%s is not a folder of this user alone" % folder)
    own, path = os.getpid(), os.path.join(folder, str(os.getpid()))
    for name in os.listdir(folder):
        # Of a program that was killed; one with the same number was another, or this process before it became a new program.
        if name == str(own) or not os.path.exists("/proc/" + name):
            _unlink(os.path.join(folder, name))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)

    def end() -> None:
        recorder.end()
        if os.getpid() == own and os.path.exists(path):
            os.unlink(path)

    atexit.register(end)
    os.register_at_fork(after_in_child=recorder.forget)
    os.register_at_fork(after_in_child=listener.close)
    _thread.start_new_thread(recorder.listen, (listener,))
