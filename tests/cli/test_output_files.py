"""Where reports are written: a full disk or a folder that nobody may write to leaves no half file, and no traceback."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from doctor_command import clean_environment, doctor_argv, make_target, run_doctor, start_doctor
from every import sampled
from installed import skip_without_scipy, skip_without_tensorflow
from locations import TESTS

from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.model.facts import decode_facts
from tfgpu_doctor.render import FORMATS

BROKEN = str(TESTS / "machines/synthetic/debian-nouveau/facts.json")


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A file system with a few bytes left, which root alone can make; else none, and a limit stands in for it."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (folder / "kept").write_text("as it was")
        with (folder / "rest").open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"x" * 512)
                except OSError:
                    break
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def run_with_small_files(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A file may not grow beyond 100 bytes: as on a full disk, the first bytes are written, and then no more.

    Python must not compile modules meanwhile: it would leave halves of them in the checkout.
    """
    return subprocess.run(
        doctor_argv(*arguments), capture_output=True, text=True, check=False,
        env=clean_environment(PYTHONDONTWRITEBYTECODE="1", **variables),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )  # fmt: skip


def refused(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether it ended with one line that says what is wrong."""
    return (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_full_disk_leaves_no_half_file(format_: str, full_disk: pathlib.Path) -> None:
    before = sorted(os.listdir(full_disk))
    for name in ("kept", "new"):
        done = run_doctor("--facts", BROKEN, "--format", format_, "-o", str(full_disk / name))
        assert refused(done), done.stderr
        assert "No space left" in done.stderr
        assert sorted(os.listdir(full_disk)) == before
    assert (full_disk / "kept").read_text() == "as it was"


@pytest.mark.parametrize("format_", sampled(FORMATS, 4))
def test_a_file_that_may_not_grow_is_not_begun(format_: str, tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    for name in ("kept", "new"):
        done = run_with_small_files("--facts", BROKEN, "--format", format_, "-o", str(tmp_path / name))
        assert refused(done), done.stderr
    assert os.listdir(tmp_path) == ["kept"]
    assert kept.read_text() == "as it was"


def test_a_record_is_whole_or_not_there(tmp_path: pathlib.Path) -> None:
    done = run_with_small_files("--quick", "--record", str(tmp_path / "machine.json"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stdout  # what was found is told all the same
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_device_is_told() -> None:
    done = run_doctor("--facts", BROKEN, "-o", "/dev/full")
    assert refused(done), done.stderr
    assert "No space left" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [(), ("accept", "--profile", "mine.toml")])
def test_the_record_of_minutes_is_not_lost(tmp_path: pathlib.Path, command: tuple[str, ...]) -> None:
    """Where --record cannot be written at the end, what was measured goes to standard error."""
    (tmp_path / "mine.toml").write_text('level = "quick"\n')
    python = str(make_target(tmp_path / "target", None) / "bin/python")
    done = run_doctor(*command, "--python", python, "--record", "/dev/full", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout  # what was found is told all the same
    record, _ = json.JSONDecoder().raw_decode(done.stderr[done.stderr.index("{") :])
    assert decode_facts(json.dumps(record).encode()).target


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_standard_output_is_told() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            doctor_argv("--facts", BROKEN), stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment(),
            check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left" in done.stderr


@pytest.mark.parametrize("format_", FORMATS)
def test_a_folder_that_cannot_be_written_stays_empty(format_: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # root writes everywhere, but nobody makes files in /proc
        folder = pathlib.Path("/proc/self")
    done = run_doctor("--facts", BROKEN, "--format", format_, "-o", str(folder / "report"))
    assert refused(done), done.stderr
    assert not (folder / "report").exists()


# The summary of a job


def test_the_summary_of_a_job_is_added(tmp_path: pathlib.Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# earlier\n")
    done = run_doctor("--facts", BROKEN, "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("::error ")
    text = summary.read_text()
    assert text.startswith("# earlier\n## tfgpu-doctor\n")
    assert "nouveau" in text


def test_no_other_format_adds_a_summary(tmp_path: pathlib.Path) -> None:
    for format_ in set(FORMATS) - {"github"}:
        run_doctor("--facts", BROKEN, "--format", format_, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert os.listdir(tmp_path) == []


def test_a_summary_that_cannot_be_written_costs_a_note(tmp_path: pathlib.Path) -> None:
    full = tmp_path / "full.md"
    full.write_bytes(b"x" * ((1 << 20) - 10))
    os.mkfifo(tmp_path / "pipe")
    for place in (str(tmp_path / "missing/x"), str(tmp_path), str(tmp_path / "pipe"), str(full), "/dev/full"):
        done = run_doctor("--facts", BROKEN, "--format", "github", GITHUB_STEP_SUMMARY=place)
        assert done.returncode == 1
        assert done.stdout.startswith("::error ")
        assert len(done.stderr.splitlines()) == 1
        assert "no job summary" in done.stderr
    assert full.stat().st_size == (1 << 20) - 10


def test_a_summary_on_a_full_disk_is_taken_back(tmp_path: pathlib.Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# earlier\n")
    done = run_with_small_files("--facts", BROKEN, "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert "no job summary" in done.stderr
    assert summary.read_text() == "# earlier\n"


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc/self/fd")
@pytest.mark.parametrize("option", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("arguments", [("-o",), ("--record",)])
def test_an_open_stream_is_written_to_and_its_file_is_not_replaced(
    tmp_path: pathlib.Path, option: str, arguments: tuple[str, ...]
) -> None:
    """As with `tfgpu-doctor -o /dev/stdout >> b.log`."""
    log = tmp_path / "b.log"
    log.write_text("earlier\n")
    with log.open("ab") as file:
        done = subprocess.run(
            doctor_argv("--quick", *arguments, option, "--format", "json"), stdout=file, stderr=subprocess.PIPE, text=True,
            env=clean_environment(), check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    text = log.read_text()
    assert text.startswith("earlier\n{")
    assert '"schema"' in text
    assert [each.name for each in tmp_path.iterdir()] == ["b.log"]


def _into_log(folder: pathlib.Path, *arguments: str) -> str:
    """What is in b.log after `tfgpu-doctor ... >> b.log`; `first` is in it before."""
    log = folder / "b.log"
    log.write_text("first\n")
    with log.open("ab") as file:
        done = subprocess.run(
            doctor_argv(*arguments, "--format", "json"), stdout=file, stderr=subprocess.PIPE, text=True,
            env=clean_environment(), check=False, cwd=folder,
        )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return log.read_text()


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/fd"), reason="there is no /proc/thread-self")
@pytest.mark.parametrize("arguments", sampled([("-o",), ("--record",)], 2))
@pytest.mark.parametrize(
    "path", ["link", "chain", "//dev/stdout", "/dev/./fd/1", "/proc/thread-self/fd/1", "folder/1", "/dev/../dev/fd/1"]
)
def test_a_stream_by_any_name_is_written_to_and_its_file_is_not_replaced(
    tmp_path: pathlib.Path, path: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "chain").symlink_to("link")
    (tmp_path / "folder").symlink_to("/dev/fd")
    text = _into_log(tmp_path, "--quick", *arguments, path)
    assert text.startswith("first\n{")
    assert '"schema"' in text


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc/self/fd")
@pytest.mark.parametrize("arguments", [("-o",), ("--record",)])
def test_another_process_s_stream_is_appended_to(tmp_path: pathlib.Path, arguments: tuple[str, ...]) -> None:
    """As with `-o /proc/$$/fd/1` in a script whose output is a log."""
    (tmp_path / "shell.log").write_text("first\n")
    with (tmp_path / "shell.log").open("ab") as log:
        path = f"/proc/{os.getpid()}/fd/{log.fileno()}"
        done = start_doctor("--quick", *arguments, path, "--format", "json", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert (tmp_path / "shell.log").read_text().startswith("first\n{")


def test_a_link_to_a_file_is_kept(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report").write_text("earlier")
    (tmp_path / "link").symlink_to("report")
    run_doctor("--facts", BROKEN, "-o", "link", cwd=tmp_path)
    assert (tmp_path / "link").is_symlink()
    assert "nouveau" in (tmp_path / "report").read_text()


@pytest.mark.timed
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = start_doctor("--facts", BROKEN, "-o", "pipe", cwd=tmp_path, timeout_s=60)
    assert refused(done), done.stderr
    assert "no program reads from this pipe" in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_pipe_with_a_reader_gets_everything(tmp_path: pathlib.Path) -> None:
    """More than fits into a pipe at once."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    found: list[bytes] = []

    def read() -> None:
        time.sleep(0.3)
        with open(reader, "rb") as pipe:
            found.append(pipe.read())

    thread = threading.Thread(target=read)
    thread.start()
    write_whole(str(tmp_path / "pipe"), b"x" * (1 << 20))
    thread.join(60)
    assert [len(each) for each in found] == [1 << 20]


# Commands that work long look first, and keep what they found if the file still cannot be written


_LONG = {
    "check": ("check",),
    "rehearse": ("rehearse",),
    "watch": ("watch", "--no-live", "--", sys.executable, "-c", "open('ran', 'w')"),
    "trace": ("trace", "--record-with", f"{sys.executable} -c \"open('ran', 'w')\""),
    "accept": ("accept", "run", "--profile", "ci"),
    "accept learn": ("accept", "learn", "--profile", "ci"),
    "bench": ("bench", "threads"),
    "fleet node": ("fleet", "node"),
    "ticket": ("ticket",),
}


@pytest.mark.parametrize("command", _LONG)
@pytest.mark.parametrize("place", ["no/such/x", "folder", "no folder/x"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: pathlib.Path, command: str, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "no folder").write_text("")
    option = "--out" if command == "fleet node" else "-o"
    if command == "fleet node" and place != "no folder/x":
        pytest.skip("it makes its folder")
    if command == "bench":  # it says first what it lacks
        skip_without_tensorflow()
        skip_without_scipy()
    first, *rest = _LONG[command]
    before = 1 if command in ("accept", "accept learn", "fleet node") else 0
    started = time.monotonic()
    done = run_doctor(first, *rest[:before], option, place, *rest[before:], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"{place} cannot be written" in done.stderr or command == "fleet node"
    assert not (tmp_path / "ran").exists()
    assert time.monotonic() - started < 60


def test_a_report_that_cannot_be_written_at_last_goes_to_standard_error(tmp_path: pathlib.Path) -> None:
    """The folder is there when the program starts, and gone when it ends."""
    (tmp_path / "folder").mkdir()
    program = "import os; os.rmdir('folder')"
    done = start_doctor("watch", "--no-live", "--format", "json", "-o", "folder/x", "--", sys.executable, "-c", program,
                        cwd=tmp_path)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert "folder/x cannot be written" in done.stderr
    assert json.loads(done.stderr[done.stderr.index("{") :])["verdict"]


# The name of a file is often that of a variable, which may not be set


_EMPTY = {
    "check -o": ("check", "--facts", BROKEN, "-o"),
    "check --record": ("check", "--quick", "--record"),
    "libraries -o": ("libraries", "-o"),
    "rehearse -o": ("rehearse", "-o"),
    "ticket -o": ("ticket", "--facts", BROKEN, "-o"),
    "watch -o": ("watch", "--no-live", "-o"),
    "trace -o": ("trace", "--record-with", f"{sys.executable} -c \"open('ran', 'w')\"", "-o"),
    "trace --save": ("trace", "--record-with", f"{sys.executable} -c \"open('ran', 'w')\"", "--save"),
    "accept run --record": ("accept", "run", "--profile", "ci", "--record"),
    "accept run --html": ("accept", "run", "--profile", "ci", "--facts", BROKEN, "--html"),
    "log -o": ("log", "-", "-o"),
    "advise -o": ("advise", "--gpu", "H100", "-o"),
    "matrix -o": ("matrix", "-o"),
    "fleet report -o": ("fleet", "report", ".", "-o"),
    "fleet history -o": ("fleet", "history", "--store", "store", "-o"),
    "fleet learn -o": ("fleet", "learn", "--store", "store", "-o"),
    "fleet rma -o": ("fleet", "rma", ".", "node1", "-o"),
    "fleet emit slurm -o": ("fleet", "emit", "slurm", "--nodes", "2", "--out", "/reports", "-o"),
    "fleet emit kubernetes -o": (
        "fleet",
        "emit",
        "kubernetes",
        "--image",
        "registry.test/doctor:1",
        "--nodes",
        "2",
        "--out",
        "/reports",
        "-o",
    ),
    "fleet emit mpi -o": ("fleet", "emit", "mpi", "--out", "/reports", "-o"),
}


@pytest.mark.parametrize("case", _EMPTY)
def test_a_file_to_write_without_a_name_is_refused_before_the_work(tmp_path: pathlib.Path, case: str) -> None:
    rest = ("--", sys.executable, "-c", "open('ran', 'w')") if case.startswith("watch") else ()
    done = run_doctor(*_EMPTY[case], "", *rest, cwd=tmp_path)
    assert refused(done), done.stderr
    assert "is a variable not set?" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--facts", ""),
        ("check", "--facts", "", "--quick"),
        ("ticket", "--facts", ""),
        ("ticket", "--facts", "", "--quick"),
        ("ticket", "--facts", BROKEN, "--log", ""),
        ("accept", "run", "--profile", "ci", "--facts", ""),
        ("accept", "run", "--profile", "ci", "--facts", BROKEN, "--key", ""),
    ],
)
def test_a_file_to_read_without_a_name_is_refused(tmp_path: pathlib.Path, arguments: tuple[str, ...]) -> None:
    """No other machine must be examined in place of the recorded one."""
    done = run_doctor(*arguments, cwd=tmp_path)
    assert refused(done), done.stderr
    assert "is a variable not set?" in done.stderr or "--facts" in done.stderr


# A file may be mounted, as a container's volume of one file: no other can be renamed over it


@pytest.fixture
def mounted_file(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file that is a mount, in a folder that is read-only: `docker run --read-only -v $PWD/report.json:/out/report.json`."""
    if not shutil.which("mount"):
        pytest.skip("there is no mount")
    outside, folder = tmp_path / "outside.json", tmp_path / "out"
    outside.write_text("a report of last week, and longer than the one of today. " * 2000)
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (folder / "report.json").touch()
        subprocess.run(["mount", "--bind", str(outside), str(folder / "report.json")], check=True)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield folder / "report.json"
    finally:
        subprocess.run(["umount", "--recursive", str(folder)], check=True)


@pytest.mark.parametrize("option", ["-o", "--record"])
def test_a_file_that_is_a_mount_is_written(option: str, mounted_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    given = ("--quick",) if option == "--record" else ("--facts", BROKEN, "--format", "json")
    done = run_doctor(*given, option, str(mounted_file))
    assert done.returncode in (0, 1, 3), done.stderr
    assert done.stderr == ""
    assert json.loads((tmp_path / "outside.json").read_text())["schema"]
    assert os.listdir(mounted_file.parent) == ["report.json"]


def test_a_mount_that_is_read_only_is_refused(mounted_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    subprocess.run(["mount", "-o", "remount,bind,ro", str(mounted_file)], check=True)
    before = (tmp_path / "outside.json").read_bytes()
    done = run_doctor("--facts", BROKEN, "-o", str(mounted_file))
    assert refused(done), done.stderr
    assert "read-only" in done.stderr
    assert (tmp_path / "outside.json").read_bytes() == before
