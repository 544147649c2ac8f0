"""The probes of LD_PRELOAD, some of them with libraries that are really preloaded."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from built_machines import failed_import
from healthy import runtime

from tfgpu_doctor.collect.probes.preload import failed_preloads, preload, run_without_preload
from tfgpu_doctor.collect.workers import show_allocator
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.preload import FailedPreload, Preload, RunWithoutPreload
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

real = pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and a C compiler")
CRASHED = Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV"))
LISTED = Completed(
    b'{"version": "2.20.0", "phase": "listing the GPUs"}\n{"gpus_listed": true, "gpus": []}\n', "", 3.0, 0
)
MALLOC = (
    "#include <stddef.h>\nextern void *__libc_malloc(size_t);\nextern void __libc_free(void *);\n"
    "void *malloc(size_t n) { return __libc_malloc(n); }\nvoid free(void *p) { __libc_free(p); }\n"
    "int posix_memalign(void **p, size_t a, size_t n) { (void)a; *p = __libc_malloc(n); return 0; }\n"
)


def library(folder: pathlib.Path, source: str) -> str:
    (folder / "made.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "made.c", "-o", "libmade.so"], cwd=folder, check=True)
    return str(folder / "libmade.so")


def test_nothing_is_preloaded(machine: Machine) -> None:
    assert machine.ask(preload, environment={}) == Preload()


@real
def test_a_missing_file(machine: Machine) -> None:
    found = machine.ask(preload, environment={"LD_PRELOAD": "/no/such.so:libno.so.4"})
    reason = "cannot open shared object file"
    assert [(each.library, each.named_in, each.reason) for each in found.failed] == [
        ("/no/such.so", "LD_PRELOAD", reason),
        ("libno.so.4", "LD_PRELOAD", reason),
    ]
    assert found.allocator == ""


@real
def test_a_library_that_replaces_malloc(machine: Machine, tmp_path: pathlib.Path) -> None:
    made = library(tmp_path, MALLOC)
    found = machine.ask(preload, environment={"LD_PRELOAD": made})
    assert (found.failed, found.allocator) == ((), made)


@pytest.mark.parametrize("replaced", ["/opt/libjemalloc.so.2", "/usr/lib/libc.so.6"])
def test_a_python_with_an_entry_of_its_own_for_malloc(
    replaced: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Debian's: the address of malloc lies in the program, whatever library has it."""
    files = iter([os.path.realpath(sys.executable), replaced])
    monkeypatch.setattr(show_allocator, "file_at", lambda address: next(files))
    show_allocator.main()
    assert json.loads(capsys.readouterr().out) == {"malloc": replaced}


@real
def test_a_harmless_library(machine: Machine, tmp_path: pathlib.Path) -> None:
    found = machine.ask(preload, environment={"LD_PRELOAD": library(tmp_path, "int made(void) { return 1; }\n")})
    assert (found.attempt.answered, found.failed, found.allocator) == (True, (), "")


def test_what_the_loader_says() -> None:
    lines = [
        "ERROR: ld.so: object '/opt/x.so' from LD_PRELOAD cannot be preloaded (wrong ELF class: ELFCLASS32): ignored.",
        "ERROR: ld.so: object '/opt/x.so' from LD_PRELOAD cannot be preloaded (wrong ELF class: ELFCLASS32): ignored.",
        "ERROR: ld.so: object '/opt/y.so' from /etc/ld.so.preload cannot be preloaded (file too short): ignored.",
        "ERROR: ld.so: object 'libz.so' from LD_PRELOAD cannot be preloaded: ignored.",  # glibc 2.12 of CentOS 6
        "something else",
    ]
    assert failed_preloads(lines) == (
        FailedPreload(library="/opt/x.so", reason="wrong ELF class: ELFCLASS32"),
        FailedPreload(library="/opt/y.so", reason="file too short", named_in="/etc/ld.so.preload"),
        FailedPreload(library="libz.so"),
    )


@pytest.mark.parametrize("broken", [CRASHED, failed_import("ImportError: x"), runtime(gpus_listed=False)])
def test_a_failed_run_is_tried_again_without_it(machine: Machine, broken: Runtime) -> None:
    found = machine.ask(run_without_preload, environment={"LD_PRELOAD": "x.so"}, done=LISTED, runtime=broken)
    assert (found.version, found.gpus_listed, found.attempt.answered) == ("2.20.0", True, True)
    assert machine.asked[0].variables["LD_PRELOAD"] == ""
    assert machine.asked[0].argv[-2:] == ["GPU", "list"]


def test_nothing_is_tried_without_a_reason(machine: Machine) -> None:
    assert (
        machine.ask(run_without_preload, environment={"LD_PRELOAD": "x.so"}, done=LISTED, runtime=runtime())
        == RunWithoutPreload()
    )
    assert machine.ask(run_without_preload, environment={}, done=LISTED, runtime=CRASHED) == RunWithoutPreload()
    assert machine.asked == []
