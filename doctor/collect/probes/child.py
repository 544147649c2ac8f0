"""Run a program of `workers/` in a child process, and parse its answer."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

import tfgpu_doctor.collect.workers
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.model.facts.attempt import Attempt, Fact

_FOLDER = os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__))
_KEPT_LINES = 40
_LONGEST_LINE = 500
NO_CUDA_BYTES = 2 << 30  # of memory, for a program that imports nothing of TensorFlow or CUDA
_MOST_FIELDS = 10_000  # of an answer
# msgspec 0.22 crashes if two threads convert to one type for the first time; each probe converts on its own thread.
_CONVERTING = threading.Lock()
FactType = TypeVar("FactType", bound=Fact)


def ask(
    host: Host,
    python: str,
    program: str,
    arguments: Sequence[str] = (),
    *,
    deadline_s: float,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    until: threading.Event | None = None,
    memory_bytes: float | None = None,
) -> tuple[Attempt, dict[str, Any], list[str]]:
    """Run one program of `workers/`: return the attempt, the merged answer, and all lines of its standard error.

    A program that watches its standard input ends when `until` is set, or when the doctor has exited; `memory_bytes` is
    the most that a healthy one needs. An answer of which a part was left out is none.
    """
    done = host.run(
        [python, *options, os.path.join(_FOLDER, program + ".py"), *arguments],
        deadline_s=deadline_s,
        variables=variables,
        until=until,
        memory_bytes=memory_bytes,
    )
    answer, understood = _merge(b"" if done.left_out_bytes else done.stdout)
    lines = done.stderr.splitlines()
    attempt = Attempt(
        outcome=_outcome(done, understood),
        seconds=round(done.seconds, 3),
        exit_code=done.exit_code,
        signal=done.signal,
        phase=str(answer.pop("phase", "")) if not (understood and done.exit_code == 0) else "",
        error=_error(done, lines)[:_LONGEST_LINE],
        stderr=tuple(line[:_LONGEST_LINE] for line in lines[-_KEPT_LINES:]) if done.exit_code != 0 else (),
        stuck=done.stuck,
    )
    answer.pop("phase", None)
    return attempt, answer, lines


def understand(kind: type[FactType], attempt: Attempt, answer: Mapping[str, Any], **known: Any) -> FactType:
    """The fact of that kind from an answer; an answer of another shape makes the attempt unparsable.

    `known` are fields that the caller supplies, as JSON would give them; they override those of the answer.
    """
    known["attempt"] = msgspec.to_builtins(attempt)
    with _CONVERTING:
        try:
            return msgspec.convert({**answer, **known}, kind)
        except msgspec.ValidationError as error:
            known["attempt"].update(outcome="unparsable", error=str(error)[:_LONGEST_LINE])
            return msgspec.convert(known, kind)


def _merge(output: bytes) -> tuple[dict[str, Any], bool]:
    """The objects of all lines as one, and whether there is at least one and each could be read.

    A line that is not an object was printed by something else in that interpreter, for example a .pth file.
    """
    merged: dict[str, Any] = {}
    lines = (line for part in io.BytesIO(output) for line in part.splitlines())
    read, unread = 0, 0
    for line in filter(_is_object, lines):
        try:
            row = read_json(line)
        except ValueError:
            unread += 1
            continue
        read += 1
        if len(merged) > _MOST_FIELDS:
            return {}, False
        for name, value in row.items():
            kept = merged.get(name)
            merged[name] = {**kept, **value} if isinstance(kept, dict) and isinstance(value, dict) else value
    return merged, read > 0 and unread == 0


def _is_object(line: bytes) -> bool:
    return line.lstrip().startswith(b"{")


def _outcome(done: Completed, understood: bool) -> Any:
    if done.not_started:
        return "not_started"
    if done.excess:
        return "failed"
    if done.timed_out or done.exit_code is None:
        return "timed_out"
    if done.signal:
        return "killed_by_signal"
    if done.exit_code != 0:
        return "failed"
    return "answered" if understood else "unparsable"


def _error(done: Completed, lines: Sequence[str]) -> str:
    if done.not_started:
        return done.not_started
    if done.excess or done.said_too_much:
        return f"it {done.excess or done.said_too_much}"
    if done.exit_code == 0 or done.timed_out:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")
