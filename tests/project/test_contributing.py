"""CONTRIBUTING.md and docs/adding_a_release.md: the files, tests and commands that they name are there."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest
from doc_snippets import calls, fenced, refuse_unknown
from locations import ROOT

DOCUMENTS = ["CONTRIBUTING.md", "docs/adding_a_release.md", "docs/writing_a_check.md", "docs/ci.md", "docs/json.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert link.startswith("https://") or ((ROOT / document).parent / link).exists(), link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_that_are_named_exist(document: str) -> None:
    text = re.sub(r"^```(?!sh).*?^```", "", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"(?<![\w/.])((?:doctor|checks|perf_tests|tests|tools|examples|docs)/[\w./-]+)", text))
    for path in named - {"tests/machines/NAME/facts.json"}:
        assert (ROOT / path.rstrip(".")).exists(), path
    for table in re.findall(r"`(\w+\.json)`", text):
        if table not in ("facts.json", "expected.json"):
            assert (ROOT / "checks/data" / table).exists(), table


def test_tests_that_are_named_exist() -> None:
    text = (ROOT / "docs/adding_a_release.md").read_text("utf-8")
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "tests").rglob("test_*.py")]
    functions = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named
    assert named <= functions


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_exist(document: str) -> None:
    for block in fenced(document, "sh"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        for arguments in calls(block):
            refuse_unknown(arguments)
        for tool in re.findall(r"python (tools/\w+\.py)", block):
            assert (ROOT / tool).exists()


def test_the_words_are_those_of_the_code() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| ([a-z ]+) \| .* \| (`.*`) \|$", text, re.MULTILINE)
    assert [word for word, _ in rows] == ["host", "probe", "fact", "check", "finding", "root cause", "report"]
    for _, places in rows:
        assert all((ROOT / place).exists() for place in re.findall(r"`([^`]+)`", places))
