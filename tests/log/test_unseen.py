"""The public threads that were judged before the doctor read them: the table, and the tool that scores their texts."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from locations import ROOT

from tfgpu_doctor.knowledge import read_knowledge

TOOL = ROOT / "tools/measure_unseen.py"
TABLE = json.loads((ROOT / "tests/log/unseen.json").read_text("utf-8"))
THREADS: list[dict[str, Any]] = TABLE["threads"]
FIELDS = {"batch", "number", "url", "kind", "given", "truth", "accepted", "sure", "why"}


def name_of(thread: dict[str, Any]) -> str:
    return f"{thread['batch']}/{thread['number']}"


def test_each_thread_is_complete() -> None:
    labels = set(read_knowledge().causes)
    wrong = [
        name_of(each)
        for each in THREADS
        if set(each) != FIELDS
        or each["kind"] not in ("log", "description")
        or each["sure"] not in ("high", "medium", "low")
        or not {each["truth"], *each["accepted"]} <= labels
        or each["truth"] in each["accepted"]
        or not re.fullmatch(r"https?://\S+", each["url"])
        or not each["why"]
        or not all(isinstance(value, str) for value in each["given"].values())
    ]
    assert wrong == []


def test_no_thread_is_there_twice() -> None:
    twice = [url for url, count in Counter(each["url"].rstrip("/") for each in THREADS).items() if count > 1]
    assert twice == []
    places = Counter(name_of(each) for each in THREADS)
    assert [place for place, count in places.items() if count > 1] == []


def test_no_thread_is_of_the_known_corpus() -> None:
    corpus = ROOT.parent / "shared/corpus"
    if not corpus.is_dir():
        pytest.skip("the known corpus (../shared/corpus) is not here")
    known = " ".join(path.read_text("utf-8") for kind in ("json", "yaml") for path in corpus.rglob(f"*.{kind}"))
    addresses = {found.rstrip("/") for found in re.findall(r"https?://[^\s\"'<>)]+", known)}
    assert len(addresses) > 100
    assert [each["url"] for each in THREADS if each["url"].rstrip("/") in addresses] == []


def test_the_batches_have_what_was_asked_for() -> None:
    counts = Counter(each["batch"] for each in THREADS)
    assert len(THREADS) >= 300
    assert {batch: count for batch, count in counts.items() if count != 30} == {
        22: 40,
        23: 39,
        24: 86,
        25: 64,
        26: 43,
        27: 50,
        28: 31,
        29: 96,
        30: 41,
        31: 60,
    }
    descriptions = sum(each["kind"] == "description" for each in THREADS)
    assert descriptions >= len([each for each in THREADS if each["batch"] < 22]) / 3


def test_the_table_holds_no_text_of_a_thread() -> None:
    assert [name_of(each) for each in THREADS if len(each["why"]) > 400] == []


def test_the_tool_scores_a_folder_of_texts(tmp_path: pathlib.Path) -> None:
    thread = next(each for each in THREADS if each["truth"] == "cuda_toolkit_wrong_major" and each["kind"] == "log")
    folder = tmp_path / f"batch{thread['batch']}"
    folder.mkdir()
    line = "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory"
    for each in THREADS:
        if each["batch"] == thread["batch"]:
            (folder / f"{each['number']:02}.json").write_text(json.dumps({"text": line}), "utf-8")
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path), "--batch", str(thread["batch"])],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    rows = {cells[1]: cells for row in done.stdout.splitlines()[2:] if (cells := row.split())}
    logs = sum(each["batch"] == thread["batch"] and each["kind"] == "log" for each in THREADS)
    assert rows["log"][:3] == [str(thread["batch"]), "log", str(logs)]
    assert int(rows["log"][6]) == 0, "a library that cannot be loaded is never passed over in silence"
