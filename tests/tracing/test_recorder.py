"""The recorder in the user's program: it records when it is asked, and leaves the program as it was."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import made_trace
import pytest
from doctor_command import clean_environment
from recorded_training import LONG_S, TRAIN, ended, folder_of, recorded, training, wait_for, write_training

from tfgpu_doctor.host import recorded_program
from tfgpu_doctor.host.talk import ProgramLost, Talk
from tfgpu_doctor.tracing.notebook import recorder_module
from tfgpu_doctor.tracing.python_samples import FILE, read_samples
from tfgpu_doctor.tracing.recording import STARTUP, NotRecorded, Recorder

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no sockets with a path"),
]


@pytest.fixture
def fake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder, with a package tensorflow and a training."""
    write_training(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_socket_is_gone_if_the_doctor_fails(fake: pathlib.Path) -> None:
    program = recorded("train.py")
    folder = folder_of(program)

    def fail() -> None:
        with program:
            training(program)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not folder.exists()
    assert program.exit_code is not None


def test_a_program_killed_while_it_is_recorded(fake: pathlib.Path) -> None:
    with recorded("train.py") as program:
        folder, talk = folder_of(program), training(program)
        assert talk.ask(do="start", folder=str(fake / "kept")) == {"did": "start", "error": ""}
        os.kill(talk.pid, signal.SIGKILL)
        assert ended(program) == 137
        with pytest.raises(ProgramLost, match="has ended"):
            talk.ask(do="stop")
        assert program.ready() == [] or program.talks == [talk]
    assert not folder.exists()


def test_a_recording(fake: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = fake / "kept"
    with recorded("train.py", TMPDIR=str(fake)) as program:
        talk = training(program)
        began = time.time_ns()
        assert talk.ask(do="start", folder=str(kept)) == {"did": "start", "error": ""}
        assert (kept / "started").read_text() == "None", "2.22.0rc0 warns of options"
        program.wait(1.0)
        told = talk.ask(do="stop")
        assert told == {"did": "stop", "error": "", "seconds": ANY}
        assert 0.9 < told["seconds"] <= (time.time_ns() - began) / 1e9
        assert (kept / "stopped").exists()
        (fake / "end").touch()
        assert ended(program) == 4
    content = (kept / FILE).read_bytes()
    assert 0 <= json.loads(content)["began_ns"] - began < LONG_S * 1e9
    samples = read_samples(content, 0, began)
    assert [each.at for each in samples] == sorted(each.at for each in samples)
    assert all(0 <= each.at < LONG_S * 1000 for each in samples)
    own = [frame for each in samples for frame in each.main if os.path.basename(frame[0]) == "train.py"]
    assert {"main"} <= {name for _, _, name in own} <= {"load_rows", "main", "<module>"}
    assert capfd.readouterr().err == "trained\n"


def test_a_recording_of_a_thread_that_trains_on_after_the_main_thread(fake: pathlib.Path) -> None:
    """Python 3.12.0 to 3.12.2 start no thread any more while they wait for those that are left."""
    kept = fake / "kept"
    alone = "import threading\nthreading.Thread(target=main).start()\n"
    (fake / "train.py").write_text(TRAIN.replace('main()\nprint("trained", flush=True)\nsys.exit(4)\n', alone))
    with recorded("train.py") as program:
        talk = training(program)
        wait_for(lambda: "_shutdown" in str(talk.ask(do="look")["stack"]), program)
        for number, seconds in enumerate((0.5, 0.5, 3.0, 15.0)):  # the last for a machine too busy to look earlier
            assert talk.ask(do="start", folder=str(kept)) == {"did": "start", "error": ""}
            program.wait(seconds)
            assert talk.ask(do="stop") == {"did": "stop", "error": "", "seconds": ANY}
            samples = json.loads((kept / FILE).read_bytes())["samples"]
            if number and len(samples) > 5:
                break
        (fake / "end").touch()
        assert ended(program) == 0
    assert len(samples) > 5
    assert all("load_rows" in str(others) or "main" in str(others) for _, _, others in samples)


def test_a_second_recording_holds_its_own_samples_alone(fake: pathlib.Path) -> None:
    began = {}
    with recorded("train.py") as program:
        talk = training(program)
        for name in ("one", "two"):
            (fake / name).mkdir()
            began[name] = time.time_ns()
            assert talk.ask(do="start", folder=str(fake / name))["error"] == ""
            program.wait(0.5)
            assert talk.ask(do="stop")["error"] == ""
        assert talk.ask(do="stop") == {"did": "stop", "error": "", "seconds": ANY}, "there is nothing to stop"
    second = json.loads((fake / "two" / FILE).read_bytes())
    assert second["began_ns"] >= began["two"]
    assert all(at >= began["two"] for at, *_ in second["samples"])


def test_looks_are_answered_while_tensorflow_writes(fake: pathlib.Path) -> None:
    """As by a driver that has stopped: only what TensorFlow itself does has to wait."""
    init = fake / "tensorflow/__init__.py"
    init.write_text(
        init.read_text().replace(
            "        def stop():\n",
            "        def stop():\n            import time\n            while not os.path.exists('go'): time.sleep(0.05)\n",
        )
    )
    with recorded("train.py", SLURM_PROCID="3") as program:
        talk = training(program)
        assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        talk.send(do="stop")
        look = talk.ask(do="look", others=True)
        assert (look["did"], look["rank"]) == ("look", "SLURM_PROCID 3")
        assert any(name == "main" for _, _, name in look["stack"])
        assert "recorder.py" not in str(look["others"]) + str(look["stack"]), "the doctor's own threads are not told of"
        (fake / "go").touch()
        wait_for(lambda: talk.heard() == {"did": "stop", "error": "", "seconds": ANY}, program)
        (fake / "end").touch()
        assert ended(program) == 4


def test_a_recording_ends_by_itself_once_it_needs_its_memory(fake: pathlib.Path) -> None:
    """The answer to the doctor's stop says so, and that one goes on as usual."""
    (fake / "train.py").write_text(f"import os\nheld = []\n{TRAIN}".replace(
        "        load_rows()\n", "        load_rows()\n        if os.path.exists('kept/started'): held.append(b'x' * (1 << 20))\n"
    ))  # fmt: skip
    with recorded("train.py") as program:
        talk = training(program)
        assert talk.ask(do="start", folder=str(fake / "kept"), most_bytes=8 << 20)["error"] == ""
        wait_for((fake / "kept" / FILE).exists, program)
        wait_for(lambda: talk.ask(do="look", others=False)["recorded"], program)  # the doctor need not wait
        told = talk.ask(do="stop")
        assert (told["error"], told["full"]) == ("", True)
        assert 0.1 <= told["seconds"] < 60
        assert not talk.ask(do="look", others=False)["recorded"]
        (fake / "other").mkdir()
        assert talk.ask(do="start", folder=str(fake / "other"))["error"] == ""
        assert talk.ask(do="stop") == {"did": "stop", "error": "", "seconds": ANY}


def test_memory_that_the_program_held_before_does_not_end_a_recording(fake: pathlib.Path) -> None:
    """A large record comes and goes; the recording that it ended would miss the step that waits for it."""
    (fake / "train.py").write_text(f"import os\nlarge = b'x' * (60 << 20)\ndel large\n{TRAIN}".replace(
        "        load_rows()\n",
        "        load_rows()\n        if os.path.exists('kept/started'):\n            large = b'x' * (40 << 20)\n"
        "            open('grown', 'w').close()\n"
    ))  # fmt: skip
    with recorded("train.py") as program:
        talk = training(program)
        assert talk.ask(do="start", folder=str(fake / "kept"), most_bytes=8 << 20)["error"] == ""
        wait_for((fake / "grown").exists, program)
        program.wait(1.0)
        assert not talk.ask(do="look", others=False)["recorded"]
        assert talk.ask(do="stop") == {"did": "stop", "error": "", "seconds": ANY}


def test_equal_stacks_are_kept_once(fake: pathlib.Path) -> None:
    from tfgpu_doctor.tracing.startup.looks import Looks

    looks, own = Looks(), set[int]()
    for _ in range(50):
        looks.add(threading.main_thread().ident, own)
    looks.write(str(fake / FILE), 5, 0.01, {})
    rows = read_samples((fake / FILE).read_bytes(), 0, 5)
    assert len(rows) == 50
    assert rows[0].main[0][2] == "add"
    assert len(looks._known) <= 3
    Looks().write(str(fake / FILE), 5, 0.01, {})
    assert read_samples((fake / FILE).read_bytes(), 0, 5) == []


def test_errors_are_answered(fake: pathlib.Path) -> None:
    with recorded("train.py") as program:
        talk = training(program)
        (fake / "refuse").touch()
        answer = talk.ask(do="start", folder=str(fake / "kept"))
        assert answer == {"did": "start", "error": "RuntimeError: Another profiler is running."}
        assert talk.ask(do="stop") == {"did": "stop", "error": "", "seconds": ANY}, "nothing was begun"
        (fake / "refuse").unlink()
        assert talk.ask(do="start", folder=str(fake / "no/such/folder"))["error"].startswith("FileNotFoundError")
        assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        (fake / "refuse").touch()
        assert talk.ask(do="stop") == {"did": "stop", "error": "ValueError: nothing\nwas recorded"}
        (fake / "refuse").unlink()
        assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == "", "it can begin again"
        assert talk.ask(do="stop")["error"] == ""


def test_the_switch_interval_is_the_program_s_own_again(fake: pathlib.Path) -> None:
    """Python's own is 5 ms."""
    with recorded("train.py") as program:
        talk = training(program)
        wait_for((fake / "interval").exists, program)
        usual = (fake / "interval").read_text()
        assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        wait_for(lambda: (fake / "interval").read_text() != usual, program)
        assert talk.ask(do="stop")["error"] == ""
        wait_for(lambda: (fake / "interval").read_text() == usual, program)
    assert float(usual) == 0.005


@pytest.mark.parametrize("begun", [False, True])
def test_a_program_that_ends_while_it_is_recorded_writes_what_it_has(fake: pathlib.Path, begun: bool) -> None:
    with recorded("train.py") as program:
        talk = training(program)
        if begun:
            assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        (fake / "end").touch()
        assert ended(program) == 4
    assert (fake / "kept/stopped").exists() == (fake / "kept" / FILE).exists() == begun


@pytest.mark.parametrize("begun", [False, True])
def test_a_doctor_that_closes_first(fake: pathlib.Path, begun: bool) -> None:
    """The recording ends, the program goes on, and the socket is gone."""
    with recorded("train.py") as program:
        talk, folder = training(program), folder_of(program)
        if begun:
            assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        talk.close()
        if begun:
            wait_for((fake / "kept" / FILE).exists)
        assert program.exit_code is None
        (fake / "end").touch()
        assert ended(program) == 4
    assert not folder.exists()


@pytest.mark.parametrize("handled", [False, True])
def test_a_program_that_the_doctor_ends(fake: pathlib.Path, handled: bool) -> None:
    """By SIGTERM; a program that ends itself then also writes what was recorded."""
    if handled:
        (fake / "train.py").write_text(f"import signal, sys\nsignal.signal(15, lambda *_: sys.exit(6))\n{TRAIN}")
    with recorded("train.py") as program:
        assert training(program).ask(do="start", folder=str(fake / "kept"))["error"] == ""
    assert program.exit_code == (6 if handled else 128 + signal.SIGTERM)
    assert (fake / "kept/stopped").exists() == (fake / "kept" / FILE).exists() == handled


def test_a_program_that_does_not_end_is_killed(fake: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_program, "_GRACE_S", 0.5)
    (fake / "train.py").write_text(f"import signal\nsignal.signal(15, signal.SIG_IGN)\n{TRAIN}")
    with recorded("train.py") as program:
        talk, folder = training(program), folder_of(program)
    assert program.exit_code == 128 + signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(talk.pid, 0)
    assert not folder.exists()


def test_a_child_forked_while_it_is_recorded_ends_at_once(fake: pathlib.Path) -> None:
    """It has no recorder to wait for, and its Python switches threads as before."""
    (fake / "train.py").write_text(
        "import os, sys, time, tensorflow\n"
        "while not os.path.exists('kept/started'): time.sleep(0.05)\n"
        "while sys.getswitchinterval() == 0.005: time.sleep(0.05)\n"
        "began, pid = time.monotonic(), os.fork()\n"
        "if not pid: print(sys.getswitchinterval(), file=open('interval', 'w')); sys.exit(3)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "print(code, time.monotonic() - began, file=open('child.new', 'w'), flush=True)\n"
        "os.rename('child.new', 'child')\n"
        "while not os.path.exists('end'): time.sleep(0.05)\n"
    )
    with recorded("train.py") as program:
        talk = training(program)
        assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        wait_for((fake / "child").exists, program)
        assert talk.ask(do="stop")["error"] == ""
        (fake / "end").touch()
        assert ended(program) == 0
    code, seconds = (fake / "child").read_text().split()
    assert code == "3"
    assert (fake / "interval").read_text() == "0.005\n"
    assert float(seconds) < 15.0, "the recorder gives a profile 20 s to be written"


def test_a_program_that_records_itself_keeps_no_thread(tmp_path: pathlib.Path) -> None:
    """A notebook may do so in each of a thousand cells. Also where TensorFlow refuses."""
    profiler = SimpleNamespace(start=lambda folder: None, stop=lambda: None)
    tensorflow = SimpleNamespace(profiler=SimpleNamespace(experimental=profiler))
    before = set(sys._current_frames())
    for _ in range(3):
        recorder = recorder_module().Recorder(None)
        recorder.start(tensorflow, str(tmp_path))
        wait_for(lambda each=recorder: len(each.own) == 1)  # type: ignore[misc]
        recorder.stop(tensorflow)
    profiler.start = lambda folder: os.listdir(f"{folder}/refused")
    with pytest.raises(FileNotFoundError, match="refused"):
        recorder.start(tensorflow, str(tmp_path))
    wait_for(lambda: set(sys._current_frames()) <= before)
    wait_for(lambda: recorder.own == set())


HELD = """
import os, signal, socket, sys, threading
sys.path.insert(0, sys.argv[1])
import recorder
asked, answered = socket.socketpair()
mine = recorder.Recorder(answered)
os.register_at_fork(after_in_child=lambda: signal.alarm(60))  # a child that waits for ever ends
os.register_at_fork(after_in_child=mine.forget)
mine.told_ready = True
held, over = threading.Event(), threading.Event()
def hold():
    with mine.ending._cond, mine._recordings.idle._cond, mine._recordings._sampled._cond, mine.saying:
        held.set()
        over.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
pid = os.fork()
if not pid:
    mine.end()
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
over.set()
"""


def test_a_child_forked_while_the_recorder_holds_its_locks_ends() -> None:
    """Nobody lets go of them there: its end waited for ever (6 of 528 such children)."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HELD, STARTUP], capture_output=True, text=True, timeout=LONG_S
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_the_program_that_imports_tensorflow_is_the_one_that_is_asked(fake: pathlib.Path) -> None:
    """A shell script, or a launcher, that starts the training."""
    (fake / "launch.py").write_text(
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, 'train.py']).returncode)"
    )
    with recorded("launch.py") as program:
        talk = training(program)
        assert len(program.talks) == 1
        assert talk.ask(do="start", folder=str(fake / "kept"))["error"] == ""
        assert talk.ask(do="stop")["error"] == ""
        (fake / "end").touch()
        assert ended(program) == 4
    assert (fake / "kept/stopped").exists()


def recorder_of(notes: list[str], *, seconds: float) -> Recorder:
    """Of train.py; `notes` gets what it says."""
    return Recorder(
        [sys.executable, "train.py"], clean_environment(), after_s=0.0, seconds=seconds, patience_s=LONG_S, note=notes.append
    )  # fmt: skip


def prepare(fake: pathlib.Path, profiles: list[list[made_trace.MadePlane]]) -> None:
    """What the package writes at the end of each recording, one after the other."""
    for number, planes in enumerate(profiles):
        made_trace.save(fake / "made", planes)
        (fake / "profiles").mkdir(exist_ok=True)
        (fake / "made/plugins").rename(fake / "profiles" / str(number))


SHORT, LONG = {"steps": 20, "step_ms": 2.0}, {"steps": 12, "step_ms": 50.0, "input_ms": 40.0}


@pytest.mark.parametrize(
    ("profiles", "word", "recordings"),
    [
        ([SHORT, LONG], "input_serial_map", 2),  # the first holds the begin of the training alone
        ([SHORT, SHORT, SHORT, LONG], "compute_bound", 3),  # its steps never cover more
        ([LONG, SHORT], "input_serial_map", 1),
        ([SHORT, {"steps": 1}, {"steps": 1}, LONG], "compute_bound", 3),
        pytest.param([{"steps": 1}, {"steps": 1}, {"steps": 1}, LONG], "input_serial_map", 4, marks=pytest.mark.slow),
    ],
)
def test_a_recording_of_the_begin_is_made_again(
    fake: pathlib.Path, profiles: list[dict[str, Any]], word: str, recordings: int
) -> None:
    prepare(fake, [made_trace.training(compute_ms=1.4, **fields) for fields in profiles])
    notes: list[str] = []
    recorder = recorder_of(notes, seconds=0.5)
    (fake / "kept").rmdir()
    _, verdict, _ = recorder.record(str(fake / "kept"))
    assert verdict.word == word
    assert len(list((fake / "profiles").iterdir())) == len(profiles) - recordings
    assert len(notes) == recordings - 1


def test_after_two_recordings_without_a_step_comes_a_short_one(fake: pathlib.Path) -> None:
    """Of a program with very many operations a long recording may hold nothing that tells."""
    nothing = [
        made_trace.MadePlane("/host:CPU", [made_trace.MadeLine("python", [made_trace.MadeEvent("unknown", 1.0, 1.0)])])
    ]
    prepare(fake, [nothing, nothing, made_trace.training(compute_ms=1.4, steps=12, step_ms=50.0, input_ms=40.0)])
    notes: list[str] = []
    recorder = recorder_of(notes, seconds=0.6)
    (fake / "kept").rmdir()
    _, verdict, _ = recorder.record(str(fake / "kept"))
    assert verdict.word == "input_serial_map"
    assert [note.rpartition("recording again, ")[2] for note in notes] == ["for 1.2 s", "for 0.5 s"]


def test_a_program_that_stopped_responding_is_not_recorded_again(
    fake: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may go on for a minute after its end."""

    def lost(_talk: Talk, **_words: object) -> dict[str, str]:
        raise ProgramLost("it ended")

    monkeypatch.setattr(Talk, "ask", lost)
    notes: list[str] = []
    recorder = recorder_of(notes, seconds=0.1)
    with pytest.raises(NotRecorded, match="stopped responding, before a profile was recorded"):
        recorder.record(str(fake))
    assert notes == []


LAUNCHER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import os, tensorflow, time; time.sleep(1); os._exit(0)"])
sys.exit(subprocess.run([sys.executable, "train.py"]).returncode)
"""


def test_a_script_that_prepares_in_a_process_of_its_own(fake: pathlib.Path) -> None:
    """The first process with TensorFlow ends before it is recorded whole: the one that trains comes after it."""
    made_trace.save(fake / "profile", made_trace.training(input_ms=15.0, compute_ms=3.0))
    (fake / "profiles").mkdir()
    (fake / "profile/plugins").rename(fake / "profiles/1")
    (fake / "launch.py").write_text(LAUNCHER)
    notes: list[str] = []
    recorder = Recorder(
        [sys.executable, "launch.py"],
        clean_environment(),
        after_s=0.0,
        seconds=2.0,
        patience_s=LONG_S,
        note=notes.append,
    )
    _, verdict, _ = recorder.record(str(fake / "kept"))
    assert verdict.word == "input_no_prefetch"
    assert any("waiting for the next one with TensorFlow" in note for note in notes)
