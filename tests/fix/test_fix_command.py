"""`tfgpu-doctor fix` as a user runs it: planned, refused, applied with the real pip, undone."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts, start_doctor
from made_up_wheels import make_wheel, offline, pip, tree
from simulated import Simulate

from tfgpu_doctor.host.lock import acquire

pytestmark = pytest.mark.slow

# It does not import with an old protobuf, as the real one does not.
TENSORFLOW = """
import google.protobuf
if google.protobuf.__version__ < "6":
    raise ImportError("google.protobuf is too old: Descriptors cannot be created directly")
__version__ = "2.20.0"
"""
INIT = "__version__ = {!r}\n"
# The new one is not imported while a file is there: a fix is not over before its signal has come, however slow the test is.
HELD = """
import os, time
while os.path.exists({held!r}):
    time.sleep(0.05)
__version__ = {version!r}
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Wheels: an old protobuf, a new one, and one that says it is new and is not."""
    folder = tmp_path_factory.mktemp("shelf")
    make_wheel(folder, "protobuf", "3.20.0", {"google/protobuf/__init__.py": INIT.format("3.20.0")})
    init = HELD.format(held=str(folder / "held"), version="6.31.0")
    make_wheel(folder, "protobuf", "6.31.0", {"google/protobuf/__init__.py": init})
    lying = tmp_path_factory.mktemp("lying")
    make_wheel(lying, "protobuf", "6.31.0", {"google/protobuf/__init__.py": INIT.format("3.20.0")})
    return folder


@pytest.fixture
def target(venv: pathlib.Path, site: pathlib.Path, shelf: pathlib.Path) -> pathlib.Path:
    """An environment with a TensorFlow that asks for a newer protobuf than it has."""
    (site / "tensorflow").mkdir()
    (site / "tensorflow/__init__.py").write_text(TENSORFLOW)
    info = site / "tensorflow-2.20.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.20.0\nRequires-Dist: protobuf>=5.28\n\n"
    )
    (info / "RECORD").write_text("tensorflow/__init__.py,,\n")
    (info / "INSTALLER").write_text("pip\n")
    pip(venv, "install", "protobuf==3.20.0", wheels=shelf)
    return venv


@pytest.fixture
def variables(simulate: Simulate, shelf: pathlib.Path) -> dict[str, str]:
    """A machine whose GPU works, and whose pip finds the wheels alone."""
    return {**simulate(), **offline(shelf)}


def test_plan_is_shown_and_nothing_changed(target: pathlib.Path, variables: dict[str, str]) -> None:
    before = tree(target)
    done = start_doctor("fix", "--python", str(target), environment=variables)
    assert done.returncode == 1
    assert done.stdout.startswith("PKG007  protobuf 3.20.0 is not compatible with TensorFlow 2.20.0")
    assert f"1. run {target}/bin/python -m pip install 'protobuf>=5.28'" in done.stdout
    assert "tfgpu-doctor fix --apply" in done.stdout
    assert done.stderr == ""
    assert tree(target) == before


def test_applied_and_undone(target: pathlib.Path, variables: dict[str, str]) -> None:
    before = tree(target)
    done = start_doctor("fix", "PKG007", "--apply", "--yes", "--python", str(target), environment=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Fixed: PKG007 now passes." in done.stdout
    assert "Successfully installed protobuf-6.31.0" in done.stderr
    assert "Successfully installed" not in done.stdout
    assert start_doctor("fix", "pkg007", "--python", str(target), environment=variables).stdout.startswith(
        "Nothing to fix: PKG007"
    )
    undone = start_doctor("fix", "--undo", "--python", str(target), environment=variables)
    assert undone.returncode == 0
    assert undone.stdout.startswith("Undone: PKG007, the fix of ")
    assert tree(target) == before
    again = start_doctor("fix", "--undo", "--python", str(target), environment=variables)
    assert (again.returncode, again.stdout) == (0, f"Nothing to undo: no fix is recorded in {target}.\n")


def test_fix_that_does_not_help_is_taken_back(
    target: pathlib.Path, variables: dict[str, str], shelf: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(shelf, tmp_path / "shelf")
    make_wheel(tmp_path / "shelf", "protobuf", "6.31.0", {"google/protobuf/__init__.py": INIT.format("3.20.0")})
    before = tree(target)
    done = start_doctor(
        "fix", "--apply", "--yes", "--python", str(target), environment={**variables, **offline(tmp_path / "shelf")}
    )
    assert done.returncode == 1
    assert "Not fixed: PKG007 is still there (protobuf 6.31.0 rejects older generated code" in done.stdout
    assert "All changes are undone" in done.stdout
    assert tree(target) == before


def test_no_terminal_and_no_yes(target: pathlib.Path, variables: dict[str, str]) -> None:
    before = tree(target)
    done = start_doctor("fix", "--apply", "--python", str(target), stdin="y\n", environment=variables)
    assert done.returncode == 2
    assert "there is no terminal to ask for confirmation: add --yes" in done.stderr
    assert tree(target) == before


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_asks_on_a_terminal(target: pathlib.Path, variables: dict[str, str], answer: bytes, code: int) -> None:
    main, terminal = pty.openpty()
    done = subprocess.Popen(
        doctor_argv("fix", "--apply", "--python", str(target)), stdin=terminal, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=clean_environment(**variables),
    )  # fmt: skip
    os.write(main, answer)
    output, errors = done.communicate(timeout=120)
    os.close(main)
    os.close(terminal)
    assert f"Change {target}? [y/N]".encode() in errors
    assert done.returncode == code, output + errors


def test_unknown_id(target: pathlib.Path, variables: dict[str, str]) -> None:
    done = start_doctor("fix", "PKG099", "--python", str(target), environment=variables)
    assert done.returncode == 2
    assert "no check is called 'PKG099'; did you mean PKG00" in done.stderr


@pytest.mark.parametrize("words", [("--undo", "--apply"), ("--undo", "PKG007")])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    assert start_doctor("fix", *words).returncode == 2


def test_finding_whose_fix_is_left_to_the_user(target: pathlib.Path, variables: dict[str, str]) -> None:
    words = ("fix", "MEM002", "--apply", "--yes", "--python", str(target))
    done = start_doctor(*words, TF_FORCE_GPU_ALLOW_GROWTH="ture", environment=variables)
    assert done.returncode == 1
    assert "To do by hand:\n     export TF_FORCE_GPU_ALLOW_GROWTH=true\n" in done.stdout
    assert (
        done.stderr
        == f"tfgpu-doctor: error: the doctor carries out none of these steps in {target}: run them yourself\n"
    )


def test_pip_that_is_configured_to_install_elsewhere(
    target: pathlib.Path, variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "pip.conf").write_text(f"[install]\ntarget = {tmp_path / 'elsewhere'}\n")
    before = tree(target)
    done = start_doctor(
        "fix",
        "--apply",
        "--yes",
        "--python",
        str(target),
        environment={**variables, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")},
    )
    assert done.returncode == 1
    assert "pip's configuration sets 'target'" in done.stderr
    assert tree(target) == before
    done = start_doctor(
        "fix", "--apply", "--yes", "--python", str(target), PIP_TARGET=str(tmp_path / "elsewhere"),
        environment=variables,
    )  # fmt: skip
    assert done.returncode == 0
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def read_only(target: pathlib.Path) -> Iterator[list[str]]:
    """Words to put before a command for which the target is read-only."""
    if os.geteuid() != 0:
        for folder in [target, *(path for path in target.rglob("*") if path.is_dir() and not path.is_symlink())]:
            folder.chmod(0o555)
        yield []
        for folder in [target, *target.rglob("*")]:
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o755)
        return
    mount = f"mount --bind {target} {target} && mount -o remount,ro,bind {target}"
    words = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted read-only here")
    yield words


def test_read_only_environment_gives_one_line(
    target: pathlib.Path, variables: dict[str, str], read_only: list[str]
) -> None:
    done = subprocess.run(
        [*read_only, *doctor_argv("fix", "--apply", "--yes", "--python", str(target))], capture_output=True, text=True,
        env=clean_environment(**variables), check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"tfgpu-doctor: error: {target} is not writable: the environment is read-only or belongs to another user"
    ]


@pytest.fixture
def held(shelf: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file: the new protobuf is not imported while it is there."""
    file = shelf / "held"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


def wait_for_pip(target: pathlib.Path, process: subprocess.Popen[str]) -> None:
    journal = target / ".tfgpu-doctor/0001/journal.json"
    while not journal.exists() or json.loads(journal.read_bytes())["phase"] != "applying":
        assert process.poll() is None
        time.sleep(0.01)


def start(target: pathlib.Path, variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        doctor_argv("fix", "--apply", "--yes", "--python", str(target)), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=clean_environment(**variables), preexec_fn=hear_interrupts,
    )  # fmt: skip


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_takes_everything_back(
    target: pathlib.Path, variables: dict[str, str], held: pathlib.Path, signal_: signal.Signals
) -> None:
    assert held.exists()
    before = tree(target)
    process = start(target, variables)
    wait_for_pip(target, process)
    process.send_signal(signal_)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: everything is undone" in errors
    assert tree(target) == before


@pytest.mark.usefixtures("own_tmpdir")
def test_killed_and_undone(target: pathlib.Path, variables: dict[str, str], held: pathlib.Path) -> None:
    before = tree(target)
    process = start(target, variables)
    wait_for_pip(target, process)
    process.kill()
    process.communicate()
    held.unlink()
    acquire(str(target / ".tfgpu-doctor/lock"), patience_s=60).release(remove=False)  # its pip has ended
    if list(
        target.glob("lib/python3*/site-packages/protobuf-3.20.0.dist-info")
    ):  # else pip was at work when it was ended
        refused = start_doctor("fix", "--apply", "--yes", "--python", str(target), environment=variables)
        assert refused.returncode == 1
        assert "was interrupted" in refused.stderr
    undone = start_doctor("fix", "--undo", "--python", str(target), environment=variables)
    assert undone.returncode == 0, undone.stderr
    assert tree(target) == before


def test_two_at_once(target: pathlib.Path, variables: dict[str, str], held: pathlib.Path) -> None:
    first = start(target, variables)
    wait_for_pip(target, first)
    first.send_signal(signal.SIGSTOP)
    done = start_doctor("fix", "--undo", "--python", str(target), environment=variables)
    held.unlink()
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=120)
    assert first.returncode == 0
    assert done.returncode == 1
    assert "another fix of" in done.stderr
