"""NVIDIA's kernel module on disk: its version, and the state of its DKMS builds."""

from __future__ import annotations

import platform
import re

from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.kernel import DkmsModule, ModuleFile, ModuleFiles

# The line of modules.dep for NVIDIA's module: Debian names it nvidia-current-open, nvidia-tesla-470, nvidia-legacy-390xx.
MODULE = re.compile(r"^(\S*/nvidia(?:-current|-tesla(?:-\d+)?|-legacy-\d+xx)?(?:-open)?\.ko(?:\.\w+)?):", re.MULTILINE)
_MODINFO = ("modinfo", "/sbin/modinfo", "/usr/sbin/modinfo")  # not on every user's path
_DKMS = "/var/lib/dkms"
_LOG_BYTES = 512 << 10
_LOG_KERNEL = re.compile(r"make\.log for .{1,80}? for kernel (\S+)")
# gcc, which translates the word, modpost, dkms, and the driver's own tests of the compiler; make reports each failure anew.
_ERROR = re.compile(
    r"^.*(?:\b(?:error|ERROR|Fehler|erreur|errore|erro|błąd|ошибка|hata|fout)[ \u00a0]?:|(?:错误|錯誤|エラー|오류)[:：]|\bError!"
    r"|version[ -]check failed|No such file or directory).*$",
    re.MULTILINE,
)
_STOPPED = re.compile(r"^.*\*\*\* .*$", re.MULTILINE)
_DEADLINE_S = 3.0


@probe(waits_for="the driver's module on disk")
def module_files(host: Host, request: Request) -> ModuleFiles:
    """Read /var/lib/dkms, and query modinfo for the module of the running kernel."""
    kernel = (host.files.text_if_any("/proc/sys/kernel/osrelease") or platform.release()).strip()
    folder = f"/lib/modules/{kernel}"
    return ModuleFiles(
        file=None if request.quick else _module_file(host, folder),
        dkms=tuple(_dkms_modules(host, kernel)),
        headers=host.files.exists(f"{folder}/build/Makefile") if host.files.exists(f"{folder}/modules.dep") else None,
    )


def _module_file(host: Host, folder: str) -> ModuleFile | None:
    listed = MODULE.search(host.files.text_if_any(f"{folder}/modules.dep"))
    if not listed:
        return None
    path = listed.group(1) if listed.group(1).startswith("/") else f"{folder}/{listed.group(1)}"
    for program in _MODINFO:
        done = host.run([program, host.files.place(path)], deadline_s=_DEADLINE_S, variables={"LC_ALL": "C"})
        if not done.not_started:
            return understand(path, done.stdout.decode("utf-8", "replace"))
    return ModuleFile(path=path)


def understand(path: str, answer: str) -> ModuleFile:
    """Parse modinfo's output about a module: lines `name: value`."""
    rows = dict(reversed(re.findall(r"^(version|license|signer|vermagic):\s+(.*)$", answer, re.MULTILINE)))
    licence = rows.get("license", "")
    return ModuleFile(
        path=path,
        version=rows.get("version", ""),
        flavour="open" if "GPL" in licence else "proprietary" if licence == "NVIDIA" else "",
        signer=rows.get("signer", ""),
        kernel=rows.get("vermagic", "").partition(" ")[0],
    )


def _dkms_modules(host: Host, kernel: str) -> list[DkmsModule]:
    """Every version of NVIDIA's module in DKMS's tree, as `dkms status` reads it (github.com/dell/dkms, dkms.in)."""
    names = [name for name in host.files.names_if_any(_DKMS) if re.fullmatch(r"nvidia(?:-(?!fs).+)?", name)]
    return [
        _dkms_module(host, name, version, kernel)
        for name in names
        for version in host.files.names_if_any(f"{_DKMS}/{name}")
        if version[:1].isdecimal()  # the others are links: kernel-6.8.0-48-generic-x86_64
    ]


def _dkms_module(host: Host, name: str, version: str, kernel: str) -> DkmsModule:
    base = f"{_DKMS}/{name}/{version}"
    built = [
        arch
        for arch in host.files.names_if_any(f"{base}/{kernel}")
        if host.files.exists(f"{base}/{kernel}/{arch}/module")
    ]
    installed = any(_points_at(host, f"{_DKMS}/{name}/kernel-{kernel}-{arch}", version) for arch in built)
    log = f"{base}/build/make.log"  # it remains there only if the build did not complete
    text = _log_text(host, log)
    failed = _LOG_KERNEL.search(text)
    error = _ERROR.search(text) or _STOPPED.search(text)
    return DkmsModule(
        name=name,
        version=version,
        state="installed" if installed else "built" if built else "added",
        failed_for=failed.group(1) if failed else "",
        log=log if text else "",
        error=error.group().strip()[:300] if error else "",
    )


def _points_at(host: Host, link: str, version: str) -> bool:
    try:
        return f"{version}/" in host.files.link_target(link)
    except OSError:
        return False


def _log_text(host: Host, path: str) -> str:
    try:
        return host.files.read_bytes(path, _LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
