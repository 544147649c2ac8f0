"""TFB: is this TensorFlow built with CUDA?"""

from __future__ import annotations

from tfgpu_doctor.checks.commands import BUILDS_FOR_ARM
from tfgpu_doctor.checks.python.environment import CONDA_TENSORFLOW
from tfgpu_doctor.checks.python.replacement import replace_with_cuda_build
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.tags import version_of

_PIP = "https://www.tensorflow.org/install/pip"


@check(
    "TFB001",
    "this TensorFlow is built with CUDA",
    family="TensorFlow build",
    tags=(version_of("tensorflow"),),
    stage=Stage.WHEEL,
    after=("GPU001", "PKG002", "PKG003", "SYS004"),
    causes=("aarch64_wheel_without_cuda", "conda_cpu_build_selected", "cpu_package_shadows_gpu_package"),
    sources=(_PIP,),
)
def built_with_cuda(
    tensorflow: TensorFlow,
    system: System,
    target: Target,
    knowledge: Knowledge,
    runtime: Runtime | None = None,
    hosting: Hosting | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """A build without CUDA never uses an NVIDIA GPU, whatever else is installed.

    Fix: install the build with CUDA of the same release, for example `pip install 'tensorflow[and-cuda]==2.20.0'`; on
    Jetson, NVIDIA's wheel.
    """
    if system.os == "Darwin":
        raise Skip("on macOS, TensorFlow uses the GPU through Metal")
    if tensorflow.built_with_cuda is None:
        raise Skip("the build does not report whether it includes CUDA")
    if tensorflow.built_with_cuda:
        cuda, cudnn = (each or "of unknown version" for each in (tensorflow.cuda_version, tensorflow.cudnn_version))
        yield Evidence(f"built with CUDA {cuda}, cuDNN {cudnn} ({tensorflow.cuda_named_by})")
    elif runtime and runtime.computes:
        yield Evidence("the build has no CUDA, but TensorFlow computes on a GPU through a plug-in")
    elif system.architecture == "aarch64" or _of_conda(target):
        yield _of_another_maker(tensorflow, system, target, hosting)
    else:
        yield Finding(
            f"{tensorflow.distribution} {tensorflow.version} is built without CUDA",
            cause="cpu_package_shadows_gpu_package",
            evidence=(_said(tensorflow),),
            fix=replace_with_cuda_build(
                target,
                {tensorflow.distribution: tensorflow.version},
                knowledge,
                "Replace it with the build with CUDA.",
                system,
                cuda_driver,
            ),
        )


def _said(tensorflow: TensorFlow) -> str:
    return f"build_info.py of {tensorflow.distribution} {tensorflow.version} says is_cuda_build: False"


def _of_conda(target: Target) -> list[str]:
    return [
        f"conda-meta lists {name} {build}" for name, build in target.conda_packages.items() if name in CONDA_TENSORFLOW
    ]


def _of_another_maker(tensorflow: TensorFlow, system: System, target: Target, hosting: Hosting | None) -> Finding:
    said = _said(tensorflow)
    if system.architecture == "aarch64":
        return Finding(
            "the TensorFlow wheel for 64-bit Arm is built without CUDA",
            cause="aarch64_wheel_without_cuda",
            evidence=(
                said,
                *([f"board: {system.board}"] if system.board else ()),
                *([f"{_jetson(hosting)}; NVIDIA's wheel must match it"] if hosting and hosting.l4t else ()),
            ),
            fix=Fix(BUILDS_FOR_ARM),
        )
    return Finding(
        "conda selected a TensorFlow build without CUDA",
        cause="conda_cpu_build_selected",
        evidence=(said, *_of_conda(target)),
        fix=Fix(
            "Create an environment with pip's TensorFlow, or make conda select the CUDA build: "
            "`CONDA_OVERRIDE_CUDA=12.0 conda install -c conda-forge 'tensorflow=*=cuda*'`."
        ),
    )


def _jetson(hosting: Hosting) -> str:
    """Return the versions of Jetson Linux and JetPack; NVIDIA names its wheels after the latter."""
    return f"Jetson Linux {hosting.l4t}" + (f", JetPack {hosting.jetpack}" if hosting.jetpack else "")
