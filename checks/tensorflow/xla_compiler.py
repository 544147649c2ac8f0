"""XLA: can XLA compile kernels for this GPU?"""

from __future__ import annotations

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.tensorflow.wheel import is_from_index
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Target, TensorFlow
from tfgpu_doctor.model.facts.xla import XlaTools

_ROOTS = (
    "https://github.com/tensorflow/tensorflow/blob/v2.21.0/third_party/xla/xla/tsl/platform/default/cuda_root_path.cc"
)


@check(
    "XLA001",
    "XLA finds libdevice",
    family="XLA",
    stage=Stage.LIBRARIES,
    after=("GPU001", "TFB001", "LIB003", "LIB004", "LIB006"),
    causes=("libdevice_or_ptxas_missing",),
    sources=(_ROOTS, "https://github.com/tensorflow/tensorflow/issues/58681"),
)
def xla_finds_libdevice(xla_tools: XlaTools, tensorflow: TensorFlow, target: Target, system: System) -> Yielded:
    """Keras compiles models with XLA on a GPU. XLA needs NVIDIA's libdevice.10.bc and searches for it in only a few folders,
    not on LD_LIBRARY_PATH. If the file is missing, the first training step fails.

    Fix: install the nvidia-cuda-nvcc wheel, or set the toolkit: XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/lib/cuda.
    """
    if not tensorflow.built_with_cuda or system.os != "Linux":
        raise Skip("this TensorFlow does not compile for NVIDIA GPUs")
    if xla_tools.libdevice:
        yield Evidence(xla_tools.libdevice)
        return
    owner = target.find(tensorflow.distribution)
    if not is_from_index(target, tensorflow) and not (owner and owner.installer == "conda"):
        raise NotMeasured("the folder of a CUDA toolkit that was compiled into this build of TensorFlow is not known")
    wheel = next(iter(requirements_on(target, tensorflow.distribution, "nvidia-cuda-nvcc")), None)
    wanted = f"{wheel.name}{wheel.specifier}" if wheel else ""
    yield Finding(
        "XLA does not find libdevice.10.bc: code compiled with jit_compile=True, which Keras uses by default, will fail",
        cause="libdevice_or_ptxas_missing",
        severity="warning",
        evidence=(f"not found in nvvm/libdevice below {', '.join(xla_tools.searched)}",),
        fix=Fix(
            "Install the wheel that contains it, or set the folder of a CUDA toolkit that contains nvvm/libdevice: "
            "XLA_FLAGS=--xla_gpu_cuda_data_dir=FOLDER.",
            pip(target, "install", "--force-reinstall", wanted) if wanted else (),
        ),
    )


@check(
    "XLA002",
    "the ptxas that XLA uses supports the GPU",
    family="XLA",
    stage=Stage.LIBRARIES,
    after=("GPU001", "TFB002", "XLA001"),
    causes=("ptxas_too_old_for_gpu", "ptxas_too_new_for_gpu"),
    sources=("https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes", _ROOTS),
)
def ptxas_knows_gpu(
    xla_tools: XlaTools, knowledge: Knowledge, cuda_driver: CudaDriver | None = None, nvml: Nvml | None = None
) -> Yielded:
    """XLA passes kernels to the first ptxas that it finds, starting with PATH. A ptxas older than the GPU rejects them, as does
    one of a CUDA release that no longer supports the GPU (13.0 and newer: GPUs before Turing); XLA then uses the driver's
    compiler, which is slower to start and may support less.

    Fix: remove that ptxas from PATH, or install an nvidia-cuda-nvcc wheel whose CUDA supports the GPU.
    """
    listed = (cuda_driver.gpus if cuda_driver else ()) or (nvml.gpus if nvml else ())
    gpus = [gpu for gpu in listed if gpu.compute_capability]
    rejected = False
    unknown = [f"the compute capability of GPU {gpu.index} is unknown" for gpu in listed if gpu not in gpus]
    if not xla_tools.ptxas_version or not gpus:
        raise NotMeasured("the version of ptxas or the GPU's compute capability is unknown")
    for gpu in gpus:
        first = knowledge.first_ptxas(gpu.compute_capability)
        where = f"{xla_tools.ptxas} is from CUDA {xla_tools.ptxas_version}"
        if first is None:
            unknown.append(
                f"GPU {gpu.index}: compute capability {gpu.compute_capability} is not in the doctor's tables"
            )
        elif version(xla_tools.ptxas_version) < version(first.cuda):
            rejected = True
            yield _rejects(
                gpu, "ptxas_too_old_for_gpu", f"{where}, but GPU {gpu.index} ({gpu.name}) needs {first.cuda}",
                f"compute capability {gpu.compute_capability} is supported from CUDA {first.cuda} on ({first.source})",
            )  # fmt: skip
        elif first.last_cuda and version(xla_tools.ptxas_version) > version(f"{first.last_cuda}.999"):
            rejected = True
            yield _rejects(
                gpu, "ptxas_too_new_for_gpu", f"{where}, which no longer supports GPU {gpu.index} ({gpu.name})",
                f"CUDA {first.last_cuda} is the last that supports compute capability {gpu.compute_capability}",
            )  # fmt: skip
        else:
            yield Evidence(f"GPU {gpu.index}: {where}; {first.cuda} or newer is required")
    yield from tell_missing("; ".join(unknown), found=rejected)


def _rejects(gpu: CudaGpu | NvmlGpu, cause: str, message: str, why: str) -> Finding:
    return Finding(
        message,
        cause=cause,
        severity="warning",
        evidence=(why,),
        fix=Fix(
            "Remove that ptxas from PATH, or replace the wheel: uninstall every nvidia-cuda-nvcc, then install TensorFlow's "
            "version."
        ),
        devices=(device_of(gpu),),
    )
