"""`watch --pid`: as root of another user's program, whose recorder answers that user alone; and a py-spy that is of no use."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from doctor_command import start_doctor

from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.watching.outside import PySpyAgent

NOBODY = 65534
PROGRAM = f"import os, time; os.setuid({NOBODY}); print('ready', flush=True); time.sleep(600)"


@pytest.mark.timed
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="only root may look at processes of others"
)
@pytest.mark.parametrize("listens", [True, False])
def test_root_is_told_how_to_ask_the_recorder_of_another_user(tmp_path: pathlib.Path, listens: bool) -> None:
    variables = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=variables) as program:
        assert program.stdout is not None
        program.stdout.readline()
        folder = tmp_path / f"tfgpu-doctor-{NOBODY}"
        folder.mkdir()
        if listens:
            (folder / str(program.pid)).touch()
        done = start_doctor(
            "watch", "--pid", str(program.pid), "--seconds", "1", "--format", "json", "-o", "report", "--no-live",
            cwd=tmp_path,
        )  # fmt: skip
        program.kill()
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report").read_text())
    assert report["from_outside"]
    command = f"sudo -u '#{NOBODY}' tfgpu-doctor watch --pid {program.pid}"
    assert (command in done.stderr) is listens
    assert any(command in note for note in report["notes"]) is listens
    assert any("the next start: tfgpu-doctor watch" in note for note in report["notes"]) is not listens


UNREADABLE = "Error: Failed to find python version from target process\n"
LOOK = b'[{"thread_name": "MainThread", "frames": [{"filename": "/home/me/train.py", "line": 3, "name": "<module>"}]}]'


class Answering(Host):
    """A machine whose py-spy gives these answers."""

    def __init__(self, *answers: Completed) -> None:
        super().__init__()
        self.answers = iter(answers)

    def run(self, *_: object, **__: object) -> Completed:
        return next(self.answers)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Completed(b"", UNREADABLE, 0.1, exit_code=1), "(Error: Failed to find python version from target process)"),
        (Completed(b'{"threads": []}', "", 0.1, exit_code=0), "(its answer has an unknown form)"),
    ],
    ids=["a Python that it does not know", "another form"],
)
def test_a_py_spy_that_never_reads_the_process_is_told(answer: Completed, why: str) -> None:
    agent = PySpyAgent(Answering(*[answer] * 3), os.getpid())
    said = []
    for _ in range(3):
        agent.asked_s = 1.0
        agent._spy()
        said.append((agent.asked_s is None, agent.unable))
    assert said[:2] == [(True, ""), (True, "")]
    assert why in said[2][1]


def test_a_py_spy_that_reads_while_the_program_changes_is_asked_again() -> None:
    failed = Completed(b"", UNREADABLE, 0.1, exit_code=1)
    agent = PySpyAgent(Answering(failed, failed, Completed(LOOK, "", 0.1, exit_code=0), *[failed] * 5), os.getpid())
    for _ in range(8):
        agent._spy()
    assert agent.unable == ""
    assert list(agent.places) == ["<module> (train.py:3)"]
