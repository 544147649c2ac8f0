"""The last step of a log: what a program did when it printed no more. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.log.derived import Hits
from tfgpu_doctor.log.lines import split_lines
from tfgpu_doctor.log.statements import is_of_program, is_written_by_person


def with_last_step(hits: Hits, texts: Sequence[tuple[int, str]]) -> Hits:
    """Add `stopped_at_adding`, where nothing follows the line with which TensorFlow takes the GPUs: it may still compile."""
    added = hits.get("adding_gpus")
    if not added or _goes_on(texts, added[-1].line):
        return hits
    return {**hits, "stopped_at_adding": added[-1:]}


def _goes_on(texts: Sequence[tuple[int, str]], last: int) -> bool:
    """Whether a program prints more after a line; what the author of a ticket writes below a log is no part of it.

    Of a large log parts are kept as text: of a line in none of them it is not known, and then nothing is claimed.
    """
    is_ticket = is_written_by_person([text for _, text in texts])
    lines = [(number, line) for first, text in texts for number, line in enumerate(split_lines(text), first)]
    following = (line for number, line in lines if number > last)
    return all(number != last for number, _ in lines) or any(
        is_of_program(line) if is_ticket else line.strip(" `\t") for line in following
    )
