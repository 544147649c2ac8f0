"""tools/record_gpu.py: what a second call adds to, what it refuses, its exit code; and the times in docs/new_gpu.md."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import msgspec
import pytest
import record_gpu
from gpu_run import machine, results, resuming
from gpu_run.plan import BY_NAME, PARTS, allot
from gpu_run.results import PartResult, Results, Status
from gpu_run.workbench import Setting, Workbench
from installed import skip_without_tensorflow
from locations import ROOT

from tfgpu_doctor._project import __version__

H100 = {"GPUs": ["NVIDIA H100 80GB HBM3"], "driver": "550.54.15", "TensorFlow": "2.21.0", "Python": "3.12.3"}


def document(*parts: tuple[str, Status], **changes: object) -> Results:
    begun = Results(1, __version__, "2026-11-24T00:00:00Z", 25.0, False, H100)
    rows = tuple(PartResult(name, "?", status) for name, status in parts)
    return msgspec.structs.replace(begun, parts=rows, **changes)


@pytest.mark.parametrize(
    ("changes", "arguments", "told"),
    [
        ({"stand_in": True}, [], "recorded on a stand-in, and this call is for a real GPU"),
        ({}, ["--stand-in"], "recorded on a real GPU, and this call is for a stand-in"),
        ({"doctor": "0.0.1"}, [], f"recorded by tfgpu-doctor 0.0.1, and this is {__version__}"),
    ],
)
def test_what_another_recorded_is_not_added_to(
    changes: dict[str, object], arguments: list[str], told: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    results.write(tmp_path, document(("deep", "done"), **changes))
    before = (tmp_path / results.FILE).read_bytes()
    assert record_gpu.main(["--out", str(tmp_path), "--minutes", "1", *arguments]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert "choose another folder" in said
    assert [each.name for each in tmp_path.iterdir()] == [results.FILE]
    assert (tmp_path / results.FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value"), [("GPUs", ["NVIDIA H200"]), ("driver", "570.86.15"), ("TensorFlow", "2.20.0"), ("driver", None)]
)
def test_parts_of_another_machine_are_not_mixed_in(name: str, value: object) -> None:
    here = document(machine={**H100, name: value})
    assert resuming.difference(document(), here).startswith(f"{name}: it was ")


def test_the_same_machine_is_added_to_and_so_is_one_not_yet_examined() -> None:
    assert resuming.difference(document(), document(machine={**H100, "Python": "3.13.1"})) == ""
    assert resuming.difference(document(), document(machine={})) == ""


@pytest.mark.parametrize(
    ("before", "now", "whole"),
    [
        (None, "done", True),
        (None, "not reached", False),
        ("done", "not reached", True),
        ("failed", "not reached", False),
        ("done", "not run", False),
        ("done", "failed", False),
        ("failed", "done", True),
    ],
)
def test_the_exit_code_is_that_of_this_call(before: Status | None, now: Status, whole: bool) -> None:
    """What an earlier call did counts where this one had no time to do it again."""
    earlier = document(("deep", before), ("soak", "failed")) if before else None
    assert resuming.all_done(earlier, document(("deep", now))) == whole


def test_an_old_record_is_not_taken_for_this_machine(tmp_path: pathlib.Path) -> None:
    """The doctor fails here; what an earlier call recorded stays as it is."""
    setting = Setting(tmp_path, (sys.executable, "-c", "raise SystemExit(2)"), {})
    setting.record.write_text('{"of": "another machine"}')
    assert machine.record(Workbench("machine", setting, 60)) is None
    assert json.loads(setting.record.read_text()) == {"of": "another machine"}


def test_a_record_is_kept_once_the_folder_takes_it(tmp_path: pathlib.Path) -> None:
    writes = "import sys; open(sys.argv[sys.argv.index('--record') + 1], 'w').write('{\"pci\": null}')"
    setting = Setting(tmp_path, (sys.executable, "-c", writes), {})
    first = Workbench("machine", setting, 60)
    assert machine.record(first) == {"pci": None}
    assert not setting.record.exists()
    machine.keep_record(first)
    assert setting.facts() == {"pci": None}


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_folder_of_another_driver_is_left_as_it_was(tmp_path: pathlib.Path) -> None:
    """Here the machine is examined before it is known: it is the stand-in."""
    skip_without_tensorflow()
    results.write(
        tmp_path, document(stand_in=True, machine={**H100, "GPUs": ["NVIDIA GeForce RTX 3090"], "driver": "1.2"})
    )
    (tmp_path / "facts.json").write_text('{"of": "another machine"}')
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    command = [
        sys.executable,
        str(ROOT / "tools/record_gpu.py"),
        "--out",
        str(tmp_path),
        "--minutes",
        "1",
        "--stand-in",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "cannot be added to: driver: it was 1.2 there, and is " in done.stderr
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_the_document_names_times_that_are_enough() -> None:
    """The examination of the machine, before the first part, takes from them, too."""
    text = " ".join((ROOT / "docs/new_gpu.md").read_text("utf-8").split())
    (reaching,) = re.findall(r"(\d+) minutes reach all of them", text)
    (whole,) = re.findall(r"(\d+) run everything whole", text)
    used = {int(each) for each in re.findall(r"--minutes (\d+)", text)}
    assert used == {int(reaching)}
    assert allot(PARTS, 60 * int(reaching) - record_gpu._MACHINE_S).keys() == BY_NAME.keys()
    given = allot(PARTS, 60 * int(whole) - record_gpu._MACHINE_S)
    assert given == {part.name: part.wished_s for part in PARTS}
    assert record_gpu._options(["--list"]).minutes == int(reaching)
