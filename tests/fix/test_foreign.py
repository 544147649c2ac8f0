"""What others wrote after a fix: the bytecode of modules that it added goes with them, and nothing else."""

from __future__ import annotations

import os
import pathlib
from contextlib import nullcontext
from typing import cast

import pytest

from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.foreign import refuse_foreign_changes, remove_orphans
from tfgpu_doctor.fix.record import Change
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.entries import Entry, digest, look


@pytest.mark.parametrize(("content", "is_foreign"), [("RED = 'NEW'\n", True), ("RED = 'new'\n", False)])
def test_a_file_that_was_put_in_place_of_another_is_judged_by_its_content(
    tmp_path: pathlib.Path, content: str, is_foreign: bool
) -> None:
    """Size and time may be those of the file that the fix left there."""
    file, other = tmp_path / "red.py", tmp_path / "other.py"
    file.write_text("RED = 'new'\n")
    other.write_text(content)
    after = look(str(file))
    assert after
    changes = [Change("red.py", None, after, digest=digest(str(file)))]
    os.utime(other, ns=(after.mtime_ns, after.mtime_ns))
    other.replace(file)
    said = "changed after the fix: .* or keep the environment as it is: then delete record,"
    with pytest.raises(NotPossible, match=said) if is_foreign else nullcontext():
        refuse_foreign_changes(changes, str(tmp_path), "record")


class Door:
    """Notes what is removed."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.discarded: list[str] = []

    def remove(self, path: str, _entry: Entry) -> None:
        self.removed.append(path)

    def discard_empty(self, folder: str) -> None:
        self.discarded.append(folder)


def test_bytecode_of_an_added_module_goes_and_that_of_others_stays(tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "lib/__pycache__"
    cache.mkdir(parents=True)
    for name in ("added.cpython-313.pyc", "added.cpython-312.pyc", "added_too.cpython-313.pyc", "there.cpython-313.pyc",
                 "added.txt", "known.cpython-313.pyc"):  # fmt: skip
        (cache / name).touch()
    file = look(str(cache / "added.txt"))
    assert file
    changes = [
        Change("lib/added.py", None, file),
        Change("lib/there.py", file, file),  # it was there before the fix
        Change("lib/known.py", None, file),
        Change("lib/__pycache__/known.cpython-313.pyc", None, file),  # undone by its own record
        Change("lib/added.so", None, file),
    ]
    door = Door()
    remove_orphans(changes, cast("Changes", door), str(tmp_path))
    assert sorted(door.removed) == [str(cache / f"added.cpython-{version}.pyc") for version in (312, 313)]
    assert set(door.discarded) == {str(cache)}
