"""A compressed log is read as its text, and what is no text is refused: nothing is said about bytes that nobody read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import subprocess
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from doctor_command import clean_environment, doctor_argv, run_doctor
from every import sampled
from replayed import facts_of

from tfgpu_doctor.log.opened import NotALogError, OpenedLog
from tfgpu_doctor.model.bundle import pack
from tfgpu_doctor.ticket.contents import Source, make_ticket
from tfgpu_doctor.ticket.identity import Identity

STUB = "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: UNKNOWN ERROR (34)\n"
OF_STUB = "container_started_without_gpu"
_NOISE = random.Random(1).randbytes(30_000).hex()  # that no compressor makes small
DULL = "".join(f"step {number}: loss {_NOISE[number : number + 40]}\n" for number in range(10_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
KINDS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz"}
each_packer = pytest.mark.parametrize("ending", PACKERS)


def read(content: bytes, size: int = 1 << 20) -> tuple[bytes, OpenedLog]:
    """The text, read in pieces of this size."""
    opened, pieces = OpenedLog(io.BytesIO(content), "x.log"), []
    while piece := opened.read1(size):
        assert len(piece) <= max(size, 6)
        pieces.append(piece)
    return b"".join(pieces), opened


@each_packer
def test_a_compressed_log(tmp_path: pathlib.Path, ending: str) -> None:
    (tmp_path / f"train.log.{ending}").write_bytes(PACKERS[ending](f"{DULL}{STUB}".encode()))
    done = run_doctor("log", f"train.log.{ending}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"line 10001: {STUB[:40]}" in done.stdout


@each_packer
def test_a_compressed_log_from_standard_input(ending: str) -> None:
    done = subprocess.run(
        doctor_argv("log", "-", "--format", "json"), input=PACKERS[ending](STUB.encode()), capture_output=True,
        env=clean_environment(), check=False, timeout=180,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout)["causes"][0]["label"] == OF_STUB


@each_packer
@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_parts_of_any_size_and_several_files_in_one(ending: str, size: int) -> None:
    text = (DULL if size > 100 else DULL[:3000]).encode()
    zeros = b"\0" * 512 if ending == "gz" else b""  # with which some programs fill up a file
    packed = PACKERS[ending](text) + PACKERS[ending](b"") + PACKERS[ending](STUB.encode()) + zeros
    found, opened = read(packed, size)
    assert (found, opened.damaged) == (text + STUB.encode(), "")


@pytest.mark.parametrize("ending", sampled(PACKERS, 3))
def test_of_a_log_that_was_cut_what_came_before_is_judged(tmp_path: pathlib.Path, ending: str) -> None:
    packed = PACKERS[ending]((STUB + DULL * 8).encode())
    (tmp_path / "x.log").write_bytes(packed[: len(packed) * 9 // 10])
    done = run_doctor("log", "x.log", cwd=tmp_path)
    assert done.returncode == 1
    assert f"tfgpu-doctor: error: x.log: the {KINDS[ending]} file is cut off; what follows line " in done.stderr
    assert "Damaged after " in done.stdout
    (tmp_path / "x.log").write_bytes(PACKERS[ending]((DULL * 8).encode())[: len(packed) * 9 // 10])
    done = run_doctor("log", "x.log", cwd=tmp_path)
    assert done.returncode == 2
    assert "The rest could not be read." in done.stdout
    assert "no known GPU problem" not in done.stdout
    assert json.loads(run_doctor("log", "x.log", "--format", "json", cwd=tmp_path).stdout)["damaged"]


@each_packer
def test_a_log_that_is_damaged_from_its_begin(tmp_path: pathlib.Path, ending: str) -> None:
    packed = bytearray(PACKERS[ending](DULL.encode()))
    packed[6:60] = b"\xff" * 54
    (tmp_path / "x.log").write_bytes(packed)
    done = run_doctor("log", "x.log", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tfgpu-doctor: error: x.log cannot be read: the {KINDS[ending]} file is damaged: ")
    assert done.stderr.count("\n") == 1


@each_packer
def test_of_an_empty_one(tmp_path: pathlib.Path, ending: str) -> None:
    (tmp_path / "x.log").write_bytes(PACKERS[ending](b""))
    assert run_doctor("log", "x.log", cwd=tmp_path).returncode == 3


def test_what_follows_in_a_compressed_file_is_said() -> None:
    found, opened = read(gzip.compress(STUB.encode()) + b"something else, and long enough")
    assert found == STUB.encode()
    assert opened.damaged.startswith("the gzip file is damaged: ")


def _tar() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        member = tarfile.TarInfo("train.log")
        member.size = len(STUB)
        archive.addfile(member, io.BytesIO(STUB.encode()))
    return content.getvalue()


def _zip(names: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in names.items():
            archive.writestr(name, text)
    return content.getvalue()


def _ticket(log: bytes | None = None) -> bytes:
    return pack(make_ticket(Source(facts_of("workstation-healthy"), Identity(), log=log)).files)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_ticket(), "is a ticket of tfgpu-doctor: diagnose it with `tfgpu-doctor check --facts x.log`\n"),
        (_ticket(STUB.encode()), "--facts x.log`, and its log with `unzip -p x.log log.txt | tfgpu-doctor log -`\n"),
        (_zip({"1_build.txt": STUB}), "is a zip file: read what it contains with `unzip -p x.log | tfgpu-doctor log -`"),
        (_ticket()[:5000], "is a zip file that cannot be read ("),
        (_tar(), "is a tar archive: read it with `tar -xOf x.log | tfgpu-doctor log -`"),
        (gzip.compress(_tar()), "is a tar archive: read it with `tar -xOf x.log | tfgpu-doctor log -`"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 50, "is compressed with Zstandard: read it with `zstd -dc x.log | tfgpu-doctor log -`"),
        (b"LPKSHHRH" + bytes(200), "is a journal of systemd: read it with `journalctl --file x.log | tfgpu-doctor log -`"),
        (bytes.fromhex(_NOISE), "contains binary data and no text: pass a log as its program wrote it"),
        (b"\x89PNG\r\n\x1a\n" + bytes.fromhex(_NOISE)[:900], "contains binary data and no text"),
        (gzip.compress(bytes.fromhex(_NOISE)), "contains binary data and no text"),
        (b"\x7fELF\x02\x01\x01" + bytes(range(32)) * 40 + bytes(3000), "contains binary data and no text"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(tmp_path: pathlib.Path, content: bytes, said: str) -> None:
    (tmp_path / "x.log").write_bytes(content)
    done = run_doctor("log", "x.log", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tfgpu-doctor: error: x.log ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_of_standard_input_no_file_is_named() -> None:
    with pytest.raises(NotALogError, match=r"`unzip -p FILE \|"):
        OpenedLog(io.BytesIO(_zip({"a": "b"})), "-").read1(10)


@pytest.mark.parametrize(
    "content",
    [
        *(f"Schritt 1 – größer\n{STUB}".encode(name) for name in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig")),
        f"Шаг первый, обучение модели\n{STUB}".encode("utf-16"), f"Шаг первый, обучение модели\n{STUB}".encode("utf-16-le"),
        f"Шаг первый, обучение модели\n{STUB}".encode("cp1251"), f"训练第一步\n{STUB}".encode("gbk"), f"訓練\n{STUB}".encode("shift-jis"),
        bytes(100_000) + STUB.encode(),  # a log that was cut while a program wrote it
        f"epoch 1\n{STUB}".encode("utf-16") + STUB.encode(),  # PowerShell, then another program
        ("\x1b[32mok\x1b[0m" + "\b" * 40 + "\r\a" + STUB).encode(), f"a\x01b\x02\n{STUB}".encode(), STUB.encode(),
    ],
)  # fmt: skip
def test_a_text_in_any_encoding_is_read(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "x.log").write_bytes(content)
    done = run_doctor("log", "x.log", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert OF_STUB in done.stdout


def test_a_log_that_is_being_written_is_read_as_it_comes() -> None:
    """Its first bytes are enough to begin."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as program:
        program.write(b"epoch 1\n")
        opened = OpenedLog(stream, "-")
        assert opened.read1(1 << 20) == b"epoch 1\n"
        assert opened.has_text
