"""Small shared libraries, built with the machine's C compiler, and what the real loader makes of them."""

from __future__ import annotations

import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tfgpu_doctor.collect.ldso.resolver import Outcome, Resolver
from tfgpu_doctor.collect.ldso.search_path import SearchPath, split_list
from tfgpu_doctor.host import Host

_OPENER = "#include <dlfcn.h>\nvoid *open_it(const char *name) { return dlopen(name, RTLD_NOW); }\n"
# Opens each name through the opener, so that the opener's own paths count, and tells the file that came of it.
_ASK = """
import ctypes, sys
opener = ctypes.CDLL(sys.argv[1])
opener.open_it.restype = ctypes.c_void_p
opener.open_it.argtypes = [ctypes.c_char_p]
for name in sys.argv[2:]:
    before = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
    opened = opener.open_it(name.encode())
    maps = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
    print(name, "yes" if opened else "no", *sorted(maps - before))
"""


@dataclass
class Workshop:
    """A folder of libraries, and the two loaders to compare: the real one, and the one in thought."""

    folder: pathlib.Path
    compiler: str
    variables: dict[str, str] = field(default_factory=dict)

    def build(
        self, path: str, *, needs: Sequence[str] = (), rpath: str = "", runpath: str = "", source: str = ""
    ) -> pathlib.Path:
        """A library at that path below the folder; `needs` are libraries that were built before, by path."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        code = self.folder / "code.c"
        code.write_text(source or f"int {place.name.partition('.')[0]}(void) {{ return 1; }}\n")
        command = [self.compiler, "-shared", "-fPIC", "-o", str(place), str(code), f"-Wl,-soname,{place.name}"]
        command += ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", *(str(self.folder / each) for each in needs)]
        command += [f"-Wl,-rpath,{rpath or runpath}"] if rpath or runpath else []
        command += ["-Wl,--disable-new-dtags" if rpath else "-Wl,--enable-new-dtags", "-ldl"]
        subprocess.run(command, check=True)
        return place

    def opener(self, *, rpath: str = "", runpath: str = "") -> pathlib.Path:
        """The object that calls dlopen, as TensorFlow's framework library does."""
        return self.build("libopener.so", rpath=rpath, runpath=runpath, source=_OPENER)

    def real(
        self, opener: pathlib.Path, *names: str, cwd: pathlib.Path | None = None
    ) -> dict[str, tuple[bool, set[str]]]:
        """What the machine's own loader does: whether each name opens, and the files that were mapped for it."""
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", _ASK, str(opener), *names],
            env={"PATH": "/usr/bin", **self.variables}, cwd=cwd or self.folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        rows = [line.split() for line in done.stdout.splitlines()]
        inside = str(self.folder.resolve())
        return {
            name: (said == "yes", {path for path in paths if path.startswith(inside)}) for name, said, *paths in rows
        }

    def thought(self, opener: pathlib.Path, *names: str) -> dict[str, tuple[bool, set[str]]]:
        """What the resolver says of the same."""
        resolver = self.resolver()
        asker = resolver.load_file(str(opener))
        assert asker is not None
        told = {}
        known: set[str] = {str(opener.resolve())}
        known |= {each.real_path for each in resolver._loaded.values()}
        for name in names:
            outcome = resolver.open(name, asker)
            inside = {each.real_path for each in resolver._loaded.values()} - known
            known |= inside
            told[name] = (outcome.loaded is not None, {path for path in inside if path.startswith(str(self.folder))})
        return told

    def resolver(self) -> Resolver:
        resolver = Resolver(SearchPath(Host(environment=self.variables), platform.machine()))
        resolver.preload(split_list(self.variables.get("LD_PRELOAD", "")))
        return resolver

    def outcome(self, opener: pathlib.Path, name: str) -> Outcome:
        """What the resolver says of one name."""
        resolver = self.resolver()
        return resolver.open(name, resolver.load_file(str(opener)))


def _compiler() -> str:
    return shutil.which("cc") or shutil.which("gcc") or ""


@pytest.fixture
def workshop(tmp_path: pathlib.Path) -> Workshop:
    """An empty folder to build libraries in."""
    if not _compiler() or not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        pytest.skip("needs Linux with glibc and a C compiler")
    return Workshop(tmp_path.resolve(), _compiler())
