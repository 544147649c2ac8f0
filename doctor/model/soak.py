"""How the minutes of `--level soak` are divided into rounds, and how long its GPUs are under load at least."""

from __future__ import annotations

_ROUNDS = 60  # of a soak, at most; a round of less than half a minute would not heat the GPU
_LEAST_ROUND_S = 30.0
_BETWEEN_S = 1.0  # what passes between all the rounds together; in fact less than a tenth of it


def soak_round_s(soak_s: float) -> float:
    """Return the seconds of a round of a soak that lasts that long."""
    return min(soak_s, max(_LEAST_ROUND_S, soak_s / _ROUNDS))


def least_load_s(soak_s: float) -> float:
    """Return the seconds that the rounds of such a soak take at least: none begins of which less than half would fit."""
    return soak_s - soak_round_s(soak_s) / 2 - _BETWEEN_S
