"""Children that print, grow, hang or hide without end: the doctor stays small, ends them, and says so."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts

from tfgpu_doctor.host import Completed, Host, Processes
from tfgpu_doctor.host.watched import run_watched
from tfgpu_doctor.rehearse import build
from tfgpu_doctor.rehearse.build import BuildError, build_driver

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")

LONG_S = 120.0
SMALL_BYTES = 110 << 20  # of the doctor: it takes 40 MiB with children that behave
MIB = 1 << 20
HIDES = "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >{note}"
HIDES_WITHOUT_MARK = "env -i setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >{note}"
Program = Callable[[str], str]


@dataclass(frozen=True)
class Ended:
    """How the doctor ended, and the most memory that it took itself, without its children."""

    code: int
    out: str
    error: str
    peak_bytes: int
    seconds: float


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Program:
    """Write an executable script, and return its path."""

    def write(source: str) -> str:
        place = tmp_path / "bin" / f"program-{len(list(tmp_path.glob('bin/*')))}"
        place.parent.mkdir(exist_ok=True)
        place.write_text(source)
        place.chmod(0o755)
        return str(place)

    return write


@pytest.fixture
def note(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file for the number of a process that hides; it is killed at the end."""
    path = tmp_path / "hidden"
    yield path
    if path.exists() and path.read_text().strip():
        try:
            os.kill(int(path.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass


def status(pid: int, row: str) -> str:
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(row)), "")


def runs(pid: int) -> bool:
    return status(pid, "State")[:1] not in ("", "Z", "X")


def comes_true(holds: Callable[[], bool], within_s: float = 60.0) -> bool:
    until = time.monotonic() + within_s
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()


def is_written(path: pathlib.Path) -> bool:
    return path.exists() and bool(path.read_text().strip())


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        doctor_argv(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(**variables), preexec_fn=hear_interrupts,
    )  # fmt: skip


def doctor(*arguments: str, **variables: str) -> Ended:
    """Run the doctor to its end, and look at its memory meanwhile."""
    began, peak = time.monotonic(), 0
    process = start(*arguments, **variables)
    while process.poll() is None and time.monotonic() - began < LONG_S:
        peak = max(peak, int(status(process.pid, "VmHWM").partition(" ")[0] or 0) << 10)
        time.sleep(0.01)
    seconds = time.monotonic() - began
    if process.returncode is None:
        process.kill()
    out, error = process.communicate()
    return Ended(process.returncode, out, error, peak, seconds)


def shell(line: str, *, host: Host | None = None, deadline_s: float = LONG_S) -> Completed:
    return (host or Host()).run(["/bin/sh", "-c", line], deadline_s=deadline_s)


@pytest.mark.slow
@pytest.mark.parametrize("line", ['{"a":1}', "{}", '{"key%d":%d}'], ids=["one field", "no field", "new fields"])
def test_four_million_answers_take_no_memory(program: Program, line: str) -> None:
    print_them = f"/usr/bin/env python3\nimport sys\nline = {line!r}\nfor n in range(4_000_000):\n"
    print_them += "    sys.stdout.write((line % (n, n) if '%' in line else line) + '\\n')\n"
    ended = doctor("--quick", "--format", "json", "--python", program("#!" + print_them))
    assert ended.peak_bytes < SMALL_BYTES
    assert ended.code in (0, 1)


def test_an_answer_with_a_gap_is_none_and_says_so(program: Program) -> None:
    python = program('#!/bin/sh\nyes \'{"version": "3.12.1"}\' | head -n 600000\n')
    ended = doctor("--quick", "--format", "json", "--python", python)
    assert "printed more than 8 MiB" in ended.out
    assert "3.12.1" not in ended.out
    assert ended.peak_bytes < SMALL_BYTES


def test_all_that_a_command_printed_is_counted() -> None:
    done = shell("head -c 20000000 /dev/zero")
    assert done.left_out_bytes == 20_000_000 - 8 * MIB
    assert done.said_too_much == "printed more than 8 MiB (19 MiB)"
    assert shell("echo short").said_too_much == ""


@pytest.mark.slow
def test_one_that_prints_for_ever_is_ended_by_its_deadline(program: Program) -> None:
    ended = doctor("--quick", "--format", "json", "--deadline", "3", "--python", program("#!/bin/sh\nyes & yes >&2\n"))
    assert ended.seconds < 120
    assert ended.peak_bytes < SMALL_BYTES
    assert json.loads(ended.out)["schema"] == 1


def test_a_command_that_grows_without_end_is_ended_with_a_word() -> None:
    grow = "kept = []\nwhile True: kept.append(bytearray(b'x') * (20 << 20)); __import__('time').sleep(0.02)"
    done = Host().run([sys.executable, "-c", grow], deadline_s=LONG_S, memory_bytes=400 * MIB)
    assert done.excess == "used more than 400 MiB of memory"
    assert (done.exit_code, done.signal, done.timed_out, done.stuck) == (None, "", False, False)
    assert done.seconds < 120


@pytest.mark.slow
def test_of_a_family_the_largest_process_counts_and_not_their_sum() -> None:
    fork = "import os, time\nkept = b'x' * (150 << 20)\nfor _ in range(5): os.fork() or (time.sleep(3), os._exit(0))\ntime.sleep(2)"
    assert Host().run([sys.executable, "-c", fork], deadline_s=LONG_S, memory_bytes=400 * MIB).exit_code == 0
    grow = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {'k = []' + chr(10) + 'while True: k.append(b' + repr('x') + ' * (20 << 20))'!r}])"
    assert Host().run([sys.executable, "-c", grow], deadline_s=LONG_S, memory_bytes=400 * MIB).excess


@pytest.mark.slow
def test_a_target_that_takes_all_memory_is_named_in_the_report(program: Program) -> None:
    """It takes no more than 5 GiB, also where nobody ends it."""
    source = "import time\nkept = []\nfor _ in range(50): kept.append(b'x' * (100 << 20)); time.sleep(0.1)\ntime.sleep(1000)\n"
    python = program(f"#!{sys.executable}\n{source}")
    ended = doctor("--quick", "--format", "json", "--python", python)
    assert "was ended by the doctor" in ended.out
    assert "used more than 2.0 GiB of memory" in ended.out
    assert ended.seconds < 180


@pytest.mark.parametrize("hides", [HIDES, "(" + HIDES + ")", HIDES + "; sleep 1000"])
def test_what_leaves_its_session_ends_with_the_command(note: pathlib.Path, hides: str) -> None:
    for deadline_s in (1.0, 5.0, 25.0):  # a later one as long as the shell has not come that far
        shell(hides.format(note=note), deadline_s=deadline_s)
        if is_written(note):
            break
    assert comes_true(lambda: not runs(int(note.read_text())))


@pytest.mark.parametrize("hides", [HIDES, HIDES_WITHOUT_MARK])
@pytest.mark.parametrize("end", ["exit 1", pytest.param("sleep 1000", marks=pytest.mark.slow)])
def test_what_hides_ends_with_the_doctor(program: Program, note: pathlib.Path, hides: str, end: str) -> None:
    python = program(f"#!/bin/sh\n[ -e {note} ] || {{ {hides.format(note=note)}; }}\n{end}\n")
    ended = doctor("--quick", "--format", "json", "--deadline", "2", "--python", python)
    assert json.loads(ended.out)["schema"] == 1
    assert comes_true(lambda: not runs(int(note.read_text())))


def test_what_hides_ends_with_an_interrupted_doctor(program: Program, note: pathlib.Path) -> None:
    python = program(f"#!/bin/sh\n[ -e {note} ] || {{ {HIDES_WITHOUT_MARK.format(note=note)}; }}\nsleep 1000\n")
    process = start("--quick", "--format", "json", "--python", python)
    assert comes_true(lambda: is_written(note))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LONG_S)
    assert (process.returncode, json.loads(out)["interrupted"]) == (130, True)
    assert comes_true(lambda: not runs(int(note.read_text())))


def test_of_two_commands_that_end_at_once_nothing_stays(tmp_path: pathlib.Path) -> None:
    """Each may take the unmarked orphan for the other's, and the last to end takes it along."""
    line = f"(env -i setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >>{tmp_path}/$1); sleep 0.1"
    source = (
        "import sys, threading\nfrom tfgpu_doctor.host import Host, adoption\nadoption.ADOPTION.allow()\n"
        "both_look, look = threading.Barrier(2), adoption.has_ended\n"
        "def has_ended(pid):\n    try: both_look.wait(1.0)\n    except threading.BrokenBarrierError: pass\n"
        "    return look(pid)\n"
        "adoption.has_ended = has_ended\n"
        "def run(name): Host().run(['/bin/sh', '-c', sys.argv[1], 'sh', name], deadline_s=60)\n"
        "both = [threading.Thread(target=run, args=(name,)) for name in 'ab']\n"
        "for each in both: each.start()\nfor each in both: each.join()"
    )
    subprocess.run([sys.executable, "-c", source, line], check=True, timeout=LONG_S)
    hidden = [int(number) for name in "ab" for number in (tmp_path / name).read_text().split()]
    left = list(filter(runs, hidden))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert (len(hidden), left) == (2, [])


@pytest.mark.slow
def test_a_daemon_of_a_watched_program_stays(note: pathlib.Path) -> None:
    ended = doctor("watch", "--", "/bin/sh", "-c", HIDES_WITHOUT_MARK.format(note=note) + "; sleep 2")
    assert ended.code == 0
    assert runs(int(note.read_text()))


def test_processes_of_others_stay(note: pathlib.Path) -> None:
    """Those that a shell started before it became the doctor, and those that the same process starts beside a command."""
    doctor_line = " ".join(doctor_argv("--quick", "--format", "json"))
    line = f"{HIDES.format(note=note)}; (sleep 1000 >/dev/null 2>&1 & echo $! >>{note}.2); exec {doctor_line}"
    done = subprocess.run(["/bin/sh", "-c", line], env=clean_environment(), capture_output=True, check=False)
    assert done.returncode in (0, 1)
    second = note.with_name(note.name + ".2")
    assert runs(int(note.read_text()))
    assert runs(int(second.read_text()))
    os.kill(int(second.read_text()), signal.SIGKILL)
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as beside:
        shell("exit 0")
        assert runs(beside.pid)
        beside.kill()


def test_orphans_are_adopted_only_while_a_command_runs_and_leave_no_zombie() -> None:
    source = (
        "import ctypes, os\nfrom tfgpu_doctor.host import Host\nfrom tfgpu_doctor.host.adoption import ADOPTION\n"
        "from tfgpu_doctor.host.family import children_of\nADOPTION.allow()\n"
        "def adopts():\n    is_set = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(is_set)); return is_set.value\n"
        "done = Host().run(['/bin/sh', '-c', '(sleep 0.1 & setsid sleep 1000 &) >/dev/null 2>&1; sleep 0.5'], deadline_s=60)\n"
        "print(done.exit_code, adopts(), children_of(os.getpid()))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "0 0 []\n"


def test_what_an_installer_leaves_ends_with_it(note: pathlib.Path) -> None:
    argv = ["/bin/sh", "-c", HIDES_WITHOUT_MARK.format(note=note)]
    assert run_watched(argv, environment=os.environ, folder="/", deadline_s=60) == 0
    assert comes_true(lambda: not runs(int(note.read_text())))


def test_a_command_is_killed_when_its_wait_is_interrupted(tmp_path: pathlib.Path) -> None:
    source = (
        "import os, signal, threading, time\nfrom tfgpu_doctor.host import processes\n"
        "watch, waits = processes._watch, threading.Event()\n"
        "def tell_and_watch(*words):\n    waits.set()\n    return watch(*words)\n"
        "processes._watch = tell_and_watch\n"
        "def interrupt():\n    waits.wait()\n"
        "    while not (os.path.exists('pid') and os.path.getsize('pid')): time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "argv = ['/bin/sh', '-c', 'echo $$ >pid; sleep 1000']\n"
        "try: processes.Processes().run(argv, deadline_s=60, environment=dict(os.environ))\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=LONG_S,
        preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert done.stdout == "interrupted\n"
    assert not runs(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("names", [("cc",), ("cc", "gcc", "clang")])
def test_compilers_that_hang_have_one_deadline(
    program: Program, tmp_path: pathlib.Path, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_DEADLINE_S", 5.0)
    hangs = pathlib.Path(program("#!/bin/sh\nexec /bin/sleep 1000\n"))
    for name in names:
        shutil.copy(hangs, hangs.with_name(name))
    host = Host(environment={"PATH": f"{hangs.parent}", "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    began = time.monotonic()
    if importlib.util.find_spec("ziglang"):
        build_driver(host)
    else:
        with pytest.raises(BuildError, match="cc: it did not end within 5 s"):
            build_driver(host)
    assert time.monotonic() - began < 5 + LONG_S / 2


def test_processes_that_are_stopped_take_their_families_along(note: pathlib.Path) -> None:
    import threading

    processes = Processes()
    line = HIDES.format(note=note) + "; sleep 1000"
    thread = threading.Thread(
        target=processes.run, args=(["/bin/sh", "-c", line],),
        kwargs={"deadline_s": LONG_S, "environment": dict(os.environ)},
    )  # fmt: skip
    thread.start()
    assert comes_true(lambda: is_written(note))
    processes.stop()
    assert comes_true(lambda: not runs(int(note.read_text())))
    thread.join()


AT_ONCE = "subprocess.Popen(['/bin/sleep', '1000'], env=dict(marked), start_new_session=True)"
# Between the end of its fork and that of its exec a program has no environment yet; a busy machine may stop it there. A shell
# would not do: it gives what it starts its folder (PWD), and that has an environment without the mark.
LATE = (
    "subprocess.Popen([sys.executable, '-c', 'import os, sys, time; time.sleep(0.3); '"
    '\'os.execve("/bin/sleep", ["sleep", "1000"], dict([sys.argv[1:]]))\', MARK, marked[MARK]], env={}, start_new_session=True)'
)
SLOW_LOOKS = (
    "import time\n"
    "from tfgpu_doctor.host import adoption\n"
    "look = adoption.carries\n"
    "def slow_look(*words, **more):\n"
    "    found = look(*words, **more)\n"
    "    time.sleep(0.5)\n"
    "    return found\n"
    "adoption.carries = slow_look\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows the processes")
@pytest.mark.parametrize(
    ("begun", "before"), [(AT_ONCE, ""), (LATE, ""), (LATE, SLOW_LOOKS)], ids=["at once", "late", "between two looks"]
)
def test_a_child_that_an_interrupt_made_unknown_ends_with_the_doctor(begun: str, before: str) -> None:
    """The interrupt comes after the child has begun, and before `Popen` has returned."""
    source = (
        f"{before}"
        "import os, subprocess, sys\n"
        "from tfgpu_doctor.cli.main import _leave\n"
        "from tfgpu_doctor.host.adoption import ADOPTION, MARK\n"
        "def popen(marked):\n"
        f"    begun = {begun}\n"
        "    print(begun.pid, flush=True)\n"
        "    raise KeyboardInterrupt\n"
        "ADOPTION.allow()\n"
        "try: ADOPTION.start(popen, os.environ, family_ends=True)\n"
        "except KeyboardInterrupt: _leave(130)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=LONG_S)
    assert (done.returncode, done.stderr) == (130, "")
    assert not runs(int(done.stdout))
