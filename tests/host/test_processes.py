"""Commands run with a deadline, for real: nothing that they do hangs the caller, and nothing of them stays behind."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfgpu_doctor.host import Completed, Host, Processes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are those of POSIX")

LONG_S = 300.0  # a deadline that no command here reaches
GENEROUS_S = 60.0  # for what takes a moment on a machine that is not busy
Shell = Callable[..., Completed]
Killed = Callable[[str, Callable[[Completed], bool]], Completed]


@pytest.fixture
def shell(processes: Processes) -> Shell:
    """Run a line of shell."""

    def run(line: str, *arguments: str, deadline_s: float = LONG_S, **environment: str) -> Completed:
        variables = {"PATH": os.environ["PATH"], **environment}
        return processes.run(["/bin/sh", "-c", line, "sh", *arguments], deadline_s=deadline_s, environment=variables)

    return run


@pytest.fixture
def killed(shell: Shell) -> Killed:
    """Run a line of shell to its deadline: a later one as long as it has not said enough, as the shell may start slowly."""

    def run(line: str, has_said_enough: Callable[[Completed], bool]) -> Completed:
        for deadline_s in (1.0, 5.0, 25.0):
            done = shell(line, deadline_s=deadline_s)
            assert done.timed_out
            if has_said_enough(done):
                break
        return done

    return run


def says(lines: int) -> Callable[[Completed], bool]:
    """Whether a command said that many lines."""
    return lambda done: done.stdout.count(b"\n") == lines


@pytest.fixture
def program(processes: Processes) -> Shell:
    """Run a Python program."""

    def run(source: str, deadline_s: float = LONG_S) -> Completed:
        command = [sys.executable, "-I", "-S", "-c", source]
        return processes.run(command, deadline_s=deadline_s, environment=dict(os.environ))

    return run


@pytest.fixture
def strays() -> Iterator[list[int]]:
    """Processes that a test lets escape on purpose, killed at its end."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not sys.platform.startswith("linux")
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def comes_true(condition: Callable[[], bool], within_s: float = GENEROUS_S) -> bool:
    """Whether something becomes so within a generous time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def is_gone(pid: int) -> bool:
    return comes_true(lambda: not runs(pid))


def test_the_answer_is_all_that_the_command_said(shell: Shell) -> None:
    done = shell("echo to output; echo to error >&2; exit 7")
    assert (done.stdout, done.stderr, done.exit_code) == (b"to output\n", "to error\n", 7)
    assert (done.signal, done.timed_out, done.stuck, done.not_started) == ("", False, False, "")
    assert 0 <= done.seconds < LONG_S


def test_success_is_exit_code_0(shell: Shell) -> None:
    assert shell("true").exit_code == 0


def test_output_is_bytes_and_error_is_text_with_junk_replaced(shell: Shell) -> None:
    done = shell(r"printf 'a\377\000b'; printf 'c\377d' >&2")
    assert done.stdout == b"a\xff\0b"
    assert done.stderr == "c\N{REPLACEMENT CHARACTER}d"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGTERM"])
def test_death_by_a_signal_is_named(shell: Shell, name: str) -> None:
    done = shell(f"echo before; kill -{name[3:]} $$; echo after")
    assert done.signal == name
    assert done.exit_code != 0
    assert (done.stdout, done.timed_out, done.stuck) == (b"before\n", False, False)


def test_a_real_segmentation_fault_is_named(program: Shell) -> None:
    assert program("import ctypes; ctypes.string_at(0)").signal == "SIGSEGV"


def test_a_real_abort_is_named(program: Shell) -> None:
    assert program("import os; os.abort()").signal == "SIGABRT"


def test_a_signal_without_a_name_has_its_number(program: Shell) -> None:
    if not hasattr(signal, "SIGRTMIN"):
        pytest.skip("there are no real-time signals")
    number = signal.SIGRTMIN + 3
    done = program(f"import os; os.kill(os.getpid(), {int(number)})")
    assert done.signal == f"signal {int(number)}"


def test_a_signal_of_a_grandchild_is_not_the_commands_own(shell: Shell) -> None:
    done = shell("sh -c 'kill -SEGV $$'; exit 3")
    assert (done.exit_code, done.signal) == (3, "")


def test_the_deadline_ends_a_command_that_hangs(shell: Shell) -> None:
    started = time.monotonic()
    done = shell("sleep 1000", deadline_s=0.5)
    assert time.monotonic() - started < GENEROUS_S
    assert (done.timed_out, done.exit_code, done.signal, done.stuck) == (True, None, "", False)
    assert done.seconds >= 0.5


def test_the_deadline_keeps_what_was_said_before(killed: Killed) -> None:
    done = killed("echo said; echo complained >&2; sleep 1000", lambda done: bool(done.stdout and done.stderr))
    assert (done.stdout, done.stderr) == (b"said\n", "complained\n")


def test_the_deadline_kills_the_whole_group(killed: Killed) -> None:
    done = killed("sleep 1000 & echo $!; sh -c 'sleep 1000 & echo $!; wait' & wait", says(2))
    grandchildren = [int(pid) for pid in done.stdout.split()]
    assert len(grandchildren) == 2
    assert all(is_gone(pid) for pid in grandchildren)


def test_the_deadline_kills_a_grandchild_that_holds_no_pipe(killed: Killed) -> None:
    done = killed("sleep 1000 >/dev/null 2>&1 & echo $!; sleep 1000", says(1))
    assert is_gone(int(done.stdout))


def test_a_command_that_ignores_every_request_to_end_is_killed(killed: Killed) -> None:
    done = killed("trap '' TERM INT HUP QUIT; echo $$; while true; do sleep 1; done", says(1))
    assert is_gone(int(done.stdout))


def test_a_stopped_command_is_killed_at_the_deadline(killed: Killed) -> None:
    done = killed("echo $$; kill -STOP $$", says(1))
    assert is_gone(int(done.stdout))


@pytest.mark.parametrize("deadline_s", [0.0, -5.0])
def test_a_deadline_that_is_over_kills_at_once(shell: Shell, deadline_s: float) -> None:
    done = shell("sleep 1000", deadline_s=deadline_s)
    assert done.timed_out
    assert not done.stuck


def test_a_grandchild_that_keeps_the_pipes_does_not_hold_the_caller(shell: Shell) -> None:
    started = time.monotonic()
    done = shell("sleep 1000 & echo $!; exit 4")
    assert time.monotonic() - started < GENEROUS_S
    assert (done.exit_code, done.timed_out) == (4, False)
    assert is_gone(int(done.stdout))


def test_a_grandchild_that_writes_for_ever_does_not_hold_the_caller(shell: Shell) -> None:
    started = time.monotonic()
    done = shell("echo first; yes >&2 & exit 0")
    assert time.monotonic() - started < GENEROUS_S
    assert done.exit_code == 0
    assert done.stdout == b"first\n"


def test_a_grandchild_in_a_session_of_its_own_does_not_hold_the_caller(program: Shell, strays: list[int]) -> None:
    started = time.monotonic()
    done = program(
        "import subprocess; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid, flush=True)"
    )
    assert time.monotonic() - started < GENEROUS_S
    strays.append(int(done.stdout))
    assert done.exit_code == 0
    if sys.platform.startswith("linux"):
        assert is_gone(strays[0])  # found by its mark, though it left the group


def test_a_grandchild_that_let_go_of_the_pipes_does_not_stay_behind(shell: Shell, strays: list[int]) -> None:
    done = shell("sleep 1000 >/dev/null 2>&1 & echo $!; exit 0")
    strays.append(int(done.stdout))
    assert done.exit_code == 0
    assert is_gone(strays[0])


def test_a_command_that_closed_its_pipes_is_waited_for(shell: Shell) -> None:
    done = shell("exec >&- 2>&-; sleep 0.7; exit 5")
    assert (done.exit_code, done.timed_out) == (5, False)


def test_a_command_that_closed_its_pipes_has_the_same_deadline(shell: Shell) -> None:
    done = shell("exec >&- 2>&-; sleep 1000", deadline_s=0.5)
    assert done.timed_out
    assert done.seconds < GENEROUS_S


def test_endless_output_is_cut_at_the_deadline_and_capped(killed: Killed) -> None:
    done = killed("yes & yes >&2", lambda done: bool(done.stdout and done.stderr))
    assert done.stdout.startswith(b"y\ny\n")
    assert done.stderr.startswith("y\ny\n")
    assert len(done.stdout) < (8 << 20) + 100
    assert len(done.stderr) < (256 << 10) + 100


def test_of_too_much_output_the_beginning_and_the_end_are_kept(program: Shell) -> None:
    total = 20_000_000
    done = program(f"import sys; sys.stdout.write('BEGIN' + 'x' * {total - 8} + 'END')")
    assert done.stdout.startswith(b"BEGINxxx")
    assert done.stdout.endswith(b"xxxEND")
    kept = 8 << 20
    assert b"\n... %d bytes left out ...\n" % (total - kept) in done.stdout
    assert len(done.stdout) == kept + len(b"\n... %d bytes left out ...\n" % (total - kept))


def test_of_too_much_error_the_beginning_and_the_end_are_kept(program: Shell) -> None:
    done = program("import sys; [print('line', number, file=sys.stderr) for number in range(200_000)]")
    lines = done.stderr.splitlines()
    assert lines[0] == "line 0"
    assert lines[-1] == "line 199999"
    assert any("bytes left out" in line for line in lines)
    assert len(done.stderr) < (256 << 10) + 100


def test_output_just_within_the_limit_is_whole(program: Shell) -> None:
    done = program(f"import sys; sys.stdout.write('x' * {8 << 20})")
    assert done.stdout == b"x" * (8 << 20)


def test_output_of_any_length_takes_no_more_memory(program: Shell) -> None:
    tracemalloc.start()
    try:
        done = program("import os; [os.write(1, b'x' * 65536) for _ in range(3000)]")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.exit_code == 0
    assert b"bytes left out" in done.stdout
    assert peak_bytes < 60 << 20  # of 188 MiB written, 8 are kept; joining the two halves takes some copies


def test_a_command_that_is_not_there_is_not_started(processes: Processes, tmp_path: pathlib.Path) -> None:
    for command in (str(tmp_path / "missing"), "a-command-that-nobody-has"):
        done = processes.run([command], deadline_s=LONG_S, environment=dict(os.environ))
        assert done.not_started == os.strerror(errno.ENOENT)
        assert (done.stdout, done.stderr, done.exit_code, done.signal, done.timed_out) == (b"", "", None, "", False)


def test_a_command_without_a_name_is_not_started(processes: Processes) -> None:
    done = processes.run([""], deadline_s=LONG_S, environment=dict(os.environ))
    assert done.not_started
    assert done.exit_code is None


def test_a_file_that_may_not_be_run_is_not_started(processes: Processes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "plain").chmod(0o644)
    done = processes.run([str(tmp_path / "plain")], deadline_s=LONG_S, environment={})
    assert (done.not_started, done.exit_code) == (os.strerror(errno.EACCES), None)


def test_a_folder_is_not_started(processes: Processes, tmp_path: pathlib.Path) -> None:
    done = processes.run([str(tmp_path)], deadline_s=LONG_S, environment={})
    assert (done.not_started, done.exit_code) == (os.strerror(errno.EACCES), None)


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01 cut off", b"MZ\x90\0 a program of Windows", b"just text"])
def test_a_file_of_another_format_is_not_started(processes: Processes, tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    (tmp_path / "odd").chmod(0o755)
    done = processes.run([str(tmp_path / "odd")], deadline_s=LONG_S, environment={})
    assert (done.not_started, done.exit_code) == (os.strerror(errno.ENOEXEC), None)


def test_a_script_without_its_interpreter_is_not_started(processes: Processes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "pip").write_text("#!/home/gone/venv/bin/python\n")
    (tmp_path / "pip").chmod(0o755)
    done = processes.run([str(tmp_path / "pip")], deadline_s=LONG_S, environment={})
    assert done.not_started == os.strerror(errno.ENOENT)


@pytest.mark.parametrize(
    ("argv", "environment"),
    [(["/bin/echo", "a\0b"], {}), (["/bin/echo"], {"A": "a\0b"}), (["/bin/echo"], {"A=B": "c"})],
)
def test_what_cannot_be_passed_on_is_not_started(
    processes: Processes, argv: list[str], environment: dict[str, str]
) -> None:
    done = processes.run(argv, deadline_s=LONG_S, environment=environment)
    assert done.not_started
    assert done.exit_code is None


def test_an_argument_list_that_is_too_long_is_not_started(processes: Processes) -> None:
    done = processes.run(["/bin/echo", "x" * 50_000_000], deadline_s=LONG_S, environment={})
    assert (done.not_started, done.exit_code) == (os.strerror(errno.E2BIG), None)


def test_the_environment_is_the_one_given_and_no_other(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "1")
    done = processes.run(["/usr/bin/env"], deadline_s=LONG_S, environment={"ONE": "1", "TWO": "a b=c"})
    *own, mark = sorted(done.stdout.splitlines(), key=lambda line: line.startswith(b"TFGPU_DOCTOR_CHILD="))
    assert sorted(own) == [b"ONE=1", b"TWO=a b=c"]
    assert mark.startswith(b"TFGPU_DOCTOR_CHILD=")


def test_a_variable_of_undecodable_bytes_is_passed_on(processes: Processes) -> None:
    value = os.fsdecode(b"/home/andr\xe9/lib")
    done = processes.run(["/usr/bin/env"], deadline_s=LONG_S, environment={"LD_LIBRARY_PATH": value})
    assert b"LD_LIBRARY_PATH=/home/andr\xe9/lib" in done.stdout.splitlines()


def test_a_command_is_looked_up_on_the_path_given(processes: Processes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = processes.run(["nvidia-smi"], deadline_s=LONG_S, environment={"PATH": str(tmp_path)})
    assert done.stdout == b"found\n"


def test_standard_input_is_empty() -> None:
    """Asked in a process that has something on its own standard input, which the tests may not have."""
    source = (
        "import os, sys; from tfgpu_doctor.host import Processes\n"
        "done = Processes().run(['/bin/cat'], deadline_s=60, environment=dict(os.environ))\n"
        "print(done.stdout, done.exit_code, sys.stdin.read())"
    )
    done = subprocess.run([sys.executable, "-c", source], input="kept", capture_output=True, text=True, check=True)
    assert done.stdout == "b'' 0 kept\n"


def test_a_command_is_in_a_session_of_its_own(program: Shell) -> None:
    done = program("import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())")
    assert done.stdout.strip() == b"True"


def test_no_file_stays_open(shell: Shell, processes: Processes) -> None:
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    shell("true")
    before = len(os.listdir(folder))
    for _ in range(15):
        shell("echo; echo >&2")
        processes.run(["/missing"], deadline_s=LONG_S, environment={})
    assert comes_true(lambda: len(os.listdir(folder)) <= before)


def test_no_thread_stays_behind(shell: Shell) -> None:
    before = threading.active_count()
    shell("echo")
    shell("sleep 1000", deadline_s=0.3)
    assert comes_true(lambda: threading.active_count() <= before)


def test_stop_kills_what_runs(shell: Shell, processes: Processes, tmp_path: pathlib.Path) -> None:
    note = tmp_path / "pids"
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(shell, 'sleep 1000 & echo $$ $! >"$1.part"; mv "$1.part" "$1"; wait', str(note))
        assert comes_true(note.exists)
        processes.stop()
        done = under_way.result(timeout=GENEROUS_S)
    assert (done.signal, done.timed_out, done.stuck) == ("SIGKILL", False, False)
    assert all(is_gone(int(pid)) for pid in note.read_text().split())


def test_stop_lets_nothing_start(shell: Shell, processes: Processes, tmp_path: pathlib.Path) -> None:
    processes.stop()
    done = shell('touch "$1"', str(tmp_path / "ran"))
    assert (done.not_started, done.exit_code) == ("interrupted", None)
    assert not (tmp_path / "ran").exists()


def test_stop_is_harmless_where_nothing_runs(shell: Shell, processes: Processes) -> None:
    shell("true")
    processes.stop()
    processes.stop()
    assert shell("true").not_started == "interrupted"


def test_stop_amid_many_starts_leaves_nothing(shell: Shell, processes: Processes, tmp_path: pathlib.Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        under_way = [
            pool.submit(shell, 'echo $$ >"$1"; sleep 1000', str(tmp_path / str(number))) for number in range(20)
        ]
        assert comes_true(lambda: any(tmp_path.iterdir()))
        processes.stop()
        done = [each.result(timeout=LONG_S) for each in under_way]
    assert all(each.signal == "SIGKILL" or each.not_started == "interrupted" for each in done)
    pids = [note.read_text() for note in tmp_path.iterdir()]
    assert all(is_gone(int(pid)) for pid in pids if pid)


def test_twenty_commands_at_once_each_get_their_own_answer(shell: Shell) -> None:
    def ask(number: int) -> Completed:
        return shell(
            'head -c 300000 /dev/zero | tr "\\0" "$1"; echo "$1" >&2; exit "$2"', chr(97 + number), str(number)
        )

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask, range(20)))
    for number, done in enumerate(answers):
        letter = chr(97 + number)
        assert done.stdout == letter.encode() * 300_000
        assert (done.stderr, done.exit_code) == (letter + "\n", number)


def test_one_that_hangs_does_not_hold_the_others(shell: Shell, processes: Processes, tmp_path: pathlib.Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(shell, 'touch "$1"; sleep 1000', str(tmp_path / "runs"))
        assert comes_true((tmp_path / "runs").exists)
        assert shell("echo quick").stdout == b"quick\n"
        assert not hanging.done()
        processes.stop()


def test_a_host_adds_variables_to_its_environment() -> None:
    host = Host(environment={"PATH": os.environ["PATH"], "KEPT": "1", "CHANGED": "old"})
    done = host.run(["/usr/bin/env"], deadline_s=LONG_S, variables={"CHANGED": "new", "ADDED": "2"})
    assert {b"KEPT=1", b"CHANGED=new", b"ADDED=2"} <= set(done.stdout.splitlines())
    assert host.environment["CHANGED"] == "old"
    assert "ADDED" not in host.environment


def test_a_host_keeps_the_environment_of_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_BEFORE", "1")
    host = Host()
    monkeypatch.setenv("SET_BEFORE", "2")
    assert host.environment["SET_BEFORE"] == "1"
    assert b"SET_BEFORE=1" in host.run(["/usr/bin/env"], deadline_s=LONG_S).stdout.splitlines()


def test_a_host_that_was_stopped_starts_nothing() -> None:
    host = Host()
    host.stop()
    assert host.run(["/bin/echo"], deadline_s=LONG_S).not_started == "interrupted"
