"""TFW: can TensorFlow be imported, and does it list the driver's GPUs?"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from tfgpu_doctor.checks.devices import Row, figures_of
from tfgpu_doctor.checks.tensorflow.log_lines import cause_in_log, complaints
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, CannotTell, Evidence, Finding, Fix, NotMeasured, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime, Target
from tfgpu_doctor.model.tags import GPU_LOST, requirement

_SILENT = ("TensorFlow's log contains no warning or error",)
_REPORT = (
    "Check the lines of TensorFlow's log for the reason; if they show none, report it, with what "
    "`tfgpu-doctor ticket` collects: https://github.com/tensorflow/tensorflow/issues"
)
_GUIDE = "https://www.tensorflow.org/install/errors"
_FRESH = (
    "Try a new environment: if TensorFlow can be imported there, this one is damaged; if not, the machine is at fault."
)
_SLOW = (
    "First {longer}: a network file system or a busy machine may need that long. If the import does not end then either, try a "
    "new environment on a local disk: if TensorFlow can be imported there, this environment or its file system is at fault."
)
FROM_OUTSIDE = (
    "no fault of its own ends a program so; the kernel does where memory runs out (`sudo dmesg | grep -i killed`), and users and "
    "job schedulers do. Run the doctor again"
)
_IMPORTING = re.compile(r"importing TensorFlow: \d+ modules after (\d+) s")  # workers/run_tensorflow.py
_RECENT_S = 30.0  # longer without a module, or without an answer of a GPU: it may hang, or load one very large library
# Modules of the standard library that a Python built where the headers are missing lacks:
# https://github.com/pyenv/pyenv/wiki/Common-build-problems
_LACKS = re.compile(
    r"ModuleNotFoundError: (?:No module named|Standard library module) '(\w+)'"
)  # the second: Python 3.15
_BUILT_WITH = {
    "_ctypes": "libffi (libffi-dev, libffi-devel)", "_bz2": "bzip2 (libbz2-dev, bzip2-devel)",
    "_lzma": "xz (liblzma-dev, xz-devel)", "_sqlite3": "SQLite (libsqlite3-dev, sqlite-devel)",
    "_ssl": "OpenSSL (libssl-dev, openssl-devel)", "_hashlib": "OpenSSL (libssl-dev, openssl-devel)",
    "zlib": "zlib (zlib1g-dev, zlib-devel)",
}  # fmt: skip
# Causes that keep a GPU from being listed, and that TensorFlow's log may report.
_SEEN_IN_LOG = (
    "gpu_compute_capability_too_old", "gpu_below_min_multiprocessor_count", "gpu_libs_not_found", "pip_cuda_libs_not_found",
    "pip_without_and_cuda_extra", "cuda_toolkit_wrong_major", "cuda_toolkit_wrong_minor", "cuda_minor_library_mix",
    "driver_too_old", "driver_library_version_mismatch", "cuda_compat_package_conflict", "no_nvidia_driver",
    "nvidia_uvm_missing", "cuda_visible_devices_hides_gpu", "exclusive_compute_mode", "fabric_manager_not_running",
    "hardware_ecc_error", "gpu_memory_held_by_other_process", "container_started_without_gpu", "wsl_libcuda_not_on_path",
)  # fmt: skip


@check(
    "TFW001",
    "TensorFlow can be imported", family="TensorFlow at run time",
    goal="imports", tags=(requirement("tensorflow"),), stage=Stage.LIBRARIES,
    after=(
        "PKG001", "PKG002", "PKG003", "PKG004", "PKG005", "PKG006", "PKG007", "PKG008", "SYS002", "SYS003", "LIM002",
        "LIM003", "LIM004", "LIM005", "LIB009", "ENV006",
    ),
    causes=("macos_metal_plugin_mismatch",),
    sources=(_GUIDE,),
)  # fmt: skip
def tensorflow_imports(runtime: Runtime, system: System, target: Target) -> Yielded:
    """If the import fails, hangs or crashes, no program can use a GPU.

    Fix: depends on the last line of the traceback; a new virtual environment with only TensorFlow shows whether the
    environment or the machine is at fault. If it takes too long: a longer `--deadline`.
    """
    if runtime.version:
        yield Evidence(f"TensorFlow {runtime.version}, imported in {runtime.import_seconds:.1f} s")
        return
    if still_imports(runtime):
        raise CannotTell(
            f"importing TensorFlow {runtime.attempt.ending}, and was still loading modules: the file system or the processor is "
            f"slow; {longer(runtime)}"
        )
    signed = system.os == "Darwin" and runtime.attempt.signal == "SIGKILL"  # macOS ends one with a changed library so
    if runtime.attempt.ended_from_outside and not signed:
        raise NotMeasured(f"importing TensorFlow {runtime.attempt.ending}: {FROM_OUTSIDE}")
    if "libmetal_plugin" in runtime.import_error and "Symbol not found" in runtime.import_error:
        metal = target.find("tensorflow-metal")
        yield Finding(
            f"tensorflow-metal {metal.version if metal else ''} was built for a different TensorFlow",
            cause="macos_metal_plugin_mismatch",
            evidence=(runtime.import_error,),
            fix=Fix("Install compatible versions: https://developer.apple.com/metal/tensorflow-plugin/"),
        )
    elif error := runtime.import_error or runtime.use_error:
        yield _raised(error, runtime, target)
    else:
        slow = runtime.attempt.outcome == "timed_out"
        yield Finding(
            f"importing TensorFlow {runtime.attempt.ending}",
            cause=UNDETERMINED,
            confidence="low" if slow else "high",
            evidence=(*runtime.attempt.stderr[-6:], f"CPU: {system.cpu_model or 'unknown model'}"),
            fix=Fix(_SLOW.format(longer=longer(runtime)) if slow else _FRESH, _fresh_environment(target)),
        )


def _raised(error: str, runtime: Runtime, target: Target) -> Finding:
    """Return the finding for an import that raises an exception."""
    evidence = runtime.import_traceback[-8:] or (f"`import tensorflow` runs {target.tensorflow_file}", error)
    found = _LACKS.match(error)
    library = _BUILT_WITH.get(found.group(1), "") if found else ""
    if found and library:
        python = target.executable or "the interpreter"
        return Finding(
            f"this Python was built without {found.group(1)}, a module of its own that TensorFlow imports",
            cause=UNDETERMINED,
            evidence=(f"{python} has no module {found.group(1)}", *evidence),
            fix=Fix(
                f"Build this Python again after installing the headers of {library} (pyenv: `pyenv install --force VERSION`), "
                "or use one of the distribution, of conda or of uv. A new environment of the same Python lacks it too."
            ),
        )
    verb = "importing" if runtime.import_error else "using"
    return Finding(
        f"{verb} TensorFlow raises {error[:300]}",
        cause=UNDETERMINED,
        evidence=evidence,
        fix=Fix(_FRESH, _fresh_environment(target)),
    )


def _fresh_environment(target: Target) -> tuple[str, ...]:
    """Return the commands that import TensorFlow in an environment with nothing else."""
    alone = "/tmp/tensorflow-alone"
    return (
        shlex.join([target.executable, "-m", "venv", alone]),
        f"{alone}/bin/python -m pip install tensorflow",
        f"{alone}/bin/python -c 'import tensorflow'",
    )


def still_imports(runtime: Runtime) -> bool:
    """Return whether the import went on until shortly before its deadline."""
    found = _IMPORTING.fullmatch(runtime.attempt.phase)
    late = runtime.attempt.outcome == "timed_out" and not runtime.attempt.stuck
    return late and found is not None and runtime.attempt.seconds - float(found.group(1)) < _RECENT_S


def had_no_time(runtime: Runtime) -> bool:
    """Return whether a slow import, and the operations before, left the last step too little of the deadline to call it hung."""
    if runtime.attempt.outcome != "timed_out" or runtime.attempt.stuck:
        return False
    operations_s = [each.seconds for each in runtime.computations]
    before_s = runtime.import_seconds + sum(operations_s)
    left_s = runtime.attempt.seconds - before_s
    return left_s < before_s and left_s < max(_RECENT_S, 3 * max(operations_s, default=0.0))


def longer(runtime: Runtime) -> str:
    """Return what to do where the deadline may have been too short."""
    return f"run the doctor again with `--deadline {max(600, 5 * int(runtime.attempt.seconds))}`"


@check(
    "TFW002",
    "TensorFlow lists every GPU of the driver", family="TensorFlow at run time",
    goal="registers", tags=(GPU_LOST,), stage=Stage.RUNTIME,
    after=(
        "TFW001", "VIS001", "VIS002", "DRV002", "DRV007", "DRV008", "LIB003", "LIB004", "LIB005", "LIB006", "PKG009",
        "TFB001", "TFB002", "ENV005",
    ),
    causes=_SEEN_IN_LOG,
    sources=("https://www.tensorflow.org/guide/gpu",),
)  # fmt: skip
def tensorflow_lists_gpus(
    runtime: Runtime, system: System, knowledge: Knowledge, cuda_driver: CudaDriver | None = None
) -> Yielded:
    """Programs call `tf.config.list_physical_devices("GPU")`. This check runs after all checks that can explain its result;
    for the remaining cases it analyzes TensorFlow's log with the rules of `tfgpu-doctor log`.

    Fix: see the lines of TensorFlow's log in the finding.
    """
    expected = len(cuda_driver.gpus) if cuda_driver else 0
    # Without a CUDA driver there may still be Metal on a Mac with Apple silicon, or DirectML on Windows.
    has_other = system.os == "Windows" or (system.os == "Darwin" and system.architecture == "arm64")
    # LIB001 passed, so TensorFlow itself finds libcuda: its log alone tells how the driver answered.
    unasked = system.os == "Linux" and cuda_driver is not None and bool(cuda_driver.library_error)
    if not runtime.gpus_listed:
        ending = "raises " + runtime.use_error if runtime.use_error else runtime.attempt.ending
        if had_no_time(runtime):
            raise CannotTell(
                f"listing the GPUs {ending}, after an import of {runtime.import_seconds:.0f} s; {longer(runtime)}"
            )
        if runtime.attempt.ended_from_outside:
            raise NotMeasured(f"listing the GPUs {ending}: {FROM_OUTSIDE}")
        yield _finding(f"listing the GPUs {ending}", runtime, system, knowledge)
    elif runtime.gpus and not expected and system.os == "Linux":
        raise NotMeasured(
            f"TensorFlow lists {amount(len(runtime.gpus), 'GPU')}; how many there are is unknown: CUDA's driver did not say"
        )
    elif runtime.gpus and len(runtime.gpus) >= expected:
        yield Evidence(", ".join(f"{gpu.name} {gpu.description}".strip() for gpu in runtime.gpus))
    elif not expected and not has_other and not unasked:
        raise NotMeasured("the number of the driver's GPUs is unknown")
    else:
        message = (
            f"TensorFlow lists {amount(len(runtime.gpus), 'GPU')}, but the driver has {expected or 'an unknown number'}"
        )
        rows: list[Row] = [("GPUs by TensorFlow", len(runtime.gpus), ""), ("GPUs by CUDA", expected or None, "")]
        yield replace(_finding(message, runtime, system, knowledge), figures=figures_of("", rows))


def _finding(message: str, runtime: Runtime, system: System, knowledge: Knowledge) -> Finding:
    """Return the finding with the cause that the log names, or else with the log lines."""
    cause = cause_in_log(runtime, system, knowledge, _SEEN_IN_LOG)
    if cause and not runtime.gpus_listed and cause.confidence != "high":
        cause = None  # a run that ended before it listed GPUs may have ended for another reason
    late = runtime.attempt.outcome == "timed_out" and not runtime.gpus_listed
    report = f"First {longer(runtime)}. {_REPORT}" if late else _REPORT
    said = (*complaints(runtime, knowledge)[-8:], *(runtime.attempt.stderr[-3:] if not runtime.gpus_listed else ()))
    return Finding(
        message,
        cause=cause.label if cause else UNDETERMINED,
        severity="warning" if runtime.gpus else "error",
        confidence=cause.confidence if cause else "high",
        evidence=tuple(dict.fromkeys((*(cause.evidence if cause else ()), *said))) or _SILENT,
        fix=Fix(
            cause.fix + (f" If this is not the cause, check {cause.ask}." if cause.ask else "") if cause else report
        ),
    )
