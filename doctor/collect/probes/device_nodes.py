"""NVIDIA's device nodes, and whether this user may open them."""

from __future__ import annotations

import os
import re
import stat
import sys

from tfgpu_doctor.collect.first_response import limit_s
from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.collect.probes.child import ask
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.nvidia import DeviceNode, DeviceNodes

_OURS = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm|nvidia-modeset|dxg|nvhost-gpu|nvmap")
_WARM_S = 10.0  # for all nodes, one after the other


@probe(waits_for="the device nodes", deadline_s=None)
def device_nodes(host: Host, request: Request) -> DeviceNodes:
    """List the nodes, and open each in a child process: on a hung GPU that call may never return."""
    try:
        names = host.files.list_folder("/dev")
    except OSError as error:
        raise Unavailable(f"/dev cannot be read ({error.strerror})") from error
    paths = [f"/dev/{name}" for name in names if _OURS.fullmatch(name)]
    uid, groups = (os.getuid(), tuple(os.getgroups())) if hasattr(os, "getuid") else (0, ())
    if not paths:
        return DeviceNodes(uid=uid, groups=groups)
    places = {path: place for path in paths if (place := _place(host, path))}
    attempt, answer, _ = ask(
        host,
        sys.executable,
        "open_device_nodes",
        sorted(set(places.values())),
        deadline_s=limit_s(host, request, _WARM_S),
        options=("-I", "-S"),
    )
    opened = answer.get("opened", {})
    nodes = (_describe(host, path, opened.get(place, "no response")) for path, place in places.items())
    return DeviceNodes(nodes=tuple(node for node in nodes if node), opening=attempt, uid=uid, groups=groups)


def _place(host: Host, path: str) -> str:
    """The real path of a node; empty if links form a loop."""
    try:
        return host.files.place(path)
    except OSError:
        return ""


def _describe(host: Host, path: str, error: str) -> DeviceNode | None:
    try:
        status = host.files.status(path)
    except OSError:
        return None
    return DeviceNode(
        path=path,
        mode=f"{stat.S_IMODE(status.mode):04o}",
        uid=status.uid,
        gid=status.gid,
        major=status.major,
        minor=status.minor,
        error=error,
    )
