"""`env`: the line for each shell does in that shell what it is meant to, whatever the folder is called."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from doctor_command import clean_environment

from tfgpu_doctor.fix.shells import SHELLS, Unwritable
from tfgpu_doctor.fix.variables import Needed, find_needed
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

FOLDERS = [
    "/plain",
    "/with space",
    "/it's",
    '/"quoted"',
    "/$HOME/`id`/$(id)",
    "/back\\slash\\",
    "/uml\u00e4ut",
    "/~",
    "/\u2019s",
]
PRINT = "import os; print(os.environ.get('LD_LIBRARY_PATH'), end='')"


def interpreter(shell: str) -> list[str]:
    name = {"powershell": "pwsh"}.get(shell, shell)
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return [name, "-NoProfile", "-Command"] if shell == "powershell" else [name, "-c"]


@pytest.mark.parametrize("before", [None, "", "/old", "/old:/older"])
@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "powershell"])
def test_shell_puts_the_folders_in_front(shell: str, before: str | None) -> None:
    line = SHELLS["bash" if shell == "sh" else shell](FOLDERS)
    variables = {} if before is None else {"LD_LIBRARY_PATH": before}
    done = subprocess.run(
        [*interpreter(shell), f'{line}\npython3 -c "{PRINT}"'], env=clean_environment(**variables),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ":".join([*FOLDERS, *([before] if before else [])])


def test_powershell_quotes() -> None:
    assert SHELLS["powershell"](["/it's", "/\u2019"]).startswith("$env:LD_LIBRARY_PATH = '/it''s:/\u2019\u2019' + ")


def test_fish_quotes() -> None:
    assert r"set -gx --path LD_LIBRARY_PATH '/it\'s' '/a\\b' $LD_LIBRARY_PATH;" in SHELLS["fish"](["/it's", "/a\\b"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_dockerfile(folder: str) -> None:
    """Read as BuildKit's lexer reads a word in double quotes: a backslash takes away the meaning of what follows."""
    line = SHELLS["docker"]([folder])
    found = re.fullmatch(
        r'ENV LD_LIBRARY_PATH="((?:[^"\\$]|\\["\\$])*)\$\{LD_LIBRARY_PATH:\+:\$LD_LIBRARY_PATH\}"', line
    )
    assert found
    assert re.sub(r"\\(.)", r"\1", found[1]) == folder


def test_dockerfile_knows_no_line_break() -> None:
    with pytest.raises(Unwritable):
        SHELLS["docker"](["/two\nlines"])


TARGET = Target(attempt=Attempt(outcome="answered"), executable="/venv/bin/python", prefix="/venv")


def missing(soname: str, *elsewhere: str, chain: tuple[str, ...] = (), error: str = "") -> ResolvedLibrary:
    return ResolvedLibrary(
        soname=soname, found=False, needed_by_tensorflow=True, missing_chain=chain or (soname,), elsewhere=elsewhere,
        error=error,
    )  # fmt: skip


def needed(*libraries: ResolvedLibrary) -> Needed:
    return find_needed(Resolution(libraries=libraries), TARGET)


def test_folders_once_each_and_the_targets_own_first() -> None:
    found = needed(
        missing("liba.so.1", "/usr/local/cuda/lib64/liba.so.1", "/venv/nvidia/a/liba.so.1"),
        missing("libb.so.1", "/venv/nvidia/a/libb.so.1"),
        missing("libc.so.1", "/opt/c/libd.so.1", chain=("libc.so.1", "libd.so.1")),
    )
    assert found == Needed(folders=("/venv/nvidia/a", "/opt/c"))


def test_driver_libraries_come_with_the_driver() -> None:
    chain = ("libcudnn_engines_runtime_compiled.so.9", "libcuda.so.1")
    found = needed(missing("libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so.1"), missing(chain[0], chain=chain))
    assert found == Needed(of_the_driver=("libcuda.so.1",))
    assert needed(missing("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")).folders == ("/usr/lib/wsl/lib",)


def test_what_no_variable_helps() -> None:
    found = needed(
        missing("liba.so.1"),
        missing("libb.so.1", error="/x/libb.so.1: it is truncated"),
        missing("libc.so.1", "/a:b/libc.so.1"),
    )
    assert found.folders == ()
    assert found.absent == ("liba.so.1",)
    assert found.unusable[0] == "/x/libb.so.1: it is truncated"
    assert "/a:b" in found.unusable[1]


@pytest.mark.parametrize(("copy", "folders"), [("/venv/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", 1), ("", 0)])
def test_what_cudnn_opens_later_has_its_folder_and_is_not_required(copy: str, folders: int) -> None:
    cudnn = ResolvedLibrary(soname="libcudnn_graph.so.9", found=True, needed_by_tensorflow=True)
    compiler = ResolvedLibrary(
        soname="libnvrtc.so.12", found=False, needed_by_tensorflow=False, asked_by=cudnn.soname,
        elsewhere=(copy,) * bool(copy),
    )  # fmt: skip
    assert needed(cudnn, compiler) == Needed(folders=("/venv/nvidia/cuda_nvrtc/lib",) * folders)


def test_nothing_is_missing() -> None:
    assert needed() == Needed()
