"""What Python does at a moment: the stacks of its threads; and many such looks, while a profile is recorded.

It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import json
import sys
import time
from types import FrameType
from typing import Any, Dict, Iterable, List, Optional, Tuple

_DEPTH = 40
_THREADS = 40  # of a look

Frame = Tuple[str, int, str]
Stack = Tuple[Frame, ...]  # innermost first: file, line, function


def look(main: Optional[int], own: Iterable[int], others: bool) -> Dict[str, Any]:
    """What the main thread does: its stack, and a key that stays only while it executes the same call.

    With `others`, the stacks of the other threads too, but for the recorder's `own`.
    """
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to another thread's stack
    innermost = frames.pop(main or 0, None)
    found: Dict[str, Any] = {"stack": [], "key": ""}
    if innermost is not None:
        found = {"stack": _stack(innermost), "key": _key(innermost)}
    if others:
        found["others"] = [_stack(frames[each]) for each in list(frames)[:_THREADS] if each not in own]
    del frames, innermost
    return found


class Looks:
    """Looks by their time. Equal stacks are kept once, as the text that is written at the end."""

    def __init__(self) -> None:
        self._known: Dict[Stack, str] = {}
        self._rows: List[Tuple[int, str, Tuple[str, ...]]] = []

    def add(self, main: Optional[int], own: Iterable[int]) -> None:
        """Look at the main thread, and at what the others do that do not wait for one another."""
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to another thread's stack
        mine = frames.pop(main or 0, None)
        others = [_stack(frames[each]) for each in frames if each not in own]
        if mine is not None:
            texts = tuple(self._text(each) for each in others if not _waits(each))
            self._rows.append((time.time_ns(), self._text(_stack(mine)), texts))
        del frames, mine

    def _text(self, stack: Stack) -> str:
        text = self._known.get(stack)
        if text is None:
            text = self._known[stack] = json.dumps(stack)
        return text

    def write(self, path: str, began_ns: int, every_s: float, read: Dict[str, Any]) -> None:
        """Write them, one after the other: of a long recording the whole text would be large. `read`: what it reads."""
        with open(path, "w") as file:
            file.write('{"began_ns": %d, "every_s": %s, "samples": [' % (began_ns, every_s))
            file.writelines(
                "%s[%d, %s, [%s]]" % ("," if place else "", at_ns, main, ", ".join(others))
                for place, (at_ns, main, others) in enumerate(self._rows)
            )
            file.write('], "read": %s}' % json.dumps(read))


def _stack(innermost: FrameType) -> Stack:
    rows: List[Frame] = []
    frame: Optional[FrameType] = innermost
    while frame is not None and len(rows) < _DEPTH:
        rows.append((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(rows)


def _key(innermost: FrameType) -> str:
    """The frames of a stack by identity, with the instruction of each."""
    words: List[str] = []
    frame: Optional[FrameType] = innermost
    while frame is not None and len(words) < _DEPTH:
        words.append("%x.%x" % (id(frame), frame.f_lasti))
        frame = frame.f_back
    return " ".join(words)


def _waits(frames: Stack) -> bool:
    """Whether a thread only waits for another, by Python's own modules."""
    return frames[0][0].endswith(("threading.py", "queue.py", "selectors.py", "socket.py"))
