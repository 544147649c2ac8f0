"""`tfgpu-doctor ticket` as a user runs it."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import zipfile

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts, make_target, run_doctor
from locations import RECORDS

SICK, HEALTHY = (str(RECORDS[name]) for name in ("forgotten-notebook-holds-half", "workstation-healthy"))


def members(path: pathlib.Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as bundle:
        assert bundle.testzip() is None
        return {name: bundle.read(name).decode() for name in bundle.namelist()}


def test_the_page_is_printed_and_the_bundle_is_offered() -> None:
    done = run_doctor("ticket", "--facts", SICK)
    assert done.returncode == run_doctor("--facts", SICK).returncode
    assert done.stdout.startswith("## tfgpu-doctor\n")
    assert "tfgpu-doctor --facts ticket.zip" in done.stdout
    assert "anna" not in done.stdout
    assert "-o ticket.zip" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_bundle_replays(tmp_path: pathlib.Path) -> None:
    bundle = tmp_path / "ticket.zip"
    done = run_doctor("ticket", "--facts", SICK, "-o", str(bundle))
    files = members(bundle)
    assert list(files) == ["ticket.md", "facts.json", "report.json"]
    assert files["ticket.md"] == done.stdout
    before, after = (run_doctor("--facts", name, "--format", "json") for name in (SICK, str(bundle)))
    assert (before.returncode, after.stderr) == (after.returncode, "")
    labels = [[cause["label"] for cause in json.loads(each.stdout)["causes"]] for each in (before, after)]
    assert labels[0] == labels[1] == [cause["label"] for cause in json.loads(files["report.json"])["causes"]]


def test_the_same_machine_gives_the_same_bytes(tmp_path: pathlib.Path) -> None:
    for name in ("a.zip", "b.zip"):
        run_doctor("ticket", "--facts", HEALTHY, "-o", str(tmp_path / name))
    first, second = (members(tmp_path / name) for name in ("a.zip", "b.zip"))
    assert first["facts.json"] == second["facts.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_bundle_that_cannot_be_written_costs_no_page() -> None:
    done = run_doctor("ticket", "--facts", SICK, "-o", "/dev/full")
    assert (done.returncode, done.stdout) == (2, run_doctor("ticket", "--facts", SICK).stdout)
    assert "/dev/full cannot be written" in done.stderr
    assert "attach it" not in done.stderr


@pytest.mark.parametrize(("machine", "code"), [(HEALTHY, 0), (SICK, None)])
def test_exit_codes_are_those_of_check(machine: str, code: int | None, tmp_path: pathlib.Path) -> None:
    expected = run_doctor("--facts", machine).returncode if code is None else code
    for options in ([], ["--dry-run"], ["-o", str(tmp_path / "t.zip")]):
        assert run_doctor("ticket", "--facts", machine, *options).returncode == expected


def test_a_dry_run_writes_nothing(tmp_path: pathlib.Path) -> None:
    done = run_doctor("ticket", "--facts", SICK, "--dry-run", "-o", "ticket.zip", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert re.search(r"^facts\.json +[\d,]+ ", done.stdout, re.MULTILINE)
    assert re.search(r"^<user-N> +2 +\d+$", done.stdout, re.MULTILINE)
    assert "anna" not in done.stdout


def test_a_dry_run_shows_each_file_as_it_would_leave(tmp_path: pathlib.Path) -> None:
    shown = without_times(run_doctor("ticket", "--facts", SICK, "--dry-run", "--verbose").stdout)
    run_doctor("ticket", "--facts", SICK, "-o", str(tmp_path / "t.zip"))
    for name, content in members(tmp_path / "t.zip").items():
        assert f"==== {name} ====" in shown
        lines = without_times(content).rstrip("\n").split("\n")
        assert "\n".join(f"  {line}".rstrip() for line in lines) in shown


def without_times(text: str) -> str:
    """Checks take another time in each run."""
    return re.sub(r'"seconds": [\d.e-]+', '"seconds": 0', text)


LOG = """\
2026-11-21 10:11:12.123456: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic \
library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open shared object file: No such file or directory
connecting to https://kim:hunter2secret@kestrel.example.org/data as kim with AKIAIOSFODNN7EXAMPLE
"""


@pytest.mark.parametrize("source", ["file", "-"])
def test_a_log_comes_along_scrubbed_and_understood(tmp_path: pathlib.Path, source: str) -> None:
    log, bundle = tmp_path / "train.log", tmp_path / "t.zip"
    log.write_text(LOG)
    given = str(log) if source == "file" else "-"
    done = run_doctor("ticket", "--facts", HEALTHY, "--log", given, "-o", str(bundle), stdin=LOG)
    files = members(bundle)
    assert "libcudnn.so.8: cannot open shared object file" in files["log.txt"]
    assert "cannot open shared object file" in done.stdout
    for secret in ("hunter2secret", "kestrel", "AKIAIOSFODNN7EXAMPLE"):
        assert not any(secret in content for content in files.values())


def test_a_compressed_log_is_unpacked_and_other_content_refused(tmp_path: pathlib.Path) -> None:
    log, bundle = tmp_path / "train.log.gz", tmp_path / "t.zip"
    log.write_bytes(gzip.compress(LOG.encode()))
    run_doctor("ticket", "--facts", HEALTHY, "--log", str(log), "-o", str(bundle))
    assert "libcudnn.so.8: cannot open shared object file" in members(bundle)["log.txt"]
    done = run_doctor("ticket", "--facts", HEALTHY, "--log", str(bundle))
    assert (done.returncode, done.stdout) == (2, "")
    assert "tfgpu-doctor check --facts" in done.stderr
    log.write_bytes(gzip.compress(LOG.encode() * 100)[:-20])
    done = run_doctor("ticket", "--facts", HEALTHY, "--log", str(log))
    assert "the ticket has what could be read" in done.stderr
    assert "cudnn" in done.stdout


def test_a_report_of_the_doctor_in_the_log_is_told_and_not_searched(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "ci.log"
    log.write_text("step 1\n" + run_doctor("--facts", str(RECORDS["debian-nouveau"])).stdout + "step 2\n")
    page = run_doctor("ticket", "--facts", HEALTHY, "--log", str(log)).stdout
    assert "`nouveau_loaded`, confidence" in page


def test_a_long_log_is_cut_to_what_tells(tmp_path: pathlib.Path) -> None:
    log, bundle = tmp_path / "train.log", tmp_path / "t.zip"
    lines = [f"step {number} of 200000: loss 0.{number:06}" for number in range(200_000)]
    lines[100_000] = LOG.splitlines()[0]
    log.write_text("\n".join(lines))
    run_doctor("ticket", "--facts", HEALTHY, "--log", str(log), "-o", str(bundle))
    kept = members(bundle)["log.txt"].splitlines()
    assert len(kept) < 600
    assert kept[0].startswith("step 0 ")
    assert kept[-1].startswith("step 199999 ")
    assert any("libcudnn.so.8" in line for line in kept)
    assert any("lines left out" in line for line in kept)


def processor_time(*arguments: str) -> float:
    """Of a run, in seconds: a busy machine stretches it less than the time on the wall."""
    before = os.times()
    subprocess.run(doctor_argv(*arguments), capture_output=True, env=clean_environment(), check=False)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_a_large_log_costs_little(tmp_path: pathlib.Path) -> None:
    """10 MB of log cost about as much as the ticket itself; all of its lines would cost fifty times as much."""
    log = tmp_path / "train.log"
    log.write_text(LOG * 35_000)
    assert log.stat().st_size > 10_000_000
    without = processor_time("ticket", "--facts", HEALTHY)
    assert processor_time("ticket", "--facts", HEALTHY, "--log", str(log)) < 6 * without


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--facts", "nowhere.json"], "nowhere.json cannot be read"),
        (["--facts", HEALTHY, "--quick"], "--facts reads a recorded machine"),
        (["--facts", "-", "--log", "-"], "standard input cannot be both"),
        (["--facts", HEALTHY, "--verbose"], "--verbose requires --dry-run"),
        (["--facts", HEALTHY, "--log", "nowhere.log"], "nowhere.log cannot be read"),
        (["--facts", HEALTHY, "-o", "no/such/folder.zip"], "no/such/folder.zip cannot be written"),
    ],
)
def test_wrong_usage_costs_one_line(options: list[str], message: str, tmp_path: pathlib.Path) -> None:
    done = run_doctor("ticket", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"PK\x03\x04 and no more", "damaged zip"), (b"PK\x05\x06" + bytes(18), "no facts.json")],
)
def test_a_zip_that_is_no_ticket_costs_one_line(content: bytes, message: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.zip"
    path.write_bytes(content)
    done = run_doctor("--facts", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_damaged_member_costs_one_line(tmp_path: pathlib.Path) -> None:
    bundle = tmp_path / "t.zip"
    run_doctor("ticket", "--facts", HEALTHY, "-o", str(bundle))
    content = bytearray(bundle.read_bytes())
    start = content.index(b"facts.json") + 200
    content[start : start + 50] = bytes(50)
    bundle.write_bytes(content)
    done = run_doctor("--facts", str(bundle))
    assert (done.returncode, done.stdout) == (2, "")
    assert "damaged zip" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
def test_a_full_disk_leaves_no_half_bundle(tmp_path: pathlib.Path) -> None:
    code = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "sys.argv = ['tfgpu-doctor', *sys.argv[1:]]; runpy.run_module('tfgpu_doctor', run_name='__main__')"
    )
    argv = [sys.executable, "-B", "-c", code, "ticket", "--facts", HEALTHY, "-o", str(tmp_path / "t.zip")]
    done = subprocess.run(argv, capture_output=True, text=True, env=clean_environment(), check=False)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_ticket_of_this_machine_names_nobody(tmp_path: pathlib.Path) -> None:
    """The real probes, with names and secrets in the folders and variables around them."""
    target = make_target(tmp_path / "kestrelproject", "__version__ = '2.20.0'\n")
    variables = {
        "USER": "kimberleigh", "LOGNAME": "kimberleigh", "HOME": "/home/kimberleigh", "HOSTNAME": "gyrfalcon07",
        "LD_LIBRARY_PATH": "/home/kimberleigh/lib:/opt/merlinsoft/lib", "XLA_FLAGS": "--xla_dump_to=/scratch/kimberleigh",
        "CUDA_CACHE_PATH": "/scratch/kimberleigh/cache", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    }  # fmt: skip
    bundle = tmp_path / "t.zip"
    done = run_doctor(
        "ticket", "--quick", "--python", str(target), "-o", str(bundle), cwd=tmp_path, environment=variables
    )
    assert done.returncode in (0, 1, 3)
    text = "\n".join([done.stdout, *members(bundle).values()]).lower()
    for name in ("kimberleigh", "gyrfalcon", "kestrelproject", "merlinsoft", "wjalrxutn", tmp_path.name.lower()):
        assert name not in text
    host = socket.gethostname().lower()
    assert not re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w.-])", text) or host in ("localhost", "")
    assert "/lib" in text


def test_ctrl_c_prints_what_is_known(tmp_path: pathlib.Path) -> None:
    begun = tmp_path / "begun"
    target = make_target(tmp_path / "slow", f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)")
    process = subprocess.Popen(
        doctor_argv("ticket", "--python", str(target)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(), preexec_fn=hear_interrupts,
    )  # fmt: skip
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.startswith("## tfgpu-doctor")
