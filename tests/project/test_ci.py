"""The GitHub Action, run step by step as a runner does, and what docs/ci.md shows."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import click
import pytest
import yaml
from doc_snippets import calls, fenced, refuse_unknown, scripts_of
from doctor_command import NOT_INSTALLED, clean_environment, make_target
from every import sampled
from left_out import makes_no_difference
from locations import ROOT, TESTS

from tfgpu_doctor.render import FORMATS

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = [step for step in ACTION["runs"]["steps"] if "run" in step]
INSTALL, DIAGNOSE = STEPS
HOSTILE = "$(touch owned) `touch owned` '; touch owned; \" && touch owned\n::error::owned\nreport=owned"


def validate(schema: str, path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# The action


def test_the_action_is_one_to_github() -> None:
    pytest.importorskip("check_jsonschema")
    validate("vendor.github-actions", ROOT / "action.yml")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["name"])
def test_scripts_of_the_action_take_inputs_from_the_environment_alone(
    step: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """An expression in a script would be pasted into it before the shell reads it: that is how scripts are injected."""
    assert "${{" not in step["run"]
    assert step["shell"] == "bash"
    for name in step["env"]:
        assert f"${name}" in step["run"] or f"${{{name}" in step["run"]
    script = tmp_path / "step.sh"
    script.write_text("#!/usr/bin/env bash\n" + step["run"])
    subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(script)], check=True)


def test_every_input_is_used_and_every_output_given() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    given = set(re.findall(r"(?:echo \"|printf '|print\(\")([\w-]+)=", DIAGNOSE["run"]))
    assert given == set(ACTION["outputs"])
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.diagnose.outputs.{name} }}}}"


def test_the_action_names_all_formats() -> None:
    (named,) = re.findall(r"\((.*)\)", ACTION["inputs"]["format"]["description"])
    assert set(named.split(", ")) == set(FORMATS)


class Runner:
    """A runner's folders and files, on which steps run."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.workspace, self.temporary = folder / "workspace", folder / "temporary"
        self.output, self.summary = folder / "output", folder / "summary"
        self.workspace.mkdir()
        self.temporary.mkdir()
        self.summary.touch()

    def has_doctor(self) -> None:
        """What the first step leaves: here the doctor that is being tested."""
        commands = self.temporary / "tfgpu-doctor/bin"
        commands.mkdir(parents=True)
        for name, rest in (("tfgpu-doctor", "-m tfgpu_doctor "), ("python", "")):
            (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {rest}"$@"\n')
            (commands / name).chmod(0o755)

    def run(self, step: dict[str, Any], source: pathlib.Path = ROOT, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step with these inputs, and defaults for the others."""
        values = {f"inputs.{name}": each["default"] for name, each in ACTION["inputs"].items()}
        values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        values["github.action_path"] = str(source)
        variables = {
            name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], each)
            for name, each in step["env"].items()
        }
        script = self.temporary / "step.sh"
        script.write_text(step["run"])
        self.output.write_text("")
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], cwd=self.workspace, capture_output=True, text=True,
            env=clean_environment(
                RUNNER_TEMP=str(self.temporary), GITHUB_OUTPUT=str(self.output), GITHUB_STEP_SUMMARY=str(self.summary), **variables
            ), check=False,
        )  # fmt: skip

    @property
    def outputs(self) -> dict[str, str]:
        """What the step gave to later ones."""
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: pathlib.Path) -> Runner:
    found = Runner(tmp_path)
    found.has_doctor()
    return found


def test_a_machine_is_diagnosed(runner: Runner, tmp_path: pathlib.Path) -> None:
    """A target without TensorFlow, so that the verdict is the same on every machine."""
    target = make_target(tmp_path / "target", None)
    done = runner.run(DIAGNOSE, python=str(target), format="junit", output="report.xml")
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("::error title=")
    outputs = runner.outputs
    assert (outputs["exit-code"], outputs["healthy"]) == ("1", "false")
    assert re.fullmatch("[a-z0-9_]+", outputs["cause"])
    assert outputs["report"] == "report.xml"
    assert NOT_INSTALLED in (runner.workspace / "report.xml").read_text()
    assert json.loads(pathlib.Path(outputs["sarif"]).read_text())["version"] == "2.1.0"
    assert json.loads(pathlib.Path(outputs["machine"]).read_text())["schema"] == 2
    assert runner.summary.read_text().count("## tfgpu-doctor") == 1
    assert os.listdir(runner.workspace) == ["report.xml"]


def test_all_inputs_reach_the_doctor(runner: Runner, tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "target", None)
    done = runner.run(
        DIAGNOSE,
        python=str(target),
        level="quick",
        select="PKG,GPU001",
        ignore="PKG002",
        fail_level="info",
        format="json",
    )
    document = json.loads(pathlib.Path(runner.outputs["report"]).read_text())
    assert document["level"] == "quick"
    assert document["target"]["python"].startswith(str(target))
    assert {result["id"][:3] for result in document["results"]} <= {"PKG", "GPU"}
    assert "PKG002" not in {cause["id"] for cause in document["causes"]}
    assert str(done.returncode) == runner.outputs["exit-code"]


@pytest.mark.parametrize("name", sampled(["python", "level", "fail_level", "select", "ignore", "format", "output"], 3))
def test_inputs_are_no_commands(name: str, runner: Runner, tmp_path: pathlib.Path) -> None:
    inputs = {"level": "quick", "format": "json", "python": sys.executable, name: HOSTILE}
    done = runner.run(DIAGNOSE, ROOT, **inputs)
    assert not list(tmp_path.rglob("owned"))
    assert "Traceback" not in done.stderr
    assert runner.outputs.get("report") != "owned"
    for line in done.stdout.splitlines():
        assert not line.startswith("::error::owned")
    if name in ("level", "fail_level", "select", "ignore"):
        assert done.returncode == 2


def test_a_report_that_cannot_be_written_is_an_error(runner: Runner) -> None:
    done = runner.run(DIAGNOSE, level="quick", format="json", output="missing/folder/report.json")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"format": "nope"}, "'nope' is not one of"),
        ({"format": "junit", "output": "no/dir.xml"}, "the report cannot be written"),
        ({"format": "junit", "output": "."}, "the report cannot be written"),
        ({"level": "nope"}, "'nope' is not one of"),
    ],
)
def test_wrong_inputs_are_told_before_the_examination(inputs: dict[str, str], words: str, runner: Runner) -> None:
    done = runner.run(DIAGNOSE, ROOT, **{"level": "quick", "python": sys.executable, **inputs})
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert runner.outputs == {"exit-code": "2"}
    assert runner.summary.read_text() == ""


def test_a_report_that_turns_out_to_be_unwritable_is_wrong_usage_too(runner: Runner) -> None:
    done = runner.run(DIAGNOSE, level="quick", python=sys.executable, format="junit", output="/proc/version")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert runner.outputs["exit-code"] == "2"


def copy_source(folder: pathlib.Path) -> pathlib.Path:
    """Copy what pip needs of the checkout."""
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("doctor", "checks", "perf_tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def skip_without_index(done: subprocess.CompletedProcess[str], environment: pathlib.Path) -> None:
    """Skip if the pip of that environment does not even find pip: an index without it is none, or cannot be reached."""
    if "No matching distribution" not in done.stderr and "Could not find a version" not in done.stderr:
        return
    asked = subprocess.run(
        [environment / "bin/python", "-m", "pip", "index", "versions", "pip"], capture_output=True, text=True,
        env=clean_environment(), check=False,
    )  # fmt: skip
    if "No matching distribution" in asked.stderr:
        pytest.skip("pip reaches no index here")


@pytest.mark.slow
def test_the_action_installs_the_doctor(tmp_path: pathlib.Path) -> None:
    source = copy_source(tmp_path / "source")
    runner = Runner(tmp_path)
    done = runner.run(INSTALL, source=source, doctor_python=sys.executable)
    skip_without_index(done, runner.temporary / "tfgpu-doctor")
    assert done.returncode == 0, done.stderr
    done = runner.run(DIAGNOSE, level="quick", python=sys.executable)
    assert done.stdout.startswith("::")
    assert runner.outputs["exit-code"] == str(done.returncode)


# What docs/ci.md shows

SCHEMAS = {".github/workflows/gpu.yml": "vendor.github-workflows", ".gitlab-ci.yml": "vendor.gitlab-ci"}


@pytest.mark.parametrize("text", fenced("docs/ci.md", "yaml"), ids=lambda text: text.split("\n", 1)[0])
def test_pipelines_are_valid(text: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("check_jsonschema")
    (tmp_path / "pipeline.yml").write_text(text)
    validate(SCHEMAS[text.split("\n", 1)[0].removeprefix("# ")], tmp_path / "pipeline.yml")
    document = yaml.safe_load(text)
    for script in scripts_of(document):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        for arguments in calls(script):
            refuse_unknown(arguments)
    for job in document.get("jobs", {}).values():
        for step in job["steps"]:
            if "tfgpu-doctor" in step.get("uses", ""):
                assert set(step["with"]) <= set(ACTION["inputs"])


def test_the_jenkinsfile_names_commands_that_exist() -> None:
    (text,) = fenced("docs/ci.md", "groovy")
    assert text.count("{") == text.count("}")
    scripts = re.findall(r"sh '(.*)'", text)
    found = [arguments for script in scripts for arguments in calls(script)]
    assert found
    for arguments in found:
        refuse_unknown(arguments)


def pipelines() -> dict[str, list[str]]:
    """The scripts of each shown pipeline, in their order."""
    found = {text.split("\n", 1)[0]: [*scripts_of(yaml.safe_load(text))] for text in fenced("docs/ci.md", "yaml")}
    (jenkins,) = fenced("docs/ci.md", "groovy")
    return found | {"// Jenkinsfile": re.findall(r"sh '(.*)'", jenkins)}


@pytest.mark.parametrize("name", pipelines())
def test_the_plugin_runs_where_the_doctor_and_pytest_were_installed(name: str) -> None:
    commands = "\n".join(pipelines()[name]).splitlines()
    (place,) = [place for place, command in enumerate(commands) if "tfgpu_doctor.pytest_plugin" in command]
    environment = commands[place].partition("python -m pytest")[0]
    (install,) = [command for command in commands[:place] if command.startswith(f"{environment}pip install ")]
    assert {"tfgpu-doctor", "pytest"} <= {word.rpartition("/")[2] for word in install.split()}


@pytest.mark.slow
@pytest.mark.parametrize("name", pipelines())
def test_a_pipeline_runs_to_its_tests(name: str, tmp_path: pathlib.Path) -> None:
    """In a repository that has the doctor's source in it: its test of a GPU runs, or the job fails for want of one."""
    checkout = tmp_path / "checkout"
    text = "\n".join(pipelines()[name])
    (place,) = set(re.findall(r"\./[\w./-]*tfgpu-doctor", text))
    source = copy_source(checkout / place)
    (checkout / "requirements.txt").write_text("packaging\n")
    for folder, body in (
        (checkout / "tests", "pass"),
        (source / "tests", "raise AssertionError('not of this project')"),
    ):
        folder.mkdir()
        (folder / f"test_{folder.parent.name[-2:]}.py").write_text(
            f"import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    {body}\n"
        )
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "image")], check=True)
    path = f"{tmp_path}/image/bin{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=checkout,
        capture_output=True,
        text=True,
        env=clean_environment(PATH=path),
        check=False,
    )
    skip_without_index(done, tmp_path / "image")
    assert (
        "--require-gpu was given, but a test marked gpu cannot run here" in done.stdout or " 1 passed" in done.stdout
    ), done
    assert done.returncode == (0 if " 1 passed" in done.stdout else 1)


# The pages on adding something show commands that exist when it is added: tests/project/test_adding.py follows them.
PAGES = sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md") if not path.name.startswith("adding_"))


@pytest.mark.parametrize("document", ["README.md", *PAGES])
def test_commands_in_documents_exist(document: str) -> None:
    for block in (*fenced(document, "sh"), *fenced(document, "dockerfile")):
        for arguments in calls(block.replace("...", "")):
            refuse_unknown(arguments)
    for block in fenced(document, "console"):
        for arguments in calls("\n".join(line for line in block.splitlines() if line.startswith("$ "))):
            refuse_unknown(arguments)


def test_unknown_options_are_seen() -> None:
    for wrong in (["--formt", "json"], ["--format", "jsn"], ["rehearse", "--cuda", "12"], ["diagnose"]):
        with pytest.raises(click.ClickException):
            refuse_unknown(wrong)


def test_the_tables_name_the_actions_inputs_and_outputs() -> None:
    text = (ROOT / "docs/ci.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|([^|]*)\|", text, re.MULTILINE)
    named = {name for cell, _ in rows for name in re.findall(r"`([\w-]+)`", cell)}
    assert named == {*ACTION["inputs"], *ACTION["outputs"]}
    for cell, default in rows:
        for name in re.findall(r"`([\w-]+)`", cell):
            if name in ACTION["inputs"]:
                assert ACTION["inputs"][name]["default"] == default.strip(" `"), name


def test_the_marker_in_the_settings_is_known_to_pytest(tmp_path: pathlib.Path) -> None:
    (settings,) = fenced("docs/ci.md", "toml")
    (tests,) = fenced("docs/ci.md", "python")
    (tmp_path / "pyproject.toml").write_text(settings)
    (tmp_path / "test_it.py").write_text(tests)
    facts = ROOT / "tests/machines/synthetic/debian-nouveau/facts.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--strict-markers", "-rs", f"--gpu-facts={facts}"], cwd=tmp_path, capture_output=True,
        text=True, env=clean_environment(COLUMNS="200"), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    (shown,) = [block for block in fenced("docs/ci.md", "console") if "SKIPPED" in block]
    assert [line for line in shown.splitlines() if line.startswith("SKIPPED")] == skipped


def test_what_needs_tensorflow_lies_where_the_environment_with_it_looks() -> None:
    """`--beside-tensorflow` leaves these folders to an environment without TensorFlow; slow tests run in `full` alone."""
    needs = re.compile(r"skip_without_(?:tensorflow|scipy)|mark\.tensorflow|importorskip\(.(?:tensorflow|scipy)")
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("test_*.py")
        if makes_no_difference(path) and path.name != "test_ci.py" and needs.search(path.read_text("utf-8"))
    }
    assert found == {
        "project/test_adding.py", "tools/test_measure_watch.py", "tools/test_record_gpu_again.py",
        "tracing/test_epoch_ends.py", "tracing/test_own_profiles.py", "tracing/test_xplane.py",
        "watching/test_in_a_program.py", "watching/test_step_watch.py",
    }  # fmt: skip
    assert not makes_no_difference(TESTS / "fleet/test_run.py")
    assert makes_no_difference(TESTS / "log/test_corpus.py")
