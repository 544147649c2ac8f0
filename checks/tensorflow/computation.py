"""GPU: does TensorFlow compute correctly on each GPU?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.tensorflow.kernels import NO_KERNEL
from tfgpu_doctor.checks.tensorflow.log_lines import complaints, likely_causes
from tfgpu_doctor.checks.tensorflow.runs import FROM_OUTSIDE, had_no_time, longer
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Computation, Runtime

_CAUSES = (
    "gpu_memory_held_by_other_process", "cudnn_init_failed_memory", "gpu_compute_capability_too_new", "driver_too_old",
    "gpu_kernel_fault", "hardware_ecc_error", "hardware_faulty_gpu", "ptx_jit_startup_delay", "display_watchdog_timeout",
    "unknown_flag_in_environment",
)  # fmt: skip
_OPERATIONS = ("matmul", "convolution")
_BEFORE = (
    "TFW001", "TFW002", "GPU001", "DRV002", "DRV008", "TFB001", "TFB002", "TFB003", "MEM001", "LIM002", "LIM003", "LIM004",
    "LIM005", "HLT002", "HLT003",
)  # fmt: skip
_WATCHDOG, _FLAG = "display_watchdog_timeout", "unknown_flag_in_environment"
# Of the doctor's own small product, which never leaves its memory.
_KERNEL_FAULTS = ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED")
_AFTER_FAULT = (
    "Run it again, and with another TensorFlow release: the doctor's own product never leaves its memory. If it fails on this "
    "GPU alone, the GPU or its slot is at fault: `tfgpu-doctor --level deep`, and `sudo dmesg | grep -i -e NVRM -e Xid`."
)
_KNOWN_ERRORS = (
    (
        ("CUDA_ERROR_LAUNCH_TIMEOUT", "launch timed out and was terminated"),
        _WATCHDOG,
        "Compute on a GPU without a display, or stop the graphical session (`sudo systemctl isolate multi-user.target`); on "
        "Windows, raise TdrDelay in the registry. Smaller batches make each kernel shorter.",
    ),
    (
        ("CUDA_ERROR_OUT_OF_MEMORY", "OOM when allocating", "ResourceExhausted", "out of memory"),
        "gpu_memory_held_by_other_process",
        "Use `nvidia-smi` to find the process that holds the GPU's memory, and end it.",
    ),
    (
        ("CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_ALLOC_FAILED",
         "CUBLAS_STATUS_NOT_INITIALIZED"),
        "cudnn_init_failed_memory",
        "Free the GPU's memory, and enable memory growth: TF_FORCE_GPU_ALLOW_GROWTH=true.",
    ),
    (
        ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "driver version is insufficient"),
        "driver_too_old",
        "Upgrade the driver to one that supports the CUDA that TensorFlow was built with.",
    ),
    (
        NO_KERNEL,
        "gpu_compute_capability_too_new",
        "Use a TensorFlow build for this GPU: a newer release, or NVIDIA's container.",
    ),
    (
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"),
        "hardware_ecc_error",
        "The GPU's memory is failing: drain the machine, and replace the card.",
    ),
)  # fmt: skip


def _judge(runtime: Runtime, knowledge: Knowledge, operation: str, cuda_driver: CudaDriver | None) -> Yielded:
    """Yield the results of one operation on every GPU."""
    if runtime.only_listed:
        raise Skip("a simulated driver cannot run kernels")
    if not runtime.gpus:
        raise Skip("TensorFlow lists no GPU")
    done = [each for each in runtime.computations if each.operation == operation]
    # As below: where it had no time for the other operation, this one alone makes no machine healthy.
    if len(runtime.computations) < len(_OPERATIONS) * len(runtime.gpus) and _was_only_slow(runtime):
        right = (
            f" and the right results of {amount(len(runtime.computations), 'operation')}"
            if runtime.computations
            else ""
        )
        started = f"after an import of {runtime.import_seconds:.0f} s{right}"
        raise NotMeasured(f"TensorFlow {runtime.attempt.ending}, {started}; {longer(runtime)}")
    ended, right_so_far = runtime.attempt.ended_from_outside, all(each.is_right for each in done)
    if ended and right_so_far:  # also an operation that was tried on all GPUs: a run in part makes no machine healthy
        raise NotMeasured(f"TensorFlow {runtime.attempt.ending}: {FROM_OUTSIDE}")
    for each in done:
        if each.is_right:
            yield Evidence(
                f"{each.placed_on}: same result as on the CPU, in {each.seconds:.2f} s including compilation"
            )
        else:
            yield _finding(each, runtime, knowledge, cuda_driver)
    if len(done) < len(runtime.gpus) and not ended:
        yield _cut_short(operation, runtime, knowledge)


def _was_only_slow(runtime: Runtime) -> bool:
    """Return whether all that ended before the deadline is right, and what did not end had little time."""
    compiles = runtime.log_lines("jit-compiled from PTX")  # which has a finding of its own
    return had_no_time(runtime) and not compiles and all(each.is_right for each in runtime.computations)


def _finding(each: Computation, runtime: Runtime, knowledge: Knowledge, cuda_driver: CudaDriver | None) -> Finding:
    cause, fix = explain_error(each.error)
    if each.error and cause == UNDETERMINED:
        cause, fix = explain_error(" ".join(line for line in runtime.log if line.startswith(("E ", "F "))))
    wrong = _what_is_wrong(each)
    if not each.error and each.is_in_place and _is_right_on_its_like(each, runtime):
        cause, fix = (
            "hardware_faulty_gpu",
            "Do not use this GPU. Test it again with `tfgpu-doctor --level deep`, and replace it.",
        )
    elif cause == UNDETERMINED and any(word in each.error for word in _KERNEL_FAULTS):
        cause, fix = "gpu_kernel_fault", _AFTER_FAULT
    elif cause == UNDETERMINED:
        fix = _what_is_known(each, runtime, knowledge)
    return Finding(
        f"the {each.operation} on {each.device} " + (f"fails: {each.error[:200]}" if each.error else wrong),
        cause=cause,
        confidence="medium" if cause != UNDETERMINED else "low",
        evidence=(
            each.error or f"the result on {each.placed_on or each.device} {wrong}",
            *(_limited(cuda_driver) if cause == _WATCHDOG else ()),
            *complaints(runtime, knowledge)[-4:],
        ),
        fix=Fix(fix),
        devices=(each.device,),
        figures=figures_of(each.device, [(f"{each.operation}: error", each.largest_error, "")]),
    )


def _is_right_on_its_like(each: Computation, runtime: Runtime) -> bool:
    """Whether another GPU of the same model computes the same operation correctly."""
    models = {gpu.name.rpartition("GPU:")[2]: gpu.description for gpu in runtime.gpus}
    mine = models.get(each.device.rpartition(":")[2], "")
    others = [one for one in runtime.computations if one.operation == each.operation and one.is_right]
    return bool(mine) and any(models.get(one.device.rpartition(":")[2]) == mine for one in others)


def _what_is_known(each: Computation, runtime: Runtime, knowledge: Knowledge) -> str:
    """Return what was tried, what is ruled out, and the likeliest reasons by the error's text, with what to do for each."""
    said = (
        f"Tried: a {each.operation} of whole numbers on {each.device}, with soft placement off. Ruled out: TensorFlow imports, "
        "the driver initialises, and TensorFlow lists this GPU. "
    )
    if not each.error:
        return said + (
            "Likeliest: the GPU or its memory (`tfgpu-doctor --level deep` repeats it for minutes), or a library of another "
            "release (another TensorFlow release on this GPU tells)."
        )
    likely = [
        f"{place}. {cause.title}: {cause.fix}"
        for place, cause in enumerate(likely_causes(each.error, runtime, knowledge), 1)
    ]
    if likely:
        return said + f"Likeliest by the error's text: {' '.join(likely)}"
    return said + (
        "The error's text is not known. This TensorFlow on another GPU, and another TensorFlow release on this one, tell whether "
        "the release or the GPU is at fault; report it with what `tfgpu-doctor ticket` collects."
    )


def _limited(cuda_driver: CudaDriver | None) -> tuple[str, ...]:
    """Return which GPUs the driver stops long kernels on: those with a display."""
    gpus = [gpu for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.kernel_time_limit]
    return tuple(
        f"CUDA limits the run time of kernels on GPU {gpu.index} ({gpu.name}): it drives a display" for gpu in gpus
    )


def _what_is_wrong(each: Computation) -> str:
    """Return the problem with a result that raised no error."""
    if not each.is_in_place:
        return f"was computed on a different device: {each.placed_on or 'unknown'}"
    return (
        f"differs from the CPU's result by {each.largest_error:g} of its largest value"
        if each.largest_error is not None
        else ""
    )


def explain_error(error: str) -> tuple[str, str]:
    """Return label and fix for the error of an operation. A wrong result raises no error and has no known cause."""
    for words, cause, fix in _KNOWN_ERRORS:
        if any(word in error for word in words):
            return cause, fix
    return UNDETERMINED, "Check the kernel log: `sudo dmesg | grep -i -e NVRM -e Xid`."


def _cut_short(operation: str, runtime: Runtime, knowledge: Knowledge) -> Finding:
    """Return the finding if the run ended before it reached every GPU: a crash, a deadline, or minutes of compiling PTX."""
    compiling = runtime.log_lines("jit-compiled from PTX")
    if compiling and runtime.attempt.outcome == "timed_out":
        return Finding(
            f"the {operation} was still being compiled for this GPU when the doctor's deadline expired",
            cause="ptx_jit_startup_delay",
            severity="warning",
            evidence=compiling,
            fix=Fix("Allow half an hour once; the result is then cached.", ("tfgpu-doctor --deadline 2400",)),
            devices=_reached(runtime),
        )
    ending = runtime.attempt.ending if not runtime.attempt.answered else "stopped: " + runtime.use_error
    if flags := runtime.log_lines("parse_flags_from_env.cc"):
        return Finding(
            f"TensorFlow does not know a flag in its environment, and {ending}",
            cause=_FLAG,
            evidence=flags,
            fix=Fix("Remove the flag from XLA_FLAGS or TF_XLA_FLAGS.", ("unset XLA_FLAGS TF_XLA_FLAGS",)),
        )
    late = runtime.attempt.outcome == "timed_out"
    again = f"First {longer(runtime)}: a slow start leaves little time to the GPUs. Then check" if late else "Check"
    return Finding(
        f"TensorFlow {ending}",
        cause=UNDETERMINED,
        evidence=(*runtime.attempt.stderr[-6:], *complaints(runtime, knowledge)[-4:])
        or ("it printed nothing before it ended",),
        fix=Fix(f"{again} `sudo dmesg | grep -i -e NVRM -e Xid`: a failing GPU leaves a line there."),
        devices=_reached(runtime),
    )


def _reached(runtime: Runtime) -> tuple[str, ...]:
    """Return the GPU that TensorFlow worked on last; empty if it had not come to any."""
    return tuple(re.findall(r"\bGPU:\d+", runtime.attempt.phase))


@check(
    "GPU004",
    "TensorFlow multiplies matrices correctly on every GPU",
    family="GPU",
    goal="computes",
    stage=Stage.COMPUTE,
    after=_BEFORE,
    causes=_CAUSES,
    sources=("https://www.tensorflow.org/guide/gpu",),
)
def matrix_product_is_right(runtime: Runtime, knowledge: Knowledge, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A listed GPU may still fail to compute. Matrices of small integers are multiplied on each GPU with soft placement off,
    and the result must equal the CPU's; no rounding occurs, not even with TF32.

    Fix: depends on the error; see the finding.
    """
    yield from _judge(runtime, knowledge, "matmul", cuda_driver)


@check(
    "GPU005",
    "TensorFlow computes convolutions correctly on every GPU",
    family="GPU",
    stage=Stage.COMPUTE,
    after=("GPU004", "LIB007"),
    causes=_CAUSES,
    sources=("https://www.tensorflow.org/guide/gpu",),
)
def convolution_is_right(runtime: Runtime, knowledge: Knowledge, cuda_driver: CudaDriver | None = None) -> Yielded:
    """Convolutions use cuDNN, which is opened and compared with its headers only at the first convolution.

    Fix: depends on the error; see the finding.
    """
    yield from _judge(runtime, knowledge, "convolution", cuda_driver)
