"""What a child of the doctor's leaves behind: no core file, and no process, even where Python has no ctypes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tfgpu_doctor.host import adoption, family

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the limits are those of POSIX")

LONG_S = 120.0
# A shell in which programs may write core files, as in a container of Docker: the limit of the tests' own process hides it.
SOFT_BYTES = 1 << 20
LIMIT = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
RUN = """
import os, sys
from tfgpu_doctor.host import Processes
done = Processes().run([sys.executable, "-I", "-S", "-c", sys.argv[1]], deadline_s=60, environment=dict(os.environ), **{})
print(done.signal or done.not_started or done.stdout.decode().strip())
import resource
print(resource.getrlimit(resource.RLIMIT_CORE)[0])
"""
STREAM = """
import os, sys, time
from tfgpu_doctor.host.streamed import Streamed
heard = []
child = Streamed([sys.executable, "-I", "-S", "-c", sys.argv[1]], environment=dict(os.environ), hear=heard.append)
child.start()
while not child.ended:
    time.sleep(0.01)
print(heard[0]["limit"])
"""
WATCHED = """
import os, sys
from tfgpu_doctor.host.watched import start_watched
start_watched([sys.executable, "-I", "-S", "-c", sys.argv[1]], environment=dict(os.environ), folder=None).wait()
"""
LAUNCHED = """
import os, sys
from tfgpu_doctor.host.launched_program import LaunchedProgram
argv = [sys.executable, "-I", "-S", "-c", sys.argv[1]]
with LaunchedProgram(argv, environment=dict(os.environ), startup=sys.argv[2], before_stop=lambda: None) as program:
    while program.exit_code is None:
        program.wait(1.0)
"""


def _allow_core_files() -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (SOFT_BYTES, hard))


def doctor(source: str, *arguments: str, folder: pathlib.Path) -> tuple[list[str], str]:
    """Run a program with the doctor imported, in a folder, where core files are allowed; its output and error."""
    resource = pytest.importorskip("resource")
    if 0 <= resource.getrlimit(resource.RLIMIT_CORE)[1] < SOFT_BYTES:
        pytest.skip("the hard limit allows no core file here")
    done = subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, check=False, timeout=LONG_S, cwd=folder,
        preexec_fn=_allow_core_files,
    )  # fmt: skip
    return done.stdout.split("\n")[:-1], done.stderr


def test_a_child_may_write_no_core_file_and_the_doctor_still_may(tmp_path: pathlib.Path) -> None:
    said, errors = doctor(RUN, LIMIT, folder=tmp_path)
    assert (said, errors) == (["0", str(SOFT_BYTES)], "")


def test_a_child_that_tells_what_it_sees_may_write_none(tmp_path: pathlib.Path) -> None:
    told = "import json, resource; print(json.dumps({'limit': resource.getrlimit(resource.RLIMIT_CORE)[0]}))"
    assert doctor(STREAM, told, folder=tmp_path) == (["0"], "")


@pytest.mark.parametrize("options", ["", "family_ends=False"], ids=["contained", "of the user's"])
def test_a_child_that_crashes_leaves_nothing_in_the_working_folder(tmp_path: pathlib.Path, options: str) -> None:
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
    if not pattern.exists() or pattern.read_text().startswith(("|", "/")):
        pytest.skip("the kernel writes no core file into the working folder")
    said, errors = doctor(RUN.replace("**{}", options), "import os; os.abort()", folder=tmp_path)
    assert (said[0], errors) == ("SIGABRT", "")
    assert bool(os.listdir(tmp_path)) == bool(options)  # a child that is the user's own keeps its limit


@pytest.mark.parametrize("source", [WATCHED, LAUNCHED], ids=["trace --record-with", "watch"])
def test_a_program_of_the_users_keeps_its_limit(tmp_path: pathlib.Path, source: str) -> None:
    startup = tmp_path / "startup"
    startup.mkdir()
    said, errors = doctor(source, LIMIT, str(startup), folder=tmp_path)
    assert [*said, *errors.split()] == [str(SOFT_BYTES)]


WITHOUT_CTYPES = """
import sys
sys.modules["_ctypes"] = None  # as in a Python that was built without libffi's headers
from tfgpu_doctor.host.adoption import ADOPTION
ADOPTION.allow()
"""


def test_a_python_without_ctypes_runs_commands(tmp_path: pathlib.Path) -> None:
    said, errors = doctor(WITHOUT_CTYPES + RUN, "print('ran')", folder=tmp_path)
    assert (said[0], errors) == ("ran", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a mark is found in /proc")
def test_a_python_without_ctypes_ends_what_a_command_left(tmp_path: pathlib.Path) -> None:
    leaves = "import subprocess; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)"
    said, errors = doctor(WITHOUT_CTYPES + RUN, leaves, folder=tmp_path)
    assert errors == ""
    try:
        state = pathlib.Path(f"/proc/{int(said[0])}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return
    assert state in ("Z", "X")


def test_a_python_without_ctypes_runs_programs_that_end_with_the_doctor() -> None:
    source = (
        "import sys; sys.modules['_ctypes'] = None; from tfgpu_doctor.host import run_watched\n"
        "sys.argv = ['run_watched', sys.executable, '-c', 'import sys; sys.exit(7)']; run_watched.main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE) as program:  # it watches its input
        assert program.wait(LONG_S) == 7


LEAVES = "import subprocess as s; print(s.Popen(['sleep', '1000'], stdout=s.DEVNULL, start_new_session=True).pid)"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a mark is found in /proc")
def test_what_has_no_mark_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What left the session is in its execve at the first looks: the kernel shows no environment of it."""
    looks = 0

    def is_between(pid: int) -> bool:
        nonlocal looks
        looks += pid == stray
        return pid == stray and looks < 3

    def carries(pid: int, mark: str, *, begins: bool = False) -> bool:
        return looks >= 3 and family.carries(pid, mark, begins=begins)

    monkeypatch.setattr(adoption, "is_between", is_between)
    monkeypatch.setattr(adoption, "carries", carries)
    children = adoption.Adoption()
    child = children.start(
        lambda environment: subprocess.Popen([sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, env=dict(environment)),
        os.environ, family_ends=True,
    )  # fmt: skip
    stray = int(child.process.communicate()[0])
    children.end(child, LONG_S)
    assert family.has_ended(stray)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_process_with_an_empty_environment_is_whole() -> None:
    with subprocess.Popen(["sleep", "1000"], env={}) as bare, subprocess.Popen(["true"]) as zombie:
        try:
            os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
            assert not family.is_between(zombie.pid)
            assert not family.is_between(bare.pid)
            assert not family.is_between(os.getpid())
        finally:
            bare.kill()
    kernel = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if family.parent_of(pid) == 2]
    assert not any(map(family.is_between, kernel))
