"""The NVIDIA services that are running."""

from __future__ import annotations

import re

from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.kernel import Services

_NAMES = ("nv-fabricmanager", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
_LONGEST_COMM = 15  # the kernel truncates process names to this length
_FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
_DEADLINE_S = 3.0


@probe(waits_for="the list of processes")
def services(host: Host, request: Request) -> Services:
    """Read the names of all processes in /proc, and query the fabric manager's program for its version."""
    processes = [name for name in host.files.names_if_any("/proc") if name.isdecimal()]
    if not processes:
        raise Unavailable("no process is visible in /proc")
    return Services(
        # With hidepid=2 a user sees only their own processes, with hidepid=1 all, but not the names of the others.
        visible=bool(host.files.text_if_any("/proc/1/comm")),
        running=_running(host, processes),
        fabric_manager_version="" if request.quick else _fabric_manager_version(host),
    )


def _running(host: Host, processes: list[str]) -> tuple[str, ...]:
    shortened = {name[:_LONGEST_COMM] for name in _NAMES}
    found = set()
    for process in processes:
        short = host.files.text_if_any(f"/proc/{process}/comm").strip()
        if short not in shortened:
            continue
        program = host.files.text_if_any(f"/proc/{process}/cmdline").split("\0")[0].rpartition("/")[2]
        found.add(program if program in _NAMES else next(name for name in _NAMES if name.startswith(short)))
    return tuple(name for name in _NAMES if name in found)


def _fabric_manager_version(host: Host) -> str:
    """The version that the installed program reports, on this machine only; empty if there is none."""
    if host.files.root != "/" or not host.files.exists(_FABRIC_MANAGER):
        return ""
    done = host.run([_FABRIC_MANAGER, "--version"], deadline_s=_DEADLINE_S)
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", done.stdout.decode("utf-8", "replace"))
    return found.group(1) if found else ""
