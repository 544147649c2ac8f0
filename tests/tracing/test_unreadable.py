"""What is no profile of TensorFlow ends in one line that names the file and says what to do; what is damaged, too."""

from __future__ import annotations

import gzip
import html
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import made_trace
import pytest
from doctor_command import clean_environment, run_doctor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_trace import MadeEvent, MadeLine, MadePlane, encode, save_bytes

from tfgpu_doctor.tracing.command import render
from tfgpu_doctor.tracing.reading import Unreadable

ADVICE = re.compile(
    r"(; (name|copy|record|write|use|give)\b|\. Use \w|record it again|--record-with|TensorFlow writes )"
)
TRAINING = encode(made_trace.training())
HOST = made_trace.training()[0]
GPU = MadePlane("/device:GPU:0", [MadeLine("Stream #7(Compute)", [MadeEvent("gemm", 1, 5)])])


def refused(path: pathlib.Path | str, *more: str) -> str:
    """The doctor's one line on a file: that it does not judge it, and why."""
    done = run_doctor("trace", str(path), *more)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    return one_line(done)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stderr.startswith("tfgpu-doctor: error: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    assert "Traceback" not in done.stderr
    return done.stderr


def written(folder: pathlib.Path, content: bytes, name: str = "host.xplane.pb") -> pathlib.Path:
    (folder / name).write_bytes(content)
    return folder / name


def document(path: pathlib.Path | str) -> dict[str, Any]:
    done = run_doctor("trace", str(path), "--format", "json")
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_path_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    said = refused(tmp_path / "logs")
    assert f"{tmp_path / 'logs'} does not exist" in said
    assert ADVICE.search(said)


def test_a_folder_without_profiles(tmp_path: pathlib.Path) -> None:
    written(tmp_path, b"1", "events.out.tfevents.1763884800.host.7.0.v2")
    said = refused(tmp_path)
    assert f"{tmp_path} holds no profile" in said
    assert "plugins/profile" in said
    assert ADVICE.search(said)


ELF = pathlib.Path(sys.executable).resolve().read_bytes()[: 1 << 20]
UNREADABLE = {
    "empty": b"",
    "one-byte": b"\n",
    "random": bytes((at * at * 37 + at * 11) % 251 for at in range(5000)),
    "noughts": bytes(4096),
    "text": b"Epoch 1/10\n 32/100 - loss: 0.31\n" * 20,
    "a-word": b"hello\n",
    "elf": ELF,
    "other-protocol-buffer": made_trace.number(3, 7) + made_trace.message(2, "a saved model"),
    "cut-in-its-first-plane": TRAINING[: len(TRAINING) // 2],
    "cut-at-once": TRAINING[:3],
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_is_no_profile(tmp_path: pathlib.Path, name: str) -> None:
    file = written(tmp_path, UNREADABLE[name])
    said = refused(file)
    assert str(file) in said
    assert ADVICE.search(said), said


@pytest.mark.parametrize("name", ["empty", "text", "cut-in-its-first-plane"])
def test_such_a_file_in_a_folder_is_named(tmp_path: pathlib.Path, name: str) -> None:
    file = save_bytes(tmp_path, UNREADABLE[name])
    assert str(file) in refused(tmp_path)


def test_a_file_cut_behind_its_first_plane_is_judged(tmp_path: pathlib.Path) -> None:
    file = written(tmp_path, encode([HOST]) + encode([GPU])[:-20])
    found = document(file)
    assert found["verdict"] == document(written(tmp_path, encode([HOST]), "whole.xplane.pb"))["verdict"]
    (note,) = (note for note in found["notes"] if "cut off" in note)
    assert "judged" in note
    assert "cut off" in " ".join(run_doctor("trace", str(file)).stdout.split())


def test_a_file_of_more_than_two_gigabytes(tmp_path: pathlib.Path) -> None:
    file = written(tmp_path, TRAINING)
    try:
        os.truncate(file, 2_100_000_000)
    except OSError as error:
        pytest.skip(f"this file system refuses a sparse file of 2.1 GB: {error}")
    said = refused(file)
    file.unlink()
    assert str(file) in said
    assert "2.0 GiB" in said
    assert ADVICE.search(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x0a\x00" * 10_001, "more than 10000 planes"),
        (b"\x0a" + made_trace.varint(200_002) + b"\x1a\x00" * 100_001, "a plane with more than 100000 lines"),
    ],
)
def test_a_profile_of_empty_parts_takes_no_memory(tmp_path: pathlib.Path, content: bytes, said: str) -> None:
    """64 MiB of empty planes took 10 GiB."""
    assert said in refused(written(tmp_path, content))


def test_zeros_behind_a_profile_are_no_part_of_it(tmp_path: pathlib.Path) -> None:
    """As a copy that broke off, or a crash of the machine, leaves them; nobody reads a GiB of them."""
    file = written(tmp_path, TRAINING)
    verdict = document(file)["verdict"]
    os.truncate(file, 50_000_000)
    found = document(file)
    assert found["verdict"] == verdict
    assert any(f"zeros follow from byte {len(TRAINING)}" in note for note in found["notes"]), found["notes"]


def test_zeros_alone_are_refused_before_they_are_read(tmp_path: pathlib.Path) -> None:
    file = written(tmp_path, b"")
    os.truncate(file, 1_000_000_000)
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (900_000_000,) * 2); from tfgpu_doctor.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "trace", str(file)], capture_output=True, text=True, check=False, env=clean_environment()
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "is cut off before its first events (zeros follow from byte 0); copy it again" in one_line(done)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_a_gz_that_is_cut(tmp_path: pathlib.Path, keep: float) -> None:
    whole = gzip.compress(json.dumps({"traceEvents": made_trace.chrome_events([HOST])}).encode())
    file = written(tmp_path, whole[: int(keep * len(whole))], "host.trace.json.gz")
    said = refused(file)
    assert str(file) in said
    assert ADVICE.search(said)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_gz_that_is_damaged(tmp_path: pathlib.Path, place: float) -> None:
    damaged = bytearray(gzip.compress(json.dumps({"traceEvents": made_trace.chrome_events([HOST])}).encode()))
    at = int(place * len(damaged))
    damaged[at : at + 16] = b"\xff" * 16
    said = refused(written(tmp_path, bytes(damaged), "host.trace.json.gz"))
    assert "host.trace.json.gz" in said
    assert ADVICE.search(said)


JSON = {
    "no-trace": b'{"loss": [0.3, 0.2]}',
    "no-events": b'{"traceEvents": []}',
    "empty-list": b"[]",
    "numbers": b"[1, 2, 3]",
    "cut": b'{"traceEvents": [{"ph": "X", "name": "a"',
    "events-that-are-a-number": b'{"traceEvents": 7}',
    "a-name-that-is-a-number": b'{"traceEvents": [{"ph": "X", "name": 7}]}',
    "no-text": b'{"traceEvents": [{"ph": "X", "name": "\xff\xfe"}]}',
    "half-a-character": b'{"traceEvents": [{"ph": "X", "name": "\\ud800"}]}',
    "deep": b'{"traceEvents": [{"ph": "X", "name": "a", "args": {"a": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("name", JSON)
def test_json_that_is_no_trace_of_tensorflow(tmp_path: pathlib.Path, name: str) -> None:
    file = written(tmp_path, JSON[name], "trace.json")
    said = refused(file)
    assert str(file) in said
    assert ADVICE.search(said), said


def of_tensorflow(**event: object) -> bytes:
    """A trace in JSON of one event on a thread that calls functions."""
    calls = [
        {"ph": "X", "pid": 1, "tid": 1, "name": "EagerLocalExecute: __inference_f_1", "ts": 10 * at, "dur": 5}
        for at in range(5)
    ]
    name = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}}
    odd = {"ph": "X", "pid": 1, "tid": 1, "name": "f", "ts": 1, "dur": 1, **event}
    return json.dumps({"traceEvents": [name, *calls, odd]}).encode()


@pytest.mark.parametrize(
    "event",
    [
        pytest.param({"args": {"n": "²"}}, id="a-small-two"),
        pytest.param({"args": {"n": "--5"}}, id="two-signs"),
        pytest.param({"args": {"n": "9" * 5000}}, id="a-number-of-5000-digits"),
        pytest.param({"args": {"n": None, "m": [1], "o": {"a": 1}}}, id="arguments-of-any-kind"),
        pytest.param({"ts": 1e308}, id="a-time-at-the-end-of-numbers"),
        pytest.param({"dur": -5}, id="a-negative-duration"),
        pytest.param({"dur": 1e308}, id="an-endless-duration"),
        pytest.param({"name": ""}, id="no-name"),
        pytest.param({"tid": "main"}, id="a-thread-with-a-name-for-a-number"),
    ],
)
def test_odd_values_in_json_crash_nothing(tmp_path: pathlib.Path, event: dict[str, Any]) -> None:
    judged_or_refused(written(tmp_path, of_tensorflow(**event), "trace.json"))


def test_a_trace_of_pytorch(tmp_path: pathlib.Path) -> None:
    events = [
        {"ph": "M", "pid": 41, "name": "process_name", "args": {"name": "python3"}},
        {"ph": "M", "pid": 0, "name": "process_labels", "args": {"labels": "GPU 0"}},
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "void gemm<float>()", "ts": 5, "dur": 3, "args": {"device": 0}},
        {"ph": "X", "pid": 41, "tid": 41, "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2},
    ]  # fmt: skip
    file = made_trace.save_chrome(tmp_path / "rank0.pt.trace.json.gz", events)
    said = refused(file)
    assert str(file) in said
    assert "another tool (python3)" in said
    assert ADVICE.search(said), said


@pytest.mark.parametrize(
    ("plane", "device"),
    [
        (MadePlane("/device:TPU:0", [MadeLine("Steps", [MadeEvent("1", 0, 5)])], {"peak_teraflops_per_second": 197.0}), "TPU"),
        (MadePlane("/device:GPU:0", GPU.lines, {"device_vendor": "AMD"}), "AMD"),
        (MadePlane("/host:ROCTRACER", GPU.lines, {"device_vendor": made_trace.Ref("AMD")}), "AMD"),
    ],
)  # fmt: skip
def test_other_devices(tmp_path: pathlib.Path, plane: MadePlane, device: str) -> None:
    file = made_trace.save(tmp_path, [HOST, plane])
    said = refused(tmp_path)
    assert f"{file} is a profile of a" in said
    assert device in said
    assert ADVICE.search(said)


def test_the_device_vendor_nvidia_is_judged(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path, [HOST, MadePlane(GPU.name, GPU.lines, {"device_vendor": "Nvidia"})])
    assert document(tmp_path)["gpu"]["device"] == "/device:GPU:0"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "name a folder or file"),
        (["logs", "--record-with", "true"], "name a folder or file"),
        (["logs", "--save", "kept"], "--save needs --record-with"),
        (["--record-with", "python 'x"], "cannot be split"),
        (["--record-with", "  "], "needs a command"),
        (["--record-with", ""], "needs a command"),
        (["logs", "--compare", "nothing"], "nothing does not exist"),
    ],
)
def test_wrong_usage(tmp_path: pathlib.Path, arguments: list[str], why: str) -> None:
    made_trace.save(tmp_path / "logs", [HOST])
    done = run_doctor("trace", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in one_line(done)
    assert not (tmp_path / "kept").exists()


def test_a_folder_to_save_into_that_exists(tmp_path: pathlib.Path) -> None:
    done = run_doctor("trace", "--record-with", "touch started", "--save", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert "does not exist yet" in one_line(done)
    assert not (tmp_path / "started").exists()


@pytest.mark.timed
@pytest.mark.skipif(sys.platform == "win32", reason="there are no sockets with a path")
def test_a_program_that_ends_before_it_is_recorded(tmp_path: pathlib.Path) -> None:
    done = run_doctor("trace", "--record-with", f"{sys.executable} -c pass", "--patience", "30", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "exit code 0 before a profile was recorded" in one_line(done)


def test_a_link_to_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "host.xplane.pb").symlink_to(tmp_path / "gone")
    assert "holds no profile" in refused(tmp_path)


def test_a_folder_that_is_called_like_a_profile(tmp_path: pathlib.Path) -> None:
    (tmp_path / "host.xplane.pb").mkdir()
    assert "holds no profile" in refused(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_pipe(tmp_path: pathlib.Path) -> None:
    """As of `trace <(ssh ...)`: it has no size, and is not empty because of that."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)  # else the reader would wait for one
    try:
        said = refused(tmp_path / "pipe")
    finally:
        os.close(writer)
    assert str(tmp_path / "pipe") in said
    assert "is empty" not in said


@pytest.mark.parametrize(
    ("dates", "times"),
    [
        (("2026_11_21_10_00_00", "2026_11_22_10_00_00"), (2_000_000, 1_000_000)),  # a copy: its times tell nothing
        (("2026_11_21_10_00_00", "2026_11_21_10_00_00"), (1_000_000, 2_000_000)),
        (("2026_11_22_10_00_00", "mine"), (1_000_000, 2_000_000)),
    ],
)
def test_the_newest_profile_of_a_folder_is_judged(
    tmp_path: pathlib.Path, dates: tuple[str, str], times: tuple[int, int]
) -> None:
    old = made_trace.save(tmp_path / "a", made_trace.training(function="old_step"), date=dates[0])
    new = made_trace.save(tmp_path / "b", made_trace.training(function="new_step"), date=dates[1])
    for path, seconds in zip((old, new), times, strict=True):
        os.utime(path, (seconds, seconds))
    assert document(tmp_path)["steps"]["name"] == "new_step"
    assert document(old)["steps"]["name"] == "old_step"


@pytest.mark.parametrize(
    "kind", ["overview_page.pb", "kernel_stats.pb", "tensorflow_stats.pb", "memory_profile.json.gz"]
)
def test_what_tensorboard_makes_of_a_profile_is_none(tmp_path: pathlib.Path, kind: str) -> None:
    """They lie beside it, and look like damaged profiles."""
    said = refused(written(tmp_path, b"\x0a\x05hello", f"host.{kind}"))
    assert "is what TensorBoard made of a profile; name the .xplane.pb beside it" in said


def test_a_summary_without_steps_names_what_to_read(tmp_path: pathlib.Path) -> None:
    said = refused(written(tmp_path, made_trace.message(9, "GPU"), "host.input_pipeline.pb"))
    assert "does not sum up any steps (it has no steps); name the .xplane.pb" in said


def test_a_name_with_a_star_is_no_pattern(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path / "logs-1", [HOST])
    (tmp_path / "logs-[1]").mkdir()
    assert "holds no profile" in refused(tmp_path / "logs-[1]")


@pytest.mark.parametrize("began", [2**63 - 1, 2**62, -1, -(2**63), 1.5e300, float("inf"), "yesterday", ""])
def test_an_odd_begin_of_the_recording(tmp_path: pathlib.Path, began: made_trace.Stat) -> None:
    judged_or_refused(
        made_trace.save(tmp_path, [HOST, MadePlane("Task Environment", [], {"profile_start_time": began})])
    )


@pytest.mark.parametrize("begin_ns", [2**63 - 1, -(2**63), 2**53 + 1])
def test_an_odd_begin_of_a_line(tmp_path: pathlib.Path, begin_ns: int) -> None:
    judged_or_refused(
        made_trace.save(tmp_path, [HOST, MadePlane("/host:CPU", [MadeLine("a", [MadeEvent("b")], begin_ns)])])
    )


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_profile_crashes_nothing(tmp_path: pathlib.Path, data: st.DataObject) -> None:
    """Some bytes are other bytes: it is judged, whatever the verdict, or refused."""
    content = bytearray(encode([*made_trace.training(steps=4, input_ms=5, compute_ms=8), GPU]))
    places = st.integers(0, len(content) - 1)
    for at, byte in data.draw(st.dictionaries(places, st.integers(0, 255), min_size=1, max_size=5)).items():
        content[at] = byte
    judged_or_refused(written(tmp_path, bytes(content)))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"began_ns": 1, "every_s": 0.01, "samples": []}', b"\xff\xfe",
        b'{"began_ns": 1, "every_s": 0.01, "samples": [[5, [], []]]}', b'{"more": ' + b"[" * 100_000,
        b'{"began_ns": 1, "every_s": 0.01, "samples": [[5, [["", 0, ""]], [[]]]]}',
        b'{"began_ns": 1, "every_s": 0.01, "samples": [[123456789012345678901234567890, [["a.py", 1, "f"]], []]]}',
    ],
)  # fmt: skip
def test_odd_samples_beside_a_profile_crash_nothing(tmp_path: pathlib.Path, content: bytes) -> None:
    made_trace.save(tmp_path, made_trace.training(compute_ms=3))
    written(tmp_path, content, "python_samples.json")
    assert document(tmp_path)["verdict"] == "host_python"


def judged_or_refused(file: pathlib.Path) -> None:
    """All that the command does with a file, without its start."""
    try:
        report, drawing = made_trace.judged(file)
    except Unreadable as error:
        if str(file) not in str(error):
            raise
        return
    for format_ in ("text", "markdown", "html"):
        words = " ".join(html.unescape(render(report, None, drawing, format_)).split())
        assert report.title in words.replace("\\", "")
    assert json.loads(render(report, None, drawing, "json"))["verdict"] == report.verdict
