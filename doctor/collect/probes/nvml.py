"""The GPUs as NVML reports them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfgpu_doctor.collect.first_response import limit_s
from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.nvidia import Nvml

_WARM_S = 20.0
_QUIET_S = 8.0  # without a response from any GPU: one without persistence mode takes seconds for its first response
_LEAST_S = 3.0  # with less time, a retry is not worthwhile
_OWN_SHARE = 0.8  # of the deadline: then the child ends itself, and still reports what it waits for
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, the namespace of the process ids in NVML: linux/proc_ns.h


@probe(waits_for="NVML, the library behind nvidia-smi", starts_first=True, deadline_s=None)
def nvml(host: Host, request: Request) -> Nvml:
    """Query nvidia-ml-py, in a child process with the doctor's own interpreter and search path."""
    started = time.monotonic()
    deadline_s = limit_s(host, request, _WARM_S)
    attempt, answer = _read(host, deadline_s)
    silent = [index for index, row in _rows(answer, "troubles") if not row.get("error_code")]
    left_s = deadline_s - (time.monotonic() - started)
    if len(silent) > 1 and left_s >= _LEAST_S:
        _look_again(host, answer, silent, left_s)
    finished = answer.pop("finished", False)
    if finished and attempt.outcome == "timed_out":  # it has reported everything, but a GPU prevents its exit
        attempt = msgspec.structs.replace(attempt, outcome="answered", phase="")
    for name in ("gpus", "troubles"):
        answer[name] = [row for _, row in _rows(answer, name)]
    _name_users(host, answer["gpus"])
    return understand(Nvml, attempt, answer)


def _read(host: Host, deadline_s: float, *indices: int) -> tuple[Attempt, dict[str, Any]]:
    """A child's readings of those GPUs, of all if none is named."""
    own_s = deadline_s * _OWN_SHARE
    arguments = [json.dumps(sys.path), f"{min(_QUIET_S, own_s / 2):g}", f"{own_s:g}", *map(str, indices)]
    attempt, answer, _ = ask(
        host, sys.executable, "open_nvml", arguments, deadline_s=deadline_s, options=("-E", "-S")
    )  # fmt: skip
    return attempt, answer


def _rows(answer: Mapping[str, Any], name: str) -> list[tuple[int, Any]]:
    """The rows of an answer by GPU index, in order; empty if the answer has another shape."""
    rows = answer.get(name)
    if not isinstance(rows, dict) or not all(key.isdecimal() and isinstance(row, dict) for key, row in rows.items()):
        return []
    return sorted((int(key), row) for key, row in rows.items())


def _look_again(host: Host, answer: dict[str, Any], silent: Sequence[int], deadline_s: float) -> None:
    """Query each GPU that did not respond separately: a hung GPU may hold a lock for which the others wait."""
    from concurrent.futures import ThreadPoolExecutor  # rarely needed, and slow to import

    with ThreadPoolExecutor(len(silent)) as pool:
        told = list(pool.map(lambda index: _read(host, deadline_s, index)[1], silent))
    for index, again in zip(silent, told, strict=True):
        for name in ("gpus", "troubles"):
            found = dict(_rows(again, name)).get(index)
            if found:
                answer.setdefault(name, {})[str(index)] = found
        if dict(_rows(again, "gpus")).get(index) and not dict(_rows(again, "troubles")).get(index):
            del answer["troubles"][str(index)]


def _name_users(host: Host, gpus: Sequence[dict[str, Any]]) -> None:
    """Add the owner to each process, if its id means the same to NVML and to /proc."""
    rows = [row for gpu in gpus for row in gpu.get("processes") or ()]
    if not rows or not _counts_as_the_kernel_does(host):
        return
    names = {}
    for line in host.files.text_if_any("/etc/passwd").splitlines():
        fields = line.split(":")
        if len(fields) > 2:
            names[fields[2]] = fields[0]
    for row in rows:
        try:
            uid = str(host.files.status(f"/proc/{row.get('pid')}").uid)
        except OSError:
            continue
        row["user"] = names.get(uid, uid)


def _counts_as_the_kernel_does(host: Host) -> bool:
    try:
        return host.files.link_target("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False
