"""Two faults at once: the first cause is one of them, and once it is mended, the other is named."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from lab.answers import Answers
from lab.examination import examine, why_not
from lab.pairs import COUNT, Pair, draw

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
PAIRS = draw()
Note = Callable[[str, object], None]
# Pairs that are no two faults: why.
NO_PAIRS = {
    "without-extra+cudnn-deleted": "where no CUDA wheel is installed, there is no cuDNN to delete",
    "toolkit-12-off-path+growth-on-one-of-two": "the code that sets the growth ends with an error of its own without a GPU",
}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_pair(
    pair: Pair, bench: pathlib.Path, lab_targets: pathlib.Path, answers: Answers, record_property: Note
) -> None:
    if reason := why_not(pair.both) or NO_PAIRS.get(pair.name, ""):
        pytest.skip(reason)
    labels = examine(pair.both, _folder(bench, "both"), lab_targets).labels
    first = labels[0] if labels else "none"
    right = first in (pair.one.label, pair.other.label)
    left = pair.without(first)
    after = labels if left.label in labels[1:] else answers.find(left)
    if after is None:
        after = examine(left, _folder(bench, "after"), lab_targets).labels
    record_property("pair", f"{pair.name}: {first}, then {left.label if left.label in after else after}")
    assert right, f"the first of {labels} is neither {pair.one.label} nor {pair.other.label}"
    assert left.label in after, f"after {first} is mended, {after} lacks {left.label}"


def _folder(bench: pathlib.Path, name: str) -> pathlib.Path:
    folder = bench / name
    folder.mkdir()
    return folder


def test_there_are_as_many_pairs_as_asked_for() -> None:
    assert len(PAIRS) == COUNT
    assert len({pair.name for pair in PAIRS}) == COUNT
    assert all(pair.one.label != pair.other.label for pair in PAIRS)
