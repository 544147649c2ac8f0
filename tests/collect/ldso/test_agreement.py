"""The loader in thought against the machine's own: every case is built, opened for real, and compared."""

from __future__ import annotations

import os
import pathlib
import random
from typing import TYPE_CHECKING

import pytest
from every import sampled

if TYPE_CHECKING:
    from collect.ldso.conftest import Workshop


def same(workshop: Workshop, opener: pathlib.Path, *names: str) -> dict[str, tuple[bool, set[str]]]:
    thought = workshop.thought(opener, *names)
    assert thought == workshop.real(opener, *names)
    return thought


@pytest.mark.parametrize("kind", ["rpath", "runpath"])
def test_the_openers_own_paths_count(workshop: Workshop, kind: str) -> None:
    place = workshop.build("there/liba.so.1")
    opener = workshop.opener(**{kind: "$ORIGIN/there"})
    assert same(workshop, opener, "liba.so.1") == {"liba.so.1": (True, {str(place)})}


@pytest.mark.parametrize(("kind", "wins"), [("rpath", "own"), ("runpath", "variable")])
def test_the_variable_comes_after_rpath_and_before_runpath(workshop: Workshop, kind: str, wins: str) -> None:
    workshop.build("own/liba.so.1")
    workshop.build("variable/liba.so.1")
    opener = workshop.opener(**{kind: "$ORIGIN/own"})
    workshop.variables["LD_LIBRARY_PATH"] = str(workshop.folder / "variable")
    assert same(workshop, opener, "liba.so.1")["liba.so.1"][1] == {str(workshop.folder / wins / "liba.so.1")}


@pytest.mark.parametrize(("kind", "found"), [("rpath", True), ("runpath", False)])
def test_what_is_needed_by_what_is_needed_inherits_rpath_alone(workshop: Workshop, kind: str, found: bool) -> None:
    workshop.build("below/libc.so.9")
    workshop.build("below/libb.so.1", needs=["below/libc.so.9"])
    workshop.build("liba.so.1", needs=["below/libb.so.1"], **{kind: "$ORIGIN/below"})
    opener = workshop.opener(runpath="$ORIGIN")
    assert same(workshop, opener, "liba.so.1")["liba.so.1"][0] is found
    assert workshop.outcome(opener, "liba.so.1").chain == (() if found else ("liba.so.1", "libb.so.1", "libc.so.9"))


@pytest.mark.parametrize("kind", ["rpath", "runpath"])
def test_what_is_opened_inherits_nothing(workshop: Workshop, kind: str) -> None:
    workshop.build("there/libb.so.1")
    workshop.build("there/liba.so.1", needs=["there/libb.so.1"])
    assert not same(workshop, workshop.opener(**{kind: "$ORIGIN/there"}), "liba.so.1")["liba.so.1"][0]


def test_a_runpath_between_ends_the_inheritance(workshop: Workshop) -> None:
    workshop.build("there/libb.so.1")
    workshop.build("there/liba.so.1", needs=["there/libb.so.1"], runpath="$ORIGIN/nowhere")
    same(workshop, workshop.opener(rpath="$ORIGIN/there"), "liba.so.1")


def test_what_is_loaded_already_answers_to_its_name(workshop: Workshop) -> None:
    workshop.build("there/libb.so.1")
    workshop.build("there/liba.so.1", needs=["there/libb.so.1"])
    opener = workshop.opener(runpath="$ORIGIN/there")
    assert same(workshop, opener, "libb.so.1", "liba.so.1")["liba.so.1"][0]


def test_what_could_not_be_opened_leaves_nothing_behind(workshop: Workshop) -> None:
    workshop.build("there/libb.so.1")
    workshop.build("gone/libc.so.9")
    workshop.build("there/liba.so.1", needs=["there/libb.so.1", "gone/libc.so.9"], runpath="$ORIGIN")
    (workshop.folder / "gone/libc.so.9").unlink()
    workshop.build("there/libd.so.1", needs=["there/libb.so.1"])
    told = same(workshop, workshop.opener(runpath="$ORIGIN/there"), "liba.so.1", "libd.so.1")
    assert [opened for opened, _ in told.values()] == [False, False]


def test_a_preloaded_library_answers_to_its_name(workshop: Workshop) -> None:
    workshop.build("elsewhere/liba.so.1")
    workshop.variables["LD_PRELOAD"] = str(workshop.folder / "elsewhere/liba.so.1")
    assert same(workshop, workshop.opener(), "liba.so.1")["liba.so.1"] == (True, set())


@pytest.mark.parametrize("content", ["empty", "text", "truncated"])
def test_a_damaged_file_ends_the_search(workshop: Workshop, content: str) -> None:
    whole = workshop.build("second/liba.so.1")
    bytes_ = {"empty": b"", "text": b"/* GNU ld script */\n" * 9, "truncated": whole.read_bytes()[:3000]}[content]
    (workshop.folder / "first").mkdir()
    (workshop.folder / "first/liba.so.1").write_bytes(bytes_)
    opener = workshop.opener(runpath="$ORIGIN/first:$ORIGIN/second")
    assert workshop.outcome(opener, "liba.so.1").refused.endswith("first/liba.so.1")
    if content == "truncated":  # what the real one does depends on where the file ends: it may even die of SIGBUS
        assert "truncated" in workshop.outcome(opener, "liba.so.1").error
    else:
        assert same(workshop, opener, "liba.so.1")["liba.so.1"] == (False, set())


def test_a_library_of_another_architecture_is_passed_by(workshop: Workshop) -> None:
    whole = workshop.build("second/liba.so.1")
    other = bytearray(whole.read_bytes())
    other[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    (workshop.folder / "first").mkdir()
    (workshop.folder / "first/liba.so.1").write_bytes(bytes(other))
    opener = workshop.opener(runpath="$ORIGIN/first:$ORIGIN/second")
    assert same(workshop, opener, "liba.so.1")["liba.so.1"] == (True, {str(whole)})


def test_origin_is_where_the_link_lies(workshop: Workshop) -> None:
    workshop.build("real/beside/libb.so.1")
    workshop.build("real/liba.so.1", needs=["real/beside/libb.so.1"], runpath="$ORIGIN/beside")
    (workshop.folder / "linked").mkdir()
    (workshop.folder / "linked/liba.so.1").symlink_to("../real/liba.so.1")
    same(workshop, workshop.opener(runpath="$ORIGIN/linked"), "liba.so.1")


def test_an_empty_entry_of_the_variable_is_the_working_folder(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.build("liba.so.1")
    monkeypatch.chdir(workshop.folder)
    workshop.variables["LD_LIBRARY_PATH"] = f":{workshop.folder}/nowhere"
    opener = workshop.opener()
    real, thought = workshop.real(opener, "liba.so.1"), workshop.thought(opener, "liba.so.1")
    assert real == {"liba.so.1": (True, {str(workshop.folder / "liba.so.1")})}
    assert thought == real


@pytest.mark.parametrize("name", ["libm.so.6", "libz.so.1", "libnosuch.so.1", "libpthread.so.0"])
def test_libraries_of_the_system(workshop: Workshop, name: str) -> None:
    opener = workshop.opener()
    assert workshop.thought(opener, name)[name][0] == workshop.real(opener, name)[name][0]


@pytest.mark.parametrize("seed", sampled(range(16), 4))
def test_libraries_that_need_each_other_at_random(workshop: Workshop, seed: int) -> None:
    chance = random.Random(seed)
    folders = ["x", "y", "z"]
    built: list[str] = []
    for index in range(5):
        path = f"{chance.choice(folders)}/lib{index}.so.1"
        needs = chance.sample(built, k=chance.randint(0, min(2, len(built))))
        wanted = ":".join(f"$ORIGIN/../{each}" for each in chance.sample(folders, k=chance.randint(0, 2)))
        workshop.build(path, needs=needs, **{chance.choice(["rpath", "runpath"]): wanted})
        built.append(path)
        if chance.random() < 0.3:
            workshop.build(f"{chance.choice(folders)}/lib{index}.so.1")  # a second copy, perhaps over the first
    for path in built:
        if chance.random() < 0.15:
            (workshop.folder / path).unlink()
    kind = chance.choice(["rpath", "runpath"])
    opener = workshop.opener(**{kind: ":".join(f"$ORIGIN/{each}" for each in chance.sample(folders, k=2))})
    if chance.random() < 0.5:
        workshop.variables["LD_LIBRARY_PATH"] = str(workshop.folder / chance.choice(folders))
    names = [os.path.basename(path) for path in built]
    chance.shuffle(names)
    same(workshop, opener, *names)
