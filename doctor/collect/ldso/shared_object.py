"""The dynamic section of a shared library: its name, its dependencies, and their search paths."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_PPC64": "ppc64le"}


_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_HEAD_BYTES = 4096  # the ELF header and the program headers that follow it


class Unloadable(Exception):
    """A file that the loader rejects; the message says why."""


class OtherArchitecture(Unloadable):
    """A library of another architecture: the loader skips it and continues the search."""


@dataclass(frozen=True)
class SharedObject:
    """The dynamic section of one library. `rpath` applies only if there is no `runpath` (man 8 ld.so)."""

    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


def read_shared_object(file: BinaryIO, size_bytes: int, architecture: str) -> SharedObject:
    """Read one library. Raises Unloadable if the loader would reject it, OSError if it cannot be read."""
    from elftools.common.exceptions import ELFError

    if size_bytes == 0:
        raise Unloadable("it is empty")
    try:
        head = file.read(_HEAD_BYTES)
        if head[:6] == _ELF_64_LITTLE:
            _see_that_it_is_whole(head, size_bytes)
        file.seek(0)
        elf = _reader()(file)
        machine = _MACHINES.get(elf.header["e_machine"], elf.header["e_machine"])
        if machine != architecture or elf.elfclass != 64:
            raise OtherArchitecture(f"it is built for {machine}, {elf.elfclass} bits")
        return _dynamic(elf)
    except (ELFError, ValueError, LookupError, TypeError, OverflowError, AssertionError, struct.error) as error:
        # pyelftools raises any of these for a damaged file
        raise Unloadable("it is not an ELF file, or it is damaged") from error


@functools.cache
def _reader() -> type[ELFFile]:
    """pyelftools' reader, changed to read as the loader does: by the program headers alone.

    Its own class for the dynamic segment first reads all sections and their hash tables, which takes
    a tenth of a second for TensorFlow's libraries.
    """
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import Segment

    class ByProgramHeaders(ELFFile):
        def _make_segment(self, segment_header: Any) -> Segment:
            return Segment(segment_header, self.stream)

    return ByProgramHeaders


def _see_that_it_is_whole(head: bytes, size_bytes: int) -> None:
    """Check for segments beyond the end of the file, which an incomplete download or a full disk leaves.

    Only the program headers are read (ELF-64 object file format, figure 6): the section headers, which come last and
    would be lost first, are irrelevant to the loader.
    """
    (start,) = struct.unpack_from("<Q", head, 0x20)
    each_bytes, count = struct.unpack_from("<HH", head, 0x36)
    rows = [struct.unpack_from("<QQQQ", head, start + index * each_bytes + 8) for index in range(count)]
    end = max((offset + in_file for offset, _, _, in_file in rows), default=0)
    if end > size_bytes:
        raise Unloadable(f"it is truncated: {size_bytes:,} of at least {end:,} bytes are present")


def _dynamic(elf: ELFFile) -> SharedObject:
    from elftools.elf.dynamic import Dynamic

    segment = next((each for each in elf.iter_segments() if each["p_type"] == "PT_DYNAMIC"), None)
    if segment is None:
        raise Unloadable("it is not a shared library: it has no dynamic section")
    dynamic = Dynamic(elf.stream, elf, None, segment["p_offset"], segment["p_filesz"] == 0)
    soname, needed, paths = "", [], {"DT_RPATH": "", "DT_RUNPATH": ""}
    tag: Any  # its attributes depend on its kind
    for tag in dynamic.iter_tags():
        kind = tag.entry.d_tag
        if kind == "DT_NEEDED":
            needed.append(tag.needed)
        elif kind == "DT_SONAME":
            soname = tag.soname
        elif kind in paths:
            paths[kind] = tag.runpath if kind == "DT_RUNPATH" else tag.rpath
    rpath, runpath = (tuple(filter(None, text.split(":"))) for text in paths.values())
    return SharedObject(soname, tuple(needed), rpath, runpath)
