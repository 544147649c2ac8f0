"""Beside a launched program: ends it and removes folders if the doctor dies before it has done so.

`python -I janitor.py FOLDER ...`. Standard input is a pipe: the program writes its number and a new line before it begins,
the doctor writes "done" when all is done; the end without that means that the doctor was killed. The program then gets
SIGTERM, and SIGKILL some seconds later, with all of its descendants. With `--until-closed DESCRIPTOR` before the folders, they
belong to the process at the other end of that pipe: in any case they are removed when it closes, and not before.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

GRACE_S = 10.0
TICK_S = 0.1
DONE = b"done"
UNTIL_CLOSED = "--until-closed"


def main() -> None:
    """Wait for the end of the doctor; see above."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # they are for the program, and the doctor
    folders = sys.argv[1:]
    if folders[0] == UNTIL_CLOSED:
        pipe, folders = int(folders[1]), folders[2:]
        _tend()
        while os.read(pipe, 64):
            pass
    elif _tend():
        return
    until = time.monotonic() + GRACE_S  # what was just killed may still write
    while any(map(os.path.exists, folders)) and time.monotonic() < until:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        time.sleep(TICK_S)


def _tend() -> bool:
    """Wait for the end of the doctor; return whether all was done by then. Otherwise the program has been ended."""
    told, pid, started = b"", 0, ""
    while part := os.read(0, 64):
        told += part
        if told.endswith(DONE):
            return True
        if not pid and b"\n" in told:
            pid = int(told.partition(b"\n")[0])
            started = start_time(pid)
    if pid:
        _end(pid, started)
    return False


def _end(pid: int, started: str) -> None:
    family = [(pid, started), *((each, start_time(each)) for each in descendants(pid))]
    send(family[:1], signal.SIGTERM)
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until and start_time(pid) == started != "":
        time.sleep(TICK_S)
    send(family, signal.SIGKILL)


def start_time(pid: int) -> str:
    """When a process started, in ticks since boot: with its id it names one process. Empty if it is gone, or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in (b"Z", b"X") else words[19].decode()


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(name))
    found = list(parents.get(pid, ()))
    for each in found:  # grows meanwhile
        found += parents.get(each, ())
    return found


def send(family: list[tuple[int, str]], number: int) -> None:
    """Send a signal to those processes that are still the same."""
    for pid, started in family:
        if started and start_time(pid) == started:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass


if __name__ == "__main__":
    main()
