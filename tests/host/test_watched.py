"""A watched command ends with the doctor, however the doctor ends, and holds the lock until it has ended."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tfgpu_doctor.host.lock import Busy, acquire
from tfgpu_doctor.host.watched import CannotStart, ended_by, run_watched

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")

# Two processes, of which the second writes its id and then the time into a file, over and over.
GRANDCHILD = "import os, sys, time\nwhile True: open(sys.argv[1], 'a').write('x'); time.sleep(0.02)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}, sys.argv[1]])"


def run(code: str, *words: str, deadline_s: float = 60.0, **named: object) -> int | None:
    return run_watched(
        [sys.executable, "-c", code, *words], environment=os.environ, folder="/", deadline_s=deadline_s, **named  # type: ignore[arg-type]
    )  # fmt: skip


def is_written_on(file: pathlib.Path) -> bool:
    size = file.stat().st_size
    time.sleep(0.3)
    return file.stat().st_size != size


@pytest.mark.parametrize("code", [0, 1, 7])
def test_exit_code(code: int) -> None:
    assert run(f"import sys; sys.exit({code})") == code


def test_death_by_signal_is_no_success() -> None:
    assert run("import os; os.kill(os.getpid(), 9)") == 137


def test_command_that_does_not_exist() -> None:
    with pytest.raises(CannotStart, match="No such file") as caught:
        run_watched(["/no/such/command"], environment=os.environ, folder="/", deadline_s=60)
    assert caught.value.filename == "/no/such/command"


def test_output_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    run("print('hello', flush=True)")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_deadline_ends_it_with_what_it_started(tmp_path: pathlib.Path) -> None:
    for deadline_s in (1.5, 10, 60):  # on a busy machine two interpreters start slowly
        assert run(CHILD, str(tmp_path / "file"), deadline_s=deadline_s) is None
        if (tmp_path / "file").exists():
            break
    assert not is_written_on(tmp_path / "file")


def test_exception_ends_it(tmp_path: pathlib.Path) -> None:
    def tick() -> None:
        if (tmp_path / "file").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(CHILD, str(tmp_path / "file"), on_tick=tick)
    assert not is_written_on(tmp_path / "file")


@pytest.mark.usefixtures("own_tmpdir")
def test_it_ends_with_a_doctor_that_is_killed(tmp_path: pathlib.Path) -> None:
    file, lock = tmp_path / "file", tmp_path / "lock"
    doctor = subprocess.Popen([sys.executable, __file__, str(file), str(lock)])
    until = time.monotonic() + 120
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.02)
    with pytest.raises(Busy):
        acquire(str(lock), patience_s=0)
    os.kill(doctor.pid, signal.SIGKILL)
    doctor.wait()
    acquire(str(lock), patience_s=60).release(remove=True)
    assert not is_written_on(file)


def test_lock_is_held_by_the_child_until_it_ended(tmp_path: pathlib.Path) -> None:
    lock = acquire(str(tmp_path / "lock"), patience_s=0)

    def tick() -> None:
        with pytest.raises(Busy):
            acquire(lock.path, patience_s=0)

    assert run("import time; time.sleep(0.2)", holding=(lock.descriptor,), on_tick=tick) == 0
    lock.release(remove=False)
    acquire(lock.path, patience_s=0).release(remove=True)


def test_lock_whose_file_was_removed_is_no_lock(tmp_path: pathlib.Path) -> None:
    first = acquire(str(tmp_path / "lock"), patience_s=0)
    first.release(remove=True)
    second = acquire(str(tmp_path / "lock"), patience_s=0)
    assert (tmp_path / "lock").exists()
    second.release(remove=True)


if __name__ == "__main__":
    held = acquire(sys.argv[2], patience_s=0)
    run(CHILD, sys.argv[1], holding=(held.descriptor,))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, ""), (3, ""), (128, ""), (255, ""), (139, "SIGSEGV"), (-15, "SIGTERM"),
        (137, "SIGKILL (the kernel sends it where memory runs out: see dmesg)"),
        (-9, "SIGKILL (the kernel sends it where memory runs out: see dmesg)"),
    ],
)  # fmt: skip
def test_what_ended_a_command(code: int, said: str) -> None:
    assert ended_by(code) == said
