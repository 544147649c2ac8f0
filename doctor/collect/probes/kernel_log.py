"""The messages in the kernel log that matter to a GPU."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.collect.probes.kernel_lines import SLACK_S, Clock, Log, read_log
from tfgpu_doctor.collect.probes.kernel_messages import RELEVANT, gather
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage, LogSource
from tfgpu_doctor.model.facts.python import Runtime

_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog", "/var/log/dmesg")
_JOURNALS = ("/var/log/journal", "/run/log/journal")
_MOST_BYTES, _QUICK_BYTES = 2 << 20, 512 << 10
_MOST_LINES = 5000
_DEADLINE_S = 3.0  # for each of at most five commands
_WHOLE_BOOT = f"{RELEVANT.pattern}|^Linux version "  # the second shows how far back a journal reaches


@dataclass(frozen=True)
class _Reading:
    """The result of reading one source: its log, or the reason why there is none."""

    name: str
    log: Log | None = None
    error: str = ""

    @property
    def source(self) -> LogSource:
        if self.log is None:
            return LogSource(name=self.name, error=self.error)
        log = self.log
        return LogSource(
            name=self.name, oldest_age_s=log.oldest_age_s, newest_age_s=log.newest_age_s, from_boot=log.from_boot
        )


def _may_have_more(fact: object) -> bool:
    """Whether work for another fact may have left a message: TensorFlow failed on a GPU, or somebody ended it."""
    if not isinstance(fact, Runtime):
        return False
    return fact.attempt.ended_from_outside or (bool(fact.gpus) and not fact.computes)


@probe(waits_for="the kernel log", starts_first=True, again_if=_may_have_more)
def kernel_log(host: Host, request: Request) -> KernelLog:
    """Read dmesg, the journal and the files of syslog, one after the other, until one reaches back to the boot.

    If none does, the one that reaches farthest counts. `--quick` and `--root` read files only.
    """
    if not host.files.exists("/proc/sys/kernel"):
        raise Unavailable("there is no Linux kernel log to read on this system")
    if not request.computes:
        raise Unavailable("the GPUs are simulated, but the kernel log is that of this machine")
    clock = _clock(host)
    readings: list[_Reading] = []
    for ask in _ways(host, request, clock):
        readings.append(ask())
        if readings[-1].log and readings[-1].log.from_boot:
            break
    read = [each for each in readings if each.log]
    best = max(read, key=_reach) if read else None
    messages, left_out = gather(best.log.lines) if best and best.log else ((), 0)
    unclean = any(each.kind == "unclean_boot" and not each.is_gone for each in messages)
    if unclean and not request.quick and host.files.root == "/":
        messages = (*messages, *_before(host, clock))
    return KernelLog(
        source=best.name if best else "",
        tried=tuple(each.source for each in readings),
        uptime_s=clock.uptime_s,
        messages=tuple(dict.fromkeys(messages)),
        left_out=left_out,
    )


def _ways(host: Host, request: Request, clock: Clock) -> Iterator[Callable[[], _Reading]]:
    """The sources, in the order in which they are tried."""
    here = host.files.root == "/"
    if here and not request.quick:
        yield lambda: _ask_dmesg(host, clock)
        yield lambda: _ask_journal(host, clock, "-b")
    limit = _QUICK_BYTES if request.quick else _MOST_BYTES
    for path in _FILES:
        if host.files.exists(path):
            yield lambda path=path: _read_file(host, clock, path, limit)  # type: ignore[misc]
    if not here and not request.quick:
        for folder in _JOURNALS:
            if host.files.names_if_any(folder):
                yield lambda folder=folder: _ask_journal(host, clock, "-b", "-D", host.files.place(folder))  # type: ignore[misc]


def _clock(host: Host) -> Clock:
    """The reference times: dmesg counts the seconds that the machine was awake, as does CLOCK_MONOTONIC."""
    text = host.files.text_if_any("/proc/uptime").partition(" ")[0]
    uptime = float(text) if re.fullmatch(r"\d+(?:\.\d+)?", text) else None
    return Clock(now=time.time(), awake_s=time.monotonic() if host.files.root == "/" else uptime, uptime_s=uptime)


def _ask_dmesg(host: Host, clock: Clock) -> _Reading:
    done = host.run(["dmesg"], deadline_s=_DEADLINE_S, variables={"LC_ALL": "C"})
    log = read_log(done.stdout.decode("utf-8", "replace"), RELEVANT, clock)
    return _Reading("dmesg", log) if log.has_lines else _Reading("dmesg", error=_why(done))


def _ask_journal(host: Host, clock: Clock, *which: str) -> _Reading:
    """Query journalctl for the relevant lines; a journalctl without --grep for the most recent of all lines."""
    command = ["journalctl", "-k", *which, "-o", "short-unix", "--no-pager"]
    newest = host.run([*command, "-n", "1"], deadline_s=_DEADLINE_S, variables={"LC_ALL": "C"})
    last = read_log(newest.stdout.decode("utf-8", "replace"), RELEVANT, clock)
    if not last.has_lines:
        return _Reading("journalctl", error=_why(newest))
    done = host.run(
        [*command, "-n", str(_MOST_LINES), f"--grep={_WHOLE_BOOT}"], deadline_s=_DEADLINE_S, variables={"LC_ALL": "C"}
    )
    if done.exit_code != 0 and not done.stdout:
        done = host.run([*command, "-n", str(_MOST_LINES)], deadline_s=_DEADLINE_S, variables={"LC_ALL": "C"})
    log = read_log(done.stdout.decode("utf-8", "replace"), RELEVANT, clock, boots_ago=0)
    ages = [log.oldest_age_s, log.newest_age_s, last.newest_age_s]
    known = [age for age in ages if age is not None]
    found = Log(log.lines, max(known, default=None), min(known, default=None), log.from_boot, has_lines=True)
    return _Reading("journalctl", found)


def _before(host: Host, clock: Clock) -> tuple[KernelMessage, ...]:
    """The last relevant kernel messages from before this boot, if the journal kept them."""
    done = host.run(
        ["journalctl", "-k", "-b", "-1", "-n", "300", "-o", "short-unix", "--no-pager"],
        deadline_s=_DEADLINE_S,
        variables={"LC_ALL": "C"},
    )
    log = read_log(done.stdout.decode("utf-8", "replace"), RELEVANT, clock, boots_ago=1)
    if not log.has_lines:
        return ()
    age = log.newest_age_s
    return (
        *gather(log.lines)[0],
        KernelMessage(kind="last_message", text="", first_age_s=age, last_age_s=age, boots_ago=1),
    )


def _read_file(host: Host, clock: Clock, path: str, limit: int) -> _Reading:
    from tfgpu_doctor.host.entries import modified_ns  # its module takes longer to import than most logs take to read

    try:
        content = host.files.read_end(path, limit)
    except OSError as error:
        return _Reading(path, error=error.strerror or str(error))
    log = read_log(content.decode("utf-8", "replace"), RELEVANT, clock)
    if not log.has_lines:
        return _Reading(path, error="it contains no kernel message")
    written_age_s = clock.now - modified_ns(host.files.place(path)) / 1e9
    if clock.uptime_s is not None and max(log.newest_age_s or 0.0, written_age_s) > clock.uptime_s + SLACK_S:
        return _Reading(path, error="its last message is older than the boot")
    return _Reading(path, log)


def _reach(reading: _Reading) -> tuple[bool, float]:
    log = reading.log
    assert log is not None
    return log.from_boot, log.oldest_age_s or 0.0


def _why(done: Completed) -> str:
    """Why a command returned no kernel message."""
    if done.not_started:
        return done.not_started
    if done.timed_out:
        return f"no response within {_DEADLINE_S:.0f} s"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "permission" in line or "not permitted" in line]
    return next(iter(telling or lines), "it returned no message").removeprefix("dmesg: ")[:200]
