"""For which GPUs a shared library holds code: the section .nv_fatbin, into which CUDA's compilers put it.

The section is a row of containers. Each begins with 16 bytes (a magic number, the size of this header, the size of what
follows), and holds an entry for each target: its kind, the size of its header and of its code, and its compute capability.
The layout is as read from CUDA's own tools (https://github.com/GrigoryEvko/nvopen-tools, fatbin/FORMAT_SPECIFICATION.md).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO

_SECTION = b".nv_fatbin"
_CONTAINER, _ENTRY = struct.Struct("<IHHQ"), struct.Struct("<HHIQIIHHI")
_MAGIC = 0xBA55ED50
_PTX, _MACHINE_CODE = 1, 2
CONTAINERS, _ENTRIES = 16, 64  # as many are looked at: all code of a build has the same targets, but for a few kernels
_MOST_BYTES = 1 << 20  # of the sections' headers, and of their names
Targets = tuple[tuple[int, int], ...]  # kind and compute capability of each entry
_ELF_64_LITTLE = b"\x7fELF\x02\x01"


def gpu_targets(file: BinaryIO) -> tuple[str, ...]:
    """The targets that most kernels of a library are compiled for, as TensorFlow's builds name them; empty if it has none.

    "sm_80" is machine code, "compute_90" machine code and PTX, "ptx_90" PTX alone.
    """
    try:
        return named(list(containers(file, *_section(file))))
    except (struct.error, OverflowError, ValueError):  # a damaged file
        return ()


def named(found: Iterable[Targets]) -> tuple[str, ...]:
    """The names of the targets that most containers have."""
    best = max(Counter(each for each in found if each).items(), key=lambda each: each[1], default=((), 0))[0]
    machine_code, ptx = ({each for kind, each in best if kind == wanted} for wanted in (_MACHINE_CODE, _PTX))
    return (
        *(f"sm_{each}" for each in sorted(machine_code - ptx)),
        *(f"compute_{each}" for each in sorted(machine_code & ptx)),
        *(f"ptx_{each}" for each in sorted(ptx - machine_code)),
    )


def containers(file: BinaryIO, place: int, end: int) -> Iterator[Targets]:
    """The targets of each container in a row of them that lies between two offsets. Raises struct.error for a damaged one."""
    for _ in range(CONTAINERS):
        if place + _CONTAINER.size > end:
            return
        magic, _, header, size = _CONTAINER.unpack(_read(file, place, _CONTAINER.size))
        if magic != _MAGIC:
            return
        yield tuple(sorted(_entries(file, place + header, min(end, place + header + size))))
        place += header + size
        place += -place % 8


def _entries(file: BinaryIO, place: int, end: int) -> set[tuple[int, int]]:
    found = set()
    for _ in range(_ENTRIES):
        if place + _ENTRY.size > end:
            break
        kind, _, header, size, _, _, _, _, capability = _ENTRY.unpack(_read(file, place, _ENTRY.size))
        if kind in (_PTX, _MACHINE_CODE):
            found.add((kind, capability))
        place += header + size
    return found


def _section(file: BinaryIO) -> tuple[int, int]:
    """Where the section begins and ends in the file; twice 0 if there is none (ELF-64 object file format, figures 2 and 3)."""
    head = _read(file, 0, 64)
    if not head.startswith(_ELF_64_LITTLE):
        return 0, 0
    (start,) = struct.unpack_from("<Q", head, 0x28)
    each_bytes, count, of_names = struct.unpack_from("<HHH", head, 0x3A)
    if each_bytes * count > _MOST_BYTES:
        return 0, 0
    table = _read(file, start, each_bytes * count)
    rows = [struct.unpack_from("<I20xQQ", table, index * each_bytes) for index in range(count)]
    if of_names >= len(rows):
        return 0, 0
    names = _read(file, rows[of_names][1], min(rows[of_names][2], _MOST_BYTES))
    for name, offset, size in rows:
        if names[name : name + len(_SECTION) + 1] == _SECTION + b"\0":
            return offset, offset + size
    return 0, 0


def _read(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)
