"""Part 2: faults made on purpose, around the doctor and nowhere else. Each has to be named."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpu_run import children, plain_wheel
from gpu_run.stand_in import FULL
from gpu_run.workbench import PROGRAMS, NotRun, Workbench, labels

HIDDEN = ("cuda_visible_devices_hides_gpu",)
SHADOWED = ("library_shadowed", "ld_library_path_shadows_pip_libs")
UNFOUND = ("pip_cuda_libs_not_found", "gpu_libs_not_found")
# As `pip install tensorflow` leaves it; where the machine has CUDA's libraries of another version, these are what is found.
WITHOUT = ("pip_without_and_cuda_extra", "cuda_toolkit_wrong_major", "cuda_toolkit_wrong_minor")
HELD = ("gpu_memory_held_by_other_process",)
_CHECK_S, _HOLDS_S = 60.0, 60.0
Variables = dict[str, str | None]


@dataclass(frozen=True)
class Break:
    """A fault: the labels that name it, and how it is made; it lasts while the context does."""

    name: str
    labels: tuple[str, ...]
    make: Callable[[Workbench], contextlib.AbstractContextManager[Variables]]
    python: Callable[[Workbench], str] | None = None  # another target
    alone: bool = False  # it changes what the others would find


def breaks(bench: Workbench) -> None:
    """Make each, check, and compare the labels; those of the unbroken machine are told beside them."""
    before = bench.document(bench.doctor("unbroken", "check", "--format", "json", limit_s=_CHECK_S))
    known = labels(before) if before else []
    beside = {each.name: partial(_one, bench, each, known) for each in BREAKS if not each.alone}
    found = bench.side_by_side(10, beside)
    found |= {each.name: _one(bench, each, known) for each in BREAKS if each.alone and bench.enough(10, each.name)}
    rows = [found[each.name] for each in BREAKS if each.name in found]
    shutil.rmtree(bench.folder / "plain", ignore_errors=True)  # links to thousands of files
    bench.table("Faults made on purpose", ("fault", "expected", "found", ""), rows)


def _one(bench: Workbench, fault: Break, known: list[str]) -> tuple[Any, ...]:
    expected = " or ".join(fault.labels)
    try:
        with fault.make(bench) as variables:
            target = ("--python", fault.python(bench)) if fault.python else ()
            done = bench.doctor(fault.name, "check", "--format", "json", *target, limit_s=_CHECK_S, variables=variables)
    except NotRun as why:
        return fault.name, expected, "", f"not tried: {why}"
    document = bench.document(done)
    if document is None:
        return fault.name, expected, "", "no document"
    found = labels(document)
    verdict = judged(fault.labels, found)
    if verdict != "right":
        bench.found(f"{fault.name}: expected {expected}, found {', '.join(found) or 'nothing'}")
    old = [each for each in found if each in known and each not in fault.labels]
    return fault.name, expected, ", ".join(found), verdict + (f" ({', '.join(old)} before, too)" if old else "")


def judged(expected: tuple[str, ...], found: list[str]) -> str:
    """Whether the fault was named, and whether as the first cause."""
    if set(expected) & set(found[:1]):
        return "right"
    return "named, but not first" if set(expected) & set(found) else "WRONG"


def _visible(value: str) -> Callable[[Workbench], contextlib.AbstractContextManager[Variables]]:
    return lambda _bench: contextlib.nullcontext({"CUDA_VISIBLE_DEVICES": value})


def _copy(library: str, kept_bytes: int) -> Callable[[Workbench], contextlib.AbstractContextManager[Variables]]:
    """A damaged copy of a library in a folder that comes first on LD_LIBRARY_PATH."""

    @contextlib.contextmanager
    def make(bench: Workbench) -> Iterator[Variables]:
        found = _taken(bench, library)
        folder = bench.folder / f"copy-{library}-{kept_bytes}"
        folder.mkdir(exist_ok=True)
        with open(found, "rb") as file:
            (folder / pathlib.Path(found).name).write_bytes(file.read(kept_bytes))
        path = bench.setting.variables.get("LD_LIBRARY_PATH") or os.environ.get("LD_LIBRARY_PATH", "")
        yield {"LD_LIBRARY_PATH": f"{folder}:{path}".rstrip(":")}

    return make


def _taken(bench: Workbench, library: str) -> str:
    """The path under which the loader finds a library here."""
    document = bench.document(bench.doctor(f"libraries-{library}", "libraries", "--format", "json", limit_s=_CHECK_S))
    for row in (document or {}).get("libraries", ()):
        if row["soname"].startswith(library) and row["found"]:
            return str(row["path"])
    raise NotRun(f"the loader finds no {library} here whose place a copy could take")


@contextlib.contextmanager
def _off_the_path(bench: Workbench) -> Iterator[Variables]:
    """TensorFlow has to find its CUDA libraries without LD_LIBRARY_PATH, which 2.21.0 cannot (libcusolver)."""
    path = plain_wheel.without_cuda(bench)
    if path == (bench.setting.variables.get("LD_LIBRARY_PATH") or os.environ.get("LD_LIBRARY_PATH") or None):
        raise NotRun("LD_LIBRARY_PATH names no folder of CUDA libraries here")
    yield {"LD_LIBRARY_PATH": path}


@contextlib.contextmanager
def _holding(bench: Workbench, what: str) -> Iterator[None]:
    """Another process that holds memory of the GPU, or a context on it."""
    argv = [sys.executable, str(PROGRAMS / "cuda_memory.py"), what]
    out = bench.folder / f"holder-{what}.out"
    variables = {**os.environ, **{key: value for key, value in bench.setting.variables.items() if value is not None}}
    with (
        open(out, "wb") as stdout,
        children.started(argv, variables, stdout.fileno(), stdout.fileno(), bench.folder) as child,
    ):
        ends = time.monotonic() + _HOLDS_S
        while "held" not in out.read_text():
            if child.poll() is not None or time.monotonic() > ends:
                raise NotRun(f"no process could hold the GPU's memory: {out.read_text().strip()[-200:]}")
            time.sleep(0.2)
        yield


@contextlib.contextmanager
def _memory(bench: Workbench) -> Iterator[Variables]:
    if bench.setting.stand_in:  # its driver has no memory: another simulated machine says that it is full
        yield {"TFGPU_DOCTOR_MACHINE": bench.setting.variables[FULL]}
        return
    with _holding(bench, "most"):
        yield {}


@contextlib.contextmanager
def _exclusive(bench: Workbench) -> Iterator[Variables]:
    """The compute mode is changed, and put back to what it was, only if the user said so."""
    if not bench.setting.may_change_gpu:
        raise NotRun("it changes the GPU's settings, and --may-change-gpu was not given")
    if os.geteuid() != 0 or not shutil.which("nvidia-smi"):
        raise NotRun("only root can change the compute mode, with nvidia-smi")
    before = _nvidia_smi("--query-gpu=compute_mode", "--format=csv,noheader", "-i", "0").strip().upper()
    try:
        with _holding(bench, "context"):
            _nvidia_smi("-i", "0", "-c", "EXCLUSIVE_PROCESS")
            yield {}
    finally:
        try:
            _nvidia_smi("-i", "0", "-c", before)
        except NotRun as error:
            bench.found(f"the compute mode is not what it was: run `nvidia-smi -i 0 -c {before}`: {error}")


def _nvidia_smi(*options: str) -> str:
    done = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise NotRun(f"nvidia-smi {' '.join(options)} says {(done.stdout + done.stderr).strip()[:200]}")
    return done.stdout


BREAKS = (
    Break("visible-none", HIDDEN, _visible("")),
    Break("visible-minus-1", HIDDEN, _visible("-1")),
    Break("visible-7", HIDDEN, _visible("7")),
    Break("memory-held", HELD, _memory, alone=True),
    Break("cudnn-empty", SHADOWED, _copy("libcudnn.so", 0)),
    Break("cublas-truncated", SHADOWED, _copy("libcublas.so", 65536)),
    Break("libcuda-truncated", SHADOWED, _copy("libcuda.so", 4096)),
    Break("cuda-off-the-path", UNFOUND, _off_the_path),
    Break("plain-wheel", WITHOUT, plain_wheel.variables, plain_wheel.target),
    Break("exclusive-mode", ("exclusive_compute_mode",), _exclusive, alone=True),
)
