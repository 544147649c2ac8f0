"""MEM: is GPU memory available, and does memory growth work as configured?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of, figures_of
from tfgpu_doctor.checks.gpu.in_use import SHOW_ALL, gpus_in_use, show_holders, size, title, unseen_bytes, who
from tfgpu_doctor.checks.gpu.readings import memory_use
from tfgpu_doctor.checks.unseen import tell_silent
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.gpu_holders import GpuHolders
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import PARTIAL

_GUIDE = "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth"
_SOURCES = "https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/common_runtime/gpu/"
_LEAST_FREE_BYTES = 1 << 30  # a CUDA context with cuDNN and cuBLAS needs about half of it
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
# In the errors of an operation that got no memory; cuDNN and cuBLAS say only that they could not be initialised.
_WORDS = (
    "out of memory", "out_of_memory", "resource_exhausted", "resourceexhausted", "oom when", "not_initialized", "alloc_failed",
    "dst tensor is not initialized", "failed to create cublas", "failed to create cudnn", "cudnn_status_internal_error",
)  # fmt: skip
_STATES = {True: "on", False: "off", None: "not set"}
_MEANS_OFF = ("false", "0", "no", "off")


@check(
    "MEM001",
    "the GPU has free memory",
    family="GPU memory",
    tags=(PARTIAL,),
    stage=Stage.MEMORY,
    after=("GPU001", "DRV007"),
    causes=("gpu_memory_held_by_other_process",),
    sources=(
        _GUIDE,
        "https://github.com/tensorflow/tensorflow/issues/21277",
        "https://github.com/tensorflow/tensorflow/issues/32454",
    ),
)
def memory_is_left(
    nvml: Nvml,
    cuda_driver: CudaDriver | None = None,
    runtime: Runtime | None = None,
    gpu_holders: GpuHolders | None = None,
) -> Yielded:
    """A forgotten notebook holds all memory of a GPU until its kernel ends; the next program finds no free memory. A program
    with tf.py_function in its input pipeline may hang at its end, after an exception in `fit`, and hold the memory forever.

    Fix: find the process with `nvidia-smi`, and end it.
    """
    # Each MIG instance has its own memory, which the values of the whole GPU do not show.
    gpus = [gpu for gpu in gpus_in_use(nvml, cuda_driver) if not gpu.mig]
    gpus = [gpu for gpu in gpus if gpu.memory_total_bytes and gpu.memory_free_bytes is not None]
    if not gpus:
        raise NotMeasured("NVML reports no GPU memory")
    failed = _ran_out(runtime, cuda_driver)
    full = [gpu for gpu in gpus if _is_full(gpu)]
    yield from tell_silent(gpus_in_use(nvml, cuda_driver), lambda gpu: gpu.memory_free_bytes, found=bool(full))
    for gpu in gpus:
        free, total = gpu.memory_free_bytes or 0, gpu.memory_total_bytes or 1
        if gpu in full:
            yield Finding(
                f"GPU {gpu.index} ({gpu.name}) has {size(free)} of {size(total)} free: others hold the rest",
                cause="gpu_memory_held_by_other_process",
                severity="error" if failed else "info" if len(full) < len(gpus) else "warning",
                evidence=(
                    *(who(gpu) or ("NVML names no process: it may belong to another user or container",)),
                    *_hangs(gpu, gpu_holders),
                ),
                fix=Fix(
                    "End the process that holds the memory (for a notebook: shut down its kernel).", show_holders(gpu)
                ),
                devices=(device_of(gpu),),
                figures=memory_use(gpu),
            )
        else:
            yield Evidence(f"GPU {gpu.index}: {size(free)} of {size(total)} free")


def _is_full(gpu: NvmlGpu) -> bool:
    free, total = gpu.memory_free_bytes or 0, gpu.memory_total_bytes or 1
    return free < _LEAST_FREE_BYTES and free < total // 2


def _ran_out(runtime: Runtime | None, cuda_driver: CudaDriver | None) -> bool:
    """Whether this TensorFlow failed as programs do on a GPU without free memory."""
    if runtime and runtime.computes:
        return False
    said = [runtime.use_error, *(each.error for each in runtime.computations)] if runtime else []
    out = bool(cuda_driver and cuda_driver.init_code == _OUT_OF_MEMORY)
    return out or any(word in text.lower() for text in said for word in _WORDS)


def _hangs(gpu: NvmlGpu, holders: GpuHolders | None) -> tuple[str, ...]:
    """Return what is said of processes that hold memory and do nothing any more."""
    stuck = [each for each in (holders.processes if holders else ()) if each.is_stuck]
    held = {each.pid for each in gpu.processes}
    return tuple(
        f"process {each.pid} seems to hang: its main thread waits for a lock, it used no CPU time in {each.watched_s:g} s, and "
        "it accepts no connections; so ends a program whose `fit` raised an exception while tf.py_function fed it"
        for each in stuck
        if each.pid in held
    )


@check(
    "MEM002",
    "TF_FORCE_GPU_ALLOW_GROWTH has a value that TensorFlow accepts",
    family="GPU memory",
    stage=Stage.MEMORY,
    causes=("cudnn_init_failed_memory",),
    sources=(f"{_SOURCES}gpu_bfc_allocator.cc",),
)
def growth_variable_is_understood(environment: Environment, knowledge: Knowledge) -> Yielded:
    """Only `true` and `false` in lower case are valid; `1` or `True` is reported in the log and ignored.

    Fix: `export TF_FORCE_GPU_ALLOW_GROWTH=true`.
    """
    value = environment.get("TF_FORCE_GPU_ALLOW_GROWTH")
    allowed = knowledge.variables["TF_FORCE_GPU_ALLOW_GROWTH"].values
    if value is None or value in allowed:
        yield Evidence("not set" if value is None else f"TF_FORCE_GPU_ALLOW_GROWTH={value}")
        return
    meant = "false" if value.strip().lower() in _MEANS_OFF else "true"
    yield Finding(
        f"TF_FORCE_GPU_ALLOW_GROWTH={value!r} is ignored: TensorFlow accepts only {' and '.join(allowed)}",
        cause="cudnn_init_failed_memory",
        severity="warning",
        confidence="medium",
        evidence=(
            "memory growth is as the program sets it; it is off by default, and TensorFlow then takes all memory",
        ),
        fix=Fix("Write it in lower case.", (f"export TF_FORCE_GPU_ALLOW_GROWTH={meant}",)),
    )


@check(
    "MEM003",
    "memory growth is the same on every GPU",
    family="GPU memory",
    stage=Stage.MEMORY,
    after=("TFW002",),
    causes=("memory_growth_differs_between_gpus",),
    sources=(_GUIDE,),
)
def growth_is_the_same(runtime: Runtime) -> Yielded:
    """TensorFlow does not start if memory growth is set on only some of the GPUs.

    Fix: set it for each of `tf.config.list_physical_devices("GPU")` before anything else uses TensorFlow.
    """
    if not runtime.gpus:
        raise Skip("TensorFlow lists no GPU")
    states = {gpu.name: gpu.memory_growth for gpu in runtime.gpus}
    if (
        len(set(states.values())) > 1
    ):  # TensorFlow compares them in the same way: "not set" differs from "on" and from "off"
        told = tuple(f"{name}: {_STATES[state]}" for name, state in states.items())
        yield Finding(
            f"memory growth differs between the GPUs before your program runs ({', '.join(told)})",
            cause="memory_growth_differs_between_gpus",
            evidence=told,
            fix=Fix(
                "An imported file sets it, such as a .pth file or sitecustomize.py. Set it for all GPUs or for none."
            ),
            devices=tuple(states),
        )
    else:
        word = "on" if any(states.values()) else "off"
        yield Evidence(
            f"{word} for {'the GPU' if len(states) == 1 else f'all {len(states)} GPUs'}, unless the program sets it"
        )


@check(
    "MEM004",
    "TF_GPU_ALLOCATOR is valid and consistent with memory growth",
    family="GPU memory",
    stage=Stage.MEMORY,
    causes=("cudnn_init_failed_memory",),
    sources=(f"{_SOURCES}gpu_process_state.cc",),
)
def allocator_agrees_with_growth(environment: Environment, knowledge: Knowledge) -> Yielded:
    """cuda_malloc_async takes memory from the driver as needed, regardless of memory growth. TensorFlow silently ignores a
    name that it does not know.

    Fix: `export TF_GPU_ALLOCATOR=cuda_malloc_async`, or unset it.
    """
    value = environment.get("TF_GPU_ALLOCATOR")
    growth = environment.get("TF_FORCE_GPU_ALLOW_GROWTH")
    known = knowledge.variables["TF_GPU_ALLOCATOR"].values
    if value and value not in known:
        yield Finding(
            f"TF_GPU_ALLOCATOR={value!r} is ignored: TensorFlow knows {', '.join(known)}",
            cause="cudnn_init_failed_memory",
            severity="warning",
            confidence="medium",
            evidence=("TensorFlow uses the default allocator instead",),
            fix=Fix("Unset it, or set the intended allocator.", ("unset TF_GPU_ALLOCATOR",)),
        )
    elif value == "cuda_malloc_async" and growth == "false":
        yield Finding(
            "TF_GPU_ALLOCATOR=cuda_malloc_async grows as needed, although memory growth is off",
            severity="info",
            evidence=("TF_FORCE_GPU_ALLOW_GROWTH=false requests all memory at the start",),
            fix=Fix("Unset one of the two variables."),
        )
    elif (
        value == "cuda_malloc_async"
        and growth == "true"
        and environment.get("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC") == "-1"
    ):
        yield Finding(
            "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC=-1 takes all memory at the start, although memory growth is on",
            cause="cudnn_init_failed_memory",
            severity="warning",
            evidence=("TF_GPU_ALLOCATOR=cuda_malloc_async, TF_FORCE_GPU_ALLOW_GROWTH=true",),
            fix=Fix("Unset the first variable.", ("unset TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC",)),
        )
    else:
        yield Evidence(f"TF_GPU_ALLOCATOR is {value or 'not set'}, TF_FORCE_GPU_ALLOW_GROWTH {growth or 'not set'}")


@check(
    "MEM005",
    "memory growth is on where the GPU is shared",
    family="GPU memory",
    stage=Stage.MEMORY,
    after=("GPU001", "DRV007", "MEM001", "MEM002"),
    causes=("gpu_memory_held_by_other_process",),
    sources=(_GUIDE,),
)
def growth_is_on_where_shared(
    nvml: Nvml, environment: Environment, knowledge: Knowledge, cuda_driver: CudaDriver | None = None
) -> Yielded:
    """By default, TensorFlow takes nearly all memory of every visible GPU, used or not. This is harmless on an exclusive
    GPU, but makes other programs on a shared GPU fail.

    Fix: `export TF_FORCE_GPU_ALLOW_GROWTH=true`, or `tf.config.experimental.set_memory_growth` for every GPU.
    """
    if not nvml.gpus:
        raise Skip("NVML lists no GPU")
    growth = environment.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    on = growth or environment.get("TF_GPU_ALLOCATOR") == "cuda_malloc_async"
    gpus = [gpu for gpu in gpus_in_use(nvml, cuda_driver) if not gpu.mig]
    used = {device_of(gpu): who(gpu) for gpu in gpus if who(gpu)}
    shared = [line for lines in used.values() for line in lines]
    much = int(knowledge.boundaries["busy_memory_bytes"].value)
    if not on and not shared and (unseen := [gpu for gpu in gpus if (unseen_bytes(gpu) or 0) >= much]):
        named = ", ".join(f"{size(unseen_bytes(gpu))} of {title(gpu)}" for gpu in unseen)
        raise NotMeasured(f"{named} are in use, and NVML names no process for them: {SHOW_ALL}")
    state = "on" if on else "off, unless the program sets it"
    compute = "computes" if len(shared) == 1 else "compute"
    yield Evidence(f"{amount(len(shared), 'other process')} {compute} on the GPU; memory growth is {state}")
    if shared and not on:
        yield Finding(
            "other processes compute on the GPU, and memory growth is not on: TensorFlow will request all remaining memory",
            cause="gpu_memory_held_by_other_process",
            severity="info",
            evidence=tuple(shared),
            fix=Fix("Make TensorFlow allocate memory as needed.", ("export TF_FORCE_GPU_ALLOW_GROWTH=true",)),
            devices=tuple(used),
            figures=figures_of("", [("other processes that compute on the GPUs", len(shared), "")]),
        )
