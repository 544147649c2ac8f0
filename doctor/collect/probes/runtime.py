"""TensorFlow itself: import it, list its GPUs, and use them, in a child process of the target."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.collect.import_path import copies_in_trouble
from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.python import LibraryLoad, Runtime

_VARIABLES = {
    "TF_CPP_MAX_VLOG_LEVEL": "1",  # logs each library that is opened or fails to open; 2.12 and later hide it
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # overrides set_memory_growth: a value of "false" would take all memory of the GPU
}
_MOST_LINES, _LONGEST_LINE = 100, 600
# Of the verbose lines, only those from files about GPUs and their libraries are kept.
_RELEVANT = re.compile(
    r"\b(?:dso_loader|cudart_stub|cuda_\w+|gpu_device|gpu_bfc_allocator|gpu_process_state|gpu_cudamallocasync_allocator"
    r"|bfc_allocator|gpu_backend_lib|nvptx\w*|asm_compiler|ptx\w*|cpu_feature_guard|redzone_allocator)\.cc:\d+\]"
)
_SEVERE = re.compile(r"^(?:[WEF]\d{4} |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [WEF] )")
_START = re.compile(
    r"^(?:([IWEF])\d{4} \d\d:\d\d:\d\S*\s+\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ([IWEF]) (?:\S+/)?)"
)
_TEDIOUS = "Creating bin of max chunk size"
_OPENED = re.compile(r"Successfully opened dynamic library (\S+)")
_NOT_OPENED = re.compile(
    r"Could not (?:load|dlopen) (?:dynamic )?library '([^']+)'(?:; dlerror: (.*?))?(?:; LD_LIBRARY_PATH|$)"
)


@probe(waits_for="TensorFlow to import and list its GPUs", starts_first=True, deadline_s=None)
def runtime(host: Host, request: Request) -> Runtime:
    """Run `workers/run_tensorflow.py` with the log levels raised, and read its log."""
    if request.quick:
        raise Unavailable("--quick skips TensorFlow itself")
    task = ["GPU"] if request.computes else ["GPU", "list"]
    attempt, answer, lines = ask(
        host, request.python, "run_tensorflow", task, deadline_s=request.deadline_s, variables=_VARIABLES
    )
    variable = host.child_environment.get("PYTHONPATH") or ""
    error = str(answer.get("import_error") or answer.get("use_error") or "")
    culprits, path = answer.pop("culprits", []), answer.pop("import_path", {})
    told = copies_in_trouble(host.target_files, culprits, path, variable, error)
    kept = relevant_lines(lines)
    loads = [{"soname": load.soname, "opened": load.opened, "error": load.error} for load in library_loads(lines)]
    return understand(
        Runtime, attempt, answer, log=kept, libraries=loads, only_listed=not request.computes, copies=told
    )


def relevant_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines of a TensorFlow log about GPUs, libraries or problems, each once.

    Of the prefix before `file.cc:line]` only the level is kept: I, W, E or F. If there are too many lines, the first
    and the last are kept, and more of the lines about problems than of the others.
    """
    rest: dict[str, int] = {}
    trouble: dict[str, int] = {}
    for place, line in enumerate(lines):
        severe = _SEVERE.match(line) is not None
        if (severe or _RELEVANT.search(line)) and _TEDIOUS not in line:
            (trouble if severe else rest).setdefault(_START.sub(_level, line)[:_LONGEST_LINE], place)
    kept = {**_ends(trouble, _MOST_LINES), **_ends(rest, _MOST_LINES)}
    return tuple(sorted(kept, key=kept.__getitem__))


def _ends(rows: dict[str, int], most: int) -> dict[str, int]:
    """The first and the last rows, if there are more than the limit."""
    items = list(rows.items())
    return dict(items if len(items) <= most else [*items[: most // 2], *items[-most // 2 :]])


def _level(start: re.Match[str]) -> str:
    return f"{start.group(1) or start.group(2)} "


def library_loads(lines: Iterable[str]) -> tuple[LibraryLoad, ...]:
    """The result for each library that TensorFlow tried to open; the last attempt counts."""
    found: dict[str, LibraryLoad] = {}
    for line in lines:
        if match := _OPENED.search(line):
            found[match.group(1)] = LibraryLoad(soname=match.group(1), opened=True)
        elif match := _NOT_OPENED.search(line):
            found[match.group(1)] = LibraryLoad(soname=match.group(1), opened=False, error=match.group(2) or "")
    return tuple(found.values())
