"""The loader's path: its cache, its variable, its default folders."""

from __future__ import annotations

import os
import pathlib
import platform
import random
import re
import shutil
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.ldso.cache import parse_loader_cache
from tfgpu_doctor.collect.probes.library_search import Search
from tfgpu_doctor.host import Host

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

X86_64, I386, AARCH64, X32 = 0x0303, 0x0003, 0x0A03, 0x0803
Entry = tuple[str, str, int]
ENTRIES: list[Entry] = [
    ("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", X86_64),
    ("libcuda.so.1", "/usr/lib/i386-linux-gnu/libcuda.so.1", I386),
    ("libcuda.so.1", "/usr/lib/aarch64-linux-gnu/libcuda.so.1", AARCH64),
    ("libcuda.so", "/usr/lib/x86_64-linux-gnu/libcuda.so", X86_64),
    ("libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so.12", X86_64),
    ("libcudart.so.12", "/opt/cuda-12.4/lib64/libcudart.so.12", X86_64),
    ("libx32.so.1", "/libx32/libx32.so.1", X32),
]


def cache_of(entries: list[Entry]) -> bytes:
    """A cache of glibc 2.32 and later (struct cache_file_new of sysdeps/generic/dl-cache.h)."""
    strings, rows, start = b"", b"", 48 + 24 * len(entries)
    for name, path, flags in entries:
        name_at = start + len(strings)
        strings += name.encode() + b"\0"
        path_at = start + len(strings)
        strings += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, name_at, path_at, 0, 0)
    return b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI12x", len(entries), len(strings), 2, 0) + rows + strings


def with_old_cache_before(new: bytes) -> bytes:
    """The same after a cache of libc5 and glibc 2.1, as `ldconfig -c compat` writes."""
    old = b"ld.so-1.7.0\0" + struct.pack("<I", 1) + struct.pack("<iII", 3, 0, 0)
    return old + b"\0" * (-len(old) % 8) + new


def test_names_lead_to_paths_in_the_loaders_order() -> None:
    assert parse_loader_cache(cache_of(ENTRIES), "x86_64") == {
        "libcuda.so.1": ["/usr/lib/x86_64-linux-gnu/libcuda.so.1"],
        "libcuda.so": ["/usr/lib/x86_64-linux-gnu/libcuda.so"],
        "libcudart.so.12": ["/usr/local/cuda/lib64/libcudart.so.12", "/opt/cuda-12.4/lib64/libcudart.so.12"],
    }


def test_each_architecture_has_its_own() -> None:
    found = parse_loader_cache(cache_of(ENTRIES), "aarch64")
    assert found == {"libcuda.so.1": ["/usr/lib/aarch64-linux-gnu/libcuda.so.1"]}


def test_of_an_architecture_without_known_flags_all_are_taken() -> None:
    assert len(parse_loader_cache(cache_of(ENTRIES), "riscv64")["libcuda.so.1"]) == 3


def test_an_older_cache_before_it_is_passed_over() -> None:
    content = cache_of(ENTRIES)
    assert parse_loader_cache(with_old_cache_before(content), "x86_64") == parse_loader_cache(content, "x86_64")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"glibc-ld.so.cache",
        b"glibc-ld.so.cache1.1",
        b"glibc-ld.so.cache1.1\xff\xff\xff\xff",
        b"ld.so-1.7.0\0" + b"\0" * 100,
        b"not a cache at all\n" * 100,
        bytes(range(256)) * 40,
        cache_of([]),
    ],
)
def test_what_is_no_cache_has_no_libraries(content: bytes) -> None:
    assert parse_loader_cache(content, "x86_64") == {}


def test_a_count_beyond_the_end_is_survived() -> None:
    content = cache_of(ENTRIES)
    lying = content[:20] + b"\xff\xff\xff\xff" + content[24:]
    assert parse_loader_cache(lying, "x86_64")["libcuda.so.1"][0] == "/usr/lib/x86_64-linux-gnu/libcuda.so.1"


def test_a_cache_cut_off_anywhere_names_nothing_new() -> None:
    content = cache_of(ENTRIES)
    names = {name for name, _, _ in ENTRIES}
    paths = {path for _, path, _ in ENTRIES}
    for length in range(len(content)):
        for name, found in parse_loader_cache(content[:length], "x86_64").items():
            assert any(whole.startswith(name) for whole in names), length
            assert all(any(whole.startswith(path) for whole in paths) for path in found), length


def test_a_damaged_cache_is_survived() -> None:
    chance = random.Random(7)
    for _ in range(300):
        content = bytearray(cache_of(ENTRIES))
        for _ in range(chance.randrange(1, 30)):
            content[chance.randrange(20, len(content))] = chance.randrange(256)
        for name, found in parse_loader_cache(bytes(content), "x86_64").items():
            assert isinstance(name, str)
            assert found


def listed_by_ldconfig(*options: str) -> dict[str, list[str]]:
    """What `ldconfig -p` says of the libraries of this machine's own architecture."""
    program = shutil.which("ldconfig", path="/sbin:/usr/sbin:" + os.environ["PATH"])
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine())
    if not program or not kind or platform.libc_ver()[0] != "glibc":
        pytest.skip("there is no ldconfig of glibc here")
    done = subprocess.run([program, "-p", *options], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    for name, kinds, path in re.findall(r"^\t(.*) \((.*)\) => (.*)$", done.stdout, re.MULTILINE):
        if kind in kinds.split(",")[1:2]:
            found.setdefault(name, []).append(path)
    return found


def test_this_machines_cache_says_what_ldconfig_says() -> None:
    expected = listed_by_ldconfig()
    assert expected
    content = pathlib.Path("/etc/ld.so.cache").read_bytes()
    assert parse_loader_cache(content, platform.machine()) == expected


def compiled(place: pathlib.Path, soname: str) -> pathlib.Path:
    """A real shared library of that soname."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not sys.platform.startswith("linux"):
        pytest.skip("a shared library of ELF needs Linux and a C compiler")
    place.mkdir(parents=True, exist_ok=True)
    library = place / soname
    command = [compiler, "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{soname}", "-o", str(library)]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("layout", ["new", "compat"])
def test_a_cache_made_by_ldconfig_says_what_ldconfig_says(tmp_path: pathlib.Path, layout: str) -> None:
    for folder in ("first", "second", "first/glibc-hwcaps/x86-64-v2"):
        compiled(tmp_path / folder, "libtfgpu_one.so.1")
    compiled(tmp_path / "second", "libtfgpu_two.so.12")
    listed_by_ldconfig()
    program = shutil.which("ldconfig", path="/sbin:/usr/sbin:" + os.environ["PATH"])
    cache = tmp_path / "cache"
    (tmp_path / "conf").write_text(f"{tmp_path}/first\n{tmp_path}/second\n")
    command = [str(program), "-X", "-c", layout, "-C", str(cache), "-f", str(tmp_path / "conf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not cache.exists():
        pytest.skip(f"this ldconfig makes no such cache: {done.stderr.strip()[:200]}")
    expected = listed_by_ldconfig("-C", str(cache))
    assert f"{tmp_path}/second/libtfgpu_two.so.12" in expected["libtfgpu_two.so.12"]
    assert parse_loader_cache(cache.read_bytes(), platform.machine()) == expected


def paths(machine: Machine, soname: str, *known: str, architecture: str = "x86_64", **variables: str) -> list[str]:
    search = Search(Host(str(machine.root), variables), architecture)
    return [copy.path for copy in search.copies(soname, known)]


def test_copies_come_in_the_loaders_order(machine: Machine, tmp_path: pathlib.Path) -> None:
    variable = tmp_path / "variable"
    variable.mkdir()
    (variable / "libcuda.so.1").write_bytes(b"of the variable")
    places = [
        "/opt/cached/libcuda.so.1",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/usr/lib64/libcuda.so.1",
        "/known/libcuda.so.1",
    ]
    for place in places:
        machine.file(place, "library")
    machine.file(
        "/etc/ld.so.cache",
        cache_of([("libcuda.so.1", places[0], X86_64), ("libcuda.so.1", "/gone/libcuda.so.1", X86_64)]),
    )
    search = Search(Host(str(machine.root), {"LD_LIBRARY_PATH": str(variable)}), "x86_64")
    found = search.copies("libcuda.so.1", ["/known"])
    assert [(copy.path, copy.found_in) for copy in found] == [
        (f"{variable}/libcuda.so.1", "LD_LIBRARY_PATH"),
        (places[0], "ld.so.cache"),
        (places[1], "default folder"),
        (places[2], "default folder"),
        (places[3], "known place"),
    ]
    assert [copy.on_loader_path for copy in found] == [True, True, True, True, False]
    assert found[0].size_bytes == len("of the variable")


def test_each_real_file_is_listed_once_where_the_loader_finds_it_first(machine: Machine) -> None:
    machine.link("/lib", "usr/lib")
    machine.link("/lib64", "usr/lib")
    machine.file("/usr/lib/libcuda.so.550.54.15", "library")
    machine.link("/usr/lib/libcuda.so.1", "libcuda.so.550.54.15")
    search = Search(Host(str(machine.root), {}), "x86_64")
    (only,) = search.copies("libcuda.so.1", ["/usr/lib"])
    assert (only.real_path, only.version, only.found_in) == (
        "/usr/lib/libcuda.so.550.54.15",
        "550.54.15",
        "default folder",
    )


def test_a_link_that_leads_nowhere_is_no_copy(machine: Machine) -> None:
    machine.link("/usr/lib64/libcuda.so.1", "libcuda.so.470.82.01")
    machine.link("/usr/lib/libcuda.so.1", "libcuda.so.1")
    assert paths(machine, "libcuda.so.1") == []


def test_semicolons_separate_folders_too(machine: Machine, tmp_path: pathlib.Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "libcuda.so.1").write_text(folder)
    value = f"/missing;{tmp_path}/a:{tmp_path}/b/"
    assert paths(machine, "libcuda.so.1", LD_LIBRARY_PATH=value) == [
        f"{tmp_path}/a/libcuda.so.1",
        f"{tmp_path}/b/libcuda.so.1",
    ]


def test_each_architecture_has_its_default_folders(machine: Machine) -> None:
    for architecture in ("x86_64", "aarch64"):
        machine.file(f"/usr/lib/{architecture}-linux-gnu/libcuda.so.1")
    assert paths(machine, "libcuda.so.1", architecture="aarch64") == ["/usr/lib/aarch64-linux-gnu/libcuda.so.1"]


def test_a_library_of_32_bits_in_a_default_folder_is_not_on_the_loaders_path(machine: Machine) -> None:
    header_of_i386 = b"\x7fELF\x01\x01\x01" + b"\0" * 9 + struct.pack("<HHI", 3, 3, 1)
    machine.file("/usr/lib/libcuda.so.1", header_of_i386 + b"\0" * 200)  # as on Fedora, beside /usr/lib64
    search = Search(Host(str(machine.root), {}), "x86_64")
    assert [copy for copy in search.copies("libcuda.so.1") if copy.on_loader_path] == []


@pytest.mark.parametrize(
    ("real", "version"),
    [
        ("libcudart.so.12.4.127", "12.4.127"),
        ("libcudart.so.12.4", "12.4"),
        ("libcudart.so.12", ""),
        ("libcudart.so", ""),
        ("libcudart-550.54.15.so", ""),
        ("libcudart.so.12.4.127.old", ""),
    ],
)
def test_the_version_is_what_the_real_files_name_ends_in(machine: Machine, real: str, version: str) -> None:
    machine.file(f"/opt/{real}")
    if real != "libcudart.so.12":
        machine.link("/opt/libcudart.so.12", real)
    search = Search(Host(str(machine.root), {}), "x86_64")
    assert [copy.version for copy in search.copies("libcudart.so.12", ["/opt"])] == [version]


def test_names_are_collected_from_everywhere(machine: Machine, tmp_path: pathlib.Path) -> None:
    (tmp_path / "libfound.so.1").touch()
    machine.file("/usr/lib64/libfound.so.2")
    machine.file("/extra/libfound.so.3")
    machine.file("/etc/ld.so.cache", cache_of([("libfound.so.4", "/x", X86_64), ("libother.so.1", "/y", X86_64)]))
    search = Search(Host(str(machine.root), {"LD_LIBRARY_PATH": str(tmp_path)}), "x86_64")
    pattern = re.compile(r"libfound\.so\.\d")
    assert search.names_matching(pattern, ["/extra", "/missing"]) == [f"libfound.so.{number}" for number in range(1, 5)]


SHOW = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
print(next(line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if sys.argv[1] in line))
"""


def taken_by_the_loader(soname: str, folder: pathlib.Path, variable: str) -> str:
    """The file that the real loader takes, in a working folder, with $LD_LIBRARY_PATH."""
    environment = {**os.environ, "LD_LIBRARY_PATH": variable}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SHOW, soname], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(
    "form",
    [
        "{0}/a:{0}/b",
        "{0}/b:{0}/a",
        "{0}/missing:{0}/b//",
        "a:b",
        "./b",
        pytest.param(
            ":{0}/a",
        ),
        pytest.param(
            "{0}/missing:",
        ),
    ],
)
def test_the_first_copy_is_the_one_that_the_real_loader_takes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    for folder in ("a", "b", "."):
        compiled(tmp_path / folder, "libtfgpu_mine.so.1")
    variable = form.format(tmp_path)
    expected = taken_by_the_loader("libtfgpu_mine.so.1", tmp_path, variable)
    monkeypatch.chdir(tmp_path)
    search = Search(Host(environment={"LD_LIBRARY_PATH": variable}), platform.machine())
    found = search.copies("libtfgpu_mine.so.1")
    assert [copy.real_path for copy in found][:1] == [os.path.realpath(expected)]
