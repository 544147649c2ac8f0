"""Whether what was installed waits for a restart of the machine."""

from __future__ import annotations

import platform
import re

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.collect.probes.module_files import MODULE
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.restart import Restart

# Debian and Ubuntu (update-notifier-common, unattended-upgrades) write them; they are gone after the restart.
_REQUIRED = ("/run/reboot-required", "/var/run/reboot-required")
_OF_SYSTEM = ("/etc/os-release", "/etc/fstab", "/etc/hostname")
_MOST = 60


@probe(waits_for="the marks of a pending restart")
def restart(host: Host) -> Restart:
    """Read /run/reboot-required, and compare the module's file with the time of the start."""
    required = next((path for path in _REQUIRED if host.files.exists(path)), "")
    packages = host.files.text_if_any(f"{required}.pkgs").split() if required else []
    return Restart(
        required=bool(required),
        packages=tuple(dict.fromkeys(packages))[:_MOST],
        module_is_newer=_module_is_newer(host),
    )


def _module_is_newer(host: Host) -> bool | None:
    """Whether NVIDIA's module for the running kernel came after the start; None if that cannot be known."""
    started = re.search(r"^btime (\d+)$", host.files.text_if_any("/proc/stat"), re.MULTILINE)
    kernel = (host.files.text_if_any("/proc/sys/kernel/osrelease") or platform.release()).strip()
    folder = f"/lib/modules/{kernel}"
    listed = MODULE.search(host.files.text_if_any(f"{folder}/modules.dep"))
    if not started or not listed:
        return None
    path = listed.group(1) if listed.group(1).startswith("/") else f"{folder}/{listed.group(1)}"
    changed_s = _changed_s(host, path)
    if changed_s is None or changed_s <= int(started.group(1)):
        return None if changed_s is None else False
    # The running kernel was started from its own files. If they are newer than the start as well, the whole root file
    # system was filled after it: a diskless node (Warewulf, xCAT) unpacks its image into memory at every start.
    others = [_changed_s(host, each) for each in (f"{folder}/modules.builtin", f"{folder}/modules.order", *_OF_SYSTEM)]
    known = [each for each in others if each is not None]
    return True if any(each <= int(started.group(1)) for each in known) else None


def _changed_s(host: Host, path: str) -> float | None:
    """When a file came here; a package manager sets the time of its content to that of the build, but not this one."""
    try:
        return host.files.status(path).changed_s
    except OSError:
        return None
