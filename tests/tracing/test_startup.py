"""The start-up module in the user's program: the program does what it does without it, and the socket is gone after it."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

import pytest
from doctor_command import clean_environment
from recorded_training import LONG_S, ended, folder_of, recorded

from tfgpu_doctor.host.listening import SOCKET_VARIABLE
from tfgpu_doctor.host.recorded_program import RecordedProgram
from tfgpu_doctor.host.watched import CannotStart
from tfgpu_doctor.tracing.recording import STARTUP

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no sockets with a path"),
]

PROGRAMS = {
    "ends-at-once": "pass",
    "output": "import sys; print('a', sys.argv[1:]); print('b', file=sys.stderr); sys.stdout.write('c')",
    "exit-code": "import sys; sys.exit(7)",
    "exit-text": "import sys; sys.exit('bad')",
    "exit-at-once": "import os; print('x', flush=True); os._exit(5)",
    "error": "1 / 0",
    "signal": "import os; os.kill(os.getpid(), 9)",
    "path": "import sys; print(sys.path, sys.flags, sys.orig_argv[1:])",
    "thread": "import threading; threading.Thread(target=lambda: print('in a thread')).start()",
    "atexit": "import atexit; atexit.register(print, 'at the end'); print('begin')",
    "interval": "import sys; print(sys.getswitchinterval())",
    "standard-input": "import sys; print(repr(sys.stdin.read()))",
    "signals": "import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))",
    "children": "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', 'print(1); exit(3)']).returncode)",
    "executable": "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(2)'])",
    "fork": (
        "import os, sys\npid = os.fork()\nif not pid: print('child', flush=True); sys.exit(3)\n"
        "print('parent', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    ),
}
SPAWN = """
import multiprocessing
def twice(number): return 2 * number
if __name__ == "__main__":
    multiprocessing.set_start_method(METHOD)
    with multiprocessing.Pool(2) as pool:
        print(pool.map(twice, range(5)))
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A doctor that listens, and never answers."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as found:  # a short path
        found.bind(f"{folder}/s")
        found.listen(16)
        yield found


def outcome(*words: str, wait_s: float = LONG_S, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *words], env=clean_environment(**(environment or {})), input="given", capture_output=True, text=True,
        timeout=wait_s, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def watched(path: str, **variables: str) -> dict[str, str]:
    own = variables.pop("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (STARTUP, own))), SOCKET_VARIABLE: path, **variables}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_alone(name: str, listener: socket.socket) -> None:
    words = ("-c", PROGRAMS[name], "--epochs", "3", "a b", "")
    alone = outcome(*words)
    assert outcome(*words, environment=watched(listener.getsockname())) == alone
    assert outcome(*words, environment=watched("/no/such/socket")) == alone
    assert outcome(*words, environment=watched("")) == alone


@pytest.mark.parametrize("option", ["-S", "-I", "-E", "-B", "-O", "-s", "-bb", "-Werror", "-Xdev", "-u"])
def test_options_of_python(option: str, listener: socket.socket) -> None:
    words = (option, "-c", "import sys; print(sys.argv, sys.flags); sys.exit(3)", "word")
    alone = outcome(*words)
    assert outcome(*words, environment=watched(listener.getsockname())) == alone
    assert alone[0] == 3


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes_of_the_program(tmp_path: pathlib.Path, listener: socket.socket, method: str) -> None:
    (tmp_path / "pool.py").write_text(SPAWN.replace("METHOD", repr(method)))
    code, said, wrong = outcome(str(tmp_path / "pool.py"), environment=watched(listener.getsockname()))
    assert (code, said) == (0, "[0, 2, 4, 6, 8]\n"), wrong
    assert "Traceback" not in wrong


@pytest.mark.parametrize(
    "code",
    [
        "print('mine', __name__, __file__)",
        "raise RuntimeError('mine is broken')",
        "import no_such_module",
        "import sys; sys.path.append('/of/mine'); MINE = 'mine'",
    ],
)
def test_the_user_s_own_module_still_runs(tmp_path: pathlib.Path, listener: socket.socket, code: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(code)
    words = ("-c", "import sys; print(sys.path[1:], getattr(sys.modules.get('sitecustomize'), 'MINE', None))")
    alone = outcome(*words, environment={"PYTHONPATH": str(tmp_path)})
    assert any(word in str(alone) for word in ("mine", "no_such_module"))
    for path in (listener.getsockname(), "/no/such/socket"):
        assert outcome(*words, environment=watched(path, PYTHONPATH=str(tmp_path))) == alone


@pytest.mark.parametrize("code", ["print('of conda')", "raise RuntimeError('conda is broken')"])
def test_the_module_of_a_distribution_still_runs(tmp_path: pathlib.Path, listener: socket.socket, code: str) -> None:
    """Conda and Debian have a sitecustomize in Python's own library, which is behind all of PYTHONPATH."""
    alone_code = (
        "import sys; print([each for each in sys.path if each.endswith('startup')], 'sitecustomize' in sys.modules)"
    )
    python = tmp_path / "bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    (site_packages,) = tmp_path.glob("lib/python3*/site-packages")
    (site_packages / "sitecustomize.py").write_text(code)
    said = []
    for path in (None, listener.getsockname(), "/no/such/socket"):
        more = {} if path is None else watched(path)
        done = subprocess.run(
            [str(python), "-c", alone_code], env=clean_environment(**more), capture_output=True, text=True,
            timeout=LONG_S, check=False,
        )  # fmt: skip
        said.append((done.returncode, done.stdout, done.stderr))
    assert said[1:] == said[:1] * 2
    assert "conda" in str(said[0])


def test_the_module_is_nowhere_on_the_program_s_path(listener: socket.socket) -> None:
    words = ("-c", "import sys; print([each for each in sys.path if 'startup' in each])")
    assert outcome(*words, environment=watched(listener.getsockname())) == (0, "[]\n", "")


def test_a_socket_that_nobody_listens_at(tmp_path: pathlib.Path, listener: socket.socket) -> None:
    """As after a doctor that was killed: the program runs, and one line says that it is not recorded."""
    path = listener.getsockname()
    listener.close()
    (tmp_path / "tensorflow.py").touch()
    environment = watched(path, PYTHONPATH=str(tmp_path))
    assert outcome("-c", "print('x'); exit(3)", environment=environment) == (3, "x\n", "")
    code, said, wrong = outcome("-c", "import tensorflow; print('x'); exit(3)", environment=environment)
    assert (code, said) == (3, "x\n")
    assert wrong.startswith("tfgpu-doctor: this program is not recorded: ")
    assert wrong.count("\n") == 1


BEGINS_ANEW = """
import os, sys, tensorflow
print(sorted(os.listdir(os.environ["XDG_RUNTIME_DIR"] + "/tfgpu-doctor-%d" % os.getuid())) == [str(os.getpid())], flush=True)
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], "again"])
"""


def test_a_program_that_begins_anew_under_its_number_listens_again(tmp_path: pathlib.Path) -> None:
    """Its socket of before is still there: as of a container's only program, which is number 1 after each restart."""
    (tmp_path / "tensorflow.py").touch()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environment = watched("", PYTHONPATH=str(tmp_path), XDG_RUNTIME_DIR=folder)
        del environment[SOCKET_VARIABLE]
        assert outcome("-c", BEGINS_ANEW, environment=environment) == (0, "True\nTrue\n", "")
        assert os.listdir(f"{folder}/tfgpu-doctor-{os.getuid()}") == []


def test_a_doctor_that_does_not_accept_holds_nobody_up(listener: socket.socket) -> None:
    """More processes than the socket's queue holds, while the doctor is busy."""
    listener.listen(0)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    try:
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        code, said, _ = outcome("-c", "print('x'); exit(3)", wait_s=60, environment=watched(listener.getsockname()))
        assert (code, said) == (3, "x\n")
    finally:
        for each in waiting:
            each.close()


def test_through_a_recorded_program(capfd: pytest.CaptureFixture[str]) -> None:
    with recorded("-c", "import sys; print(sys.argv[1:], flush=True); sys.exit(7)", "a b", "") as program:
        assert ended(program) == 7
        assert program.ready() == []
    assert capfd.readouterr() == ("", "['a b', '']\n"), "standard output is the doctor's"


@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_a_python_that_keeps_the_module_out_never_connects(option: str) -> None:
    with recorded(option, "-c", "raise SystemExit(3)") as program:
        assert ended(program) == 3
        assert program.talks == []


@pytest.mark.parametrize(
    ("code", "exit_code"), [("pass", 0), ("import os; os.kill(os.getpid(), 9)", 137), ("1 / 0", 1)]
)
def test_the_socket_is_the_user_s_alone_and_gone_afterwards(
    code: str, exit_code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with recorded("-c", code) as program:
        folder = folder_of(program)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_ISSOCK((folder / "s").stat().st_mode)
        assert ended(program) == exit_code
    assert not folder.exists()
    assert ("ZeroDivisionError" in capfd.readouterr().err) == (code == "1 / 0")


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(CannotStart, match="/no/such/command"):
        RecordedProgram(["/no/such/command"], environment=clean_environment(), startup=STARTUP)
