"""The probe of NVIDIA's kernel module on the disk."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.module_files import module_files, understand
from tfgpu_doctor.model.facts.kernel import DkmsModule, ModuleFile

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

KERNEL, OLDER = "6.8.0-48-generic", "6.8.0-45-generic"
MODULE = f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst"
ANSWER = f"""\
filename:       {MODULE}
alias:          char-major-195-*
version:        560.35.03
supported:      external
license:        Dual MIT/GPL
firmware:       nvidia/560.35.03/gsp_tu10x.bin
srcversion:     8DC31A2A0F4E6DB95D5CEB4
depends:
retpoline:      Y
name:           nvidia
vermagic:       {KERNEL} SMP preempt mod_unload modversions
sig_id:         PKCS#7
signer:         node17 Secure Boot Module Signature key
parm:           NvSwitchRegDwords:NvSwitch regkey (charp)
"""
# As dkms 3 writes it; older ones name module and version with a dash.
LOG = f"""\
DKMS (dkms-3.0.11) make.log for nvidia/550.54.15 for kernel {KERNEL} (x86_64)
Mon Nov  2 10:11:12 CET 2026
make: Entering directory '/usr/src/linux-headers-{KERNEL}'
  CC [M]  /var/lib/dkms/nvidia/550.54.15/build/nvidia/nv.o
/var/lib/dkms/nvidia/550.54.15/build/nvidia/nv.c:123:9: error: implicit declaration of function 'vm_flags_set'
/var/lib/dkms/nvidia/550.54.15/build/nvidia/nv.c:130:9: error: another
make[2]: *** [scripts/Makefile.build:243: nv.o] Error 1
"""


@pytest.fixture
def linux(machine: Machine) -> Machine:
    machine.file("/proc/sys/kernel/osrelease", KERNEL + "\n")
    return machine


def add(machine: Machine, version: str = "550.54.15", name: str = "nvidia") -> None:
    machine.link(f"/var/lib/dkms/{name}/{version}/source", f"/usr/src/{name}-{version}")


def build(machine: Machine, kernel: str, version: str = "550.54.15", name: str = "nvidia") -> None:
    machine.file(f"/var/lib/dkms/{name}/{version}/{kernel}/x86_64/module/nvidia.ko", "")


def install(machine: Machine, kernel: str, version: str = "550.54.15", name: str = "nvidia") -> None:
    machine.link(f"/var/lib/dkms/{name}/kernel-{kernel}-x86_64", f"{version}/{kernel}/x86_64")


def the_dkms_modules(machine: Machine) -> list[tuple[str, str, str]]:
    return [(each.name, each.version, each.state) for each in machine.ask(module_files).dkms]


def test_without_a_module_nothing_is_found(linux: Machine) -> None:
    found = linux.ask(module_files)
    assert (found.file, found.dkms, found.headers) == (None, (), None)


def test_the_states_are_those_of_dkms(linux: Machine) -> None:
    add(linux)
    assert the_dkms_modules(linux) == [("nvidia", "550.54.15", "added")]
    build(linux, OLDER)
    install(linux, OLDER)
    assert the_dkms_modules(linux) == [("nvidia", "550.54.15", "added")]
    build(linux, KERNEL)
    assert the_dkms_modules(linux) == [("nvidia", "550.54.15", "built")]
    install(linux, KERNEL)
    assert the_dkms_modules(linux) == [("nvidia", "550.54.15", "installed")]


def test_of_two_versions_one_is_installed(linux: Machine) -> None:
    for version in ("550.54.15", "560.35.03"):
        add(linux, version)
        build(linux, KERNEL, version)
    install(linux, KERNEL, "560.35.03")
    assert the_dkms_modules(linux) == [("nvidia", "550.54.15", "built"), ("nvidia", "560.35.03", "installed")]


def test_the_modules_of_debian_count_and_others_do_not(linux: Machine) -> None:
    add(linux, "535.183.01", "nvidia-current")
    add(linux, "2.17.5", "nvidia-fs")
    add(linux, "7.0.20", "virtualbox")
    assert the_dkms_modules(linux) == [("nvidia-current", "535.183.01", "added")]


@pytest.mark.parametrize("head", ["nvidia/550.54.15", "nvidia-550.54.15"])
def test_a_build_that_failed_tells_for_which_kernel_and_why(linux: Machine, head: str) -> None:
    add(linux)
    linux.file("/var/lib/dkms/nvidia/550.54.15/build/make.log", LOG.replace("nvidia/550.54.15 for", f"{head} for"))
    (found,) = linux.ask(module_files).dkms
    assert found == DkmsModule(
        name="nvidia",
        version="550.54.15",
        failed_for=KERNEL,
        log="/var/lib/dkms/nvidia/550.54.15/build/make.log",
        error="/var/lib/dkms/nvidia/550.54.15/build/nvidia/nv.c:123:9: error: implicit declaration of function 'vm_flags_set'",
    )


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (("Compiler version check failed:", "", "gcc version 9.3.1"), "Compiler version check failed:"),
        (("gcc-version-check failed:", "", "The compiler"), "gcc-version-check failed:"),
        (("make[5]: *** [scripts/Makefile.build:207: nvidia/nv-pat.o] Fehler 1", "nv.c:41:10: Fehler: Implizite Deklaration"),
         "nv.c:41:10: Fehler: Implizite Deklaration"),
        (("nv.c:41:10: warning: unused", "nv.c:42:10: erreur : déclaration implicite"),
         "nv.c:42:10: erreur : déclaration implicite"),
        (("nv.c:41:10: 警告：x", "nv.c:42:10: 错误：隐式声明函数"), "nv.c:42:10: 错误：隐式声明函数"),
        (("nv.c:41:10: internal compiler error: Segmentation fault",), "nv.c:41:10: internal compiler error: Segmentation fault"),
        (("  CC [M]  nvidia/nv.o", "make[1]: *** [Makefile:1516: _module_x] Error 2"),
         "make[1]: *** [Makefile:1516: _module_x] Error 2"),
    ],
)  # fmt: skip
def test_why_a_build_failed_in_the_words_of_other_tools_and_languages(
    linux: Machine, lines: tuple[str, ...], error: str
) -> None:
    add(linux)
    head = f"DKMS make.log for nvidia-550.54.15 for kernel {KERNEL} (x86_64)\nMon Nov  2 10:11:12 CET 2026"
    linux.file("/var/lib/dkms/nvidia/550.54.15/build/make.log", "\n".join((head, *lines, "make: done")))
    (found,) = linux.ask(module_files).dkms
    assert (found.failed_for, found.error) == (KERNEL, error)


@pytest.mark.parametrize("text", ["", "\0\xff", "DKMS make.log", "error:" * 100_000])
def test_an_odd_log_of_a_build_does_no_harm(linux: Machine, text: str) -> None:
    add(linux)
    linux.file("/var/lib/dkms/nvidia/550.54.15/build/make.log", text)
    (found,) = linux.ask(module_files).dkms
    assert (found.failed_for, found.state) == ("", "added")
    assert len(found.error) <= 300


@pytest.mark.parametrize("headers", [True, False])
def test_headers_are_where_the_link_of_the_modules_leads(linux: Machine, headers: bool) -> None:
    linux.file(f"/lib/modules/{KERNEL}/modules.dep", "")
    linux.link(f"/lib/modules/{KERNEL}/build", f"/usr/src/linux-headers-{KERNEL}")
    if headers:
        linux.file(f"/usr/src/linux-headers-{KERNEL}/Makefile", "")
    assert linux.ask(module_files).headers is headers


def test_the_answer_of_modinfo_is_understood() -> None:
    assert understand(MODULE, ANSWER) == ModuleFile(
        path=MODULE,
        version="560.35.03",
        flavour="open",
        signer="node17 Secure Boot Module Signature key",
        kernel=KERNEL,
    )


@pytest.mark.parametrize(
    ("licence", "flavour"), [("NVIDIA", "proprietary"), ("Dual MIT/GPL", "open"), ("", ""), ("BSD", "")]
)
def test_the_licence_tells_the_flavour(licence: str, flavour: str) -> None:
    assert understand(MODULE, f"license:        {licence}\n").flavour == flavour


@pytest.mark.parametrize("answer", ["", "\n\n", "modinfo: ERROR: Module not found", "version:\n"])
def test_an_odd_answer_of_modinfo_says_nothing(answer: str) -> None:
    assert understand(MODULE, answer) == ModuleFile(path=MODULE)


def test_modinfo_is_asked_of_the_module_for_the_kernel_that_runs(linux: Machine, tmp_path: pathlib.Path) -> None:
    linux.file(
        f"/lib/modules/{KERNEL}/modules.dep",
        "kernel/a.ko:\nupdates/dkms/nvidia.ko.zst: kernel/b.ko\nupdates/dkms/nvidia-uvm.ko.zst:\n",
    )
    linux.file(MODULE, "")
    program = tmp_path / "bin/modinfo"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ -f \"$1\" ] || exit 1\nPATH=/usr/bin:/bin\ncat <<'END'\n{ANSWER}END\n")
    program.chmod(0o755)
    found = linux.ask(module_files, environment={"PATH": str(program.parent)}).file
    assert found and (found.path, found.version) == (MODULE, "560.35.03")


@pytest.mark.skipif(
    not shutil.which("modinfo", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin"), reason="no modinfo"
)
def test_the_real_modinfo_does_not_know_an_empty_file(linux: Machine) -> None:
    linux.file(f"/lib/modules/{KERNEL}/modules.dep", "updates/dkms/nvidia.ko.zst:\n")
    linux.file(MODULE, "")
    assert linux.ask(module_files).file == ModuleFile(path=MODULE)


def test_a_quick_look_starts_no_modinfo(linux: Machine) -> None:
    linux.file(f"/lib/modules/{KERNEL}/modules.dep", "updates/dkms/nvidia.ko.zst:\n")
    assert linux.ask(module_files, request=Request(python="", level="quick")).file is None
