"""LIB: does cuDNN find the compiler with which it makes kernels while the program runs?"""

from __future__ import annotations

import os

from tfgpu_doctor.checks.commands import prepend_library_path
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.cudnn_code import needs_older_cudnn
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary
from tfgpu_doctor.model.tags import LIBRARIES

_COMPILER = "libnvrtc.so."
_FAILS_FROM = "2.21"  # 2.19.1 and 2.20.0 ran without the compiler (docs/results/h200.md)
_ENDED = (
    "with TensorFlow 2.21.0 on two H200 four of four such programs ended in their first step; others report the same error on a "
    "T4, an A10G and an L4, until cuDNN was newer. With the compiler found a network of Keras made its steps on the H200; beside "
    "seven other programs the first took 62 s (6.5 s with 2.20.0)"
)
_RAN = (
    "with 2.19.1 and 2.20.0 on an H200 convolutions that XLA compiles, their gradients and Keras' fit ran without it; "
    "TensorFlow's own operations use it only where TF_CUDNN_USE_RUNTIME_FUSION is set"
)


@check(
    "LIB010",
    "cuDNN finds CUDA's run-time compiler",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.LIBRARIES,
    after=("LIB003", "LIB004", "LIB006", "LIB007", "LIB009", "PKG009"),
    causes=("cudnn_nvrtc_not_found",),
    sources=(
        "https://docs.nvidia.com/deeplearning/cudnn/backend/v9.3.0/api/overview.html",
        "https://github.com/jax-ml/jax/issues/23227",
        "https://github.com/aws/deep-learning-containers/pull/6417",
        "https://github.com/tensorflow/tensorflow/pull/56572",
    ),
)
def cudnn_finds_its_compiler(
    resolution: Resolution, tensorflow: TensorFlow, knowledge: Knowledge, cuda_driver: CudaDriver | None = None
) -> Yielded:
    """cuDNN 9 compiles some operations with libnvrtc. The RUNPATH of its wheels before 9.11 names the folder nvidia/nvrtc, but
    pip installs nvidia/cuda_nvrtc. TensorFlow lists the GPU and computes; from 2.21 on, convolutions that XLA fuses, as Keras'
    fit does by default, can end with "Autotuner could not find any supported configs".

    Fix: `tfgpu-doctor fix` links the compiler beside cuDNN; or add its folder to LD_LIBRARY_PATH before Python starts; or compile
    the model with jit_compile=False.
    """
    compilers = [each for each in resolution.libraries if each.soname.startswith(_COMPILER) and each.asked_by]
    if not compilers:
        raise Skip("the cuDNN of this release opens no compiler that the doctor knows of")
    gpus = cuda_driver.gpus if cuda_driver else ()
    newer_works = not any(needs_older_cudnn(gpu.compute_capability, knowledge) for gpu in gpus)
    fails = version(tensorflow.version) >= version(_FAILS_FROM)
    for each in compilers:
        if each in resolution.lost_later and not fails:
            raise Skip(
                f"cuDNN does not find {each.chain[-1]}; TensorFlow {tensorflow.version} is not known to need it: {_RAN}"
            )
        if each in resolution.lost_later:
            yield _finding(each, resolution, newer_works)
        elif each.found:
            yield Evidence(f"{each.asked_by} opens {each.path}")
        else:
            raise Skip(f"{each.asked_by}, which opens {each.soname}, was not found itself")


def _finding(lost: ResolvedLibrary, resolution: Resolution, newer_works: bool) -> Finding:
    asker = resolution.find(lost.asked_by)
    missing = lost.chain[-1]
    brought = f" ({asker.origin})" if asker and asker.origin else ""
    return Finding(
        f"cuDNN does not find {missing}: convolutions that XLA fuses, as Keras' fit does by default, can end with an error",
        cause="cudnn_nvrtc_not_found",
        blocks=False,
        evidence=(
            f"{lost.asked_by}{brought} opens {lost.soname}; the loader does not find {missing}",
            *(f"a copy is at {path}" for path in lost.elsewhere),
            _ENDED,
        ),
        fix=_fix(lost, newer_works),
    )


def _fix(lost: ResolvedLibrary, newer_works: bool) -> Fix:
    """Return the fix; `newer_works`: a cuDNN that finds the compiler, from 9.11 on, has code for these GPUs."""
    if not lost.elsewhere:
        return Fix(
            f"Install {lost.chain[-1]} where the loader finds it: CUDA's package for NVRTC (cuda-nvrtc) of the same major "
            "version."
            + (" The wheel nvidia-cuda-nvrtc-cu12 is enough beside a cuDNN wheel from 9.11 on." if newer_works else "")
        )
    folder = os.path.dirname(lost.elsewhere[0])
    return Fix(
        "Add the compiler's folder to LD_LIBRARY_PATH before you start Python; `tfgpu-doctor fix` can link the compiler beside "
        f"cuDNN instead.{' A cuDNN wheel from 9.11 on finds it.' if newer_works else ''} Without either, "
        "model.compile(..., jit_compile=False) avoids the error.",
        (prepend_library_path([folder]),),
    )
