"""The probe of the kernel's log: which source is read, how far back, and why another could not be."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes.kernel_log import kernel_log
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.kernel import KernelLog, LogSource

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

XID = "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python, GPU has fallen off the bus."
FIRST = "Linux version 6.8.0-48-generic (buildd@lcy02) #48-Ubuntu SMP"
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/sys/kernel"), reason="the programs are asked on Linux alone")


class Programs:
    """Placeholders for dmesg and journalctl: shell scripts in a folder that is all of $PATH."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, script: str) -> None:
        """A program of that name; its arguments go to NAME.asked."""
        place = self.folder / name
        place.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\necho "$*" >> {place}.asked\n{script}\n')
        place.chmod(place.stat().st_mode | stat.S_IXUSR)

    def asked(self, name: str) -> list[str]:
        place = self.folder / f"{name}.asked"
        return place.read_text().splitlines() if place.exists() else []

    def read(self, **how: str) -> KernelLog:
        """The fact, of this machine with these programs alone."""
        host = Host("/", {"PATH": str(self.folder)})
        return kernel_log.function(host, Request(python=sys.executable, **how))  # type: ignore[arg-type, no-any-return]


@pytest.fixture
def programs(tmp_path: pathlib.Path) -> Programs:
    return Programs(tmp_path / "bin")


@pytest.fixture
def running(machine: Machine) -> Machine:
    """A machine under a root of its own, up for 5000 s."""
    machine.file("/proc/uptime", "5000.00 39000.00\n")
    machine.folder("/proc/sys/kernel")
    return machine


def syslog(*rows: tuple[float, str]) -> str:
    """Lines of /var/log/kern.log: ages in seconds, and messages."""
    return "".join(
        f"{time.strftime('%b %e %H:%M:%S', time.localtime(time.time() - age))} node17 kernel: [ {max(0, 5000 - age):11.6f}] {text}\n"
        for age, text in rows
    )


def source(fact: KernelLog, name: str) -> LogSource:
    return next(each for each in fact.tried if each.name == name)


# The programs


@needs_proc
def test_dmesg_that_reaches_the_boot_is_enough(programs: Programs) -> None:
    awake = time.monotonic()
    programs.add(
        "dmesg", f"printf '%s\\n' '[    0.000000] {FIRST}' '[{awake - 100:12.6f}] {XID}' '[{awake - 9:12.6f}] usb'"
    )
    programs.add("journalctl", "exit 1")
    found = programs.read()
    assert found.source == "dmesg"
    assert found.reach is not None
    assert found.reach.from_boot
    assert [(each.kind, each.code) for each in found.messages] == [("xid", 79)]
    assert found.messages[0].last_age_s == pytest.approx(100, abs=60)
    assert programs.asked("journalctl") == []


@needs_proc
def test_where_dmesg_is_refused_the_journal_is_asked(programs: Programs) -> None:
    programs.add("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    now = time.time()
    programs.add(
        "journalctl",
        f"""case "$*" in
*--grep*) printf '%s\\n' '{now - 50:.6f} node17 kernel: {XID}' '{now - 4000:.6f} node17 kernel: {FIRST}';;
*) echo '{now - 3:.6f} node17 kernel: usb 1-1: new device';;
esac""",
    )
    found = programs.read()
    assert found.source == "journalctl"
    assert source(found, "dmesg").error == "read kernel buffer failed: Operation not permitted"
    reach = source(found, "journalctl")
    assert reach.from_boot is True
    assert reach.newest_age_s == pytest.approx(3, abs=60)
    assert found.messages[0].last_age_s == pytest.approx(50, abs=60)
    assert found.messages[0].boots_ago == 0, "with -n and --grep the newest come first, the first of the boot last"
    assert all("--no-pager" in asked and "-n" in asked.split() for asked in programs.asked("journalctl"))


@needs_proc
@pytest.mark.parametrize(
    "refusal",
    ["Compiled without pattern matching support", "journalctl: unrecognized option '--grep=NVRM:'"],
)
def test_a_journal_that_cannot_search_is_read_to_its_last_lines(programs: Programs, refusal: str) -> None:
    now = time.time()
    programs.add(
        "journalctl",
        f"""case "$*" in
*--grep*) echo "{refusal}" >&2; exit 1;;
*'-n 1'*) echo '{now - 3:.6f} node17 kernel: usb';;
*) printf '%s\\n' '{now - 50:.6f} node17 kernel: {XID}' '{now - 3:.6f} node17 kernel: usb';;
esac""",
    )
    found = programs.read()
    assert (found.source, found.messages[0].code) == ("journalctl", 79)
    assert not source(found, "journalctl").from_boot


@needs_proc
@pytest.mark.parametrize(
    ("complaints", "why"),
    [
        (("No journal files were opened due to insufficient permissions.",), "No journal files were opened due to insufficient permissions."),
        (("Hint: You are currently not seeing messages from other users and the system.", "      Users in groups 'adm', 'systemd-journal' can see all messages.", "      Pass -q to turn off this notice."),
         "Hint: You are currently not seeing messages from other users and the system."),
        ((), "it returned no message"),
    ],
)  # fmt: skip
def test_a_journal_without_entries_is_not_an_empty_log(
    programs: Programs, complaints: tuple[str, ...], why: str
) -> None:
    told = "".join(f'echo "{line}" >&2; ' for line in complaints)
    programs.add("journalctl", f"{told}echo '-- No entries --'")
    found = programs.read()
    assert source(found, "journalctl").error == why
    assert "dmesg: No such file or directory" in found.why_unread
    assert found.source not in ("dmesg", "journalctl")


@needs_proc
def test_a_program_that_hangs_is_left_behind(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tfgpu_doctor.collect.probes.kernel_log"], "_DEADLINE_S", 0.2)
    programs.add("dmesg", "sleep 600")
    assert source(programs.read(), "dmesg").error == "no response within 0 s"


@needs_proc
def test_a_ring_that_was_written_over_is_read_beside_the_journal(programs: Programs) -> None:
    awake, now = time.monotonic(), time.time()
    programs.add("dmesg", f"printf '%s\\n' '[{awake - 30:12.6f}] usb' '[{awake - 20:12.6f}] usb'")
    programs.add("journalctl", f"echo '{now - 20_000:.6f} node17 kernel: {XID}'")
    assert programs.read().source == "journalctl"


@needs_proc
def test_after_a_crash_the_end_of_the_boot_before_is_read(programs: Programs) -> None:
    awake, now = time.monotonic(), time.time()
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    programs.add(
        "dmesg",
        f"printf '%s\\n' '[    0.000000] {FIRST}' '[    4.100000] EXT4-fs (sda2): recovery complete' '[{awake:12.6f}] usb'",
    )
    last = f"{now - uptime - 198:.6f} node17 kernel: usb"
    programs.add("journalctl", f"printf '%s\\n' '{now - uptime - 200:.6f} node17 kernel: {XID}' '{last}'")
    found = programs.read()
    kinds = [("unclean_boot", 0), ("xid", 1), ("last_message", 1)]
    assert [(each.kind, each.boots_ago) for each in found.messages] == kinds
    ages = [each.last_age_s or 0.0 for each in found.messages]
    assert ages[1] - ages[2] == pytest.approx(2, abs=0.5)
    assert found.of_kind("xid") == ()
    assert "-b -1" in programs.asked("journalctl")[0]


@needs_proc
def test_a_quick_look_starts_no_program(programs: Programs) -> None:
    programs.add("dmesg", "echo '[    0.000000] Linux version'")
    programs.add("journalctl", "exit 1")
    found = programs.read(level="quick")
    assert programs.asked("dmesg") == programs.asked("journalctl") == []
    assert found.source not in ("dmesg", "journalctl")


@needs_proc
@pytest.mark.skipif(not shutil.which("dmesg"), reason="there is no dmesg here")
def test_the_real_dmesg_is_read_or_says_why_not() -> None:
    found = kernel_log.function(Host(), Request(python=sys.executable))
    dmesg = source(found, "dmesg")
    assert dmesg.error or dmesg.newest_age_s is not None
    assert found.uptime_s and found.uptime_s > 0


@needs_proc
@pytest.mark.skipif(not shutil.which("journalctl"), reason="there is no journalctl here")
def test_the_real_journalctl_is_read_or_says_why_not(programs: Programs) -> None:
    (programs.folder / "journalctl").symlink_to(shutil.which("journalctl") or "")
    journal = source(programs.read(), "journalctl")
    assert journal.error or journal.newest_age_s is not None


# The files


def test_under_a_root_its_files_are_read(running: Machine) -> None:
    running.file("/var/log/kern.log", syslog((4999, FIRST), (600, XID), (20, "usb 1-1: new device")))
    found = running.ask(kernel_log)
    assert (found.source, found.uptime_s) == ("/var/log/kern.log", 5000.0)
    assert found.reach.from_boot
    assert found.messages[0].last_age_s == pytest.approx(600, abs=60)


def test_the_first_file_that_reaches_the_boot_is_taken(running: Machine) -> None:
    running.file("/var/log/kern.log", syslog((600, XID)))
    running.file("/var/log/messages", syslog((4999, FIRST), (600, XID), (500, XID)))
    found = running.ask(kernel_log)
    assert (found.source, found.messages[0].count) == ("/var/log/messages", 2)
    assert [each.name for each in found.tried] == ["/var/log/kern.log", "/var/log/messages"]


def test_a_file_that_nobody_writes_any_more_is_not_read(running: Machine) -> None:
    running.file("/var/log/kern.log", syslog((90_001, FIRST), (90_000, XID)))
    found = running.ask(kernel_log)
    assert (found.source, found.messages) == ("", ())
    assert found.why_unread == "/var/log/kern.log: its last message is older than the boot"


def test_the_messages_kept_at_boot_count_for_this_boot_alone(running: Machine) -> None:
    place = running.file("/var/log/dmesg", f"[    0.000000] kernel: {FIRST}\n[   10.000000] kernel: {XID}\n")
    assert running.ask(kernel_log).messages[0].last_age_s == 4990.0
    long_ago = time.time() - 80_000
    os.utime(place, (long_ago, long_ago))
    assert running.ask(kernel_log).source == ""


@pytest.mark.usefixtures("closed_to_me")
def test_a_file_that_may_not_be_read_says_so(running: Machine) -> None:
    running.file("/var/log/kern.log", syslog((600, XID))).chmod(0)
    assert running.ask(kernel_log).why_unread == "/var/log/kern.log: Permission denied"


def test_a_pipe_in_place_of_a_log_is_not_waited_for(running: Machine) -> None:
    os.mkfifo(running.folder("/var/log") / "kern.log")
    assert running.ask(kernel_log).why_unread == "/var/log/kern.log: not a regular file"


def test_a_log_without_the_kernels_messages_is_told_as_such(running: Machine) -> None:
    running.file("/var/log/messages", "Nov 20 12:00:00 node17 systemd[1]: Started.\n")
    assert running.ask(kernel_log).why_unread == "/var/log/messages: it contains no kernel message"


@pytest.mark.skipif(not shutil.which("journalctl"), reason="there is no journalctl here")
def test_the_journals_of_a_root_are_asked_for(running: Machine) -> None:
    running.file("/var/log/journal/1/system.journal", b"no journal")
    journal = source(running.ask(kernel_log, environment={"PATH": os.environ["PATH"]}), "journalctl")
    assert journal.error


def test_a_machine_without_a_linux_kernel_has_no_answer(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="no Linux kernel"):
        machine.ask(kernel_log)


def test_without_any_log_the_fact_says_so(running: Machine) -> None:
    found = running.ask(kernel_log)
    assert (found.source, found.tried, found.messages) == ("", (), ())


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [b"", b"Nov 20 12:00:00 node17 kernel: NVRM: loading\n" * 100_000], ids=["hole", "lines"]
)
def test_of_a_huge_log_the_end_is_read_in_little_memory(running: Machine, noise: bytes) -> None:
    place = running.file("/var/log/kern.log")
    with place.open("wb") as file:
        file.truncate(2 << 30)  # a hole: it takes no room on the disk
        file.seek(0, os.SEEK_END)
        file.write(noise + b"\n" + syslog((600, XID)).encode())
    tracemalloc.start()
    try:
        found = running.ask(kernel_log)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.messages[0].code == 79
    assert peak_bytes < 64 << 20
