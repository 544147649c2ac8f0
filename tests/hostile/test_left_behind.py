"""However a command ends, nothing of it is left: no process, no temporary file, nothing in the home folder."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts, make_target
from installed import skip_without_tensorflow

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc shows which processes are left")

MARK = "TFGPU_DOCTOR_LEFT_BEHIND"
LONG_S = 60.0
# As the real one: a generated file in the temporary folder, and the settings of Keras in its home.
TENSORFLOW = """
import os, tempfile, time
tempfile.NamedTemporaryFile(prefix="__autograph_generated_file", suffix=".py", delete=False).close()
home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
os.makedirs(home, exist_ok=True)
place = os.path.join(home, "keras.json")
if not os.path.exists(place):
    open(place, "w").write("{}")
reached = os.path.join(os.environ["REACHED"], str(os.getpid()))
with open(reached + ".part", "w") as file:
    file.write(open(place).read())
os.rename(reached + ".part", reached)
time.sleep(float(os.environ["SLEEPS_S"]))
"""


@dataclass
class Place:
    """Folders of a user's own, and a target whose TensorFlow sleeps while it is imported."""

    folder: pathlib.Path
    target: pathlib.Path

    def variables(self, sleeps_s: float = LONG_S) -> dict[str, str]:
        return clean_environment(
            TMPDIR=str(self.folder / "tmp"), HOME=str(self.folder / "home"), XDG_CACHE_HOME=str(self.folder / "cache"),
            REACHED=str(self.folder / "reached"), SLEEPS_S=str(sleeps_s), **{MARK: str(self.folder)},
        )  # fmt: skip

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            doctor_argv(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**self.variables(), **variables}, preexec_fn=hear_interrupts, cwd=self.folder,
        )  # fmt: skip

    def start_check(self) -> subprocess.Popen[str]:
        """Start the doctor, and wait until TensorFlow has written its files."""
        process = self.start("check", "--format", "json", "--python", str(self.target))
        wait_until(lambda: any(path.suffix != ".part" for path in (self.folder / "reached").iterdir()))
        return process

    def left(self, *names: str) -> list[str]:
        """What is in those folders."""
        return sorted(str(path.relative_to(self.folder)) for name in names for path in (self.folder / name).rglob("*"))

    def processes(self) -> list[str]:
        """The processes that are left, also in sessions of their own."""
        mark, found = f"{MARK}={self.folder}".encode(), []
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != os.getpid():
                try:
                    if mark in pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        found.append(pathlib.Path("/proc", name, "cmdline").read_text())
                except OSError:
                    continue
        return found


@pytest.fixture(scope="module")
def sleeping(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make_target(tmp_path_factory.mktemp("sleeping") / "venv", TENSORFLOW)


@pytest.fixture
def place(tmp_path: pathlib.Path, sleeping: pathlib.Path) -> Place:
    for name in ("tmp", "home", "cache", "reached", "bin"):
        (tmp_path / name).mkdir()
    return Place(tmp_path, sleeping)


def wait_until(holds: object) -> None:
    until = time.monotonic() + LONG_S
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < until, "it has not come to be"
        time.sleep(0.02)


def listens(pid: int) -> bool:
    """Whether SIGTERM waits or is caught: the doctor does that from its start on, `nohup` does not."""
    rows = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return any(int(rows[name], 16) & (1 << (signal.SIGTERM - 1)) for name in ("SigBlk", "SigCgt"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_leaves_nothing(place: Place, number: signal.Signals, times: int) -> None:
    process = place.start_check()
    for _ in range(times):
        process.send_signal(number)
    output, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, errors) == (130, "")
    assert json.loads(output)["interrupted"] is True
    assert place.left("tmp", "home") == []
    wait_until(lambda: not place.processes())


def test_nohup_holds_while_the_doctor_runs(place: Place) -> None:
    argv = ["nohup", *doctor_argv("check", "--quick", "--format", "json", "--python", str(place.target))]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.variables())
    wait_until(lambda: listens(process.pid))
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=LONG_S)
    assert json.loads(output)["interrupted"] is False


def test_a_run_to_the_end_leaves_nothing(place: Place) -> None:
    done = subprocess.run(
        doctor_argv("check", "--format", "json", "--python", str(place.target)), env=place.variables(0.0),
        capture_output=True, text=True, check=False, cwd=place.folder,
    )  # fmt: skip
    assert json.loads(done.stdout)["interrupted"] is False
    assert place.left("reached") != []
    assert place.left("tmp", "home") == []


def test_tensorflow_still_gets_the_users_settings_of_keras(place: Place) -> None:
    settings = place.folder / "home/.keras/keras.json"
    settings.parent.mkdir()
    settings.write_text('{"floatx": "float16"}')
    process = place.start_check()
    process.terminate()
    process.communicate(timeout=LONG_S)
    (reached,) = (place.folder / "reached").iterdir()
    assert reached.read_text() == settings.read_text() == '{"floatx": "float16"}'
    assert place.left("home") == ["home/.keras", "home/.keras/keras.json"]


def test_the_next_start_removes_what_a_killed_one_left(place: Place) -> None:
    process = place.start_check()
    process.kill()
    process.communicate()
    wait_until(lambda: not place.processes())
    assert place.left("home") == []
    done = place.start("check", "--quick", "--python", str(place.target))
    done.communicate(timeout=LONG_S)
    assert place.left("tmp") == []


def test_the_next_start_lets_a_running_one_be(place: Place) -> None:
    process = place.start_check()
    before = place.left("tmp")
    assert before
    place.start("check", "--quick", "--python", str(place.target)).communicate(timeout=LONG_S)
    assert place.left("tmp") == before
    process.terminate()
    process.communicate(timeout=LONG_S)
    assert place.left("tmp") == []


def test_a_watched_program_keeps_its_own_folders(place: Place) -> None:
    code = "import os; print(os.environ['TMPDIR'], os.environ.get('KERAS_HOME'), os.environ.get('PYTHONDONTWRITEBYTECODE'))"
    process = place.start("watch", "--no-live", "--", sys.executable, "-c", code)
    output, _ = process.communicate(timeout=LONG_S)
    assert output.split() == [str(place.folder / "tmp"), "None", "None"]
    assert place.left("tmp") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_compiler_ends_with_the_doctor(place: Place, number: signal.Signals) -> None:
    reached = place.folder / "reached/cc"
    for name in ("cc", "gcc", "clang"):
        compiler = place.folder / "bin" / name
        compiler.write_text(f"#!/bin/sh\ntouch {reached}\nsleep {LONG_S}\n")
        compiler.chmod(0o755)
    path = f"{place.folder / 'bin'}:{os.environ['PATH']}"
    process = place.start("rehearse", "--format", "json", "--python", str(place.target), PATH=path)
    wait_until(reached.exists)
    process.send_signal(number)
    output, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, errors) == (130, "")
    assert json.loads(output)["interrupted"] is True
    assert place.left("tmp", "home", "cache/tfgpu-doctor") == []
    wait_until(lambda: not place.processes())


def test_a_compiler_that_writes_nothing_leaves_no_folder(place: Place) -> None:
    for name in ("cc", "gcc", "clang"):
        (place.folder / "bin" / name).write_text("#!/bin/sh\nexit 0\n")
        (place.folder / "bin" / name).chmod(0o755)
    path = f"{place.folder / 'bin'}:{os.environ['PATH']}"
    process = place.start("rehearse", "--python", str(place.target), PATH=path)
    _, errors = process.communicate(timeout=LONG_S)
    assert place.left("cache/tfgpu-doctor") == [] or "ziglang" in sys.modules
    assert process.returncode == 3
    assert "cc: it ended with exit code 0, and wrote no libcuda.so.1" in errors


@pytest.mark.slow
def test_the_real_tensorflow_leaves_nothing(place: Place) -> None:
    skip_without_tensorflow()
    done = subprocess.run(
        doctor_argv("check", "--format", "json"), env=place.variables(), capture_output=True, text=True, check=False,
        cwd=place.folder,
    )  # fmt: skip
    assert "tensorflow" in json.loads(done.stdout)["target"] or done.returncode in (0, 1)
    assert place.left("tmp", "home") == []
