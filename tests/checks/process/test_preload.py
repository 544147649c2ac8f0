"""ENV006: what LD_PRELOAD does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import failed_import, variables
from healthy import ANSWERED, runtime

from tfgpu_doctor.checks.process.preload import preloaded_libraries_do_no_harm
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.preload import FailedPreload, Preload, RunWithoutPreload
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

LABEL = "preloaded_library_fails"
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
REPLACED = Preload(attempt=ANSWERED, allocator=TCMALLOC)
MISSING = Preload(
    attempt=ANSWERED, failed=(FailedPreload(library="/no/such.so", reason="cannot open shared object file"),)
)
OTHER_KIND = Preload(
    attempt=ANSWERED, failed=(FailedPreload(library="/opt/lib32/libx.so", reason="wrong ELF class: ELFCLASS32"),)
)
BY_FILE = Preload(
    attempt=ANSWERED,
    failed=(
        FailedPreload(library="/no/libvgpu.so", reason="cannot open shared object file", named_in="/etc/ld.so.preload"),
    ),
)
CRASHED = Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="importing TensorFlow"))
SLOW = Runtime(
    attempt=Attempt(outcome="timed_out", seconds=120.0, phase="importing TensorFlow: 1240 modules after 118 s")
)
ENDED = Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL", phase="importing TensorFlow"))
STALE = Runtime(
    attempt=Attempt(outcome="timed_out", seconds=120.0, phase="importing TensorFlow: 1240 modules after 20 s")
)
LATE = Runtime(attempt=Attempt(outcome="timed_out", seconds=120.0, phase="importing TensorFlow"))
DIED_LATER = Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="matmul on GPU:0"), version="2.20.0",
                     gpus_listed=True, gpus=runtime().gpus)  # fmt: skip
WELL = RunWithoutPreload(attempt=ANSWERED, version="2.20.0", gpus_listed=True)
ILL = RunWithoutPreload(attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV"))
NEITHER = RunWithoutPreload(attempt=ANSWERED, version="2.20.0")
NOT_LISTED = Runtime(attempt=Attempt(outcome="timed_out", seconds=120.0, phase="listing the GPUs"), version="2.20.0")
NONE_LISTED = runtime(gpus=(), computations=())

# What each machine must get: a severity, "pass" or "skip", and words of it. Written down before the rule.
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nothing preloaded": ("pass", "nothing is preloaded", {"preload": Preload()}),
    "tcmalloc, works": ("pass", TCMALLOC, {"preload": REPLACED}),
    "tcmalloc, quick": ("pass", TCMALLOC, {"preload": REPLACED, "runtime": None}),
    "harmless library": ("pass", "can be loaded", {"preload": Preload(attempt=ANSWERED)}),
    "missing file, works": ("info", "/no/such.so", {"preload": MISSING}),
    "missing file, quick": ("info", "/no/such.so", {"preload": MISSING, "runtime": None}),
    "missing file, no GPU listed": ("warning", "/no/such.so", {"preload": MISSING, "runtime": NONE_LISTED}),
    "32-bit library": ("info", "ELFCLASS32", {"preload": OTHER_KIND}),
    "file of the system": ("info", "/etc/ld.so.preload", {"preload": BY_FILE}),
    "crash that ends without it": ("error", TCMALLOC, {"preload": REPLACED, "runtime": CRASHED, "run_without_preload": WELL}),
    "import error that ends without it": ("error", TCMALLOC, {
        "preload": REPLACED, "runtime": failed_import("ImportError: cannot allocate memory in static TLS block"),
        "run_without_preload": WELL}),
    "hang that ends without it": ("error", TCMALLOC, {"preload": REPLACED, "runtime": LATE, "run_without_preload": WELL}),
    "slow disk, and what the first start read is in memory": ("skip", "run the doctor again with `--deadline 600`", {
        "preload": REPLACED, "runtime": SLOW, "run_without_preload": WELL}),
    "ended by somebody else": ("skip", "was killed by SIGKILL", {
        "preload": REPLACED, "runtime": ENDED, "run_without_preload": WELL}),
    "hang between two modules that ends without it": ("error", TCMALLOC, {
        "preload": REPLACED, "runtime": STALE, "run_without_preload": WELL}),
    "crash that stays": ("pass", "without", {"preload": REPLACED, "runtime": CRASHED, "run_without_preload": ILL}),
    "crash, not tried without": ("pass", TCMALLOC, {"preload": REPLACED, "runtime": CRASHED}),
    "no GPU listed, which ends without it": ("error", TCMALLOC, {
        "preload": REPLACED, "runtime": NOT_LISTED, "run_without_preload": WELL}),
    "none listed with and without it": ("pass", "without", {
        "preload": REPLACED, "runtime": NOT_LISTED, "run_without_preload": NEITHER}),
    "crash of a computation": ("pass", TCMALLOC, {
        "preload": REPLACED, "runtime": DIED_LATER, "run_without_preload": WELL}),
    "no answer": ("skip", "SIGSEGV", {"preload": Preload(attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV"))}),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_preloaded(judge: Judge, name: str) -> None:
    expected, words, sections = VARIANTS[name]
    given = {"environment": variables(LD_PRELOAD=TCMALLOC), **sections}
    if expected == "pass":
        assert words in judge.passes(preloaded_libraries_do_no_harm, **given)
    elif expected == "skip":
        assert words in judge.skips(preloaded_libraries_do_no_harm, **given)
    else:
        finding = judge.finding(preloaded_libraries_do_no_harm, **given)
        assert (finding.severity, finding.cause) == (expected, LABEL)
        assert words in " ".join((finding.message, *finding.evidence))
