"""--select and --ignore: ids, prefixes, and words that fit nothing."""

from __future__ import annotations

import pytest

from tfgpu_doctor.diagnose.selection import Selection, UnknownId

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
