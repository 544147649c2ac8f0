"""The command line: what it prints where, and with which code it ends."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from doc_snippets import fenced
from doctor_command import (
    NOT_INSTALLED,
    clean_environment,
    diagnose,
    doctor_argv,
    hear_interrupts,
    make_target,
    run_doctor,
    start_doctor,
)
from every import every
from locations import RECORDS

from tfgpu_doctor._project import __version__
from tfgpu_doctor.checks import ALL_CHECKS


def facts(name: str) -> str:
    return str(RECORDS[name])


@pytest.mark.parametrize(
    ("machine", "options", "code"),
    [
        ("workstation-healthy", [], 0),
        ("workstation-healthy-quick", [], 0),
        ("ubuntu-without-driver", [], 1),
        ("blackwell-compiled-from-ptx", [], 0),
        ("blackwell-compiled-from-ptx", ["--fail-level", "warning"], 1),
        ("ubuntu-without-driver", ["--ignore", "DRV001"], 3),
        ("ubuntu-without-driver", ["--select", "MEM002"], 0),
        ("ubuntu-without-driver", ["--select", "DRV008"], 1),
    ],
)
@pytest.mark.parametrize("format_", ["text", "json", "markdown"])
def test_exit_codes_are_the_same_in_every_format(machine: str, options: list[str], code: int, format_: str) -> None:
    assert run_doctor("--facts", facts(machine), "--format", format_, *options).returncode == code


def test_check_is_the_default() -> None:
    bare = run_doctor("--facts", facts("debian-nouveau"), "--format", "markdown")
    named = run_doctor("check", "--facts", facts("debian-nouveau"), "--format", "markdown")
    assert bare.stdout == named.stdout
    assert "nouveau" in bare.stdout


def test_a_pipe_gets_no_colour() -> None:
    done = run_doctor("--facts", facts("debian-nouveau"), "-v")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_report_goes_to_a_file(tmp_path: pathlib.Path) -> None:
    done = run_doctor("--facts", facts("debian-nouveau"), "--format", "json", "-o", str(tmp_path / "report.json"))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 1)
    assert json.loads((tmp_path / "report.json").read_text())["causes"][0]["label"] == "nouveau_loaded"
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_file_that_cannot_be_written_is_refused(tmp_path: pathlib.Path) -> None:
    done = run_doctor("--facts", facts("debian-nouveau"), "-o", str(tmp_path / "missing/report"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--select", "DRV999"], ["--ignore", "nonsense"], ["--format", "pdf"], ["--fail-level", "awful"], ["--deadline", "0"],
        ["--colour"], ["frobnicate"], ["--facts", "/does/not/exist"], ["--facts", "/"], ["check", "extra"], ["explain"],
        ["explain", "XYZ999"], ["--facts", facts("wsl1"), "--quick"], ["--facts", facts("wsl1"), "--record", "x"],
    ],
)  # fmt: skip
def test_wrong_usage_ends_with_2_and_no_traceback(arguments: list[str]) -> None:
    done = run_doctor(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"not json", b'{"schema": 1', b'{"schema": 99}', b'{"schema": 1, "system": "Linux"}', b"\xff\xfe\x00\x01"],
)
def test_a_bad_record_costs_one_line(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    done = run_doctor("--facts", str(path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(path) in done.stderr


def test_a_record_of_one_gigabyte_costs_one_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "facts.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    done = run_doctor("--facts", str(path))
    assert done.returncode == 2
    assert "larger than 64 MiB" in done.stderr


@pytest.mark.parametrize(
    "command",
    [("--facts",), ("rehearse", "--machine"), ("ticket", "--facts"), ("accept", "--profile", "ci", "--facts")],
)
def test_a_report_given_as_a_recorded_machine_is_told(command: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.json"
    assert run_doctor("--facts", facts("debian-nouveau"), "--format", "json", "-o", str(path)).returncode == 1
    done = run_doctor(*command, str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tfgpu-doctor: error: {path}: this is a report and not a recorded machine: ask for")
    assert "--record FILE" in done.stderr and "ticket.zip" in done.stderr


def test_a_record_that_powershell_saved_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(pathlib.Path(facts("debian-nouveau")).read_text().encode("utf-16"))
    assert run_doctor("--facts", str(path)).stdout == run_doctor("--facts", facts("debian-nouveau")).stdout


def test_a_record_comes_from_standard_input() -> None:
    done = run_doctor("--facts", "-", stdin=pathlib.Path(facts("debian-nouveau")).read_text())
    assert done.returncode == 1
    assert "nouveau" in done.stdout


def test_a_record_replays_to_the_same_causes(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", None)
    live = diagnose("--python", str(target), "--record", str(tmp_path / "facts.json"))
    replayed = diagnose("--facts", str(tmp_path / "facts.json"))
    assert replayed["causes"] == live["causes"]
    assert replayed["counts"] == live["counts"]


def test_a_record_that_cannot_be_written_is_refused(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", None)
    done = run_doctor("--quick", "--python", str(target), "--record", str(tmp_path / "missing/facts.json"))
    assert done.returncode == 2


def test_the_list_names_every_check() -> None:
    done = run_doctor("--list")
    assert done.returncode == 0
    for check in ALL_CHECKS:
        assert f"{check.id}  {check.title}" in done.stdout


@every("check", ALL_CHECKS, key=lambda check: check.id)
def test_every_check_is_explained(check: object) -> None:
    from tfgpu_doctor.diagnose.explanation import explain_check
    from tfgpu_doctor.knowledge import read_knowledge

    text = explain_check(check, read_knowledge())  # type: ignore[arg-type]
    assert "Fix:" in text
    assert "https://" in text


def test_the_checks_before_a_check_are_explained_with_it() -> None:
    from tfgpu_doctor.diagnose.explanation import explain_check
    from tfgpu_doctor.knowledge import read_knowledge

    for check in ALL_CHECKS:
        lines = [
            line for line in explain_check(check, read_knowledge()).splitlines() if line.startswith("Judged after:")
        ]
        assert lines == [f"Judged after: {', '.join(check.after)}"] * bool(check.after), check.id


@pytest.mark.parametrize(
    ("word", "expected"),
    [("DRV002", "minor-version"), ("drv002", "Fix:"), ("driver_too_old", "DRV002"), ("MEM", "MEM001")],
)
def test_explain_takes_an_id_a_cause_or_a_prefix(word: str, expected: str) -> None:
    done = run_doctor("explain", word)
    assert done.returncode == 0
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): "),
        ("CUDA error code: 803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): "),
        ("79", "Xid 79 ("),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.", "Xid 79 ("),
        ("failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", "CUDA_ERROR_UNKNOWN (999): "),
        ("INVALID_PTX", "CUDA_ERROR_INVALID_PTX (218): "),
        ("GPU is lost", "NVML_ERROR_GPU_IS_LOST (15): "),
        ("cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE (100): "),
        ("cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU (209): "),
        ("cudaErrorInsufficientDriver", "driver_too_old: "),
        ("CUDA error 35", "driver_too_old: "),
        ("error code: 35", "driver_too_old: "),
        ("cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE (214): "),
        ("cudaErrorInvalidDeviceFunction", "CUDA_ERROR_NO_BINARY_FOR_GPU (209): "),
        ("cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE (400): "),
        ("cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND (500): "),
        ("cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED (4): "),
        ("cudaErrorJitCompilerNotFound", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221): "),
        ("Driver too old", "driver_too_old: "),
        ("Driver/library version mismatch", "driver_library_version_mismatch: "),
    ],
)
def test_explain_takes_what_programs_and_people_write(word: str, first: str) -> None:
    done = run_doctor("explain", word)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(first)


def test_explain_takes_a_number_for_everything_that_has_it() -> None:
    told = run_doctor("explain", "13").stdout
    assert re.findall(r"^(NVML_ERROR|Xid)[ _\w]*(?: \(|:)", told, re.MULTILINE) == ["NVML_ERROR", "Xid"]
    assert run_doctor("explain", "NVML error 13").stdout.startswith("NVML_ERROR_")
    assert "Xid 13" not in run_doctor("explain", "NVML error 13").stdout


@pytest.mark.parametrize(
    ("word", "signal"),
    [("error 137", "SIGKILL"), ("code 139", "SIGSEGV"), ("status 134", "SIGABRT"), ("exit code: 132", "SIGILL"),
     ("exited with status 135", "SIGBUS")],
)  # fmt: skip
def test_explain_takes_an_exit_code_for_no_code_of_the_gpu(word: str, signal: str) -> None:
    told = run_doctor("explain", word).stdout
    assert f"the signal {signal} ended that program" in told
    assert "`tfgpu-doctor log FILE`" in told
    assert "Xid" not in told


def test_explain_takes_a_bare_number_for_an_exit_code_and_a_code_of_the_runtime_too() -> None:
    told = run_doctor("explain", "137").stdout
    assert told.startswith("Xid 137 (")
    assert "\n\nExit code 137: " in told
    told = run_doctor("explain", "35").stdout
    assert told.startswith("Xid 35 (")
    assert "\n\ndriver_too_old: " in told
    assert "Exit code" not in told


def test_explain_does_not_print_a_long_text_back() -> None:
    done = run_doctor("explain", "y" * 100_000)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"called '{'y' * 80}…' (" in done.stderr
    assert len(done.stderr) < 400


@pytest.mark.parametrize("word", ["error 79", "exit code 9", "CUDA error 137", "NVML error 35", "error 999999"])
def test_explain_guesses_nothing_from_a_number_beside_words(word: str) -> None:
    done = run_doctor("explain", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert "`tfgpu-doctor log FILE`" in done.stderr


@pytest.mark.parametrize("word", ["cudaErrorOfMine", "CUDA error 77", "CUDA error 1003", "Could not find cuda drivers"])
def test_explain_sends_what_it_does_not_know_to_log(word: str) -> None:
    done = run_doctor("explain", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert "`tfgpu-doctor log FILE` finds the cause" in done.stderr


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("DVR002", "; did you mean DRV002?"), ("driver_to_old", "; did you mean driver_too_old?"),
        ("CUDA_ERROR_NODEVICE", "; did you mean CUDA_ERROR_NO_DEVICE?"), ("XID9999", "; did you mean XID99?"),
        ("XID0", "; did you mean XID"), ("qqq", " ("),
    ],
)  # fmt: skip
def test_explain_proposes_the_nearest_check_cause_or_code(word: str, near: str) -> None:
    done = run_doctor("explain", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no check, cause or code is called {word!r}{near}" in done.stderr
    assert "XID006" not in done.stderr


@pytest.mark.parametrize("machine", ["tensorflow-2.21.0-misses-cusolver", "workstation-healthy"])
def test_the_readme_shows_what_is_printed(machine: str) -> None:
    printed = re.sub(r"  \d+\.\d s ", "  3.3 s ", run_doctor("--facts", facts(machine)).stdout)
    blocks = [re.sub(r"  \d+\.\d s ", "  3.3 s ", each.split("\n", 1)[1]) for each in fenced("README.md", "console")]
    assert printed in blocks


def test_version_and_help() -> None:
    assert __version__ in run_doctor("--version").stdout
    assert "explain" in run_doctor("--help").stdout
    assert "--quick" in run_doctor("check", "--help").stdout


def test_the_working_folder_may_be_gone(tmp_path: pathlib.Path) -> None:
    script = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && " + " ".join(
        doctor_argv("--quick")
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=clean_environment(), check=False)
    assert done.returncode in (0, 1, 3)
    assert "Traceback" not in done.stderr


def test_an_error_inside_is_one_line_and_ends_with_3(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import tfgpu_doctor.render as r\ndef broken(*a, **k): raise RuntimeError('of my own making')\nr.render = broken\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = start_doctor("--facts", facts("debian-nouveau"), PYTHONPATH=path)
    assert done.returncode == 3
    assert "of my own making" in done.stderr
    assert "Traceback" not in done.stderr
    assert (
        "Traceback"
        in start_doctor("--facts", facts("debian-nouveau"), PYTHONPATH=path, TFGPU_DOCTOR_TRACEBACK="1").stderr
    )


def test_an_ascii_output_is_no_obstacle() -> None:
    done = subprocess.run(
        doctor_argv("--facts", facts("debian-nouveau")),
        capture_output=True,
        env=clean_environment(PYTHONIOENCODING="ascii"),
        check=False,
    )
    assert done.returncode == 1
    done.stdout.decode("ascii")


@pytest.mark.parametrize(("encoding", "passed", "failed"), [("latin-1", "+", "x"), ("utf-8", "✓", "✗")])
def test_pass_and_fail_look_different_in_every_encoding(encoding: str, passed: str, failed: str) -> None:
    done = subprocess.run(
        doctor_argv("-v", "--facts", facts("debian-nouveau")), capture_output=True,
        env=clean_environment(PYTHONIOENCODING=encoding), check=False,
    )  # fmt: skip
    marks = {
        line.strip()[:1] for line in done.stdout.decode(encoding).splitlines() if re.search(r"[A-Z]{3}\d{3}", line)
    }
    assert {passed, failed} <= marks
    assert "?" not in marks


def test_the_python_api_gives_the_report(tmp_path: pathlib.Path) -> None:
    import tfgpu_doctor

    target = make_target(tmp_path / "venv", None)
    report = tfgpu_doctor.check(python=str(target), quick=True)
    assert NOT_INSTALLED in [cause.label for cause in report.causes]
    assert report.target.python.startswith(str(target))


@pytest.mark.parametrize("broken", [False, True])
def test_the_python_api_knows_plugins_as_the_command_does(tmp_path: pathlib.Path, *, broken: bool) -> None:
    """A check of another distribution runs; one that does not load is shown, and no report without it is healthy."""
    name = "nothing_of_that_name" if broken else "Evidence"
    (tmp_path / "acme.py").write_text(
        f"from tfgpu_doctor.model import {name}, check\n"
        "@check('ACME001', 'nothing is wrong')\ndef nothing_is_wrong():\n    yield Evidence('fine')\n"
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tfgpu_doctor.checks]\nacme = acme:nothing_is_wrong\n")
    code = (
        "import json, sys, tfgpu_doctor\n"
        "report = tfgpu_doctor.check(python=sys.argv[1], quick=True)\n"
        "print(json.dumps({each.id: each.outcome for each in report.results}), report.seconds > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(make_target(tmp_path / "venv", None))], capture_output=True, text=True,
        env=clean_environment(PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])),
        check=True,
    )  # fmt: skip
    outcomes, took_time = json.JSONDecoder().raw_decode(done.stdout)[0], done.stdout.split()[-1]
    assert {id: outcome for id, outcome in outcomes.items() if "acme" in id.lower()} == (
        {"plugin:acme": "crash"} if broken else {"ACME001": "pass"}
    )
    assert took_time == "True"


@pytest.mark.parametrize(
    ("root", "why"),
    [("", "is empty"), ("typo", "typo: there is no such folder"), ("file", "file: it is not a folder")],
)
def test_the_python_api_refuses_a_root_that_is_no_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, root: str, why: str
) -> None:
    import tfgpu_doctor

    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=why):
        tfgpu_doctor.check(quick=True, root=root)


@pytest.mark.parametrize(
    ("level", "quick", "why"),
    [
        ("standart", False, "there is no level 'standart': the levels are quick, standard, deep, soak"),
        ("", True, "there is no level ''"),
        ("deep", True, "cannot be combined with level='deep'"),
    ],
)
def test_the_python_api_refuses_a_level_that_there_is_not(level: Any, why: str, *, quick: bool) -> None:
    import tfgpu_doctor

    with pytest.raises(ValueError, match=re.escape(why)):
        tfgpu_doctor.check(quick=quick, level=level)


def test_the_python_api_reads_no_settings_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tfgpu_doctor

    target = make_target(tmp_path / "venv", None)
    (tmp_path / "tfgpu-doctor.toml").write_text('select = ["GPU001"]\n')
    monkeypatch.chdir(tmp_path)
    report = tfgpu_doctor.check(python=str(target), quick=True)
    assert {each.id for each in report.results} == {check.id for check in ALL_CHECKS}


def test_ctrl_c_in_the_python_api_is_no_error_of_the_program(tmp_path: pathlib.Path) -> None:
    """Handlers of errors let it through."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntouch "{tmp_path}/begun"\nexec sleep 1000\n')
    python.chmod(0o755)
    code = (
        "import sys, tfgpu_doctor\n"
        "try: tfgpu_doctor.check(python=sys.argv[1], quick=True)\n"
        "except Exception: print('swallowed')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(python)], stdout=subprocess.PIPE, text=True, env=clean_environment(),
        start_new_session=True, preexec_fn=hear_interrupts,
    )  # fmt: skip
    try:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert output == "interrupted\n"


def test_the_doctor_takes_no_network_and_writes_nothing(tmp_path: pathlib.Path) -> None:
    """With every file system call traced by Python's own audit hooks: no socket, and no file opened for writing.

    But for the folder of the run, which is gone afterwards; there Python first tries whether it can write.
    """
    (tmp_path / "tmp").mkdir()
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "def hook(event, args):\n"
        "    if event.startswith('socket.') and event != 'socket.__new__':\n"
        "        sys.stderr.write('AUDIT %s %r\\n' % (event, args))\n"
        "    if event == 'open' and isinstance(args[0], str) and args[0] != '/dev/null' and (args[2] or 0) & 3:\n"
        "        if not args[0].startswith(__file__.rpartition('/')[0] + '/tmp/'):\n"
        "            sys.stderr.write('AUDIT open %r\\n' % (args,))\n"
        "sys.addaudithook(hook)\n"
    )
    target = make_target(tmp_path / "venv", None)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tmp_path / "tmp")}
    done = start_doctor("--quick", "--python", str(target), environment=variables)
    assert "AUDIT" not in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sys.executable
