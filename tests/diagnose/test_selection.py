"""--select and --ignore: ids, prefixes, and words that fit nothing."""

from __future__ import annotations

import pytest

from tfgpu_doctor.diagnose.selection import Selection, UnknownId
from tfgpu_doctor.model.report import Result

IDS = ["DRV001", "DRV002", "LIB001"]


@pytest.mark.parametrize("word", ["DRV001", "drv001", "DRV", "lib"])
def test_ids_and_prefixes_are_known(word: str) -> None:
    Selection(select=(word,)).validate(IDS)


@pytest.mark.parametrize("word", ["D", "DRV00", "DRV999", "", "*"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(UnknownId, match="no check is called"):
        Selection(ignore=(word,)).validate(IDS)


def test_a_near_miss_is_proposed() -> None:
    with pytest.raises(UnknownId, match=r"did you mean DRV001\?"):
        Selection(select=("DVR001",)).validate(IDS)


def test_with_a_plugin_missing_nothing_is_refused() -> None:
    Selection(select=("ACME001",)).validate(IDS, complete=False)


DRIVER_FAILS = (
    Result(id="DRV001", title="the driver answers", outcome="fail"),
    Result(id="DRV002", title="the driver is new enough", outcome="pass"),
    Result(id="LIB001", title="the libraries load", outcome="skip", blocked_by=("DRV001",)),
    Result(id="ENV001", title="the variables are known", outcome="fail"),
)
NEEDED = {"LIB001": frozenset({"DRV001", "DRV002"})}


@pytest.mark.parametrize(
    ("select", "ignore", "shown"),
    [
        ((), (), {"DRV001": "fail", "DRV002": "pass", "LIB001": "skip", "ENV001": "fail"}),
        (("LIB",), (), {"DRV001": "fail", "LIB001": "skip"}),  # and what it failed for
        (("LIB",), ("DRV",), {"LIB001": "skip"}),
        ((), ("DRV001",), {"DRV001": "skip", "DRV002": "pass", "LIB001": "skip", "ENV001": "fail"}),
        (("DRV",), ("DRV001",), {"DRV001": "skip", "DRV002": "pass"}),
    ],
)
def test_what_is_shown(select: tuple[str, ...], ignore: tuple[str, ...], shown: dict[str, str]) -> None:
    results = Selection(select=select, ignore=ignore).apply(DRIVER_FAILS, NEEDED)
    assert {each.id: each.outcome for each in results} == shown
