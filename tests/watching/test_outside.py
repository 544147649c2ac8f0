"""`watch --pid` as root of another user's program, whose recorder answers that user alone."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from doctor_command import start_doctor

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
