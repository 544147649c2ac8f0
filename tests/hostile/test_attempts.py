"""Hostile files at every entrance: the command ends in time and memory, says what is wrong, and leaves nothing."""

from __future__ import annotations

import functools
import os
import pathlib
import random
from collections.abc import Iterator

import pytest
from attempts import Attempt, Runner
from hostile.entrances import ENTRANCES
from hostile.surroundings import SURROUNDINGS
from hostile_files import HOSTILE_FILES

pytestmark = [pytest.mark.timed]
_SEED = 20
_LEFT_OUT = {
    ("log", "a pipe"), ("log as JSON", "a pipe"),  # they wait for the program that writes into it, until Ctrl-C
}  # fmt: skip
_FEW = 12  # in the quick selection; no entrance and no kind of file comes twice


def attempt(entrance: str, kind: str, around: str = "nothing special") -> Attempt:
    """A hostile file of a kind at an entrance, and what the process is started with."""
    found = ENTRANCES[entrance]

    def make(folder: pathlib.Path) -> None:
        found.around(folder)
        places = [*folder.glob(found.place)] if "*" in found.place else [folder / found.place]
        assert places, found.place
        for place in places:
            place.unlink(missing_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            HOSTILE_FILES[kind](place)

    return Attempt(f"{entrance}: {kind}", make, found.command, SURROUNDINGS[around], found.most_bytes)


@functools.cache
def _quick() -> tuple[tuple[str, str], ...]:
    """An arrangement in which neither an entrance nor a kind of file comes twice."""
    drawn = random.Random(_SEED)
    entrances, kinds = list(ENTRANCES), list(HOSTILE_FILES)
    drawn.shuffle(entrances)
    drawn.shuffle(kinds)
    return tuple(pair for pair in zip(entrances, kinds, strict=False) if pair not in _LEFT_OUT)[:_FEW]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    found = Runner()
    yield found
    found.end()


@pytest.mark.parametrize(("entrance", "kind"), _quick())
def test_a_few(entrance: str, kind: str, runner: Runner) -> None:
    assert runner.broken_promises(attempt(entrance, kind)) == []


@pytest.mark.slow
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_kind_of_file_at(entrance: str, runner: Runner) -> None:
    kinds = [kind for kind in HOSTILE_FILES if (entrance, kind) not in _LEFT_OUT]
    assert {kind: found for kind in kinds if (found := runner.broken_promises(attempt(entrance, kind)))} == {}


def _drawn(count: int, seed: int) -> Iterator[tuple[str, str, str]]:
    drawn = random.Random(seed)
    while count:
        entrance, kind = drawn.choice(list(ENTRANCES)), drawn.choice(list(HOSTILE_FILES))
        if (entrance, kind) not in _LEFT_OUT:
            yield entrance, kind, drawn.choice(list(SURROUNDINGS))
            count -= 1


@pytest.mark.slow
def test_a_hundred_combinations(runner: Runner) -> None:
    """Others with another seed in $TFGPU_DOCTOR_HOSTILE_SEED."""
    seed = int(os.environ.get("TFGPU_DOCTOR_HOSTILE_SEED", _SEED))
    broken = {each: found for each in _drawn(100, seed) if (found := runner.broken_promises(attempt(*each)))}
    assert broken == {}
