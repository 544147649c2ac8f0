"""What is seen of a program from outside: real processes, and made-up machines."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching.machine_causes import MachineCauses
from tfgpu_doctor.watching.program_signals import ProgramSignals
from tfgpu_doctor.watching.reading import Reading

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc"),
]
LONG_S = 120.0
BUSY = "while True: pass"
BOUND = "import os; os.sched_setaffinity(0, [{cpu}])\n"
FORKS = "import os\nfor _ in range({count}):\n    if os.fork() == 0: break\nwhile True: pass"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python program in its own process group, which ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(code: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", code, *words], start_new_session=True, **options))
        return started[-1]

    yield start_one
    for process in started:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait(LONG_S)


def looked(signals: ProgramSignals, *, until: Callable[[Reading], bool], every_s: float = 1.0) -> list[Reading]:
    """Readings until one is as wanted, which is the last."""
    ends, found = time.monotonic() + LONG_S, []
    while time.monotonic() < ends:
        reading = signals.look()
        assert reading is not None
        found.append(reading)
        if until(reading):
            return found
        time.sleep(every_s)
    raise AssertionError(found[-3:])


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process of one thread has had, in s, by the kernel's own account."""
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_a_busy_loop_uses_a_cpu(start: Start) -> None:
    busy = start(BUSY)
    try:
        first, *_, last = looked(
            ProgramSignals(Host(), busy.pid), until=lambda each: each.cpu > 0.1 and each.cpu + (each.queued or 0) > 0.5
        )
    except AssertionError:
        if (seconds := cpu_seconds(busy.pid)) > LONG_S / 4:
            raise
        pytest.skip(f"other programs of the machine left this one {seconds:.1f} s of a CPU in {LONG_S:.0f}")
    assert (first.cpu, first.queued, first.others_cpu, first.read_bytes_per_s) == (0.0, None, None, None)
    assert last.cpu < 1.5
    assert (last.processes, last.threads, last.blocked) == (1, 1, 0)
    assert last.cpus is not None
    assert last.cpus <= len(os.sched_getaffinity(0))
    assert last.allowed_cpus == len(os.sched_getaffinity(0))
    assert last.machine_cpus == os.cpu_count()
    assert last.others_cpu is not None
    assert last.major_faults_per_s is not None
    assert 1 << 20 < last.memory_bytes < 1 << 30
    assert last.at_s > first.at_s


def test_two_busy_threads_on_one_cpu_wait_for_it(start: Start) -> None:
    cpu = min(os.sched_getaffinity(0))
    program = start(BOUND.format(cpu=cpu) + FORKS.format(count=1))
    last = looked(ProgramSignals(Host(), program.pid), until=lambda each: (each.queued or 0) > 0.3)[-1]
    assert last.processes == 2
    assert last.cpus == 1
    assert last.cpu < 1.3


def busy_share(cpu: int) -> float:
    """How busy a CPU is for two seconds."""

    def ticks() -> tuple[int, int]:
        row = next(
            line for line in pathlib.Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} ")
        )
        numbers = [int(each) for each in row.split()[1:9]]
        return sum(numbers) - numbers[3] - numbers[4], sum(numbers)  # idle, iowait

    before = ticks()
    time.sleep(2.0)
    after = ticks()
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def causes_at_work(signals: ProgramSignals, expected: list[str]) -> None:
    """Look until these are the causes at work; other processes of the machine may disturb for a time."""
    causes, looks = MachineCauses(), itertools.count(1)

    def judged(reading: Reading) -> bool:
        causes.add(reading, ())
        return next(looks) >= 5 and causes.active == expected

    looked(signals, until=judged)


@pytest.mark.slow
@pytest.mark.parametrize(("neighbour", "expected"), [(1, []), (0, ["cpu_contention"])])
def test_only_neighbours_on_the_same_cpus_take_them(start: Start, neighbour: int, expected: list[str]) -> None:
    """A program bound to one CPU that runs three processes there: they wait for each other."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two CPUs are needed")
    start(BOUND.format(cpu=cpus[neighbour]) + BUSY)
    program = start(BOUND.format(cpu=cpus[0]) + FORKS.format(count=2))
    try:
        causes_at_work(ProgramSignals(Host(), program.pid), expected)
    except AssertionError:
        os.killpg(program.pid, signal.SIGKILL)
        if neighbour == 1 and (share := busy_share(cpus[0])) > 0.2:
            pytest.skip(f"other programs of the machine use {share:.0%} of this CPU")
        raise


def test_descendants_count_also_without_the_one_that_started_them(start: Start) -> None:
    program = start(FORKS.format(count=3))
    signals = ProgramSignals(Host(), program.pid)
    looked(signals, until=lambda each: each.processes == 4, every_s=0.2)
    assert program.pid in signals.pids()
    program.kill()
    program.wait(LONG_S)
    last = looked(signals, until=lambda each: each.cpu > 0.05, every_s=0.5)[-1]
    assert last.processes == 3
    os.killpg(program.pid, 9)
    ends = time.monotonic() + LONG_S
    while signals.look() is not None and time.monotonic() < ends:
        time.sleep(0.1)
    assert signals.look() is None
    assert signals.pids() == set()


def test_workers_that_end_between_looks_count(start: Start) -> None:
    """Each burns CPU for a moment, is waited for, and another follows."""
    burn = "import time; e = time.process_time() + 0.3\\nwhile time.process_time() < e: pass"
    code = f"import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-c', '''{burn}'''])"
    signals = ProgramSignals(Host(), start(code).pid)
    readings = looked(signals, until=lambda each: each.cpu > 0.2)
    readings += looked(signals, until=lambda each: each.at_s > readings[-1].at_s + 2, every_s=0.3)
    assert all(each.cpu >= 0 for each in readings)
    # One of them runs at a time. Single rates are not judged: the test itself may be held up between two files of /proc.
    used = sum(each.cpu * (each.at_s - before.at_s) for before, each in itertools.pairwise(readings))
    assert used < 1.5 * (readings[-1].at_s - readings[0].at_s) + 1
    assert all((each.called_bytes_per_s or 0) >= 0 for each in readings)


def test_reads_are_counted(start: Start, tmp_path: pathlib.Path) -> None:
    (tmp_path / "records").write_bytes(bytes(1 << 20))
    program = start("import sys\nwhile True: open(sys.argv[1], 'rb').read()", str(tmp_path / "records"))
    looked(ProgramSignals(Host(), program.pid), until=lambda each: (each.called_bytes_per_s or 0) > 1 << 20)


def test_a_program_that_ended_is_gone_before_anybody_waits_for_it(start: Start) -> None:
    program = start("input()", stdin=subprocess.PIPE)
    signals = ProgramSignals(Host(), program.pid)
    assert signals.look() is not None
    program.communicate(b"\n")
    assert signals.look() is None
    zombie = start("pass")
    assert os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert ProgramSignals(Host(), zombie.pid).look() is None


def test_a_process_that_never_was_is_gone() -> None:
    assert ProgramSignals(Host(), 1 << 22).look() is None  # the largest possible number of a process is below


def test_many_threads_are_seen() -> None:
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(50)]
    for thread in threads:
        thread.start()
    try:
        signals = ProgramSignals(Host(), os.getpid())
        readings = [signals.look(), signals.look()]
    finally:
        over.set()
    assert all(each is not None and each.threads > 50 for each in readings)


@pytest.fixture
def quota_group() -> Iterator[pathlib.Path]:
    """A control group of version 1 that may use a twentieth of a CPU: less than a busy machine leaves it."""
    parent = pathlib.Path("/sys/fs/cgroup/cpu")
    if not (parent / "cpu.cfs_quota_us").exists() and not (parent / "cgroup.procs").exists():
        pytest.skip("the CPU controller of cgroup version 1 is not mounted at /sys/fs/cgroup/cpu")
    folder = parent / f"tfgpu-doctor-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cpu.cfs_quota_us").write_text("5000")
    except OSError as error:
        pytest.skip(f"no control group can be made under /sys/fs/cgroup/cpu: {error.strerror}")
    yield folder
    ends = time.monotonic() + LONG_S
    while folder.exists() and time.monotonic() < ends:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.1)  # its processes are about to end


def test_a_quota_throttles(quota_group: pathlib.Path, start: Start) -> None:
    program = start(BUSY)
    (quota_group / "cgroup.procs").write_text(str(program.pid))
    last = looked(ProgramSignals(Host(), program.pid), until=lambda each: (each.throttled or 0) > 0.3)[-1]
    assert last.cpus == pytest.approx(0.05)
    program.kill()
    program.wait(LONG_S)


@pytest.mark.slow
def test_what_waits_for_its_quota_does_not_wait_for_others(quota_group: pathlib.Path, start: Start) -> None:
    """The kernel counts both in the same place (schedstat)."""
    start(BUSY)
    program = start("input()\n" + FORKS.format(count=2), stdin=subprocess.PIPE)
    (quota_group / "cgroup.procs").write_text(str(program.pid))
    assert program.stdin is not None
    program.stdin.write(b"\n")
    program.stdin.close()
    causes_at_work(ProgramSignals(Host(), program.pid), ["cpu_quota"])
    os.killpg(program.pid, 9)
    program.wait(LONG_S)


class Made:
    """A made-up machine: files of /proc and of control groups, and a clock."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.now_s = root, 100.0

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")

    def process(
        self, pid: int, *, parent: int = 1, state: str = "S", own: int = 0, waited: int = 0, threads: int = 1,
        started: int = 50, faults: int = 0, pages: int = 10, name: str = "python",
    ) -> None:  # fmt: skip
        self.write(
            f"/proc/{pid}/stat",
            f"{pid} ({name}) {state} {parent} 1 1 0 -1 0 0 0 {faults} 0 {own} 0 {waited} 0 20 0 {threads} 0 {started} 0 {pages} 0\n",
        )

    def end(self, pid: int) -> None:
        shutil.rmtree(self.root / f"proc/{pid}")

    def signals(self, pid: int) -> ProgramSignals:
        return ProgramSignals(Host(root=str(self.root)), pid)


@pytest.fixture
def made(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    machine = Made(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: machine.now_s)
    monkeypatch.setattr("tfgpu_doctor.watching.program_signals.time", clock)
    return machine


def again(made: Made, signals: ProgramSignals, seconds: float = 2.0) -> Reading:
    made.now_s += seconds
    reading = signals.look()
    assert reading is not None
    return reading


def test_a_machine_without_proc_says_nothing(made: Made) -> None:
    signals = made.signals(300)
    for _ in range(2):
        assert again(made, signals) == Reading(at_s=made.now_s)


def test_a_hidden_program_has_no_figures(made: Made) -> None:
    made.process(77)
    made.write("/proc/stat", "cpu  10 0 10 100 5 0 0 0 0 0\ncpu0 10 0 10 100 5 0 0 0 0 0\nintr 5\n")
    signals = made.signals(300)
    assert again(made, signals) == Reading(at_s=made.now_s, machine_cpus=1)
    assert again(made, signals).others_cpu is None


def test_files_that_are_unreadable_leave_none(made: Made) -> None:
    made.process(300, own=100, threads=4)
    signals = made.signals(300)
    assert again(made, signals).threads == 4
    made.process(300, own=300, threads=4)
    reading = again(made, signals)
    assert reading.cpu == 1.0
    assert (reading.queued, reading.cpus, reading.throttled, reading.io_stalled) == (None, None, None, None)
    assert (reading.called_bytes_per_s, reading.memory_limit_bytes, reading.memory_events) == (None, None, {})


@pytest.mark.parametrize("text", ["", "300 (python", "300 (python) S 1", "300 (python) S x " + "y " * 40, "\0\xff"])
def test_files_that_are_cut_off_leave_none(made: Made, text: str) -> None:
    for name in ("300/stat", "300/io", "300/status", "300/cgroup", "stat", "pressure/cpu"):
        made.write(f"/proc/{name}", text)
    assert again(made, made.signals(300)).processes == 0


def test_a_worker_that_ended_leaves_its_time_to_its_parent(made: Made) -> None:
    made.process(300, own=100)
    made.process(301, parent=300, own=500)
    signals = made.signals(300)
    again(made, signals)
    made.end(301)
    made.process(300, own=150, waited=650)
    assert again(made, signals).cpu == pytest.approx((50 + 150) / 100 / 2)


def test_a_worker_that_nobody_waited_for_makes_no_rate_negative(made: Made) -> None:
    made.process(300, own=100, faults=3)
    made.process(301, parent=300, own=500, faults=90)
    made.write("/proc/300/io", "rchar: 5\nread_bytes: 5\nwrite_bytes: 5\n")
    made.write("/proc/301/io", "rchar: 500\nread_bytes: 500\nwrite_bytes: 500\n")
    signals = made.signals(300)
    again(made, signals)
    made.end(301)
    made.process(300, own=150, faults=3)
    reading = again(made, signals)
    assert reading.cpu == 0.25
    assert (reading.called_bytes_per_s, reading.major_faults_per_s) == (0.0, 0.0)


def test_another_process_with_the_number_of_one_that_ended_is_none_of_the_program(made: Made) -> None:
    made.process(300)
    made.process(301, parent=300, own=5)
    signals = made.signals(300)
    again(made, signals)
    made.process(301, parent=1, own=900, started=99)
    assert again(made, signals).processes == 1
    assert signals.pids() == {300}
    made.process(300, parent=1, started=99)
    assert signals.look() is None


def test_a_worker_with_the_number_of_a_stranger_is_seen_in_the_end(made: Made) -> None:
    made.process(300)
    made.process(400, parent=1)
    signals = made.signals(300)
    again(made, signals)
    made.process(400, parent=300, started=99)
    assert [again(made, signals).processes for _ in range(40)][-1] == 2


def test_threads_wait_and_block(made: Made) -> None:
    made.process(300, threads=3, name="a (b) c")
    for tid, state in ((300, "S"), (301, "D"), (302, "R")):
        made.process(tid, state=state)
        shutil.move(made.root / f"proc/{tid}/stat", made.root / f"stat-{tid}")
    made.process(300, threads=3, name="a (b) c")
    for tid in (300, 301, 302):
        made.write(f"/proc/300/task/{tid}/stat", (made.root / f"stat-{tid}").read_text())
        made.write(f"/proc/300/task/{tid}/schedstat", f"{tid} 1000000000 7\n")
    for tid in (301, 302):
        (made.root / f"proc/{tid}").rmdir()
    signals = made.signals(300)
    assert (again(made, signals).blocked, signals.pids()) == (1, {300})
    made.write("/proc/300/task/302/schedstat", "999 4000000000 9\n")
    reading = again(made, signals)
    assert (reading.blocked, reading.queued) == (1, 1.5)


def test_rates_of_files_and_faults(made: Made) -> None:
    made.process(300, faults=10)
    made.write("/proc/300/io", "rchar: 1000\nwchar: 1\nread_bytes: 100\nwrite_bytes: 10\ncancelled_write_bytes: 0\n")
    signals = made.signals(300)
    assert again(made, signals).major_faults_per_s is None
    made.process(300, faults=30)
    made.write("/proc/300/io", "rchar: 9000\nwchar: 1\nread_bytes: 300\nwrite_bytes: 50\ncancelled_write_bytes: 0\n")
    reading = again(made, signals)
    assert (reading.called_bytes_per_s, reading.read_bytes_per_s, reading.written_bytes_per_s) == (4000, 100, 20)
    assert reading.major_faults_per_s == 10


def test_a_file_that_becomes_readable_counts_from_then_on(made: Made) -> None:
    made.process(300)
    signals = made.signals(300)
    again(made, signals)
    made.write("/proc/300/io", "rchar: 1000\nread_bytes: 100\nwrite_bytes: 10\n")
    assert again(made, signals).called_bytes_per_s is None
    assert again(made, signals).called_bytes_per_s == 0


def test_others_use_what_is_neither_idle_nor_the_programs(made: Made) -> None:
    made.process(300, own=0)
    made.write("/proc/300/status", "Cpus_allowed_list:\t0-1\n")
    made.write("/proc/stat", "cpu  1\ncpu0 60 10 50 400 20 5 5 40 0 0\ncpu1 40 0 0 500 20 0 0 30 0 0\n")
    signals = made.signals(300)
    again(made, signals)
    made.process(300, own=100)
    made.write("/proc/stat", "cpu  1\ncpu0 160 10 100 490 50 5 5 70 0 0\ncpu1 140 0 50 500 40 0 0 30 0 0\n")
    reading = again(made, signals)
    assert (reading.cpu, reading.others_cpu, reading.machine_cpus) == (0.5, 1.0, 2)


@pytest.mark.parametrize(
    ("allowed", "others", "cpus"),
    [
        ("2-3", 0.5, 2),
        ("0-1,3", 2.0, 3),
        ("0-127", 2.5, 4),  # all that the machine could have
        ("5-6", None, 2),  # lxcfs shows a container's own CPUs, numbered from 0 on
        ("2-5", None, 4),
        ("", None, None),
        ("0-1,x", 2.0, 2),
        (f"0-{'9' * 5000}", None, None),
    ],
)
def test_others_count_on_the_cpus_that_the_program_may_run_on(
    made: Made, allowed: str, others: float | None, cpus: int | None
) -> None:
    made.process(300)
    made.write("/proc/300/status", f"Cpus_allowed_list:\t{allowed}\n")
    signals = made.signals(300)
    for busy in ((0, 0, 0, 0), (200, 200, 100, 0)):
        made.write(
            "/proc/stat", "cpu  1\n" + "".join(f"cpu{at} {ticks} 0 0 9 0 0 0 0\n" for at, ticks in enumerate(busy))
        )
        reading = again(made, signals)
    assert (reading.others_cpu, reading.cpus, reading.allowed_cpus, reading.machine_cpus) == (others, cpus, cpus, 4)


def test_a_cpu_that_comes_online_has_no_rate_yet(made: Made) -> None:
    made.process(300)
    made.write("/proc/300/status", "Cpus_allowed_list:\t0-7\n")
    signals = made.signals(300)
    made.write("/proc/stat", "cpu0 100 0 0 9 0 0 0 0\n")
    again(made, signals)
    made.write("/proc/stat", "cpu0 300 0 0 9 0 0 0 0\ncpu1 900 0 0 9 0 0 0 0\n")
    reading = again(made, signals)
    assert (reading.others_cpu, reading.cpus, reading.machine_cpus) == (1.0, 2, 2)


def in_version_2(made: Made) -> str:
    """The program in a group of version 2 whose parent has the quota."""
    made.process(300)
    made.write("/proc/300/status", "Name:\tpython\nCpus_allowed_list:\t0-3,8\n")
    made.write("/proc/300/cgroup", "0::/jobs/train\n")
    made.write("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    group = "/sys/fs/cgroup/jobs/train"
    made.write("/sys/fs/cgroup/jobs/cpu.max", "250000 100000\n")
    made.write("/sys/fs/cgroup/jobs/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 10\nthrottled_usec 5\n")
    made.write(f"{group}/cpu.max", "max 100000\n")
    made.write(f"{group}/cpu.stat", "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
    made.write(f"{group}/memory.max", "1073741824\n")
    made.write("/sys/fs/cgroup/jobs/memory.max", "max\n")
    made.write(f"{group}/memory.events", "low 1\nhigh 2\nmax 30\noom 0\noom_kill 0\noom_group_kill 0\n")
    for resource in ("cpu", "io", "memory"):
        made.write(f"{group}/{resource}.pressure", pressure(1_000_000))
        made.write(f"/proc/pressure/{resource}", pressure(1_000_000))
    return group


def pressure(total_us: int) -> str:
    rest = "avg10=99.00 avg60=99.00 avg300=99.00"
    return f"some {rest} total={total_us}\nfull {rest} total=7\n"


def test_a_control_group_of_version_2(made: Made) -> None:
    group, signals = in_version_2(made), made.signals(300)
    first = again(made, signals)
    assert (first.cpus, first.allowed_cpus, first.throttled, first.cpu_stalled) == (2.5, 5, None, None)
    assert first.memory_events == {"high": 0, "max": 0, "oom": 0, "oom_kill": 0}
    made.write("/sys/fs/cgroup/jobs/cpu.stat", "nr_periods 120\nnr_throttled 15\nthrottled_usec 9\n")
    made.write(f"{group}/memory.events", "low 1\nhigh 5\nmax 31\noom 1\noom_kill 1\n")
    made.write(f"{group}/cpu.pressure", pressure(2_000_000))
    made.write(f"{group}/io.pressure", pressure(1_500_000))
    made.write("/proc/pressure/memory", pressure(3_000_000))
    reading = again(made, signals)
    assert (reading.throttled, reading.memory_limit_bytes) == (0.25, 1 << 30)
    assert (reading.cpu_stalled, reading.io_stalled, reading.memory_stalled) == (0.5, 0.25, 0.0)
    assert reading.memory_events == {"high": 3, "max": 1, "oom": 1, "oom_kill": 1}
    made.write("/proc/300/status", "Cpus_allowed_list:\t3\n")
    assert again(made, signals).cpus == 1


def test_pressure_is_that_of_the_machine_where_groups_have_none(made: Made) -> None:
    group, signals = in_version_2(made), made.signals(300)
    shutil.rmtree(made.root / group.lstrip("/"))
    again(made, signals)
    made.write("/proc/pressure/io", pressure(2_000_000))
    reading = again(made, signals)
    assert (reading.io_stalled, reading.cpu_stalled) == (0.5, 0.0)


def test_a_program_that_moves_to_another_group(made: Made) -> None:
    in_version_2(made)
    signals = made.signals(300)
    again(made, signals)
    made.write("/proc/300/cgroup", "0::/other\n")
    made.write("/sys/fs/cgroup/other/cpu.max", "50000 100000\n")
    made.write("/sys/fs/cgroup/other/cpu.stat", "nr_periods 900\nnr_throttled 900\n")
    moved = again(made, signals)
    assert (moved.cpus, moved.throttled, moved.memory_limit_bytes) == (0.5, None, None)
    made.write("/sys/fs/cgroup/other/cpu.stat", "nr_periods 910\nnr_throttled 910\n")
    assert again(made, signals).throttled == 1.0


def test_control_groups_of_version_1(made: Made) -> None:
    made.process(300)
    made.write("/proc/300/cgroup", "4:memory:/train\n1:cpu,cpuacct:/train\n0::/\n")
    made.write(
        "/proc/self/mountinfo",
        "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    )
    cpu, memory = "/sys/fs/cgroup/cpu,cpuacct/train", "/sys/fs/cgroup/memory"
    made.write(f"{cpu}/cpu.cfs_quota_us", "150000\n")
    made.write(f"{cpu}/cpu.cfs_period_us", "100000\n")
    made.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    made.write(f"{cpu}/cpu.stat", "nr_periods 10\nnr_throttled 0\nthrottled_time 0\n")
    made.write(f"{memory}/memory.limit_in_bytes", "9223372036854771712\n")
    made.write(f"{memory}/train/memory.limit_in_bytes", "2147483648\n")
    made.write(f"{memory}/train/memory.failcnt", "5\n")
    made.write(f"{memory}/train/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    signals = made.signals(300)
    first = again(made, signals)
    assert (first.cpus, first.memory_limit_bytes) == (1.5, 2 << 30)
    made.write(f"{cpu}/cpu.stat", "nr_periods 30\nnr_throttled 10\nthrottled_time 5\n")
    made.write(f"{memory}/train/memory.failcnt", "25\n")
    reading = again(made, signals)
    assert (reading.throttled, reading.memory_events) == (0.5, {"max": 20, "oom_kill": 0})
