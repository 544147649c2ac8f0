"""Lines as people paste them, written before the rules were: numbers of jobs, accounts and telephones, codes, passwords go;
versions, buses, codes of errors, sizes and times stay.
"""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import pytest
from doctor_command import run_doctor
from locations import RECORDS

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.scrub import Scrub

LINES = json.loads((pathlib.Path(__file__).parent / "free_text.json").read_text("utf-8"))


def scrub(text: str) -> str:
    return Scrub(Facts(), Identity()).text(text)


@pytest.mark.parametrize("row", LINES["go"], ids=lambda row: row["text"][:40])
def test_what_identifies_somebody_goes(row: dict[str, Any]) -> None:
    shared = scrub(row["text"])
    assert [value for value in row["values"] if value in shared] == []


@pytest.mark.parametrize("text", LINES["stay"])
def test_what_a_diagnosis_needs_stays(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    "after",
    [
        "2026-11-21 10:11:12.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized",
        "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "[I 2026-11-21 10:11:12] the server is running",
    ],
)
def test_what_a_program_prints_after_a_question_is_no_answer(after: str) -> None:
    assert scrub(f"Password:\n{after}").split("\n")[1] == scrub(after)


def test_the_answer_may_come_after_an_empty_line_and_is_one_line() -> None:
    assert scrub("Password:\n\n memory \nmemory") == "Password:\n\n<secret-1>\nmemory"


def test_no_part_of_a_ticket_has_what_goes(tmp_path: pathlib.Path) -> None:
    """The page on standard output, its copy and every other file of the bundle."""
    (tmp_path / "x.log").write_text("\n".join(row["text"] for row in LINES["go"]) + "\n", "utf-8")
    record = str(RECORDS["hgx-8-gpus-at-work"])
    done = run_doctor("ticket", "--facts", record, "--log", "x.log", "-o", "t.zip", cwd=tmp_path)
    with zipfile.ZipFile(tmp_path / "t.zip") as bundle:
        parts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    parts["standard output"] = done.stdout
    values = {value for row in LINES["go"] for value in row["values"] if len(value) > 5 and not value.startswith("\n")}
    assert "log.txt" in parts
    plain = {"the memory of the device"}  # words of every log, where they are not an answer
    assert [(name, value) for name, text in parts.items() for value in values - plain if value in text] == []
