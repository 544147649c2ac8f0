"""Where a program's data come from: what the recorder sees of a real process and of made-up ones, and what is said of it."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sys
from typing import Any

import made_trace
import pytest

from tfgpu_doctor.tracing.data_sources import DataSources, is_network, read_sources
from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.result import TraceReport
from tfgpu_doctor.tracing.startup.sources import Sources

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")

MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
34 21 0:31 / /mnt/data rw,relatime shared:9 - nfs4 filer:/export/sets rw,vers=4.2
35 21 0:32 / /mnt/bucket ro,nosuid - fuse.gcsfuse my-bucket ro
"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0277 0500000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 111 1
   1: 0100007F:0277 0500000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 112 1
   2: 0100007F:0277 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 113 1
   3: 0100007F:0277 0600000A:01BB 06 00000000:00000000 00:00000000 00000000     0        0 114 1
   4: 0100007F:0277 0700000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 999 1
"""
TCP6 = """\
  sl  local_address rem_address st
   0: 0:1 0000000000000000FFFF00000500000A:01BB 01 0:0 00:0 0 0 0 115 1
   1: 0:1 B80D0120000000000000000001000000:0050 01 0:0 00:0 0 0 0 116 1
"""


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder as /proc/PID of a program that has read 30 MB, 20 of them from storage."""
    for name in ("fd", "fdinfo", "net"):
        (tmp_path / name).mkdir()
    (tmp_path / "mountinfo").write_text(MOUNTS)
    (tmp_path / "net/tcp").write_text(TCP)
    (tmp_path / "net/tcp6").write_text(TCP6)
    (tmp_path / "io").write_text("rchar: 1000\nwchar: 5\nread_bytes: 500\n")
    return tmp_path


def opened(proc: pathlib.Path, number: int, place: str, mount: int = 21, flags: int = os.O_RDONLY) -> None:
    (proc / "fd" / str(number)).symlink_to(place)
    (proc / "fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t7\n")


def looked(proc: pathlib.Path, times: int = 1) -> dict[str, Any]:
    seen = Sources(str(proc))
    for _ in range(times):
        seen._next_s = 0.0
        seen.look()
    (proc / "io").write_text("rchar: 30001000\nwchar: 5\nread_bytes: 20000500\n")
    found: dict[str, Any] = seen.found()
    return found


@linux
def test_files_with_their_mounts(proc: pathlib.Path) -> None:
    opened(proc, 5, "/mnt/data/train-1", 34)
    opened(proc, 6, "/home/me/table.csv")
    opened(proc, 7, "/mnt/bucket/part", 35)
    opened(proc, 10, "/mnt/data/study.sqlite", 34, os.O_RDWR)
    opened(proc, 0, "/home/me/standard-input")
    opened(proc, 8, "/home/me/train.log", 21, os.O_WRONLY)
    opened(proc, 9, "/home/me", 21, os.O_DIRECTORY)
    for number, place in enumerate(
        ("/dev/nvidia0", "/proc/1/maps", "/usr/lib/libm.so.6", "/a/b.py", "/tmp/x (deleted)")
    ):
        opened(proc, 20 + number, place)
    opened(proc, 30, os.path.join(sys.prefix, "share", "words.txt"))
    opened(proc, 31, "pipe:[44]")
    found = looked(proc)
    assert sorted(found["files"]) == [
        ["/home/me/table.csv", "ext4", "/dev/sda1"], ["/mnt/bucket/part", "fuse.gcsfuse", "my-bucket"],
        ["/mnt/data/train-1", "nfs4", "filer:/export/sets"],
    ]  # fmt: skip
    assert found["read_bytes"] == [30_000_000, 20_000_000]


@linux
def test_the_file_that_is_open_longest_comes_first(proc: pathlib.Path) -> None:
    seen = Sources(str(proc))
    opened(proc, 5, "/home/me/settings")
    seen.look()
    (proc / "fd/5").unlink()
    opened(proc, 6, "/home/me/records")
    for _ in range(3):
        seen._next_s = 0.0
        seen.look()
    assert [row[0] for row in seen.found()["files"]] == ["/home/me/records", "/home/me/settings"]


@linux
def test_connections_to_other_machines(proc: pathlib.Path) -> None:
    for inode in (111, 112, 113, 114, 115, 116):
        opened(proc, inode, f"socket:[{inode}]")
    assert looked(proc)["peers"] == [["10.0.0.5:443", 3], ["[2001:db8::1]:80", 1]]


@linux
def test_nothing_is_known_where_nothing_may_be_read(tmp_path: pathlib.Path) -> None:
    found = looked(tmp_path)
    assert (found["files"], found["peers"], found["read_bytes"]) == ([], [], None)


@linux
def test_this_process(tmp_path: pathlib.Path) -> None:
    (tmp_path / "records").write_bytes(b"1" * 100_000)
    seen = Sources()
    with open(tmp_path / "records", "rb") as file, socket.socket():
        file.read()
        seen.look()
        found = seen.found()
    ours = [row for row in found["files"] if row[0] == str(tmp_path / "records")]
    assert ours
    assert ours[0][1]
    assert found["read_bytes"] is None or found["read_bytes"][0] >= 100_000


@pytest.mark.parametrize(
    ("kind", "source", "network"),
    [
        ("nfs4", "filer:/a", True), ("lustre", "10.1.1.1@tcp:/fs", True), ("9p", "C:\\", True), ("ext4", "/dev/sda1", False),
        ("overlay", "overlay", False), ("tmpfs", "tmpfs", False), ("fuse.sshfs", "me@host:", True), ("fuse", "rclone", True),
        ("fuse", "mountpoint-s3", True), ("fuse.fuse-overlayfs", "fuse-overlayfs", False), ("fuse.bindfs", "/a", False),
        ("fuseblk", "/dev/sdb1", False), ("", "", False), ("zfs", "nfs", False),
    ],
)  # fmt: skip
def test_what_a_network_is(kind: str, source: str, network: bool) -> None:
    assert is_network(kind, source) is network


LOCAL, REMOTE = ("/data/a.tfrecord", "ext4", "/dev/sda1"), ("/mnt/b.tfrecord", "nfs4", "filer:/sets")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (DataSources(), []),
        (DataSources(files=[LOCAL]), ["it reads /data/a.tfrecord, on ext4 at /dev/sda1"]),
        (DataSources(files=[LOCAL, REMOTE, REMOTE]), [
            "it reads /mnt/b.tfrecord and 1 more over a network: nfs4 at filer:/sets",
        ]),
        (DataSources(3.0, [REMOTE], [], (50_000_000, 0)), ["it reads /mnt/b.tfrecord over a network: nfs4 at filer:/sets"]),
        (DataSources(3.0, [LOCAL], [], (2_500_000_000, 2_000_000_000)), [
            "it reads /data/a.tfrecord, on ext4 at /dev/sda1", "it read 2.5 GB in 3.0 s, 2.0 GB of it from storage",
        ]),
        (DataSources(3.0, [LOCAL], [("10.0.0.5:443", 3)], (50_000_000, 4_000_000)), [
            "it reads /data/a.tfrecord, on ext4 at /dev/sda1",
            "it read 50 MB in 3.0 s, 4 MB of it from storage: what takes the time is not the disk, but unpacking or parsing",
        ]),
        (DataSources(3.0, [LOCAL], [], (1_000_000_000, 999_000_000)), [
            "it reads /data/a.tfrecord, on ext4 at /dev/sda1", "it read 1.0 GB in 3.0 s, 999 MB of it from storage",
        ]),
        (DataSources(3.0, [LOCAL], [], (1_000_000, 0)), ["it reads /data/a.tfrecord, on ext4 at /dev/sda1"]),
        (DataSources(peers=[("10.0.0.5:443", 3), ("10.0.0.6:80", 1)]), [
            "it has no file of data open, and 3 connections to 10.0.0.5:443: a network",
        ]),
    ],
)  # fmt: skip
def test_what_is_said(seen: DataSources, said: list[str]) -> None:
    assert list(seen.said()) == said


def slow_source(tmp_path: pathlib.Path, read: object, stage: str = "TFRecord") -> TraceReport:
    planes = made_trace.training(input_ms=15.0, compute_ms=3.0, stage=f"Iterator::Root::Prefetch::{stage}")
    made_trace.save(tmp_path, planes)
    (tmp_path / FILE).write_text(json.dumps({"began_ns": 1, "every_s": 0.01, "samples": [], "read": read}))
    return made_trace.judged(tmp_path)[0]


def test_a_slow_source_names_the_network(tmp_path: pathlib.Path) -> None:
    report = slow_source(tmp_path, {"seconds": 3.0, "files": [REMOTE], "peers": [], "read_bytes": None})
    assert report.verdict == "input_slow_source"
    cause = report.causes[0]
    assert "it reads /mnt/b.tfrecord over a network: nfs4 at filer:/sets" in cause.evidence
    assert cause.fix.text.startswith(
        "The data come over a network (nfs4 at filer:/sets): try a copy on a local disk first. Let"
    )


def test_other_slow_stages_name_it_too(tmp_path: pathlib.Path) -> None:
    report = slow_source(tmp_path, {"files": [REMOTE, LOCAL]}, "Map")
    assert report.verdict == "input_serial_map"
    assert report.causes[0].evidence[-1] == "it reads /mnt/b.tfrecord over a network: nfs4 at filer:/sets"
    assert "network" not in slow_source(tmp_path, {"files": [LOCAL]}, "Map").causes[0].evidence[-1]


def test_a_local_source_is_not_said_to_be_one(tmp_path: pathlib.Path) -> None:
    report = slow_source(tmp_path, {"seconds": 3.0, "files": [LOCAL], "peers": [], "read_bytes": [50_000_000, 0]})
    assert report.causes[0].fix.text.startswith("Let ")
    assert not any("network" in line for line in report.causes[0].evidence)


def test_a_recorder_of_before_says_nothing(tmp_path: pathlib.Path) -> None:
    assert list(read_sources(b'{"began_ns": 1, "every_s": 0.01, "samples": []}').said()) == []
    assert slow_source(tmp_path, {}).verdict == "input_slow_source"


@linux
def test_memory_that_comes_back_from_swap(proc: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As /proc shows it: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html."""
    stat = "7 (python) x) S 1 7 7 0 -1 4194560 900 0 {faults} 0 12 3 0 0 20 0 9 0 5 6 7"
    (proc / "stat").write_text(stat.format(faults=20))
    (proc / "status").write_text("Name:\tpython\nVmSwap:\t  700000 kB\n")
    machine = tmp_path / "machine"
    (machine / "pressure").mkdir(parents=True)
    (machine / "vmstat").write_text("pswpin 1000\npswpout 5\n")
    pressure = "some avg10=1.00 avg60=1.00 avg300=0.00 total=9\nfull avg10=1.00 avg60=1.00 avg300=0.00 total={us}\n"
    (machine / "pressure/memory").write_text(pressure.format(us=100))
    seen = Sources(str(proc), str(machine))
    (proc / "stat").write_text(stat.format(faults=60_020))
    (machine / "vmstat").write_text("pswpin 301000\n")
    (machine / "pressure/memory").write_text(pressure.format(us=1_500_100))
    expected = {"major_faults": 60_000, "swapped_in": 300_000, "in_swap_bytes": 700_000 << 10, "stalled_s": 1.5}
    assert seen.found()["memory"] == expected


@linux
def test_a_kernel_that_counts_no_pressure_and_no_swap(proc: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = Sources(str(proc), str(tmp_path / "nothing")).found()["memory"]
    assert found == {"major_faults": 0, "swapped_in": None, "in_swap_bytes": 0, "stalled_s": None}


def swapping(**changes: object) -> dict[str, object]:
    """What was recorded of a program whose cached pictures lie in swap, TensorFlow 2.21, in 6.08 s."""
    memory = {"major_faults": 70134, "swapped_in": 303511, "in_swap_bytes": 698585088, "stalled_s": 0.676408}
    return {"seconds": 6.08, "memory": {**memory, **changes}}


def test_a_pipeline_that_waits_for_swap_is_not_called_serial(tmp_path: pathlib.Path) -> None:
    report = slow_source(tmp_path, swapping(), "Map")
    assert report.verdict == "input_memory"
    (cause,) = report.causes
    assert cause.confidence == "high"
    said = "11,535 times a second the program waits for a page from swap, where 699 MB of it lie"
    assert said in cause.evidence
    assert "cache(file)" in cause.fix.text


def test_memory_that_everybody_waits_for(tmp_path: pathlib.Path) -> None:
    """Without swap the kernel drops pages of files, and reads them again."""
    memory = swapping(swapped_in=0, in_swap_bytes=0, stalled_s=2.5)
    report = slow_source(tmp_path, memory, "Map")
    assert report.verdict == "input_memory"
    assert report.causes[0].confidence == "medium"
    assert (
        "for 41% of the time all that could run waits for memory (/proc/pressure/memory)" in report.causes[0].evidence
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"major_faults": 214, "swapped_in": 532, "in_swap_bytes": 212561920, "stalled_s": 0.0},  # a real one: it lies idle
        {"major_faults": 378, "swapped_in": 1035, "in_swap_bytes": 423243776, "stalled_s": 0.179676},  # also real
        {"swapped_in": 0},  # pages of mapped files
        {"swapped_in": None, "stalled_s": None},
        {"in_swap_bytes": 0},  # another program's pages
        {"major_faults": 12_000},  # some come back, but take a fifth of the time, and the steps wait for three quarters of it
    ],
)  # fmt: skip
def test_memory_that_lies_idle_in_swap_is_no_cause(changes: dict[str, object], tmp_path: pathlib.Path) -> None:
    assert slow_source(tmp_path, swapping(**changes), "Map").verdict == "input_serial_map"
