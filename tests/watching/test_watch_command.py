"""`watch` as a user runs it: beside real processes, and beside real trainings."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
from doctor_command import clean_environment, doctor_argv
from installed import skip_without_tensorflow
from locations import ROOT, TESTS
from recorded_training import write_training

from tfgpu_doctor.tracing import STARTUP

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="watch needs Linux"),
]
SCHEMA = json.loads((ROOT / "doctor/watching/watch.schema.json").read_text("utf-8"))
PROGRAMS = TESTS / "tracing/programs.py"
LONG_S = 300.0
STANDING = """
import tensorflow, time, threading
def wait_for_approval():
    threading.Event().wait()
print("trained", flush=True)
wait_for_approval()
"""


def watch(*words: str, folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        doctor_argv("watch", *words), capture_output=True, text=True, cwd=folder, timeout=LONG_S, check=False,
        env=clean_environment(TMPDIR=str(folder), **variables),
    )  # fmt: skip


@pytest.fixture
def fake(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a package tensorflow that is none."""
    write_training(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name a command after --, or a process with --pid"),
        (("--pid", "1", "--", "true"), "--pid cannot be combined with a command after --"),
        (("--fail-if", "gpu_idel > 4 %", "--", "true"), "'gpu_idel' in 'gpu_idel > 4 %' is not known"),
        (("--format", "html", "--", "true"), "a page needs a file: -o FILE"),
        (("--pid", "1", "--on-hang", "stop"), "--on-hang stop needs a command after --"),
        (("--seconds", "5", "--", "true"), "--seconds needs --pid: a command is watched until it ends"),
        (
            (
                "--pid",
                "99999999",
            ),
            "there is no process 99999999",
        ),
    ],
)
def test_wrong_usage_starts_nothing(tmp_path: pathlib.Path, words: tuple[str, ...], why: str) -> None:
    done = watch(*words, folder=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stdout == ""


def test_a_program_that_stands_still_is_ended_and_named(fake: pathlib.Path) -> None:
    done = watch(
        "--hang-after", "5", "--on-hang", "stop", "--events", "events", "--prometheus", "metrics", "--format", "json",
        "-o", "report", "--", sys.executable, "-c", STANDING, folder=fake,
    )  # fmt: skip
    assert done.stdout == "trained\n"
    assert done.returncode == 17, done.stderr
    report = json.loads((fake / "report").read_text())
    jsonschema.validate(report, SCHEMA)
    assert (report["verdict"], report["healthy"]) == ("hang", False)
    hang = report["hang"]
    assert (hang["kind"], hang["ended"]) == ("python", "SIGTERM")
    assert any("wait_for_approval (<string>:4)" in line for line in hang["evidence"])
    events = [json.loads(line) for line in (fake / "events").read_text().splitlines()]
    assert {"verdict", "hang", "end"} <= {each["event"] for each in events}
    assert "tfgpu_watch_hang 1" in (fake / "metrics").read_text()
    assert [each.name for each in fake.iterdir() if each.name.startswith("tfgpu")] == []


@pytest.mark.slow
def test_a_hang_that_is_only_told_does_not_end_the_program(fake: pathlib.Path) -> None:
    """The program waits until the hang is told, however slow the machine is, and goes on until that is told, too."""
    code = (
        "import signal, tensorflow, time\n"
        "def go_on(*_): raise InterruptedError\n"
        "signal.signal(signal.SIGUSR1, go_on)\n"
        "try:\n    time.sleep(200)\nexcept InterruptedError:\n    print('went on')\n"
        "ends = time.monotonic() + 150\n"
        "while 'goes on after' not in open('events').read() and time.monotonic() < ends: pass\n"
    )
    argv = doctor_argv("watch", "--hang-after", "5", "--events", "events", "--", sys.executable, "-c", code)
    with subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=fake,
        env=clean_environment(TMPDIR=str(fake)),
    ) as process:
        ends = time.monotonic() + 150
        while not ((fake / "events").exists() and '"hang"' in (fake / "events").read_text()):
            assert process.poll() is None
            if time.monotonic() > ends:
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGUSR1)  # which the doctor passes on
        output, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, output) == (0, "went on\n")
    assert "The program waits in its own Python code" in errors
    assert re.search(r"the program goes on after \d+ s", errors), errors


WITHOUT_A_PLACE = """
import os, sys, time, tensorflow
given = dict(each.split("=", 1) for each in open("/proc/self/environ").read().split("\\0") if "=" in each)
open(os.path.join(os.path.dirname(given["TFGPU_DOCTOR_TRACE_SOCKET"]), "recorded"), "w").close()
time.sleep(float(sys.argv[1]))
sys.exit(5)
"""
FAILING = """
import runpy, sys
from tfgpu_doctor.watching.watcher import Watcher
def tick(self):
    raise RuntimeError("can't start new thread")
Watcher.tick = tick
program = "import sys, time; time.sleep(1); sys.exit(int(sys.argv[1]))"
rule = ["--fail-if", "cpu > 900 %"]
sys.argv = ["tfgpu-doctor", "watch", "--no-live", *rule, "--", sys.executable, "-c", program, sys.argv[1]]
runpy.run_module("tfgpu_doctor", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_a_program_that_cannot_be_recorded_runs_on(fake: pathlib.Path) -> None:
    """As where TMPDIR is full: the first recording is to begin 5 s after the import."""
    for seconds in ("9", "120"):
        done = watch("--no-live", "--", sys.executable, "-c", WITHOUT_A_PLACE, seconds, folder=fake)
        assert done.returncode == 5, done.stderr
        said = " ".join(done.stderr.split())
        if "nothing can be recorded in " in said:
            break
    assert "nothing can be recorded in " in said
    assert "cannot be started" not in said


def test_an_error_of_the_doctor_does_not_end_the_program(tmp_path: pathlib.Path) -> None:
    for code, ours in ((5, 5), (0, 19)):  # a rule that nobody looked at is not kept
        done = subprocess.run(
            [sys.executable, "-c", FAILING, str(code)], capture_output=True, text=True, cwd=tmp_path, timeout=LONG_S,
            check=False, env=clean_environment(TMPDIR=str(tmp_path)),
        )  # fmt: skip
        assert done.returncode == ours, done.stderr
        said = " ".join(done.stderr.split())
        assert "the doctor failed to watch the program, which ran on (RuntimeError: can't start new thread)" in said
        assert "Traceback" not in done.stderr


UNTIL_BROKEN = """
import os, time
ends = time.monotonic() + 200
while not (os.path.exists("events") and '"event":"rule"' in open("events").read()) and time.monotonic() < ends:
    time.sleep(0.1)
time.sleep(2)
"""


@pytest.mark.slow
def test_a_broken_rule_fails_a_run_that_ended_well(tmp_path: pathlib.Path) -> None:
    """The program waits until the doctor has told of the rule."""
    options = (
        "--fail-if",
        "cpu < 90 % for 2 s",
        "--fail-if",
        "gpu_idle > 1 % for 2 s",
        "--no-live",
        "--events",
        "events",
        "--format",
        "json",
    )
    done = watch(*options, "-o", "report", "--", sys.executable, "-c", UNTIL_BROKEN, folder=tmp_path)
    assert done.returncode == 18, done.stderr
    rules = json.loads((tmp_path / "report").read_text())["rules"]
    assert [rule["broken"] for rule in rules] in ([True, None], [True, True])  # the second where there is a GPU
    (tmp_path / "events").unlink()
    failed = watch(
        *options, "-o", "report", "--", sys.executable, "-c", UNTIL_BROKEN + "raise SystemExit(4)", folder=tmp_path
    )
    assert failed.returncode == 4


@pytest.mark.slow
def test_every_format_says_the_same(fake: pathlib.Path) -> None:
    def run(format_: str) -> int:
        return watch(
            "--hang-after", "5", "--on-hang", "stop", "--format", format_, "-o", format_, "--no-live", "--",
            sys.executable, "-c", STANDING, folder=fake,
        ).returncode  # fmt: skip

    formats = ("text", "markdown", "html", "json")
    with ThreadPoolExecutor(len(formats)) as pool:
        assert list(pool.map(run, formats)) == [17] * len(formats)
    told = {format_: (fake / format_).read_text() for format_ in formats}
    assert all("The program waits in its own Python code" in text for text in told.values())
    assert [name for name, text in told.items() if "wait_for_approval" not in text.replace("\\", "")] == []


def test_a_report_that_cannot_be_written_changes_no_exit_code(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    program = "import os; os.rmdir('folder'); raise SystemExit(5)"
    done = watch("-o", "folder/report", "--", sys.executable, "-c", program, folder=tmp_path)
    assert done.returncode == 5
    assert "cannot be written" in done.stderr


NOT_KNOWN = "whether it hangs, or waits for requests, is not known"


def watch_standing(
    pid: int, folder: pathlib.Path, **variables: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Look at a process that stands still, for as long as this machine takes to tell of it; the report too."""
    for seconds in (14, 90):
        done = watch(
            "--pid", str(pid), "--seconds", str(seconds), "--hang-after", "5", "--format", "json", "-o", "report",
            "--no-live", folder=folder, **variables,
        )  # fmt: skip
        report = {} if done.returncode else json.loads((folder / "report").read_text())
        if done.returncode or report["hang"] or NOT_KNOWN in str(report["notes"]):
            break
    return done, report


@pytest.mark.slow
def test_from_outside_nothing_is_stopped_and_nothing_guessed(tmp_path: pathlib.Path) -> None:
    code = "import time\ndef wait_long():\n    time.sleep(600)\nprint('ready', flush=True)\nwait_long()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        done, report = watch_standing(program.pid, tmp_path)
        assert program.poll() is None
        program.kill()
    assert done.returncode == 0, done.stderr
    jsonschema.validate(report, SCHEMA)
    assert report["from_outside"]
    assert report["causes"] == []
    assert any("tfgpu-doctor watch -- COMMAND" in note for note in report["notes"])
    if report["hang"] is None:  # without py-spy nobody knows where
        assert any(NOT_KNOWN in note for note in report["notes"])
    else:
        assert report["hang"]["kind"] == "python"


def test_a_program_that_was_started_without_a_login_is_found(fake: pathlib.Path) -> None:
    """As by cron: it listens in /tmp, and the doctor, which has XDG_RUNTIME_DIR, asks there."""
    variables = clean_environment(PYTHONPATH=STARTUP)
    variables.pop("XDG_RUNTIME_DIR", None)
    with subprocess.Popen([sys.executable, "-c", STANDING], stdout=subprocess.PIPE, env=variables, cwd=fake) as program:
        assert program.stdout is not None
        program.stdout.readline()
        done = watch(
            "--pid", str(program.pid), "--seconds", "2", "--format", "json", "-o", "report", "--no-live", folder=fake,
            XDG_RUNTIME_DIR=str(fake),
        )  # fmt: skip
        program.terminate()
    pathlib.Path(f"/tmp/tfgpu-doctor-{os.getuid()}/{program.pid}").unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    assert not json.loads((fake / "report").read_text())["from_outside"]


BEGUN_ANEW = """
import os, sys
if os.path.exists("again"):
    frames = sys._current_frames
    def seen():
        if sys._getframe(1).f_code.co_name == "look":  # not one of those of a recording
            open("seen", "w").close()
        return frames()
    sys._current_frames = seen
    import tensorflow, time
    print("trains", flush=True)
    end = time.monotonic() + 300
    while not os.path.exists("end") and time.monotonic() < end: sum(range(2000))
else:
    import tensorflow, threading
    open("again", "w").close()
    print(os.getpid(), flush=True)
    threading.Event().wait()
"""


@pytest.mark.slow
def test_a_training_that_is_begun_anew_after_a_hang(fake: pathlib.Path) -> None:
    """`until python train.py; do ...`: the hang ends with its process, and the next one is watched.

    That one goes on until the doctor has asked it what it does.
    """
    (fake / "train.py").write_text(BEGUN_ANEW)
    argv = doctor_argv(
        "watch", "--hang-after", "5", "--events", "events", "--format", "json", "-o", "report", "--no-live", "--", "bash", "-c",
        f"until {sys.executable} train.py; do sleep 0.2; done",
    )  # fmt: skip

    def wait_for(file: str, what: str = "") -> None:
        ends = time.monotonic() + LONG_S
        while not ((fake / file).exists() and what in (fake / file).read_text()):
            assert time.monotonic() < ends
            assert process.poll() is None
            time.sleep(0.2)

    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, cwd=fake, env=clean_environment(TMPDIR=str(fake))
    ) as process:
        try:
            assert process.stdout is not None
            hung = int(process.stdout.readline())
            wait_for("events", '"event":"hang"')
            os.kill(hung, signal.SIGKILL)
            wait_for("events", f"process {hung}, which stood still, has ended")
            assert process.stdout.readline() == "trains\n"
            time.sleep(3)
            wait_for("seen")
        finally:
            (fake / "end").touch()
            process.wait(LONG_S)
    report = json.loads((fake / "report").read_text())
    assert [turn["verdict"] for turn in report["timeline"]][-1] != "hang"
    assert report["hang"]["seconds"] < report["seconds"] - 3, "of its own process, and no step was recorded since"
    assert "2 processes used TensorFlow" in str(report["notes"])


@pytest.mark.slow
def test_a_program_started_with_the_variable_is_looked_into_later(fake: pathlib.Path) -> None:
    variables = clean_environment(XDG_RUNTIME_DIR=str(fake), PYTHONPATH=STARTUP)
    with subprocess.Popen([sys.executable, "-c", STANDING], stdout=subprocess.PIPE, env=variables, cwd=fake) as program:
        assert program.stdout is not None
        program.stdout.readline()
        done, report = watch_standing(program.pid, fake, XDG_RUNTIME_DIR=str(fake))
        again = watch("--pid", str(program.pid), "--seconds", "2", "--no-live", folder=fake, XDG_RUNTIME_DIR=str(fake))
        assert program.poll() is None
        (socket,) = fake.glob("tfgpu-doctor-*/*")
        assert (socket.name, socket.parent.stat().st_mode & 0o777) == (str(program.pid), 0o700)
        program.terminate()
    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    assert not report["from_outside"]
    assert report["hang"]["kind"] == "python"
    assert "wait_for_approval (<string>:4)" in str(report["hang"]["evidence"])


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start a process of another user")
def test_a_process_of_another_user_is_refused(tmp_path: pathlib.Path) -> None:
    from tfgpu_doctor.host import Host

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as mine:
        as_nobody = "import os, sys; os.setuid(65534); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        argv = [sys.executable, "-c", as_nobody, *doctor_argv("watch", "--pid", str(mine.pid))[1:]]
        if not Host().files.exists("/proc/self/status"):
            pytest.skip("there is no /proc")
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
        mine.kill()
    if "No module named" in done.stderr or "Permission" in done.stderr:
        pytest.skip("this Python lies where only root may read")
    assert done.returncode == 2
    assert "belongs to user 0, not to 65534: run the doctor as the same user" in done.stderr


def judge_training(report: dict[str, Any], verdict: str) -> None:
    """It was recorded, with this verdict; or the doctor says that others took its CPUs, and blames nothing else."""
    told = {turn["verdict"] for turn in report["timeline"]}
    if "cpu_contention" not in told:
        assert report["trace"] is not None, report["timeline"]
        assert report["trace"]["verdict"] == verdict
        assert verdict in told, report["timeline"]
    elif report["hang"] is None:
        assert report["verdict"] in (verdict, "cpu_contention", "starting", "watching"), report["timeline"]


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(("name", "verdict"), [("py_function", "input_python"), ("healthy_loop", "compute_bound")])
def test_a_real_training(tmp_path: pathlib.Path, name: str, verdict: str) -> None:
    skip_without_tensorflow()
    done = watch(
        "--format", "json", "-o", "report", "--no-live", "--hang-after", "20", "--on-hang", "stop", "--", sys.executable,
        str(PROGRAMS), name, "--seconds", "20", folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="3",
    )  # fmt: skip
    report = json.loads((tmp_path / "report").read_text())
    jsonschema.validate(report, SCHEMA)
    assert done.returncode in (0, 17)  # TensorFlow's own destructor may hang after a py_function
    judge_training(report, verdict)
    assert report["captures"] >= 1 or report["trace"] is None


IN_A_THREAD = """
import threading, time
import tensorflow as tf
LONG_S = 45
class Stop(tf.keras.callbacks.Callback):
    ends = time.monotonic() + LONG_S
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        if time.monotonic() > self.ends:
            threading.Event().wait()
def train():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    rows = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 4)), tf.zeros((64, 1)))).batch(16).repeat()
    model.fit(rows, epochs=10**6, steps_per_epoch=1000, verbose=0, callbacks=[Stop()])
threading.Thread(target=train).start()
"""


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_training_in_a_thread_hangs_only_once_it_makes_no_steps(tmp_path: pathlib.Path) -> None:
    """The main thread stands all the time: Python waits for the other one at the end of the program."""
    skip_without_tensorflow()
    done = watch(
        "--format", "json", "-o", "report", "--no-live", "--hang-after", "15", "--on-hang", "stop", "--", sys.executable,
        "-c", IN_A_THREAD, folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1",
    )  # fmt: skip
    hang = json.loads((tmp_path / "report").read_text())["hang"]
    assert done.returncode == 17
    assert hang["at_s"] + hang["seconds"] > 45, hang
    assert hang["kind"] == "python"
    assert "the thread that trains is in on_train_batch_end" in str(hang["evidence"])


@pytest.mark.tensorflow
@pytest.mark.slow
def test_in_the_program_itself(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(PROGRAMS.parent)!r})\nimport programs, tfgpu_doctor\n"
        "from tfgpu_doctor.render.json_document import as_json\n"
        "with tfgpu_doctor.watch(live=False) as watched:\n    programs.PROGRAMS['serial_map'][1](20)\n"
        "open('report', 'w').write(as_json(watched.report))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=LONG_S,
        env=clean_environment(TF_CPP_MIN_LOG_LEVEL="3"), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "watched for" in done.stdout
    report = json.loads((tmp_path / "report").read_text())
    judge_training(report, "input_serial_map")
    if report["trace"] and report["trace"]["verdict"] == "input_serial_map":
        assert "waiting for input" in done.stdout


@pytest.mark.slow
def test_two_hundred_starts_and_kills_leave_nothing(tmp_path: pathlib.Path) -> None:
    # Short pieces: a SIGINT that Python's handler notes just before a long sleep begins does not end that sleep.
    code = "import os, time\nprint(os.getpid(), flush=True)\nfor _ in range(6000): time.sleep(0.1)"
    pids = []
    for number in range(200):
        said = tmp_path / "said"
        with said.open("w") as stderr:
            process = subprocess.Popen(
                doctor_argv("watch", "--no-live", "-o", os.devnull, "--", sys.executable, "-c", code),
                stdout=subprocess.PIPE, stderr=stderr, text=True,
                env=clean_environment(TMPDIR=str(tmp_path), PYTHONFAULTHANDLER="1"),
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
            )  # fmt: skip
        assert process.stdout is not None
        pids.append(int(process.stdout.readline()))
        sent = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[number % 3]
        os.kill(process.pid if number % 2 else pids[-1], sent)
        try:
            process.communicate(timeout=LONG_S)
        except subprocess.TimeoutExpired:
            family = _running_in(tmp_path)
            for pid in (pids[-1], process.pid):  # both say where their threads are
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)
            process.communicate(timeout=LONG_S)
            to = "the doctor" if number % 2 else "the program"
            pytest.fail(f"start {number}, {sent.name} to {to}: it did not end. {family}\n{said.read_text()}")
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        alive = [pid for pid in pids if pathlib.Path(f"/proc/{pid}/cmdline").exists() and code in _command(pid)]
        left = [each.name for each in tmp_path.iterdir() if each.name.startswith("tfgpu")]
        if not alive and not left:
            return
        time.sleep(0.5)
    pytest.fail(f"processes {alive}, folders {left}")


def _running_in(folder: pathlib.Path) -> list[str]:
    """The processes with this temporary folder: their numbers, states, commands, and where they wait in the kernel."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={folder}".encode() in (place / "environ").read_bytes().split(b"\0"):
                state = (place / "stat").read_text().rpartition(")")[2].split()[:2]
                found.append(f"{place.name} {state} {_command(int(place.name))} {(place / 'wchan').read_text()}")
    return found


KILLED_AT_ONCE = """
import os, signal, subprocess, sys
class Popen(subprocess.Popen):
    def __init__(self, argv, **options):
        super().__init__(argv, **options)
        if argv[-1] == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGKILL)
subprocess.Popen = Popen
from tfgpu_doctor.host.launched_program import LaunchedProgram
from tfgpu_doctor.tracing import STARTUP
program = [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]]
LaunchedProgram(program, environment=dict(os.environ), startup=STARTUP, before_stop=lambda: None)
"""


def test_a_doctor_that_is_killed_as_the_program_begins_leaves_nothing(tmp_path: pathlib.Path) -> None:
    word = f"killed-at-once-{os.getpid()}"
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_ONCE, word],
        check=False,
        cwd=tmp_path,
        env=clean_environment(TMPDIR=str(tmp_path)),
    )
    assert done.returncode == -signal.SIGKILL
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        commands = [_command(int(each.name)) for each in pathlib.Path("/proc").iterdir() if each.name.isdecimal()]
        left = [each.name for each in tmp_path.iterdir()]
        if not any(word in each for each in commands) and not left:
            return
        time.sleep(0.1)
    pytest.fail(f"{[each for each in commands if word in each]}, {left}")


def _command(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.tensorflow
@pytest.mark.slow
def test_as_a_callback_of_keras(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(PROGRAMS.parent)!r})\nimport programs, tfgpu_doctor\n"
        "from tfgpu_doctor.render.json_document import as_json\n"
        "rows = programs.numbers().map(programs.labelled).batch(16).repeat()\n"
        "callback = tfgpu_doctor.WatchCallback(live=False, fail_if=['cpu < 1 % for 5 s'])\n"
        "programs.fit(programs.dense(64, 8), rows, 20, callbacks=[callback])\n"
        "open('report', 'w').write(as_json(callback.watched.report))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=LONG_S,
        env=clean_environment(TF_CPP_MIN_LOG_LEVEL="3"), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "watched for" in done.stdout
    report = json.loads((tmp_path / "report").read_text())
    assert report["rules"][0]["broken"] is False
    if "cpu_contention" not in {turn["verdict"] for turn in report["timeline"]}:
        assert report["captures"] >= 1, report["timeline"]
        assert report["steps"]["count"] > 0, report["timeline"]
