"""A recording judged in a process of its own."""

from __future__ import annotations

import lzma
import pathlib
import sys

import pytest
from made_agent import RECORDED

from tfgpu_doctor.tracing import Unreadable, judge_profile
from tfgpu_doctor.watching import judged_apart


def test_it_says_what_this_process_would_say(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not RECORDED:
        pytest.skip("there are no recorded profiles")
    with lzma.open(RECORDED[0]) as file:
        (tmp_path / "host.xplane.pb").write_bytes(file.read())
    here = judge_profile(str(tmp_path), "this program")
    with monkeypatch.context() as patched:
        patched.setattr(judged_apart, "judge_profile", None)
        assert judged_apart.judge_apart(str(tmp_path), "this program") == here
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert judged_apart.judge_apart(str(tmp_path), "this program") == here


def test_what_cannot_be_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Unreadable, match=r"DATE/HOST\.xplane\.pb"):
        judged_apart.judge_apart(str(tmp_path), "this program")
