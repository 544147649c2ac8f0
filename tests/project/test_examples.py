"""The examples: the package with checks of its own, installed by pip; the image, as far as it goes without docker."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from doc_snippets import calls, fenced, refuse_unknown
from doctor_command import clean_environment
from locations import RECORDS, ROOT

from tfgpu_doctor.cli.configuration import read_configuration

ACME = ROOT / "examples/acme_checks"
IMAGE = ROOT / "examples/docker"
PACKAGES = ["acme_benchmarks", "acme_checks"]
IDS = ["ACME001", "ACME002", "ACME003"]


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder that the example was installed into, by pip, and nothing else with it."""
    source = tmp_path_factory.mktemp("source") / "acme_checks"
    shutil.copytree(ACME, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--target", str(folder), str(source)],
        capture_output=True, text=True, env=clean_environment(PIP_DISABLE_PIP_VERSION_CHECK="1"), check=False,
    )  # fmt: skip
    if "No module named pip" in done.stderr:
        pytest.skip("there is no pip here")
    assert done.returncode == 0, done.stderr
    return str(folder)


def run_with(site: str, *arguments: str, cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [site, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=cwd, check=False,
        env=clean_environment(PYTHONPATH=os.pathsep.join(paths)),
    )  # fmt: skip


def outcomes(site: str, machine: str) -> dict[str, str]:
    facts = str(RECORDS[machine])
    done = run_with(site, "tfgpu_doctor", "--facts", facts, "--select", "ACME", "--format", "json")
    assert done.stderr == ""
    results = json.loads(done.stdout)["results"]  # with what blocks them
    return {result["id"]: result["outcome"] for result in results if result["id"].startswith("ACME")}


@pytest.mark.slow
def test_its_checks_are_listed_and_explained(acme: str) -> None:
    listed = run_with(acme, "tfgpu_doctor", "check", "--list").stdout
    assert sorted(line.split()[0] for line in listed.splitlines() if line.startswith("ACME")) == IDS


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("server-cuinit-hangs", {}),
        ("workstation-healthy", {"ACME001": "fail", "ACME002": "pass", "ACME003": "skip"}),
        ("debian-nouveau", {"ACME001": "blocked", "ACME002": "blocked", "ACME003": "skip"}),
    ],
)
def test_its_checks_run_among_the_doctors_own(machine: str, expected: dict[str, str], acme: str) -> None:
    found = outcomes(acme, machine)
    assert set(found) == set(IDS)
    assert {id: found[id] for id in expected} == expected


def test_its_own_tests_pass(acme: str) -> None:
    done = run_with(acme, "pytest", "-q", "-p", "no:cacheprovider", str(ACME / "tests"), cwd=ACME)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_the_walk_through_shows_the_example() -> None:
    """Every piece of code in the document is a piece of the package."""
    files = [path.read_text("utf-8") for path in ACME.rglob("*") if path.suffix in (".py", ".toml")]
    blocks = [*fenced("docs/writing_a_check.md", "python"), *fenced("docs/writing_a_check.md", "toml")]
    assert len(blocks) >= 4
    for block in blocks:
        for piece in block.strip("\n").split("\n...\n"):
            assert any(piece.strip("\n") in text for text in files), piece


def test_the_walk_through_shows_what_is_printed(acme: str) -> None:
    for block in fenced("docs/writing_a_check.md", "console"):
        ((arguments),) = list(calls(block.splitlines()[0]))
        done = run_with(acme, "tfgpu_doctor", *arguments, cwd=ROOT)
        assert [line.split() for line in block.splitlines()[1:] if line.strip()] == [
            re.sub(r"\d+\.\d s ", "0.0 s ", line).split() for line in done.stdout.splitlines() if line.strip()
        ]


@pytest.mark.parametrize("document", ["README.md", *(f"examples/{name}/README.md" for name in PACKAGES)])
def test_what_is_installed_lies_in_the_checkout(document: str) -> None:
    """No index has the doctor or its examples."""
    lines = [line for block in fenced(document, "sh") for line in block.splitlines() if line.startswith("pip install ")]
    words = [word for line in lines for word in shlex.split(re.split("&&|#", line)[0])[2:]]
    wanted = [word for word in words if word not in ("tox", "pytest")]
    assert "." in {word.partition("[")[0] for word in wanted}, "pip finds the doctor, which they need, nowhere else"
    for word in wanted:
        place, _, _ = word.partition("[")
        assert word.startswith(".") and (ROOT / place / "pyproject.toml").is_file(), word


# The image


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile with its arguments, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (IMAGE / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_ends_with_a_rehearsal() -> None:
    found = instructions()
    assert found[0][0] == "FROM"
    assert {word for word, _ in found} <= {"FROM", "ARG", "ENV", "RUN", "COPY", "WORKDIR"}
    word, last = found[-1]
    assert word == "RUN"
    ((name, *rest),) = calls(last)
    assert name == "rehearse"
    declared = dict(rest.split("=", 1) for word, rest in found if word == "ARG")
    used = {name for _, text in found for name in re.findall(r"\$\{(\w+)\}", text)}
    assert used == set(declared)
    refuse_unknown([name, *(re.sub(r"\$\{(\w+)\}", lambda match: declared[match[1]], word) for word in rest)])


def test_what_the_image_takes_is_there() -> None:
    """And enough of it to install the doctor: what the build of a wheel reads."""
    taken = set()
    for word, rest in instructions():
        if word == "RUN":
            subprocess.run(["bash", "-n"], input=rest, text=True, check=True)
        if word == "COPY":
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
            taken |= set(sources)
    assert {"pyproject.toml", "README.md", "LICENSE", "doctor", "checks", "perf_tests"} <= taken
    assert (IMAGE / "tfgpu-doctor.toml").name in {pathlib.Path(source).name for source in taken}


def test_the_doctor_of_the_image_diagnoses_the_jobs_wherever_they_run(tmp_path: pathlib.Path) -> None:
    """The folders of the image lie below one of this machine."""
    (copied,) = (rest.split() for word, rest in instructions() if word == "COPY" and "tfgpu-doctor.toml" in rest)
    for folder in ("work", "builds/group/project", "github/workspace"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / copied[0], tmp_path / copied[1].lstrip("/"))
    (made,) = re.findall(r"python -m venv (\S+) && \S+ install --no-cache-dir \"tensorflow", str(instructions()))
    for folder in ("", "work", "builds/group/project", "github/workspace"):
        assert read_configuration(str(tmp_path / folder)).python == made
