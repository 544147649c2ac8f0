"""Fixes filled in with what is known: the release, its CUDA, its package, and the commands of the user's system."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.knowledge.release_needs import ReleaseNeeds, has_working_extra, new_environment, with_another_python
from tfgpu_doctor.knowledge.schema import TensorFlowRelease
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.file_names import named
from tfgpu_doctor.log.library_fixes import ON_ARM, library_fix, requirement
from tfgpu_doctor.model.finding import UNDETERMINED

# Commands of Linux in questions, and those that tell the same on Windows.
_ON_WINDOWS = (
    (
        re.compile(r"`ls -d /usr/local/cuda\*`(?: and `ldconfig[^`]*`|, `conda list cudatoolkit`)?"),
        "`where cudart64_*.dll` and `nvcc --version`",
    ),
    (re.compile(r"`ls /usr/local \| grep cuda`"), "`nvcc --version`"),
    (re.compile(r"\| grep (?:-i )?(?:-e )?"), "| findstr /i "),
    (re.compile(r"`lspci[^`]*`"), "the list of display adapters in the Device Manager"),
    (re.compile(r"`(?:sudo )?(?:dmesg|lsmod|dkms|ldd|uname|grep)[^`]*`"), "the Device Manager's state of the GPU"),
    (re.compile(r"\bwhich python\b"), "where python"),
)  # fmt: skip
# Questions about Python's packages, and what to ask of a program in another language.
_WITHOUT_PYTHON = (
    (re.compile(r"`tfgpu-doctor libraries(?: -v)?`"), "`ldconfig -p | grep -e libcudart -e libcudnn`"),
    (re.compile(r",? and `pip list \| grep nvidia`|`pip list \| grep nvidia` and "), ""),
    (re.compile(r"`pip list \| grep nvidia`"), "`ls -d /usr/local/cuda*`"),
    (re.compile(r"the log of `python -c [^`]*`"), "the log of the program from its start"),
)
_WITHOUT_GPU = (
    "If the error is one of the program, its packages or its data, search for the last line of its traceback; if a GPU is "
    "concerned, run `tfgpu-doctor` on that machine, and add its report."
)
# What an error or a complaint about a GPU says.
OF_GPU = re.compile(r"gpu|cuda|cudnn|cublas|nccl|nvidia|nvrm|\bxid\b|\bptx|stream_executor|\bxla\b", re.IGNORECASE)
_BY_DEVICE_PLUGIN = (
    "In Kubernetes the device plugin chooses the MIG device, and CUDA_VISIBLE_DEVICES does not: leave the variable out of the "
    "pod, and request one device of the size that is needed as a resource (`nvidia.com/mig-1g.5gb: 1` with the strategy mixed, "
    "`nvidia.com/gpu: 1` with single). Which of several of that size a pod gets, only the choice of its node decides, or "
    "NVIDIA's driver for Dynamic Resource Allocation."
)
_WITH_TORCH = (
    'The program computes with PyTorch, not with TensorFlow: `python -c "import torch; print(torch.version.cuda, '
    'torch.cuda.is_available())"` shows whether its build has CUDA and sees the GPU; pytorch.org names the command that installs '
    "one with CUDA."
)
# The settings of JAX in place of TensorFlow's (https://docs.jax.dev/en/latest/gpu_memory_allocation.html).
_IN_JAX = {
    "cudnn_init_failed_memory": (
        "The program computes with JAX, which takes three quarters of the GPU's memory at its start: set "
        "XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION=0.5, before it starts."
    ),
    "gpu_out_of_memory": (
        "The program computes with JAX: reduce the batch size or the input size, or recompute activations (`jax.checkpoint`). "
        "`nvidia-smi` shows whether another process holds memory: XLA_PYTHON_CLIENT_PREALLOCATE=false lets several share it."
    ),
}  # fmt: skip
# The allocator of PyTorch (https://docs.pytorch.org/docs/stable/notes/cuda.html).
_IN_TORCH = {
    "input_pipeline_bound": (
        "The program computes with PyTorch: give its DataLoader more workers (num_workers) and pin_memory=True, and check "
        'first that the GPU is used at all: `python -c "import torch; print(torch.cuda.is_available())"`.'
    ),
    "gpu_out_of_memory": (
        "The program computes with PyTorch: reduce the batch size or the input size, use `torch.autocast`, or recompute "
        "activations (`torch.utils.checkpoint`). `nvidia-smi` shows whether another process holds memory."
    ),
    "memory_fragmented": (
        "The program computes with PyTorch: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before it starts."
    ),
}
_OF_TENSORFLOW = ("native_windows_no_gpu_build", "aarch64_wheel_without_cuda", "cpu_package_shadows_gpu_package")
_FIRST_CUDA_WITH_NVCC_CU12 = 12  # older ones need the toolkit, or packages with other names
_FIRST_PYTHON_OF_UV = "3.8"


def filled_fix(label: str, context: Context, needs: ReleaseNeeds | None, newest: TensorFlowRelease) -> str:
    """Return the fix for a cause on this machine; empty where the general one says as much."""
    if context.knows("torch_alone") and not context.values.get("tensorflow"):
        if label in _IN_TORCH:
            return _IN_TORCH[label]
        if label in _OF_TENSORFLOW or library_fix(label, context, needs):
            return _WITH_TORCH
    if context.knows("jax") and label in _IN_JAX:
        return _IN_JAX[label]
    if fix := library_fix(label, context, needs):
        return fix
    if label == UNDETERMINED:
        return f"Nothing in this text says what is wrong with a GPU, its driver or CUDA, if anything is. {_WITHOUT_GPU}"
    if label == "mig_single_instance_per_process" and context.knows("kubernetes"):
        return _BY_DEVICE_PLUGIN
    if label == "unsupported_python_version":
        return _python(context, needs, newest)
    if label == "libdevice_or_ptxas_missing":
        return _compiler(context, needs)
    if label == "cpu_package_shadows_gpu_package" and needs and needs.gpu_package:
        package = (
            "tensorflow[and-cuda]" if needs.cuda_extra and context.platform in ("linux", "") else needs.gpu_package
        )
        return (
            "Keep one package: `pip uninstall -y tensorflow tensorflow-cpu tensorflow-gpu`, then "
            f'`pip install "{requirement(package, context, needs)}"`.'
        )
    return ""


def undetermined_fix(evidence: Iterable[str]) -> str:
    """Return what to do about errors that no rule knows; empty if they are of a GPU."""
    return "" if any(map(OF_GPU.search, evidence)) else f"Nothing in these lines speaks of a GPU. {_WITHOUT_GPU}"


def _python(context: Context, needs: ReleaseNeeds | None, newest: TensorFlowRelease) -> str:
    """Return which Python fits the release of the log, or which release fits its Python."""
    if needs is None:
        return _for_python(context, newest)
    if not needs.pythons:
        return ""
    text = f"Use a Python that TensorFlow {needs.minor} has wheels for: {', '.join(needs.pythons)}."
    if version(needs.pythons[-1]) < version(_FIRST_PYTHON_OF_UV):
        return text
    package = "tensorflow[and-cuda]" if needs.cuda_extra and context.platform in ("linux", "") else "tensorflow"
    return f"{text} {_with_uv(new_environment(needs.pythons[-1], requirement(package, context, needs)))}"


def _for_python(context: Context, newest: TensorFlowRelease) -> str:
    """Return the last release with wheels for the Python of the log; if there is none, how to get another Python."""
    python = ".".join(map(str, version(context.values.get("python", "")).release[:2]))
    on_linux = context.platform in ("linux", "")
    lacks_cuda = on_linux and context.knows("arm") and not _has_cuda(newest, "linux", "aarch64")
    last = next((each for each in reversed(read_knowledge().tensorflow_releases) if python in each.pythons), None)
    package = "tensorflow[and-cuda]" if on_linux and not lacks_cuda else "tensorflow"
    if last is None and version(python) < version(newest.pythons[-1]):
        return ""
    if last is None:
        commands = with_another_python(newest, cuda=on_linux and not lacks_cuda)
        text = f"TensorFlow {newest.version} has wheels for Python {', '.join(newest.pythons)}. {_with_uv(commands)}"
    else:
        exactly = f"{package if has_working_extra(last, read_knowledge()) else 'tensorflow'}=={last.version}"
        another = _with_uv(new_environment(newest.pythons[-2], package))
        text = (
            f"TensorFlow {last.version} is the last release with wheels for Python {python}, and other releases may have none: "
            f'`python -m pip install --upgrade pip`, then `python -m pip install "{exactly}"`. If pip does not find it, this '
            f"Python is a 32-bit one or not CPython. {another}"
        )
    if context.platform == "windows" and not _has_cuda(last or newest, "windows", "x86_64"):
        return f"{text} On native Windows it has no GPU support: for a GPU, do so in WSL2."
    return f"{text} {ON_ARM}" if lacks_cuda else text


def _with_uv(commands: tuple[str, ...]) -> str:
    return (
        f"uv (https://docs.astral.sh/uv) downloads one that fits: {', then '.join(f'`{each}`' for each in commands)}."
    )


def _has_cuda(release: TensorFlowRelease, os: str, architecture: str) -> bool:
    return any(wheel.cuda for wheel in release.wheels if (wheel.os, wheel.architecture) == (os, architecture))


def _compiler(context: Context, needs: ReleaseNeeds | None) -> str:
    """Return where libdevice and ptxas come from, for a CUDA that has no package of the usual name."""
    files = named(context.lost, context.opened)
    told = re.search(r"\d+\.\d+", context.values.get("cuda", ""))
    cuda = files.cuda or (needs.cuda if needs else told.group() if told else "")
    if not cuda or int(cuda.partition(".")[0]) >= _FIRST_CUDA_WITH_NVCC_CU12:
        return ""
    shown = cuda if "." in cuda else f"{cuda}.x"
    return (
        f"The toolkit of CUDA {shown} has both: install it from NVIDIA, put its `bin` folder on PATH, and "
        "set XLA_FLAGS=--xla_gpu_cuda_data_dir=DIR, where DIR is the folder that contains nvvm/libdevice."
    )


def as_typed(text: str, context: Context) -> str:
    """Return a question with the commands that the program's language has, and on Windows with those of Windows."""
    if context.knows("torch_alone"):
        text = text.replace("`tf.profiler`", "`torch.profiler`")
    if context.knows("jax"):
        text = text.replace("TF_FORCE_GPU_ALLOW_GROWTH=true", "XLA_PYTHON_CLIENT_PREALLOCATE=false")
    for usual, other in _WITHOUT_PYTHON if context.knows("no_python") else ():
        text = usual.sub(other, text)
    for linux, windows in _ON_WINDOWS if context.platform == "windows" else ():
        text = linux.sub(windows, text)
    return text
