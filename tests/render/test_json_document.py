"""docs/json.md says of every field of the JSON Schema, and of no other, what it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from doc_snippets import fenced
from doctor_command import run_doctor
from locations import ROOT

DEFINITIONS: dict[str, Any] = json.loads((ROOT / "doctor/render/report.schema.json").read_text("utf-8"))["$defs"]
HEADINGS = {
    "Report": "The report", "TargetSummary": "target", "MachineSummary": "machine", "RootCause": "causes", "Fix": "fix",
    "Result": "results", "Finding": "findings", "Figure": "figures", "VersionRow": "versions", "LibraryCopy": "libraries", "GpuCard": "gpus",
    "GpuUser": "users",
}  # fmt: skip
WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def words_for(schema: dict[str, Any]) -> str:
    """The type as the document names it."""
    if "$ref" in schema:
        name = HEADINGS[schema["$ref"].rpartition("/")[2]]
        return f"[{name}](#{name})"
    if "anyOf" in schema:
        return " or ".join(sorted(map(words_for, schema["anyOf"]), key=lambda words: words == "null"))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {words_for(schema['items'])}"
    if schema["type"] == "object":
        return f"object of {words_for(schema['additionalProperties'])}"
    return WORDS[schema["type"]]


def test_every_kind_of_object_has_its_table() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "docs/json.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [HEADINGS[name] for name in HEADINGS]
    assert set(HEADINGS) == set(DEFINITIONS)


@pytest.mark.parametrize("name", HEADINGS)
def test_every_field_is_explained(name: str) -> None:
    text = (ROOT / "docs/json.md").read_text("utf-8")
    section = re.split(r"^## ", text.partition(f"\n## {HEADINGS[name]}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.+) \|$", section, re.MULTILINE)
    assert [(field, kind) for field, kind, _ in rows] == [
        (field, words_for(schema)) for field, schema in DEFINITIONS[name]["properties"].items()
    ]
    assert all(len(meaning) > 3 for *_, meaning in rows)


def test_every_field_is_always_there() -> None:
    done = run_doctor(
        "--facts", str(ROOT / "tests/machines/synthetic/hgx-8-gpus-at-work/facts.json"), "--format", "json"
    )
    found = json.loads(done.stdout)
    for name, each in (
        ("Report", found), ("TargetSummary", found["target"]), ("Result", found["results"][0]), ("GpuCard", found["gpus"][0]),
    ):  # fmt: skip
        assert list(each) == list(DEFINITIONS[name]["properties"])


def test_the_example_runs(tmp_path: Any) -> None:
    facts = str(ROOT / "tests/machines/synthetic/tensorflow-2.21.0-misses-cusolver/facts.json")
    run_doctor("--facts", facts, "--format", "json", "-o", "report.json", cwd=tmp_path)
    (example,) = fenced("docs/json.md", "python")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("pip_cuda_libs_not_found ['export LD_LIBRARY_PATH=")
