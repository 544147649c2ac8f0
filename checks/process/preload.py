"""ENV: do the libraries that the loader opens first do harm?"""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.checks.tensorflow.runs import FROM_OUTSIDE, had_no_time, longer, still_imports
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.preload import Preload, RunWithoutPreload
from tfgpu_doctor.model.facts.python import Runtime


@check(
    "ENV006",
    "the libraries in LD_PRELOAD can be loaded, and TensorFlow runs with them",
    family="Environment variables",
    stage=Stage.PYTHON,
    after=("PKG001",),
    causes=("preloaded_library_fails",),
    sources=(
        "https://man7.org/linux/man-pages/man8/ld.so.8.html",
        "https://github.com/tensorflow/tensorflow/issues/8146",
        "https://github.com/google/tcmalloc/issues/45",
    ),
)
def preloaded_libraries_do_no_harm(
    preload: Preload | None = None,
    environment: Environment | None = None,
    runtime: Runtime | None = None,
    run_without_preload: RunWithoutPreload | None = None,
) -> Yielded:
    """The loader opens the libraries in LD_PRELOAD before all others, in every program. One that it cannot open is skipped;
    one that replaces malloc may crash TensorFlow. If TensorFlow fails, the doctor starts it once more without the variable.

    Fix: `unset LD_PRELOAD`, or name files that exist.
    """
    if preload is None:
        raise NotMeasured("it is not known which libraries are preloaded")
    if preload.attempt is None:
        yield Evidence("nothing is preloaded")
        return
    if not preload.attempt.answered:
        raise NotMeasured(f"the process that shows them {preload.attempt.ending}")
    if runtime and _helps(runtime, run_without_preload):
        if runtime.attempt.ended_from_outside:
            raise NotMeasured(f"with LD_PRELOAD, TensorFlow {runtime.attempt.ending}: {FROM_OUTSIDE}")
        if still_imports(runtime) or had_no_time(runtime):  # the second start finds what the first one read in memory
            raise NotMeasured(
                f"with LD_PRELOAD, TensorFlow {runtime.attempt.ending}, and was still at work; {longer(runtime)}"
            )
        yield _harmful((environment.get("LD_PRELOAD") if environment else "") or "", preload, runtime)
    else:
        yield from _skipped(preload, runtime)
        tried = run_without_preload and run_without_preload.attempt
        also = "; TensorFlow fails without it, too" if tried else ""
        malloc = f"{preload.allocator} replaces malloc" if preload.allocator else "the other libraries can be loaded"
        yield Evidence((malloc if preload.failed or preload.allocator else "all libraries can be loaded") + also)


def _helps(runtime: Runtime, without: RunWithoutPreload | None) -> bool:
    """Return whether TensorFlow gets further without the variable: it is imported, or lists the GPUs."""
    if not without or not without.version:
        return False
    return not runtime.version or (without.gpus_listed and not runtime.gpus_listed)


def _harmful(value: str, preload: Preload, runtime: Runtime) -> Finding:
    ending = (
        f"raises {runtime.import_error[:200]}" if runtime.import_error else runtime.use_error or runtime.attempt.ending
    )
    return Finding(
        f"TensorFlow fails because of LD_PRELOAD={value}",
        cause="preloaded_library_fails",
        evidence=(
            f"with LD_PRELOAD, TensorFlow {ending}",
            "without it, TensorFlow is imported and lists the GPUs",
            *([f"{preload.allocator} replaces malloc"] if preload.allocator else ()),
        ),
        fix=Fix("Unset it for programs that use TensorFlow.", ("unset LD_PRELOAD",)),
    )


def _skipped(preload: Preload, runtime: Runtime | None) -> Iterator[Finding]:
    """Yield a finding if the loader skipped a library; it may matter only where TensorFlow does not work."""
    failed = preload.failed
    if failed:
        yield Finding(
            f"the loader cannot open {failed[0].library}, which {failed[0].named_in} names, and skips it in every program",
            cause="preloaded_library_fails",
            severity="warning" if runtime and not runtime.gpus else "info",
            confidence="low",
            evidence=tuple(f"{each.library} from {each.named_in}: {each.reason}" for each in failed),
            fix=Fix(f"Correct the path in {failed[0].named_in}, or remove it."),
        )
