"""The dynamic loader's cache, /etc/ld.so.cache."""

from __future__ import annotations

import struct

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER_BYTES = 48
_ENTRY = struct.Struct("<iIIIQ")  # flags, name, path (both offsets), unused, hardware capabilities
# glibc's sysdeps/generic/ldconfig.h: FLAG_ELF_LIBC6 (3) with the bits of an architecture's 64-bit libraries
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "ppc64le": 0x0503}


def parse_loader_cache(content: bytes, architecture: str) -> dict[str, list[str]]:
    """Map the name of each library to its paths, the loader's first choice first; empty if the content is not a cache.

    The format is that of glibc 2.2 and later (`struct cache_file_new` in sysdeps/generic/dl-cache.h); an older
    cache may precede it. Libraries of other architectures are omitted.
    """
    start = content.find(_MAGIC)
    if start < 0 or len(content) < start + _HEADER_BYTES:
        return {}
    content = content[start:]
    (count,) = struct.unpack_from("<I", content, len(_MAGIC))
    wanted = _FLAGS.get(architecture)
    found: dict[str, list[str]] = {}
    for index in range(count):
        place = _HEADER_BYTES + index * _ENTRY.size
        if place + _ENTRY.size > len(content):
            break
        flags, name, path, _, _ = _ENTRY.unpack_from(content, place)
        if wanted is None or flags == wanted:
            found.setdefault(_string(content, name), []).append(_string(content, path))
    return found


def _string(content: bytes, offset: int) -> str:
    end = content.find(b"\0", offset)
    return content[offset : end if end >= 0 else None].decode("utf-8", "replace")
