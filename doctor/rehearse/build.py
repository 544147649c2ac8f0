"""Build the simulated driver on first use, into the user's cache folder."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import time

from tfgpu_doctor._project import install
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.cache import cache_folder, discard_folder, make_folder, remove_abandoned
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.rehearse.machine import HEADERS, SOURCES

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Bsymbolic: calls within a library stay in it, even if the process has other functions of the same name.
_OPTIONS = ("-shared", "-fPIC", "-O1", "-std=c11", "-fvisibility=hidden", "-fno-sanitize=undefined", "-Wl,-Bsymbolic")
_COMPILERS = ("cc", "gcc", "clang")
_DEADLINE_S = 30.0  # for all of them together
_ZIG_DEADLINE_S = 300.0  # it first builds parts of a C library
_LONGEST_COMPLAINT = 200
_ELF = b"\x7fELF"


class BuildError(Exception):
    """The simulated driver cannot be built; the message is one line that says what to do."""


def build_driver(host: Host | None = None) -> str:
    """Return the folder with libcuda.so.1 and libnvidia-ml.so.1 of the simulated driver. Raises BuildError."""
    host = host or Host()
    if not sys.platform.startswith("linux"):
        raise BuildError("the simulated driver requires Linux: rehearse in a container or in WSL")
    cache = cache_folder(host.environment)
    place = os.path.join(cache, f"driver-{_fingerprint()}-{platform.machine()}")
    remove_abandoned(cache)
    if not _is_whole(place):
        try:
            if os.path.isdir(place) and not _is_whole(place):  # another doctor may have made it meanwhile
                discard_folder(place)
            make_folder(place, lambda part: _compile(host, part))
        except OSError as error:
            raise BuildError(
                f"{cache} cannot be written ({error.strerror or error}): set XDG_CACHE_HOME to another folder"
            ) from error
    return place


def _fingerprint() -> str:
    """Return a short hash of the sources and options of the libraries."""
    parts = [Files().read_bytes(os.path.join(_FOLDER, name)) for name in (*SOURCES.values(), *HEADERS)]
    return hashlib.sha256(b"\0".join([*parts, " ".join(_OPTIONS).encode()])).hexdigest()[:16]


def _is_whole(folder: str) -> bool:
    """Whether both libraries are there."""
    return all(_is_library(os.path.join(folder, library)) for library in SOURCES)


def _is_library(path: str) -> bool:
    """Whether a file is a library of this system, and not what a compiler that fails without a word leaves."""
    try:
        return Files().read_bytes(path, len(_ELF)) == _ELF
    except OSError:
        return False


def _compile(host: Host, folder: str) -> None:
    """Build both libraries with the first compiler that succeeds."""
    complaints = []
    until = time.monotonic() + _DEADLINE_S
    for compiler in _compilers(host):
        left_s = until - time.monotonic() if len(compiler) == 1 else _ZIG_DEADLINE_S
        if left_s <= 0:
            continue
        complaint = _compile_with(host, compiler, folder, left_s)
        if not complaint:
            return
        complaints.append(f"{os.path.basename(compiler[-1])}: {complaint}")
    if complaints:
        raise BuildError(f"the simulated driver could not be built ({complaints[0][:_LONGEST_COMPLAINT]})")
    raise BuildError(f"building the simulated driver requires a C compiler: install gcc, or {install('rehearse')}")


def _compilers(host: Host) -> list[list[str]]:
    """Return the command of each available C compiler; ziglang is last because it takes longest."""
    path = host.environment.get("PATH", os.defpath)
    found = [[compiler] for name in _COMPILERS if (compiler := shutil.which(name, path=path))]
    return [*found, [sys.executable, "-m", "ziglang", "cc"]] if importlib.util.find_spec("ziglang") else found


def _compile_with(host: Host, compiler: list[str], folder: str, deadline_s: float) -> str:
    """Build both libraries with a compiler; return its error, or an empty string on success."""
    zig = os.path.join(folder, "zig")
    until = time.monotonic() + deadline_s
    variables = {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig, "LC_ALL": "C", "TMPDIR": folder}
    for library, source in SOURCES.items():
        command = [
            *compiler,
            *_OPTIONS,
            f"-Wl,-soname,{library}",
            "-o",
            os.path.join(folder, library),
            os.path.join(_FOLDER, source),
        ]
        done = host.run(command, deadline_s=max(0.1, until - time.monotonic()), variables=variables)
        if done.timed_out:
            return f"it did not end within {deadline_s:.0f} s"
        if done.exit_code != 0:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            telling = [line for line in lines if "error" in line] or lines[-1:]
            return done.not_started or next(iter(telling), "it gave no reason")
        if not _is_library(os.path.join(folder, library)):
            return f"it ended with exit code 0, and wrote no {library}"
    shutil.rmtree(zig, ignore_errors=True)
    return ""
