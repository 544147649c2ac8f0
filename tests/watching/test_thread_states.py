"""What the threads of a process that makes no progress do: real ones that wait, and made-up files."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching import thread_states as module
from tfgpu_doctor.watching.thread_states import SYSCALLS, ThreadState, main_progress, thread_states

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc"),
]
LONG_S = 120.0
Start = Callable[..., int]

SLEEP = "clock_nanosleep" if sys.version_info >= (3, 11) else "pselect6"  # what time.sleep calls


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python program that says something when it is about to wait, and gives its number."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(code: str, *words: str) -> int:
        code = "def ready(): print('ready', flush=True)\n" + code
        started.append(
            subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        )
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == b"ready\n"
        return started[-1].pid

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def waiting(pid: int, call: str) -> ThreadState:
    """The main thread, as soon as it waits in that system call."""
    if module._architecture() not in SYSCALLS:
        pytest.skip("the system calls of this machine have no names here")
    ends = time.monotonic() + LONG_S
    while time.monotonic() < ends:
        (main, *_) = thread_states(Host(), pid)
        if not main.syscall:
            pytest.skip("/proc/PID/syscall cannot be read here")
        if main.syscall == call and main.state != "R":  # on its way there it has the call, and still runs
            return main
        time.sleep(0.1)
    raise AssertionError(main)


def test_a_read_of_a_pipe_that_nobody_writes_names_it(start: Start, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "records")
    pid = start(
        "import os, sys; f = os.open(sys.argv[1], os.O_RDWR); ready(); os.read(f, 1)", str(tmp_path / "records")
    )
    state = waiting(pid, "read")
    assert (state.tid, state.state, state.file) == (pid, "S", str((tmp_path / "records").resolve()))
    assert state.name
    assert state.cpu_s < LONG_S


def test_a_lock_names_its_file(start: Start, tmp_path: pathlib.Path) -> None:
    lock = tmp_path / "lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        pid = start("import fcntl, sys; f = open(sys.argv[1]); ready(); fcntl.flock(f, fcntl.LOCK_EX)", str(lock))
        assert waiting(pid, "flock").file == str(lock.resolve())


@pytest.mark.parametrize(
    ("code", "call", "file"),
    [
        ("import socket; a, b = socket.socketpair(); ready(); a.recv(1)", "recvfrom", "socket:["),
        ("import os; a, b = os.pipe(); ready(); os.read(a, 1)", "read", "pipe:["),
        ("import time; ready(); time.sleep(1000)", SLEEP, ""),
        ("import threading; ready(); threading.Lock().acquire() and threading.Event().wait()", "futex", ""),
        ("import subprocess; p = subprocess.Popen(['cat']); ready(); p.wait()", "wait4", ""),  # ends with our pipe
    ],
    ids=["socket", "pipe", "sleep", "lock", "child"],
)  # fmt: skip
def test_what_a_thread_waits_in(start: Start, code: str, call: str, file: str) -> None:
    assert waiting(start(code), call).file.startswith(file)


def test_every_thread_is_told(start: Start) -> None:
    code = (
        "import threading; e = threading.Event(); [threading.Thread(target=e.wait).start() for _ in range(3)]; ready()"
    )
    pid = start(code)
    found = thread_states(Host(), pid)
    assert len(found) == 4
    assert found[0].tid == pid
    assert sorted(each.tid for each in found) == [each.tid for each in found]


def test_progress_of_the_main_thread(start: Start) -> None:
    asleep, busy = start("import time; ready(); time.sleep(1000)"), start("ready()\nwhile True: pass")
    waiting(asleep, SLEEP)
    first, ends = main_progress(Host(), busy), time.monotonic() + LONG_S
    assert first is not None
    before = main_progress(Host(), asleep)
    while (now := main_progress(Host(), busy)) is not None and now[0] < first[0] + 0.3 and time.monotonic() < ends:
        time.sleep(0.2)
    assert now is not None
    assert now[0] > first[0]
    assert now[1] >= first[1]
    assert before is not None
    assert before[1] > 0
    assert main_progress(Host(), asleep) == before


def test_a_process_that_is_gone_has_none() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert main_progress(Host(), process.pid) is None  # nobody waited for it yet
    assert main_progress(Host(), 1 << 22) is None
    assert thread_states(Host(), 1 << 22) == []


def made(root: pathlib.Path, syscall: str | None, **files: str) -> list[ThreadState]:
    folder = root / "proc/9/task/9"
    folder.mkdir(parents=True)
    texts = {"stat": "9 (tf_data (x)) D 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 5 0 6 0\n", **files}
    if syscall is not None:
        texts["syscall"] = syscall
    for name, text in texts.items():
        (folder / name).write_text(text)
    (root / "proc/9/fd").mkdir()
    (root / "proc/9/fd/3").symlink_to("/dev/nvidia0")
    return thread_states(Host(root=str(root)), 9)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "AMD64"])
def test_a_driver_that_does_not_answer(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    number = 29 if machine == "aarch64" else 16
    (state,) = made(
        tmp_path, f"{number} 0x3 0xc020462a 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7f2b", wchan="nvidia_unlocked_ioctl"
    )
    assert state == ThreadState(
        tid=9,
        name="tf_data (x)",
        state="D",
        wchan="nvidia_unlocked_ioctl",
        syscall="ioctl",
        file="/dev/nvidia0",
        cpu_s=2.0,
    )


@pytest.mark.parametrize(
    ("syscall", "told"),
    [
        (None, ("", "")), ("", ("", "")), ("running\n", ("running", "")), ("-1 0x7ffd 0x7f2b\n", ("none", "")),
        ("9999 0x0\n", ("syscall 9999", "")), ("0 0x7 0x0\n", ("read", "")), ("0 junk\n", ("read", "")), ("0\n", ("read", "")),
        ("257 0x3 0x0\n", ("openat", "")),
    ],
)  # fmt: skip
def test_calls_of_which_less_is_known(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, syscall: str | None, told: tuple[str, str]
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (state,) = made(tmp_path, syscall, wchan="0")
    assert (state.syscall, state.file, state.wchan) == (*told, "")


def test_a_machine_whose_calls_have_no_names(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert made(tmp_path, "63 0x3 0x0\n")[0].syscall == "syscall 63"


def test_a_machine_without_proc_says_nothing(tmp_path: pathlib.Path) -> None:
    assert thread_states(Host(root=str(tmp_path)), 9) == []
    assert main_progress(Host(root=str(tmp_path)), 9) is None


def test_both_architectures_name_the_calls_that_both_have() -> None:
    x86_64, aarch64 = (set(SYSCALLS[name].values()) for name in ("x86_64", "aarch64"))
    assert aarch64 <= x86_64
    assert x86_64 - aarch64 == {"poll", "epoll_wait", "select"}
