"""docs/json.md says of every field of the document of `log`, and of no other, what it is."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from doctor_command import run_doctor
from locations import ROOT

from tfgpu_doctor.log import LogCause, LogReport
from tfgpu_doctor.log.report import ToldReport

TEXT = (ROOT / "docs/json.md").read_text("utf-8")
HEADINGS = {LogReport: "The document of `log`", LogCause: "`causes` of `log`", ToldReport: "`reports` of `log`"}


@pytest.mark.parametrize("kind", HEADINGS, ids=lambda kind: kind.__name__)
def test_every_field_is_explained(kind: type[msgspec.Struct]) -> None:
    section = re.split(r"^##", TEXT.partition(f"\n### {HEADINGS[kind]}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \| .+? \| (.+) \|$", section, re.MULTILINE)
    assert [field for field, _ in rows] == list(kind.__struct_fields__)
    assert all(len(meaning) > 3 for _, meaning in rows)


def test_every_field_is_always_there() -> None:
    document = json.loads(
        run_doctor("log", "-", "--format", "json", stdin="CUDA_ERROR_UNKNOWN: unknown error\n").stdout
    )
    assert list(document) == list(LogReport.__struct_fields__)
    assert list(document["causes"][0]) == list(LogCause.__struct_fields__)
