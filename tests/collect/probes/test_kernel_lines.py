"""Lines of the kernel's log in each form in which they are to be had."""

from __future__ import annotations

import re
import time

import pytest

from tfgpu_doctor.collect.probes.kernel_lines import Clock, Line, read_log

NOW = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
CLOCK = Clock(now=NOW, awake_s=5000.0, uptime_s=5000.0)
ALL = re.compile("")
NVRM = re.compile("NVRM:")
XID = "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def utc(age_s: float) -> str:
    """A date in UTC as newer loggers write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(NOW - age_s))


def stamp(age_s: float, form: str) -> str:
    """A date as syslog writes it, so many seconds ago."""
    return time.strftime(form, time.localtime(NOW - age_s))


@pytest.mark.parametrize(
    "line",
    [
        f"[ 4000.000000] {XID}",
        f"[ 4000.000000][ T1234] {XID}",  # CONFIG_PRINTK_CALLER
        f"[ 4000.000000][    C3] {XID}",
        f"[ 4000.000000] [  T1234] {XID}",  # dmesg of util-linux 2.39 and later
        f"{stamp(1000, '%b %e %H:%M:%S')} node17 kernel: [ 4000.000000][ T1234] {XID}",
        f"<4>[ 4000.000000] {XID}",  # dmesg -r
        f"[ 4000.000000] kernel: {XID}",  # /var/log/dmesg of Ubuntu
        f"{NOW - 1000:.6f} node17 kernel: {XID}",
        f"{stamp(1000, '%b %e %H:%M:%S')} node17 kernel: {XID}",
        f"{stamp(1000, '%b %e %H:%M:%S')} node17 kernel: [ 4000.000000] {XID}",
        f"{stamp(1000, '%b %e %H:%M:%S')} kernel: {XID}",
        f"{stamp(1000, '%Y-%m-%dT%H:%M:%S.000000')} node17 kernel: [ 4000.000000] {XID}",
        f"{utc(1000)} node17 kernel: {XID}",
        f"{stamp(1000, '%Y-%m-%dT%H:%M:%S.000000%z')[:-2]}:{stamp(0, '%z')[-2:]} node17 kernel: {XID}",
    ],
)
def test_a_message_is_the_same_in_every_form(line: str) -> None:
    assert read_log(line + "\n", NVRM, CLOCK).lines == (Line(XID, 1000.0),)


@pytest.mark.parametrize(
    "line", ["Nov 20 11:00:00 node17 systemd[1]: NVRM: not the kernel", "NVRM: no start", "", "   NVRM: a continuation of nothing"]
)  # fmt: skip
def test_what_the_kernel_did_not_write_is_passed_by(line: str) -> None:
    log = read_log(line + "\n", NVRM, CLOCK)
    assert (log.lines, log.has_lines) == ((), False)


REFUSED = (
    "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c58) installed in this system requires use of the NVIDIA open "
    "kernel modules."
)
PARTS = (
    "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c58)",
    "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
)


@pytest.mark.parametrize(
    "text",
    [
        f"[   10.000000] {PARTS[0]}\n               {PARTS[1]}\n",  # dmesg
        f"{NOW - 9:.6f} node17 kernel: {PARTS[0]}\n                                {PARTS[1]}\n",  # journalctl
        f"Nov 20 11:59:51 node17 kernel: [   10.000000] {PARTS[0]}#012{PARTS[1]}\n",  # rsyslog
        f"[   10.000000] {PARTS[0]}\n[   10.000000] {PARTS[1]}\n",  # syslog(2), read line by line
    ],
)
def test_a_message_of_several_lines_is_put_together(text: str) -> None:
    after = "[   11.000000] NVRM: loading\n"
    assert [line.text for line in read_log(text + after, NVRM, CLOCK).lines] == [REFUSED, "NVRM: loading"]


def test_messages_of_their_own_are_not_put_together() -> None:
    text = f"[   10.000000] {XID}\n[   10.000000] {XID}\n[   10.000000] {PARTS[0]}\n[   10.500000] {PARTS[1]}\n"
    assert len(read_log(text, NVRM, CLOCK).lines) == 4


def test_the_future_counts_as_now() -> None:
    assert read_log(f"{NOW + 30:.6f} node17 kernel: {XID}\n", NVRM, CLOCK).lines[0].age_s == 0.0


def test_a_date_without_a_year_is_the_last_that_was() -> None:
    line = read_log(f"Dec 24 12:00:00 node17 kernel: {XID}\n", NVRM, CLOCK).lines[0]
    assert line.age_s == NOW - time.mktime((2025, 12, 24, 12, 0, 0, 0, 0, -1))


@pytest.mark.parametrize("date", ["Xxx 20 11:00:00", "Feb 30 25:61:61", "2026-13-45T99:99:99"])
def test_an_impossible_date_is_none_or_some_other(date: str) -> None:
    for line in read_log(f"{date} node17 kernel: {XID}\n", NVRM, CLOCK).lines:
        assert line.text == XID


def test_without_a_clock_lines_have_no_age() -> None:
    log = read_log(f"[ 4000.000000] {XID}\n", NVRM, Clock(now=NOW))
    assert (log.lines, log.oldest_age_s, log.has_lines) == ((Line(XID),), None, True)


def test_the_reach_of_a_log_is_that_of_all_its_lines() -> None:
    log = read_log(
        f"[    0.000000] Linux version 6.8.0\n[ 4000.000000] {XID}\n[ 4999.000000] usb 1-1: new device\n", NVRM, CLOCK
    )
    assert (log.oldest_age_s, log.newest_age_s, log.from_boot) == (5000.0, 1.0, True)
    assert len(log.lines) == 1


def test_a_ring_that_was_written_over_does_not_reach_the_boot() -> None:
    log = read_log("[ 3000.000000] audit: backlog\n[ 4999.000000] usb 1-1: new device\n", NVRM, CLOCK)
    assert (log.oldest_age_s, log.from_boot) == (2000.0, False)


def test_boots_are_told_apart() -> None:
    rows = (
        (200_000, XID),
        (100_000, "Linux version 6.8.0"),
        (90_000, XID),
        (5_000, "Linux version 6.8.0"),
        (4_000, XID),
    )
    text = "".join(f"{stamp(age, '%b %e %H:%M:%S')} node17 kernel: {message}\n" for age, message in rows)
    log = read_log(text, NVRM, CLOCK)
    assert [(line.age_s, line.boots_ago) for line in log.lines] == [(200_000, 2), (90_000, 1), (4_000, 0)]
    assert log.from_boot


def test_lines_older_than_the_boot_are_from_before_it() -> None:
    text = (
        f"{stamp(90_000, '%b %e %H:%M:%S')} node17 kernel: {XID}\n{stamp(10, '%b %e %H:%M:%S')} node17 kernel: {XID}\n"
    )
    assert [line.boots_ago for line in read_log(text, NVRM, CLOCK).lines] == [1, 0]


def test_a_syslog_that_ends_before_the_boot_is_all_from_before_it() -> None:
    rows = ((90_001, "Linux version 6.8.0"), (90_000, XID))
    text = "".join(f"{stamp(age, '%b %e %H:%M:%S')} node17 kernel: {message}\n" for age, message in rows)
    log = read_log(text, NVRM, CLOCK)
    assert ([line.boots_ago for line in log.lines], log.from_boot) == ([1], False)


@pytest.mark.parametrize(
    "junk", ["\0" * 1000, "\xff\ufffd", "[" * 5000, "[ 1.0] " + "x" * 100_000, "\n" * 1000, "#012#012"]
)
def test_junk_does_no_harm(junk: str) -> None:
    log = read_log(f"{junk}\n[ 4000.000000] {XID}\n{junk}", ALL, CLOCK)
    assert XID in " ".join(line.text for line in log.lines)
    assert all(len(line.text) < 5000 for line in log.lines)
