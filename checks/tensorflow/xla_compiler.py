"""XLA: can XLA compile kernels for this GPU?"""

from __future__ import annotations

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Target, TensorFlow
from tfgpu_doctor.model.facts.xla import XlaTools

_ROOTS = (
    "https://github.com/tensorflow/tensorflow/blob/v2.21.0/third_party/xla/xla/tsl/platform/default/cuda_root_path.cc"
)


@check(
    "XLA001",
    "XLA finds libdevice",
    stage=Stage.LIBRARIES,
    after=("GPU001", "TFB001", "LIB003", "LIB004", "LIB006"),
    causes=("libdevice_or_ptxas_missing",),
    sources=(_ROOTS, "https://github.com/tensorflow/tensorflow/issues/58681"),
)
def xla_finds_libdevice(xla_tools: XlaTools, tensorflow: TensorFlow, target: Target, system: System) -> Yielded:
    """Keras compiles models by XLA on a GPU, and XLA needs NVIDIA's libdevice.10.bc, which it seeks in few places. It
    does not look on LD_LIBRARY_PATH, and finds out at the first step of the training.

    Fix: install the nvidia-cuda-nvcc wheel, or name the toolkit: XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/lib/cuda.
    """
    if not tensorflow.built_with_cuda or system.os != "Linux":
        raise Skip("this TensorFlow compiles nothing for NVIDIA's GPUs")
    if xla_tools.libdevice:
        yield Evidence(xla_tools.libdevice)
        return
    wheel = next(iter(requirements_on(target, tensorflow.distribution, "nvidia-cuda-nvcc")), None)
    wanted = f"{wheel.name}{wheel.specifier}" if wheel else ""
    yield Finding(
        "XLA finds no libdevice.10.bc: what is compiled with jit_compile=True, as Keras does by itself, will fail",
        cause="libdevice_or_ptxas_missing",
        severity="warning",
        evidence=(f"there is none in nvvm/libdevice below {', '.join(xla_tools.searched)}",),
        fix=Fix(
            "Install the wheel that brings it, or name the folder of a CUDA toolkit that holds nvvm/libdevice: "
            "XLA_FLAGS=--xla_gpu_cuda_data_dir=FOLDER.",
            pip(target, "install", "--force-reinstall", wanted) if wanted else (),
        ),
    )


@check(
    "XLA002",
    "the ptxas that XLA takes knows the GPU",
    stage=Stage.LIBRARIES,
    after=("GPU001", "TFB002", "XLA001"),
    causes=("ptxas_too_old_for_gpu",),
    sources=("https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes", _ROOTS),
)
def ptxas_knows_gpu(
    xla_tools: XlaTools, knowledge: Knowledge, cuda_driver: CudaDriver | None = None, nvml: Nvml | None = None
) -> Yielded:
    """XLA hands kernels to the first ptxas that it finds, on PATH before anywhere else. One that is older than the GPU
    refuses them; XLA then leaves the work to the driver, which is slower to start and may know less.

    Fix: take the older ptxas off PATH, or install a newer nvidia-cuda-nvcc wheel.
    """
    gpus = [
        gpu
        for gpu in (cuda_driver.gpus if cuda_driver else ()) or (nvml.gpus if nvml else ())
        if gpu.compute_capability
    ]
    if not xla_tools.ptxas_version or not gpus:
        raise Skip("the version of ptxas, or the GPU's compute capability, is not known")
    for gpu in gpus:
        first = knowledge.first_ptxas(gpu.compute_capability)
        if first is None:
            yield Evidence(
                f"GPU {gpu.index}: compute capability {gpu.compute_capability} is newer than the doctor's tables"
            )
        elif version(xla_tools.ptxas_version) < version(first.cuda):
            yield Finding(
                f"{xla_tools.ptxas} is of CUDA {xla_tools.ptxas_version}, and GPU {gpu.index} ({gpu.name}) needs {first.cuda}",
                cause="ptxas_too_old_for_gpu",
                severity="warning",
                evidence=(
                    f"compute capability {gpu.compute_capability} is known from CUDA {first.cuda} on ({first.source})",
                ),
                fix=Fix(
                    "Take that ptxas off PATH, or have the wheel replaced: uninstall every nvidia-cuda-nvcc, then install "
                    "TensorFlow's."
                ),
            )
        else:
            yield Evidence(
                f"GPU {gpu.index}: {xla_tools.ptxas} of CUDA {xla_tools.ptxas_version}, from {first.cuda} on"
            )
