"""What the program reads while a profile is recorded: its open files with their file systems, its connections, the bytes,
and what of its memory comes back from swap.

Nothing here asks a file system, since one that does not answer would hold the program up: it is all in /proc. It may use
the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

_EVERY_S = 0.2
_MOST_OPEN, _MOST_KEPT = 512, 64
_MOST_CONNECTIONS = 1 << 20  # bytes of the kernel's table
_NO_DATA = re.compile(r"\.(so(\.[\d.]+)?|pyc?|pyd|zip|egg|whl)$|^/(dev|proc|sys|run)/| \(deleted\)$")
_ACCESS, _DIRECTORY = 3, getattr(os, "O_DIRECTORY", 0)  # O_ACCMODE of open(2)
_MAJOR_FAULTS = 9  # the place in stat(5), behind the name
_OF_MACHINE = (
    ("swapped_in", "vmstat", r"^pswpin (\d+)"),
    ("stalled_us", "pressure/memory", r"^full .*total=(\d+)"),
)
_ESTABLISHED = "01"  # https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html


class Sources:
    """What one recording saw; `proc` is the folder of the process in /proc, `machine` that of all."""

    def __init__(self, proc: str = "/proc/self", machine: str = "/proc") -> None:
        self._proc, self._machine = proc, machine
        self._files: Dict[str, List[Any]] = {}  # by path: the number of the mount, and how often it was seen
        self._next_s = 0.0
        self._began_s = time.monotonic()
        self._read, self._memory = self._read_bytes(), self._memory_counters()
        self._own = tuple({os.path.realpath(each) + os.sep for each in (sys.prefix, sys.base_prefix)} - {"/usr/", "//"})

    def look(self) -> None:
        """Note the files that are open, five times a second at most."""
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + _EVERY_S
        for number, place in self._open():
            if place in self._files:
                self._files[place][1] += 1
            elif place.startswith("/") and len(self._files) < _MOST_KEPT and self._is_data(number, place):
                mount = self._mount_of(number)
                if mount:
                    self._files[place] = [mount, 1]

    def found(self) -> Dict[str, Any]:
        """The files [path, file system, source], the longest open first, the other ends of connections [address, how many].

        `read_bytes`: by the program in all, and from storage; null where the kernel does not say.
        """
        mounts = self._mounts()
        read, before = self._read_bytes(), self._read
        files = sorted(self._files.items(), key=lambda each: -each[1][1])
        peers = sorted(self._peers().items(), key=lambda each: -each[1])
        return {
            "seconds": round(time.monotonic() - self._began_s, 3),
            "files": [[path, *mounts.get(mount, ["", ""])] for path, (mount, _) in files],
            "peers": [[peer, count] for peer, count in peers[:5]],
            "read_bytes": [read[0] - before[0], read[1] - before[1]] if read and before else None,
            "memory": self._memory_since(),
        }

    def _memory_since(self) -> Dict[str, Any]:
        """What was counted since the begin, and what is in swap now."""
        since = {}
        for name, now in self._memory_counters().items():
            before = self._memory[name]
            since[name] = None if now is None or before is None else now - before
        held = re.search(r"^VmSwap:\s*(\d+) kB", self._text("status"), re.MULTILINE)
        stalled = since["stalled_us"]
        return {
            "major_faults": since["major_faults"] or 0,
            "swapped_in": since["swapped_in"],
            "in_swap_bytes": int(held.group(1)) << 10 if held else 0,
            "stalled_s": None if stalled is None else stalled / 1e6,
        }

    def _memory_counters(self) -> Dict[str, Optional[int]]:
        """Major page faults of the process; pages that the machine has read from swap, and how long all waited for memory."""
        stat = self._text("stat").rpartition(")")[2].split()
        counted: Dict[str, Optional[int]] = {}
        counted["major_faults"] = int(stat[_MAJOR_FAULTS]) if len(stat) > _MAJOR_FAULTS else None
        for name, file, pattern in _OF_MACHINE:
            found = re.search(pattern, self._read_text(os.path.join(self._machine, file)), re.MULTILINE)
            counted[name] = int(found.group(1)) if found else None
        return counted

    def _is_data(self, number: str, place: str) -> bool:
        return int(number) > 2 and not _NO_DATA.search(place) and not place.startswith(self._own)

    def _open(self) -> Iterator[Tuple[str, str]]:
        """The numbers of what is open, and what each is."""
        folder = os.path.join(self._proc, "fd")
        try:
            numbers = os.listdir(folder)[:_MOST_OPEN]
        except OSError:
            return
        for number in numbers:
            try:
                yield number, os.readlink(os.path.join(folder, number))
            except OSError:  # closed meanwhile
                continue

    def _mount_of(self, number: str) -> str:
        """The number of a file's mount; empty if it is a folder, or not open for reading alone: logs are no data."""
        words = dict(line.split(":", 1) for line in self._text("fdinfo", number).splitlines() if ":" in line)
        try:
            flags = int(words["flags"], 8)
        except (KeyError, ValueError):
            return ""
        return "" if flags & _DIRECTORY or flags & _ACCESS != os.O_RDONLY else words.get("mnt_id", "").strip()

    def _mounts(self) -> Dict[str, List[str]]:
        """By the number of a mount: its file system, and what is mounted there."""
        found = {}
        for line in self._text("mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            words = right.split()
            if left and len(words) > 1:
                found[left.split()[0]] = words[:2]
        return found

    def _read_bytes(self) -> Optional[Tuple[int, int]]:
        words = dict(line.split(": ", 1) for line in self._text("io").splitlines() if ": " in line)
        try:
            return int(words["rchar"]), int(words["read_bytes"])
        except (KeyError, ValueError):
            return None

    def _peers(self) -> Dict[str, int]:
        """How many connections of this process go to each address of another machine."""
        sockets = {place[8:-1] for _, place in self._open() if place.startswith("socket:[")}
        found: Dict[str, int] = {}
        for table in ("tcp", "tcp6") if sockets else ():
            for line in self._text("net", table).splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[3] == _ESTABLISHED and words[9] in sockets:
                    peer = _peer(words[2])
                    if peer:
                        found[peer] = found.get(peer, 0) + 1
        return found

    def _text(self, *names: str) -> str:
        return self._read_text(os.path.join(self._proc, *names))

    @staticmethod
    def _read_text(path: str) -> str:
        try:
            with open(path, errors="replace") as file:
                return file.read(_MOST_CONNECTIONS)
        except (OSError, ValueError):
            return ""


def _peer(words: str) -> str:
    """`10.0.0.5:443` of the kernel's `0500000A:01BB`; empty for this machine's own loopback."""
    import ipaddress  # here: every Python that the program starts would wait for it

    address, _, port = words.partition(":")
    try:
        ordered = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
        place = ipaddress.ip_address(ordered)
        place = getattr(place, "ipv4_mapped", None) or place
        number = int(port, 16)
    except ValueError:
        return ""
    return "" if place.is_loopback else ("[%s]:%d" if place.version == 6 else "%s:%d") % (place, number)
