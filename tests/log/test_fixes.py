"""The fix of a log's cause on the machine that the log shows: a command is advised only where it can help."""

from __future__ import annotations

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.fixes import as_typed, filled_fix, undetermined_fix
from tfgpu_doctor.log.library_fixes import LIBRARIES
from tfgpu_doctor.log.machine import needed
from tfgpu_doctor.model.finding import UNDETERMINED

KNOWLEDGE = read_knowledge()
NEWEST = KNOWLEDGE.tensorflow_releases[-1]
MIG = "mig_single_instance_per_process"
COMPILER = "libdevice_or_ptxas_missing"


def fix_of(label: str, lost: str = "", opened: str = "", **values: str) -> str:
    context = Context(values, lost=tuple(lost.split()), opened=tuple(opened.split()))
    return filled_fix(label, context, needed(context, KNOWLEDGE), NEWEST)


@pytest.mark.parametrize(
    ("os", "has_extra"),
    [
        ("Linux-6.8.0-x86_64-with-glibc2.39", True),
        ("Linux-6.8.0-1015-nvidia-64k-aarch64-with-glibc2.39", False),
        ("Ubuntu 22.04 on a Jetson AGX Orin", False),
        ("macOS-14.5-arm64-arm-64bit", False),
        ("", True),
    ],
)
def test_another_python_comes_with_cuda_where_a_wheel_has_it(os: str, has_extra: bool) -> None:
    fix = filled_fix("unsupported_python_version", Context({"python": "3.99", "os": os}), None, NEWEST)
    assert f"TensorFlow {NEWEST.version} has wheels for Python" in fix
    assert ("tensorflow[and-cuda]'" in fix) is has_extra
    assert ("Arm" in fix) is ("aarch64" in os or "Jetson" in os)


def test_the_last_release_for_a_python_is_named() -> None:
    newest = NEWEST.pythons[-1]
    fix = fix_of("unsupported_python_version", python=f"{newest}.0", os="Windows 10")
    assert f'pip install "tensorflow=={NEWEST.version}"' in fix
    assert f"uv venv --seed --python {NEWEST.pythons[-2]}" in fix
    assert "WSL2" in fix
    on_linux = fix_of("unsupported_python_version", python="3.9.2", os="Ubuntu 20.04")
    assert 'pip install "tensorflow[and-cuda]==2.20.0"' in on_linux
    assert on_linux.count("[and-cuda]") == 2
    assert 'pip install "tensorflow==2.11.0"' in fix_of("unsupported_python_version", python="3.7.9")
    assert "is the last release" not in fix_of("unsupported_python_version", python="3.99")
    assert fix_of("unsupported_python_version", os="Windows 10") == ""
    assert fix_of("unsupported_python_version", python="2.7") == ""


def test_the_python_of_a_stated_release_is_named_with_its_command() -> None:
    fix = fix_of("unsupported_python_version", tensorflow="2.10.0", python="3.12")
    assert "3.7, 3.8, 3.9, 3.10" in fix
    assert "uv venv --seed --python 3.10" in fix
    assert "tensorflow==2.10.0" in fix
    assert "uv" not in fix_of("unsupported_python_version", tensorflow="1.5.0", python="3.12")


# Programs in other languages than Python.


@pytest.mark.parametrize("label", [*LIBRARIES, "pip_cuda_libs_not_found"])
@pytest.mark.parametrize("method", ["tfjs-node (Node.js)", "TensorFlow for Java"])
def test_a_program_without_python_needs_the_files_that_it_names(label: str, method: str) -> None:
    fix = fix_of(label, "libcudart.so.11.0 libcudnn.so.8", install_method=method, tensorflow="2.17.0", python="3.10")
    assert "CUDA 11.x (libcudart.so.11.0) and cuDNN 8 (libcudnn.so.8)" in fix
    assert "CUDA 12" not in fix
    assert "and-cuda" not in fix
    assert "ldconfig" in fix
    in_python = fix_of(label, install_method="pip", tensorflow="2.17.0", python="3.10")
    assert "not written in Python" not in in_python


def test_a_program_without_python_that_names_no_file() -> None:
    fix = fix_of("gpu_libs_not_found", install_method="tfjs-node (Node.js)")
    assert "in the versions that it was built with: install them" in fix
    assert "libcublasLt.so.10" in fix_of(
        "gpu_libs_not_found", "libcublasLt.so.10", install_method="tfjs-node (Node.js)"
    )


def test_a_question_to_a_program_without_python_has_no_command_of_python() -> None:
    node = Context({"install_method": "tfjs-node (Node.js)"})
    assert (
        as_typed("`tfgpu-doctor libraries`: which one", node)
        == "`ldconfig -p | grep -e libcudart -e libcudnn`: which one"
    )
    assert "pip" not in as_typed("`ls /usr/local | grep cuda`, and `pip list | grep nvidia`", node)
    assert as_typed("`tfgpu-doctor libraries`", Context({"install_method": "pip"})) == "`tfgpu-doctor libraries`"


# The name of a file is surer than a stated release.


def test_the_file_is_trusted_where_it_contradicts_the_release() -> None:
    for release, minor in (("2.2.0", "2.2"), ("2.15.0", "2.15")):  # the latter has no GPU support on Windows
        fix = fix_of("cuda_toolkit_wrong_major", "cudart64_110.dll", tensorflow=release, os="Windows 10")
        assert "CUDA 11.x (cudart64_110.dll)" in fix
        assert f"What opens cudart64_110.dll is not TensorFlow {minor}:" in fix
        assert "PATH" in fix
    fits = fix_of("cuda_toolkit_wrong_major", "cudart64_101.dll cudnn64_7.dll", tensorflow="2.2.0", os="Windows 10")
    assert fits.startswith("TensorFlow 2.2 needs CUDA 10.1 and cuDNN 7")


def test_an_old_set_up_without_a_release_is_not_told_to_install_with_pip() -> None:
    for label in ("gpu_libs_not_found", "cuda_minor_library_mix", "pip_without_and_cuda_extra"):
        fix = fix_of(label, "libcublas.so.10", opened="libcudart.so.10.1 libcudnn.so.7")
        assert "CUDA 10.1 (libcudart.so.10.1)" in fix
        assert "and-cuda" not in fix
    assert fix_of("gpu_libs_not_found", "libcudart.so.12") == ""  # the general fix


def test_a_part_of_a_cuda_that_is_there_is_named() -> None:
    fix = fix_of("gpu_libs_not_found", "libcublas.so.10", opened="libcudart.so.10.1")
    assert "opens CUDA 10.1 (libcudart.so.10.1), and not libcublas.so.10" in fix
    assert "`find / -name 'libcublas.so.10*' 2>/dev/null`" in fix
    assert "`find" not in fix_of("gpu_libs_not_found", "libcudart.so.10.1")


def test_mixed_libraries_are_mended_for_the_release() -> None:
    assert '"tensorflow[and-cuda]==2.17.0"' in fix_of("cuda_minor_library_mix", tensorflow="2.17.0")
    assert "TensorFlow 2.4 needs CUDA 11.0" in fix_of("cuda_minor_library_mix", tensorflow="2.4.1")


@pytest.mark.parametrize(
    ("tensorflow", "opened", "named"),
    [
        ("1.15", "", "10.0"),
        ("", "libcudart.so.10.0", "10.0"),
        ("2.8", "", "11.2"),
        ("2.17", "", ""),
        ("", "libcudart.so.12", ""),
    ],
)
def test_the_compiler_comes_from_the_cuda_of_the_release(tensorflow: str, opened: str, named: str) -> None:
    fix = fix_of(COMPILER, opened=opened, tensorflow=tensorflow)
    assert (f"toolkit of CUDA {named} has both" in fix) if named else fix == ""


# Systems.


@pytest.mark.parametrize("label", [*LIBRARIES, "pip_cuda_libs_not_found"])
def test_no_cuda_helps_on_native_windows(label: str) -> None:
    fix = fix_of(label, tensorflow="2.15.0", os="windows")
    assert "WSL2" in fix
    assert "CUDA 12" not in fix
    assert "native Windows" not in fix_of(label, tensorflow="2.15.0", os="windows, wsl2")
    assert "native Windows" not in fix_of(label, tensorflow="2.10.0", os="windows")


@pytest.mark.parametrize("label", [*LIBRARIES, "pip_cuda_libs_not_found"])
def test_no_wheel_of_the_index_helps_on_arm(label: str) -> None:
    for machine in ("jtop", "dgx spark", "gb10", "gh200", "jetson"):
        for release in ("2.16.1", ""):
            fix = fix_of(label, tensorflow=release, install_method=f"pip, {machine}")
            assert "NVIDIA's wheel for its JetPack version" in fix
            assert "pip install" not in fix
    assert "JetPack" not in fix_of(label, tensorflow="2.16.1", install_method="pip")


def test_conda_has_its_own_folder_and_its_own_builds() -> None:
    fix = fix_of("gpu_libs_not_found", tensorflow="2.12", os="Ubuntu", install_method="conda")
    assert "`$CONDA_PREFIX/lib`" in fix
    assert "lib64" not in fix
    assert "`lib64` folder" in fix_of("gpu_libs_not_found", tensorflow="2.12", os="Ubuntu", install_method="pip")
    either = fix_of("gpu_libs_not_found", tensorflow="2.16", os="Ubuntu", install_method="conda")
    assert 'conda install -c conda-forge "tensorflow=2.16.*=cuda*"' in either
    assert 'in a new environment from pip (`pip install "tensorflow[and-cuda]==2.16.*"`)' in either


def test_a_build_for_cuda_is_not_installed_again() -> None:
    fix = fix_of("conda_cpu_build_selected", install_method="conda, conda with the build cuda118py310h12ab_0")
    assert "cuda118py310h12ab_0" in fix
    assert "changes nothing" in fix
    assert fix_of("conda_cpu_build_selected", install_method="conda") == ""


def test_r_is_started_from_the_environment() -> None:
    label = "env_vars_not_inherited_by_ide_or_notebook"
    fix = fix_of(label, install_method="rstudio, conda")
    assert "use_condaenv" in fix
    assert "before R starts" in fix
    assert fix_of(label, install_method="jupyter, conda") == ""
    both = fix_of("gpu_libs_not_found", tensorflow="2.13.0", install_method="reticulate")
    assert both.index("use_condaenv") < both.index("TensorFlow 2.13 needs")
    assert "use_condaenv" not in fix_of("gpu_libs_not_found", tensorflow="2.13.0", install_method="pip")


def test_in_kubernetes_the_plugin_chooses_the_mig_device() -> None:
    assert "nvidia.com/mig-" in fix_of(MIG, install_method="mig, kubernetes")
    assert fix_of(MIG, install_method="mig, slurm") == ""


def test_a_program_of_pytorch_gets_no_advice_for_tensorflow() -> None:
    alone = {"install_method": "pytorch alone", "os": "windows"}
    assert "num_workers" in fix_of("input_pipeline_bound", **alone)
    assert "torch.utils.checkpoint" in fix_of("gpu_out_of_memory", **alone)
    assert "PYTORCH_CUDA_ALLOC_CONF=" in fix_of("memory_fragmented", **alone)
    assert "pytorch.org" in fix_of("native_windows_no_gpu_build", **alone)
    assert "`torch.profiler`" in as_typed("a profile: `tf.profiler`", Context(alone))
    both = {"install_method": "pytorch, torch", "os": "windows", "tensorflow": "2.10"}
    assert fix_of("input_pipeline_bound", **both) == ""
    assert fix_of("native_windows_no_gpu_build", **both) == ""


def test_what_is_undetermined_is_not_said_to_be_the_gpu() -> None:
    assert "if anything is" in fix_of(UNDETERMINED)
    assert "Nothing in these lines speaks of a GPU." in undetermined_fix(["ValueError: Unknown layer: Functional"])
    assert undetermined_fix(["ValueError: bad shape", "failed call to cuInit: CUDA_ERROR_NEW"]) == ""


def test_a_program_of_jax_gets_the_settings_of_jax() -> None:
    assert "XLA_PYTHON_CLIENT_PREALLOCATE=false" in fix_of("cudnn_init_failed_memory", install_method="conda, jax")
    assert "jax.checkpoint" in fix_of("gpu_out_of_memory", install_method="jax")
    assert fix_of("cudnn_init_failed_memory", install_method="conda") == ""
    asked = "whether it works with TF_FORCE_GPU_ALLOW_GROWTH=true"
    assert "XLA_PYTHON" in as_typed(asked, Context({"install_method": "jax"}))
    assert as_typed(asked, Context({"install_method": "conda"})) == asked


def test_the_compiler_comes_from_the_cuda_that_the_log_names() -> None:
    assert "CUDA 11.8" in fix_of("libdevice_or_ptxas_missing", cuda="11.8")
    assert fix_of("libdevice_or_ptxas_missing", cuda="12.3") == ""
    assert fix_of("libdevice_or_ptxas_missing", cuda="unknown") == ""


def test_the_compiler_comes_from_the_cuda_of_the_release_before_that_of_the_log() -> None:
    assert fix_of("libdevice_or_ptxas_missing", tensorflow="2.18", cuda="11.8") == ""
