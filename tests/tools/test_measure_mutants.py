"""What is sampled for planted faults, and that a switch plants exactly one."""

from __future__ import annotations

import pathlib
import sys
import types

import measure_mutants
import pytest
from locations import ROOT
from mutants.sites import SWITCH, planted, sites_of

CODE = """
def is_older(version, minimum):
    found = []
    if version < minimum:
        found.append(version)
    return found
"""


def test_every_pattern_finds_modules(tmp_path: pathlib.Path) -> None:
    for entry in [*(ROOT / "doctor").iterdir(), ROOT / "checks"]:  # as they lie once installed
        (tmp_path / entry.name).symlink_to(entry)
    sampled = measure_mutants.files_of(tmp_path)
    assert [pattern for pattern in measure_mutants._FILES if not any(tmp_path.glob(pattern))] == []

    judging = [path for path in (ROOT / "checks").rglob("*.py") if "\n@check(" in path.read_text("utf-8")]
    assert len(judging) > 40
    assert [path for path in judging if path.relative_to(ROOT).as_posix() not in sampled] == []


@pytest.mark.parametrize("place", range(3))
def test_a_switch_plants_one_fault(place: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("code")
    (folder / "code.py").write_text(CODE)
    sites = sites_of(folder, "code.py")
    assert [site.kind for site in sites] == ["condition", "comparison", "statement"]

    switch = types.ModuleType(SWITCH)
    on: list[int] = []
    switch.active = lambda number: number in on  # type: ignore[attr-defined]
    room: dict[str, types.FunctionType] = {}
    sys.modules[SWITCH] = switch
    try:
        exec(planted(CODE, {place: 7}), room)
    finally:
        del sys.modules[SWITCH]
    cases = [(1, 2), (2, 2), (3, 2)]
    assert [room["is_older"](*case) for case in cases] == [[1], [], []]
    on.append(7)
    assert [room["is_older"](*case) for case in cases] == {
        "condition": [[], [2], [3]],
        "comparison": [[1], [2], []],
        "statement": [[], [], []],
    }[sites[place].kind]
