"""Ctrl-C, SIGTERM and SIGHUP: the first one ends the command in order, and what comes while it does so is ignored.

Nothing that is slow to import may be imported here: this stands before everything else.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_PATIENCE_S = 10.0  # after that the end takes too long, and a further signal ends the doctor at once
_AGAIN_S = 0.01
_INTERRUPTED = 130  # exit code


class _State:
    """Whether signals are ours, and when the first one came."""

    def __init__(self) -> None:
        self.held = False
        self.first_s: float | None = None
        self.undisturbed, self.waits = 0, False


_STATE = _State()


def hold() -> None:
    """Let signals wait: during the start nobody could answer them with a document."""
    _STATE.held = True
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def listen() -> None:
    """Raise KeyboardInterrupt in the main thread at the first signal from now on, or at one that waits. Only after `hold`."""
    if not _STATE.held:
        return
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell starts what runs in the background
            signal.signal(number, _interrupt)
    sys.unraisablehook = _not_raised
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


class Listening:
    """While it lasts a signal interrupts; after it signals are ignored, because the document comes at once."""

    def __enter__(self) -> None:
        """Begin."""
        listen()

    def __exit__(self, *_: object) -> None:
        """End."""
        if _STATE.held and _STATE.first_s is None:
            _STATE.first_s = time.monotonic()


class Undisturbed:
    """For a moment's work that must be done whole: an interrupt waits until it is done."""

    def __enter__(self) -> None:
        """Begin."""
        _STATE.undisturbed += 1

    def __exit__(self, *_: object) -> None:
        """End, and raise the interrupt that waits."""
        _STATE.undisturbed -= 1
        if _STATE.waits and not _STATE.undisturbed:
            _STATE.waits = False
            raise KeyboardInterrupt


def finish() -> bool:
    """Interrupt no more: the result stands, and is told. Return False if an interrupt already waits, which then comes."""
    _STATE.first_s = time.monotonic()  # first: from now on none begins to wait
    return not _STATE.waits


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    now = time.monotonic()
    if _STATE.first_s is None:
        _STATE.first_s = now
        if _STATE.undisturbed:
            _STATE.waits = True
            return
        raise KeyboardInterrupt
    if now - _STATE.first_s > _PATIENCE_S:
        if scratch := sys.modules.get("tfgpu_doctor.host.scratch"):
            scratch.end_run()
        os._exit(_INTERRUPTED)


def _not_raised(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more where Python lost the interrupt: it came in a destructor or in a callback of a weak reference."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    _STATE.first_s = None
    _thread.start_new_thread(_interrupt_again, ())


def _interrupt_again() -> None:
    time.sleep(_AGAIN_S)
    _thread.interrupt_main(signal.SIGTERM)
