"""The operator of this machine: indicators of services, clouds and boards."""

from __future__ import annotations

import re

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.hosting import Hosting

_FIRMWARE = "/sys/class/dmi/id"
_LONGEST = 100


@probe(waits_for="the indicators of services and clouds")
def hosting(host: Host) -> Hosting:
    """Look for variables and files of hosted notebooks, and read what the firmware and Jetson Linux report."""
    service, evidence = _service(host)
    l4t = parse_l4t(host.files.text_if_any("/etc/nv_tegra_release"))
    return Hosting(
        service=service,
        evidence=evidence,
        vendor=host.files.text_if_any(f"{_FIRMWARE}/sys_vendor").strip()[:_LONGEST],
        product=host.files.text_if_any(f"{_FIRMWARE}/product_name").strip()[:_LONGEST],
        l4t=l4t,
        jetpack=_jetpack(host.files.text_if_any("/var/lib/dpkg/status")) if l4t else "",
    )


def _service(host: Host) -> tuple[str, tuple[str, ...]]:
    for row in read_knowledge().hosted_services.values():
        marks = [f"${name} is set" for name in row.variables if host.environment.get(name)]
        marks += [f"{path} exists" for path in row.files if host.files.exists(path)]
        if marks:
            return row.name, tuple(marks)
    return "", ()


def parse_l4t(text: str) -> str:
    """Jetson Linux's version, "36.4.0", from `# R36 (release), REVISION: 4.0, GCID: ...`."""
    found = re.match(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", text)
    return f"{found.group(1)}.{found.group(2)}" if found else ""


def _jetpack(status: str) -> str:
    """The version of the package nvidia-jetpack in dpkg's list."""
    found = re.search(r"^Package: nvidia-jetpack\n(?:.+\n)*?Version: (\S+)", status, re.MULTILINE)
    return found.group(1) if found else ""
