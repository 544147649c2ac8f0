"""The pages docs/adding_*.md are short, and each leads to its end: its files are written and its commands run, in a copy."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from doctor_command import clean_environment
from installed import skip_without_tensorflow
from locations import ROOT

from tools import conftest as of_tools

PAGES = sorted((ROOT / "docs").glob("adding_*.md"))
MOST_LINES = 40
NEEDS_TENSORFLOW = "adding_a_benchmark"
NEEDS_INDEX = "adding_a_release"
LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".tox", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".benchmarks", "*.egg-info", "build", "dist"
)
_PATH = re.compile(
    r"(?<![\w/.])((?:doctor|checks|perf_tests|tests|tools|examples|docs)/[\w./-]*\w|README\.md|action\.yml)"
)

index = of_tools.index  # the fixture: a package index on this machine


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its lines, and the line of text above it."""

    language: str
    lines: tuple[str, ...]
    heading: str

    @property
    def file(self) -> str:
        """The file that the line above it names first."""
        found = re.match(r"`([^`]+)`, ", self.heading)
        assert found, f"no file is named above the block: {self.heading!r}"
        return found[1]

    @property
    def makes_a_file(self) -> bool:
        """Whether the block is the whole content of a new file."""
        return self.language in ("python", "json")


def blocks(page: pathlib.Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    heading, inside = "", None
    for line in page.read_text("utf-8").splitlines():
        if inside is not None and line == "```":
            yield Block(inside[0], tuple(inside[1:]), heading)
            inside, heading = None, ""
        elif inside is not None:
            inside.append(line)
        elif line.startswith("```"):
            inside = [line.removeprefix("```")]
        elif line:
            heading = line
    assert inside is None, "a block is not closed"


@dataclass(frozen=True)
class Copy:
    """A copy of the checkout that is imported without being installed."""

    folder: pathlib.Path
    environment: dict[str, str]

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.makes_a_file:
            assert ", new" in block.heading
            self.write(block.file, block.lines)
        elif block.language == "diff":
            self.change(block.file, block.lines)
        elif block.language == "console":
            for command, expected in calls(block.lines):
                self.run(command, expected)
        else:
            assert block.language == "sh", block.language  # for the reader's own machine: it needs the network

    def write(self, path: str, lines: tuple[str, ...]) -> None:
        """A new file."""
        assert not (self.folder / path).exists(), f"{path} is not new"
        (self.folder / path).write_text("\n".join(lines) + "\n", "utf-8")

    def change(self, path: str, lines: tuple[str, ...]) -> None:
        """Below each line of context, which is in the file exactly once, the lines with a plus."""
        text = (self.folder / path).read_text("utf-8").splitlines()
        at = -1
        for line in lines:
            if line.startswith(" "):
                assert text.count(line[1:]) == 1, f"{path}: {line[1:]!r} is there {text.count(line[1:])} times"
                at = text.index(line[1:])
            else:
                assert line.startswith("+"), line
                assert at >= 0, "no context above"
                at += 1
                text.insert(at, line[1:])
        (self.folder / path).write_text("\n".join(text) + "\n", "utf-8")

    def run(self, command: str, expected: list[str]) -> None:
        """Run a command; each expected line is part of a line that it prints, in that order."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        finds = "tfgpu-doctor" in command  # which ends with 1 if it finds a problem
        assert done.returncode in ((0, 1) if finds else (0,)), f"$ {command}\n{done.stdout}"
        printed = iter(done.stdout.expandtabs().splitlines())
        for line in expected:
            assert any(line.strip() in each for each in printed), f"$ {command}\nlacks {line!r}\n{done.stdout}"


def calls(lines: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The commands of a console, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            assert found, "output without a command"
            found[-1][1].append(line.expandtabs())
    return found


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> Copy:
    """The checkout as it is now, and the commands of the pages, which import it."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND, symlinks=True)
    package = tmp_path / "site/tfgpu_doctor"
    package.mkdir(parents=True)
    for part in (*(folder / "doctor").iterdir(), folder / "checks", folder / "perf_tests"):
        (package / part.name).symlink_to(part)
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, words in {"python": "", "pytest": "-m pytest", "tfgpu-doctor": "-m tfgpu_doctor"}.items():
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (commands / name).chmod(stat.S_IRWXU)
    return Copy(
        folder,
        clean_environment(
            PYTHONPATH=str(package.parent),
            PATH=f"{commands}{os.pathsep}{os.environ['PATH']}",
            XDG_CACHE_HOME=str(tmp_path / "cache"),
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", [each for each in PAGES if each.stem != NEEDS_INDEX], ids=lambda page: page.stem)
def test_a_page_leads_to_its_end(page: pathlib.Path, copy: Copy) -> None:
    if page.stem == NEEDS_TENSORFLOW:
        skip_without_tensorflow()
    for block in blocks(page):
        copy.follow(block)


@pytest.mark.slow
def test_a_release_is_added(copy: Copy, index: Any) -> None:
    """With a made-up package index, which has the next release; what follows needs the network."""
    index.add("2.98.0")
    copy.environment["PIP_INDEX_URL"] = index.address
    for block in blocks(ROOT / f"docs/{NEEDS_INDEX}.md"):
        copy.follow(block)
    assert '"2.98.0"' in (copy.folder / "checks/data/tensorflow_releases.json").read_text("utf-8")
    assert "2.98" in (copy.folder / "docs/matrix.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_names_what_is_there(page: pathlib.Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    new = {block.file for block in blocks(page) if block.makes_a_file}
    assert [path for path in new if (ROOT / path).exists()] == []
    named = set(_PATH.findall(text)) | {block.file for block in blocks(page) if block.language == "diff"}
    assert [path for path in sorted(named - new) if not (ROOT / path).exists()] == []
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link
    for table in re.findall(r"`(\w+\.json)`", text):
        assert (ROOT / "checks/data" / table).exists(), table


def test_every_page_is_in_the_index() -> None:
    text = (ROOT / "docs/index.md").read_text("utf-8")
    assert [page.name for page in PAGES if f"]({page.name})" not in text] == []
