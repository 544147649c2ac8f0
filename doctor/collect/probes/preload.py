"""What LD_PRELOAD does to the target's Python, and to TensorFlow."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.preload import FailedPreload, Preload, RunWithoutPreload
from tfgpu_doctor.model.facts.python import Runtime

_VARIABLE, _FILE = "LD_PRELOAD", "/etc/ld.so.preload"
_FAILED = re.compile(
    r"ld\.so: object '([^']+)' from (LD_PRELOAD|/etc/ld\.so\.preload|--preload) cannot be preloaded(?: \(([^\n]*)\))?: ignored"
)
_C_LIBRARY = re.compile(r"(?:libc[.-]|ld-musl|ld-linux|python[\d.]*$)")
_DEADLINE_S = 10.0


@probe(waits_for="the preloaded libraries")
def preload(host: Host, request: Request) -> Preload:
    """Start the target's Python as it is, and read what the loader complains about and whose malloc it uses."""
    if not host.environment.get(_VARIABLE, "").strip() and not host.target_files.text_if_any(_FILE).strip():
        return Preload()
    attempt, answer, lines = ask(host, request.python, "show_allocator", deadline_s=_DEADLINE_S)
    allocator = str(answer.get("malloc", ""))
    own = bool(_C_LIBRARY.match(os.path.basename(allocator)))
    return Preload(attempt=attempt, failed=failed_preloads(lines), allocator="" if own else allocator)


def failed_preloads(lines: Sequence[str]) -> tuple[FailedPreload, ...]:
    """The libraries that the loader (glibc, elf/rtld.c) says that it could not open, each once."""
    found = {match.groups(): None for line in lines if (match := _FAILED.search(line))}
    rows = ({"library": library, "named_in": source, "reason": reason or ""} for library, source, reason in found)
    return tuple(msgspec.convert(row, FailedPreload) for row in rows)


@probe(waits_for="TensorFlow without LD_PRELOAD", deadline_s=None)
def run_without_preload(host: Host, request: Request, runtime: Runtime) -> RunWithoutPreload:
    """If TensorFlow failed with LD_PRELOAD, import it again without the variable, and list the GPUs."""
    well = runtime.attempt.answered and runtime.version and runtime.gpus_listed
    if well or not host.environment.get(_VARIABLE, "").strip():
        return RunWithoutPreload()
    attempt, answer, _ = ask(
        host,
        request.python,
        "run_tensorflow",
        ["GPU", "list"],
        deadline_s=request.deadline_s,
        variables={_VARIABLE: ""},
    )
    told: dict[str, Any] = {name: answer[name] for name in ("version", "gpus_listed") if name in answer}
    return understand(RunWithoutPreload, attempt, told)
