"""Which open stream a path stands for: /dev/stdout, /proc/self/fd/3, the same of another process, and links to them."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass

_MOST_LINKS = 40  # the number that Linux follows before it returns ELOOP
_NAMED = {"stdin": 0, "stdout": 1, "stderr": 2}


@dataclass(frozen=True)
class OpenStream:
    """A descriptor: of this process, or of another, whose path is one of /proc."""

    number: int
    is_own: bool
    path: str


def stream_of(path: str) -> OpenStream | None:
    """Return the stream that a path stands for; None if it names a file. Raises OSError if the working folder is gone.

    Links are followed one at a time: the last one, in /proc/*/fd, leads to the file that a shell has redirected there.
    """
    waiting = deque((path if os.path.isabs(path) else os.path.join(os.getcwd(), path)).split("/"))
    done: list[str] = []
    links = 0
    while waiting:
        name = waiting.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            done = done[:-1]
            continue
        target = _target("/" + "/".join([*done, name]))
        found = None if any(waiting) else _named(done, name, is_link=target is not None)
        if found or links > _MOST_LINKS:
            return found
        if target is None:
            done.append(name)
            continue
        links += 1
        done = [] if target.startswith("/") else done
        waiting.extendleft(reversed(target.split("/")))
    return None


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None  # no link, or nothing at all


def _named(folder: list[str], name: str, *, is_link: bool) -> OpenStream | None:
    """Return the stream of a name in a folder. Where /dev/stdout is no link, it is the system's own name of the stream."""
    number = int(name) if name.isdecimal() and len(name) <= 6 else None
    if folder == ["dev"] and not is_link and name in _NAMED:
        number, process = _NAMED[name], "self"
    elif number is not None and folder == ["dev", "fd"] and not is_link:
        process = "self"
    elif number is not None and folder[:1] == ["proc"] and folder[2:] in (["fd"], ["task", *folder[3:4], "fd"]):
        process = folder[1]
    else:
        return None
    return OpenStream(number, process in _names_of_this_process(), "/" + "/".join([*folder, name]))


def _names_of_this_process() -> tuple[str, ...]:
    """Return what /proc calls this process: a number of its own where it shows another container's processes."""
    return "self", "thread-self", _target("/proc/self") or str(os.getpid())
