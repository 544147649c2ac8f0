"""A fresh `tensorflow[and-cuda]==2.21.0`: named, repaired, rehearsed, and put back as it was."""

from __future__ import annotations

import filecmp
import json
import pathlib
from typing import Any

import pytest
from doctor_command import doctor_argv
from lab import targets
from lab.examination import build, check, run
from lab.machine import Machine
from lab.place import Place

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def content(environment: pathlib.Path) -> dict[str, pathlib.Path | str]:
    """Every file, link and folder: a file itself, where a link leads, nothing for a folder."""
    found: dict[str, pathlib.Path | str] = {}
    for path in environment.rglob("*"):
        name = str(path.relative_to(environment))
        found[name] = str(path.readlink()) if path.is_symlink() else path if path.is_file() else ""
    return found


def is_same(one: pathlib.Path | str, other: pathlib.Path | str) -> bool:
    """Whether two entries are the same byte for byte; two names of one file are."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    modes = {path.stat().st_mode for path in (one, other)}
    return len(modes) == 1 and (one.samefile(other) or filecmp.cmp(one, other, shallow=False))


def doctor(place: Place, command: str, *options: str) -> str:
    """What a command of the doctor prints that succeeds, on this machine as it is."""
    done = run(doctor_argv(command, *options, "--python", str(place.environment)), place.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rehearse(place: Place) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(doctor(place, "rehearse", "--gpu", "H100", "--format", "json"))
    return document


@pytest.mark.skipif(targets.NEWEST != "2.21.0", reason="2.21.0 alone does not find what pip brought")
def test_it_is_named_repaired_and_put_back(bench: pathlib.Path, lab_targets: pathlib.Path) -> None:
    place = Place(bench / "fresh", lab_targets, "2.21.0", whole=True)
    assert place.site.is_dir()
    variables = build(Machine("fresh", library_path=()), place)
    answer = check(place, **variables)
    assert answer.labels == ["pip_cuda_libs_not_found"]
    assert f"{place.site}/nvidia/cusolver/lib/libcusolver.so.11" in answer.first_words

    doctor(place, "fix", "--apply", "--yes")
    assert rehearse(place)["registered"] == 1
    assert check(place, **variables).document["healthy"]

    doctor(place, "fix", "--undo", "--yes")
    original, now = content(place.of_release("2.21.0")), content(place.environment)
    assert now.keys() == original.keys()
    assert [name for name in now if not is_same(now[name], original[name])] == []
    assert check(place, **variables).labels == ["pip_cuda_libs_not_found"]
