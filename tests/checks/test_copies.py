"""The one rule of which copy is in trouble: its words and its repair, for libraries and for modules."""

from __future__ import annotations

from typing import Any

import pytest

from tfgpu_doctor.checks.copies import counted, evidence_of, in_place_of, repair
from tfgpu_doctor.model.facts.copies import Copy

OWN = "/site/nvidia/cublas/lib/libcublas.so.12"


def copy(**changes: Any) -> Copy:
    """A libcublas in the place of pip's."""
    known = {
        "name": "libcublas.so.12", "path": "/opt/x/libcublas.so.12", "entry": "/opt/x", "instead": OWN,
        "instead_owner": "pip: nvidia-cublas-cu12 12.5.3.2",
    }  # fmt: skip
    return Copy(**{**known, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"placed_by": "LD_LIBRARY_PATH", "number": 2}, "entry 2 of LD_LIBRARY_PATH: /opt/x"),
        (
            {"placed_by": "LD_LIBRARY_PATH", "number": 1, "entry": ""},
            "entry 1 of LD_LIBRARY_PATH: empty, which means the working folder",
        ),
        ({"placed_by": "PYTHONPATH", "number": 1}, "entry 1 of PYTHONPATH: /opt/x"),
        (
            {"placed_by": "ld.so.conf", "file": "/etc/ld.so.conf.d/x.conf", "line": 3},
            "/etc/ld.so.conf.d/x.conf, line 3: /opt/x",
        ),
        ({"placed_by": "ld.so.cache"}, "the loader's cache, /etc/ld.so.cache, which contains /opt/x"),
        ({"placed_by": "RUNPATH", "file": "/a/libb.so"}, "the RUNPATH of /a/libb.so, which names /opt/x"),
        ({"placed_by": "RPATH"}, "the RPATH of the Python program, which names /opt/x"),
        ({"placed_by": ".pth file", "file": "/site/a.pth", "line": 1}, "/site/a.pth, line 1, which adds /opt/x to"),
        ({"placed_by": "working folder"}, "the working folder /opt/x, which Python searches first"),
        ({"placed_by": "user site"}, "the user site /opt/x"),
        ({"placed_by": "start of Python"}, "code that runs when Python starts and adds /opt/x"),
        ({"placed_by": "default folder"}, "the loader's default folder /opt/x"),
        ({"placed_by": "LD_PRELOAD"}, "LD_PRELOAD, which names it"),
    ],
)
def test_who_put_the_place_on_the_path_is_said(changes: dict[str, Any], words: str) -> None:
    source, owner, without = evidence_of(copy(**changes))
    assert source.startswith(f"/opt/x/libcublas.so.12 comes first because of {words}")
    assert owner == "it belongs to no installed package"
    assert without == f"without it, {OWN} would be taken (pip: nvidia-cublas-cu12 12.5.3.2)"


def test_whose_it_is_and_that_nothing_comes_after_it() -> None:
    _, owner, without = evidence_of(copy(owner="toolkit: /usr/local/cuda", instead=""))
    assert owner == "it belongs to toolkit: /usr/local/cuda"
    assert without == "without it, no other libcublas.so.12 would be found"


def test_what_is_not_taken_is_named_by_its_owner_or_else_by_its_path() -> None:
    assert in_place_of(copy()) == "the copy of nvidia-cublas-cu12 12.5.3.2"
    assert in_place_of(copy(instead_owner="")) == OWN


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "PYTHONPATH"])
def test_a_variable_loses_the_entry_alone(name: str) -> None:
    assert repair(copy(placed_by=name, number=1)).commands == (f"unset {name}",)
    fix = repair(copy(placed_by=name, number=2, others=("/opt/my lib", "/opt/b")))
    assert fix.commands == (f"export {name}='/opt/my lib':/opt/b",)
    assert fix.text.startswith(f"Take entry 2 out of {name} ")


def test_a_folder_whose_other_files_are_in_use_stays() -> None:
    fix = repair(copy(placed_by="LD_LIBRARY_PATH", number=1), in_use=["/opt/x/libcuda.so.1"])
    assert fix.commands == ()
    assert "/opt/x/libcublas.so.12" in fix.text


@pytest.mark.parametrize("placed_by", ["ld.so.conf", "RUNPATH", "ld.so.cache", "default folder"])
def test_the_variable_overrules_what_the_loader_searches_later(placed_by: str) -> None:
    fix = repair(copy(placed_by=placed_by, file="/etc/ld.so.conf.d/x.conf", line=1))
    assert fix.commands == ("export LD_LIBRARY_PATH=/site/nvidia/cublas/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",)


@pytest.mark.parametrize("placed_by", ["RPATH", "LD_PRELOAD", "working folder", ".pth file", "start of Python"])
def test_nothing_is_pasted_that_would_not_help(placed_by: str) -> None:
    fix = repair(copy(placed_by=placed_by))
    assert fix.commands == ()
    assert fix.text


def test_lines_of_one_pattern_are_one_line_with_a_count() -> None:
    lines = [(f"a opens {name}; the loader does not find {name}", name) for name in ("b.so", "c.so", "d.so", "c.so")]
    assert counted([*lines, ("e.so is damaged", "e.so")]) == (
        "a opens b.so; the loader does not find b.so (and 2 more: c.so, d.so)",
        "e.so is damaged",
    )
    assert counted([]) == ()
