"""TFB: does this TensorFlow contain kernels for the GPU, native or as PTX that the driver can compile?"""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.checks.devices import device_of, devices_of
from tfgpu_doctor.checks.driver.versions import driver_system
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import kernels_for, newest_major
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Runtime, TensorFlow
from tfgpu_doctor.model.tags import GPU_LOST, PARTIAL, version_of

NO_KERNEL = (
    "no kernel image", "CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_SOURCE",
    "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
)  # fmt: skip


@check(
    "TFB003",
    "the driver can compile the PTX that this TensorFlow was built with",
    family="TensorFlow build",
    stage=Stage.WHEEL,
    after=("TFB001", "DRV002"),
    causes=("driver_too_old",),
    sources=("https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",),
)
def driver_compiles_ptx(
    tensorflow: TensorFlow,
    cuda_driver: CudaDriver,
    knowledge: Knowledge,
    system: System,
    runtime: Runtime | None = None,
) -> Yielded:
    """Minor-version compatibility covers only machine code: PTX from CUDA 12.5 needs the driver of CUDA 12.5.

    Fix: upgrade the driver to the version released with the toolkit that TensorFlow was built with.
    """
    known = [gpu for gpu in cuda_driver.gpus if gpu.compute_capability]
    from_ptx = [gpu for gpu in known if kernels_for(gpu.compute_capability, tensorflow.compute_capabilities) == "ptx"]
    needs = [gpu for gpu in from_ptx if not _is_too_new(gpu.compute_capability, tensorflow, knowledge)]
    supported, built_with = cuda_driver.cuda_version, ".".join(tensorflow.cuda_version.split(".")[:2])
    if not from_ptx or not supported:
        raise Skip("no GPU needs kernels compiled from PTX")
    if runtime and runtime.computes:
        yield Evidence("the kernels were compiled and executed")
    elif not needs:
        raise Skip("TensorFlow's PTX fails on GPUs this new, whatever the driver")
    elif "." not in built_with:
        raise Skip("this TensorFlow does not report from which CUDA its PTX is")
    elif version(supported) < version(built_with):
        os = driver_system(system)
        row = knowledge.ptx_driver(built_with, os)
        yield Finding(
            f"this driver compiles PTX up to CUDA {supported}, but TensorFlow's PTX is from CUDA {tensorflow.cuda_version}",
            cause="driver_too_old",
            evidence=(
                f"GPU {needs[0].index} ({needs[0].name}), compute capability {needs[0].compute_capability}, "
                "needs kernels compiled from PTX",
                *([f"CUDA {row.cuda} was released with driver {row.driver(os)} ({row.source})"] if row else ()),
            ),
            fix=Fix(f"Upgrade the driver to {row.driver(os)} or newer." if row else "Upgrade the driver."),
            devices=devices_of(needs),
        )
    else:
        yield Evidence(f"the driver supports CUDA {supported}; the PTX is from CUDA {tensorflow.cuda_version}")


@check(
    "TFB002",
    "this TensorFlow has kernels for the GPU's compute capability",
    family="TensorFlow build",
    tags=(
        PARTIAL,
        GPU_LOST,
        version_of("compute-capability"),
    ),
    stage=Stage.WHEEL,
    after=("TFB001", "TFB003", "GPU001"),
    causes=("gpu_compute_capability_too_old", "gpu_compute_capability_too_new", "ptx_jit_startup_delay"),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#virtual-architectures",
        "https://github.com/tensorflow/tensorflow/issues/89272",
    ),
)
def kernels_fit_gpu(
    tensorflow: TensorFlow,
    knowledge: Knowledge,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """Machine code runs on GPUs with the same major compute capability and the same or a later minor one. PTX can be
    compiled for any later GPU; this happens at first use and takes minutes. TensorFlow also lists GPUs that it cannot use.

    Fix: use a newer TensorFlow for a new GPU, an older one for an old GPU.
    """
    source = (cuda_driver.gpus if cuda_driver else ()) or (nvml.gpus if nvml else ())
    gpus = {gpu.index: gpu for gpu in source if gpu.compute_capability}
    if not gpus or not tensorflow.compute_capabilities:
        raise NotMeasured("the compute capability of the GPU or of the build is unknown")
    built = ", ".join(tensorflow.compute_capabilities)
    kinds = {index: kernels_for(gpu.compute_capability, tensorflow.compute_capabilities) for index, gpu in gpus.items()}
    if "unknown" in kinds.values():
        raise Skip(f"the doctor does not recognize the build's target names: {built}")
    for index, gpu in gpus.items():
        name, capability = f"GPU {index} ({gpu.name})", gpu.compute_capability
        evidence = (f"{name} has compute capability {capability}", f"this TensorFlow was built for {built}")
        if kinds[index] == "native":
            yield Evidence(f"{name}: native code for compute capability {capability}")
        elif kinds[index] == "never":
            yield Finding(
                f"TensorFlow {tensorflow.version} has no kernels for compute capability {capability}",
                cause="gpu_compute_capability_too_old",
                severity="warning" if "native" in kinds.values() else "error",
                evidence=evidence,
                fix=Fix(
                    "Use an older TensorFlow that was built for this GPU (`tfgpu-doctor advise` names it), build TensorFlow for "
                    "it yourself, or use a newer GPU."
                ),
                devices=(device_of(gpu),),
            )
        else:
            found = _from_ptx(tensorflow, index, capability, evidence, runtime, knowledge)
            yield replace(found, devices=(device_of(gpu),))


def _is_too_new(capability: str, tensorflow: TensorFlow, knowledge: Knowledge) -> bool:
    """Return whether the GPU's generation is newer than the build, and TensorFlow's PTX fails on it."""
    first = version(knowledge.boundaries["first_capability_where_ptx_fails"].value)
    newer = int(capability.partition(".")[0]) > newest_major(tensorflow.compute_capabilities)
    return newer and version(capability) >= first


def _from_ptx(
    tensorflow: TensorFlow,
    index: int,
    capability: str,
    evidence: tuple[str, ...],
    runtime: Runtime | None,
    knowledge: Knowledge,
) -> Finding:
    """Return the finding for a GPU newer than all machine code in the build: it works after minutes, or never."""
    done = [each for each in (runtime.computations if runtime else ()) if each.device == f"/GPU:{index}"]
    failed = [each for each in done if any(word in each.error for word in NO_KERNEL)]
    compiling = bool(runtime and runtime.attempt.outcome == "timed_out" and runtime.gpus)
    # A GPU that is newer by a major version mostly fails; only a completed run can show that it works.
    if failed or (_is_too_new(capability, tensorflow, knowledge) and not done and not compiling):
        return Finding(
            f"TensorFlow {tensorflow.version} has no kernels that run on compute capability {capability}",
            cause="gpu_compute_capability_too_new",
            confidence="high" if failed else "medium",
            evidence=(*evidence, *(f"{each.operation}: {each.error}" for each in failed)),
            fix=Fix(
                "Use a TensorFlow build for this GPU: a newer release or nightly, or NVIDIA's container "
                f"{knowledge.boundaries['container_of_nvidia'].value}."
            ),
        )
    return Finding(
        f"kernels must be compiled for compute capability {capability} at the first start, which can take half an hour",
        cause="ptx_jit_startup_delay",
        severity="warning",
        evidence=evidence,
        fix=Fix(
            "Keep the compiled kernels: put the cache on a persistent disk and make it large enough; a newer TensorFlow may "
            "have native kernels.",
            ("export CUDA_CACHE_MAXSIZE=4294967296",),
        ),
    )


@check(
    "ENV003",
    "compiled kernels are cached",
    family="Environment variables",
    stage=Stage.SPEED,
    after=("TFB002",),
    causes=("ptx_jit_startup_delay",),
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",),
)
def compiled_kernels_are_kept(environment: Environment) -> Yielded:
    """With CUDA_CACHE_DISABLE=1 or CUDA_FORCE_PTX_JIT=1, every program compiles its kernels again at every start.

    Fix: `unset CUDA_CACHE_DISABLE CUDA_FORCE_PTX_JIT`.
    """
    names = [name for name in ("CUDA_CACHE_DISABLE", "CUDA_FORCE_PTX_JIT") if environment.get(name) == "1"]
    for name in names:
        yield Finding(
            f"{name}=1 makes every program start compile kernels again",
            cause="ptx_jit_startup_delay",
            severity="warning",
            evidence=(f"{name} is '1'",),
            fix=Fix("Unset it, unless you need it for a test.", (f"unset {name}",)),
        )
    if not names:
        yield Evidence("neither CUDA_CACHE_DISABLE nor CUDA_FORCE_PTX_JIT is 1")
