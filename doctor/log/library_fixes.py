"""How a program gets the CUDA libraries that it opens: for its language, its system, and the files that the log names."""

from __future__ import annotations

import re

from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.knowledge.release_needs import ReleaseNeeds
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.file_names import ONE_NAME_PER_MAJOR, Named, named

_FIRST_IMAGE_OF_PYTHON_3 = (
    "2.2"  # before it, tags without -py3 are of Python 2: https://hub.docker.com/r/tensorflow/tensorflow
)
_FIRST_ON_INDEX = 12  # the CUDA of the oldest release whose [and-cuda] pip can still install
LIBRARIES = (
    "cuda_toolkit_wrong_major", "cuda_toolkit_wrong_minor", "cuda_not_installed", "gpu_libs_not_found", "cudnn_version_mismatch",
    "pip_without_and_cuda_extra",
)  # fmt: skip
_BY_PIP = ("pip_cuda_libs_not_found",)  # of these a program without Python, or on Arm, has none
_OF_CONDA = ("conda_cpu_build_selected",)
_MIXED = "cuda_minor_library_mix"
ON_ARM = (
    "The wheels of TensorFlow on the package index are built without CUDA for 64-bit Arm, with [and-cuda] or without: to use a "
    "GPU, install NVIDIA's wheel for its JetPack version on a Jetson, and use NVIDIA's NGC container on a server or a DGX Spark."
)
# https://docs.posit.co/ide/server-pro/rstudio_pro_sessions/r_executable_and_libraries.html
_OUTSIDE_R = (
    "Start R or RStudio from a shell in which the environment is activated (`conda activate NAME`, then `R` or `rstudio`), and "
    'select it there with `reticulate::use_condaenv("NAME", required = TRUE)`. LD_LIBRARY_PATH must be set before R starts: the '
    "loader reads it once, so `Sys.setenv` comes too late for it, and so does .Renviron; RStudio Server takes it from "
    "rsession-ld-library-path in /etc/rstudio/rserver.conf."
)
IN_R = "env_vars_not_inherited_by_ide_or_notebook"


def library_fix(label: str, context: Context, needs: ReleaseNeeds | None) -> str:
    """Return the fix for a cause that lies in the libraries; empty where the general one says as much."""
    if label == IN_R:
        return _OUTSIDE_R if context.knows("r") else ""
    if label in (*LIBRARIES, *_OF_CONDA) and context.knows("conda_cuda_build"):
        return _another_conda_build(context)
    if label not in (*LIBRARIES, *_BY_PIP, _MIXED):
        return ""
    fix = _without_wheel(context, needs) or (_of_files(label, context, needs) if label not in _BY_PIP else "")
    if context.knows("r") and label != _MIXED:
        return (
            f"If TensorFlow sees the GPU in a shell: {_lowered(_OUTSIDE_R)} {f'If not: {fix}' if fix else ''}".strip()
        )
    return fix


def _another_conda_build(context: Context) -> str:
    """Return what to do where the build that conda chose is one for CUDA by its name."""
    build = re.search(r"build (\S+ )?((?:cuda|gpu)\w*)", context.values.get("install_method", ""), re.IGNORECASE)
    return (
        f"conda lists a build for CUDA already ({build[2] if build else 'cuda'}): installing it again changes nothing. If "
        "`tf.test.is_built_with_cuda()` is False all the same, that build is defective: take a newer one (`conda search -c "
        'conda-forge "tensorflow=*=cuda*"` lists them), or `pip install "tensorflow[and-cuda]"` in a new environment. If it is '
        "True, compare `conda list cuda-version` with the CUDA version that `nvidia-smi` shows."
    )


def _without_wheel(context: Context, needs: ReleaseNeeds | None) -> str:
    """Return the fix where no library helps, or no package of Python's."""
    if context.knows("no_python"):
        files = _by_hand(context, needs, named(context.lost, context.opened))
        return f"{files} The program is not written in Python: neither pip nor `tfgpu-doctor libraries` can help it."
    if context.platform == "windows" and needs and not needs.has_gpu_build and not context.lost:
        on_windows = read_knowledge().causes["native_windows_no_gpu_build"].fix
        return f"No CUDA that is installed helps: TensorFlow {needs.minor} has no GPU support on native Windows. {on_windows}"
    if context.platform in ("linux", "") and context.knows("arm") and not (needs and needs.has_gpu_build):
        return ON_ARM
    return ""


def _of_files(label: str, context: Context, needs: ReleaseNeeds | None) -> str:
    """Return how to get what a release needs, or, where that is not known or does not fit, what the files are named after."""
    files = named(context.lost, context.opened)
    if needs and needs.has_gpu_build and files.fits(needs.cuda, needs.cudnn):
        return _of_mixed(context, needs) if label == _MIXED else _of_release(context, needs)
    if needs and (files.cuda or files.cudnn):
        return f"{_by_hand(context, needs, files)} {_which_release(needs, files.cuda_file or files.cudnn_file)}"
    is_older = bool(files.cuda) and int(files.cuda.partition(".")[0]) < _FIRST_ON_INDEX
    return _by_hand(context, None, files) if is_older or (files.cudnn and not files.cuda) else ""


def _of_mixed(context: Context, needs: ReleaseNeeds) -> str:
    if not needs.cuda_extra:
        return f"Keep one set of libraries: {_lowered(_of_release(context, needs), word='TensorFlow')}"
    extra = requirement("tensorflow[and-cuda]", context, needs)
    return (
        f'Install one matching set with pip: `python -m pip install --force-reinstall "{extra}"`, in a new environment if cu11 '
        "and cu12 are mixed."
    )


def _which_release(needs: ReleaseNeeds, file: str) -> str:
    return (
        f'What opens {file} is not TensorFlow {needs.minor}: `python -c "import tensorflow as tf; print(tf.__version__, '
        'tf.__file__)"` shows which release runs.'
    )


def _of_release(context: Context, needs: ReleaseNeeds) -> str:
    """Return how to get the libraries of a release: from pip or conda where they bring them, else from NVIDIA."""
    on_linux, major = context.platform in ("linux", ""), int(needs.cuda.partition(".")[0])
    extra = (
        f'`pip install "{requirement("tensorflow[and-cuda]", context, needs)}"`'
        if needs.cuda_extra and on_linux
        else ""
    )
    if on_linux and context.knows("conda") and (extra or major >= _FIRST_ON_INDEX) and not context.knows("container"):
        by_conda = f'from conda-forge (`conda install -c conda-forge "tensorflow={needs.minor}.*=cuda*"`)'
        either = f"from one place, either {by_conda}, or in a new environment from pip ({extra})" if extra else by_conda
        return f"TensorFlow {needs.minor} needs CUDA {needs.cuda} and cuDNN {needs.cudnn}: take it with them {either}."
    if extra:
        return f"{extra} brings CUDA {needs.cuda} and cuDNN {needs.cudnn}, which this release needs."
    exactly = f"CUDA {needs.cuda} and cuDNN {needs.cudnn}, in exactly {'these' if major < ONE_NAME_PER_MAJOR else 'these major'}"
    python = "-py3" if version(needs.minor) < version(_FIRST_IMAGE_OF_PYTHON_3) else ""
    image = f", or use the image `tensorflow/tensorflow:{needs.minor}.0-gpu{python}`"
    return f"TensorFlow {needs.minor} needs {exactly} versions: install them{_and_make_known(context, 'Python', image)}"


def _by_hand(context: Context, needs: ReleaseNeeds | None, files: Named) -> str:
    """Return what a program needs by the names of the files that it opens."""
    if files.cuda_file in context.opened and context.lost and context.platform != "windows":
        return _rest_of(context, files)
    wanted = []
    if files.cuda:
        wanted.append(f"CUDA {files.cuda}{'' if '.' in files.cuda else '.x'} ({files.cuda_file})")
    if files.cudnn:
        wanted.append(f"cuDNN {files.cudnn} ({files.cudnn_file}{'' if files.cuda else ', in the build for its CUDA'})")
    elif files.cuda:
        wanted.append("the cuDNN that it was built with")
    if not wanted:
        lost = f" (the log names {', '.join(context.lost[:4])})" if context.lost else ""
        known = _and_make_known(context, "it")
        return f"The program needs CUDA and cuDNN in the versions that it was built with{lost}: install them{known}"
    is_other = needs is not None and not (needs.has_gpu_build and files.fits(needs.cuda, needs.cudnn))
    other = f", whatever TensorFlow {needs.minor} needs" if needs and is_other else ""
    is_one = len(wanted) == 1
    known = _and_make_known(context, "it", is_one=is_one)
    return f"This program needs {' and '.join(wanted)}{other}: install {'it' if is_one else 'them'} from NVIDIA{known}"


def _rest_of(context: Context, files: Named) -> str:
    """Return how to get the part that is missing of a CUDA that is there."""
    first = context.lost[0]
    part = f"cuDNN {files.cudnn}" if "cudnn" in first else f"CUDA {files.cuda}"
    return (
        f"This program opens CUDA {files.cuda} ({files.cuda_file}), and not {', '.join(context.lost[:4])}: "
        f"`find / -name '{first}*' 2>/dev/null` shows whether it lies elsewhere. Add that folder to LD_LIBRARY_PATH before the "
        f"program starts, or install what is missing of {part} from NVIDIA."
    )


def _and_make_known(context: Context, program: str, image: str = "", *, is_one: bool = False) -> str:
    """Return where the libraries must be found, as the end of a sentence."""
    if context.platform == "windows":
        return f", add {'its `bin` folder' if is_one else 'the `bin` folder of both'} to PATH, and open a new terminal."
    if context.knows("container"):
        return f" in the image{image}."
    if context.knows("conda"):
        packages = "conda-forge has cudnn, and CUDA as cuda-toolkit, up to 11 as cudatoolkit"
        return f" ({packages}), and add `$CONDA_PREFIX/lib` to LD_LIBRARY_PATH before {program} starts."
    by_loader = ", or for a service to a file in /etc/ld.so.conf.d, and run `sudo ldconfig`" if program == "it" else ""
    folder = f"{'its' if is_one else 'their'} `lib64` folder"
    return f", and add {folder} to LD_LIBRARY_PATH before {program} starts{by_loader}."


def _lowered(text: str, word: str = "") -> str:
    """Return a text to stand after a colon; a name keeps its capital."""
    return text if word and text.startswith(word) else text[:1].lower() + text[1:]


def requirement(package: str, context: Context, needs: ReleaseNeeds) -> str:
    """Return what pip is to install: exactly the release that is known, or the last of its minor version."""
    given = context.values.get("tensorflow", "")
    version = given if given.startswith(f"{needs.minor}.") and given.replace(".", "").isdigit() else f"{needs.minor}.*"
    return f"{package}=={version}"
