"""The same lines on another machine, release or installation have another cause."""

from __future__ import annotations

import pytest
from classified import example, labels, read
from every import every

from tfgpu_doctor.log.classification import HARMLESS

DSO_IS_NEWER = "kernel version 550.54.15 does not match DSO version 560.1 -- cannot find working devices"


@pytest.mark.parametrize(
    ("first", "log", "context"),
    [
        ("container_started_without_gpu", "failed call to cuInit: UNKNOWN ERROR (303)", ["install_method=docker run"]),
        ("no_nvidia_driver", "failed call to cuInit: UNKNOWN ERROR (303)", []),
        ("no_gpu_in_machine", "failed call to cuInit: UNKNOWN ERROR (303)", ["os=Ubuntu VM without GPU"]),
        ("cuda_visible_devices_hides_gpu", "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", []),
        ("pip_cuda_libs_not_found", "gpu_device.cc:2251] Cannot dlopen some GPU libraries.", []),
        ("pip_cuda_libs_not_found", "gpu_device.cc:2365] Cannot dlopen some GPU libraries.", []),
        ("gpu_libs_not_found", "gpu_device.cc:2365] Cannot dlopen some GPU libraries.", ["cuda=13.0", "tensorflow=2.21"]),
        ("gpu_libs_not_found", "Cannot dlopen some GPU libraries.", []),
        ("cuda_compat_package_conflict", DSO_IS_NEWER, ["os=kubernetes"]),
        ("driver_library_version_mismatch", DSO_IS_NEWER, []),
        ("ld_library_path_shadows_pip_libs", "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.",
         ["install_method=pip", "tensorflow=2.18"]),
        ("cudnn_version_mismatch", "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.", []),
        ("native_windows_no_gpu_build", ">>> tf.config.list_physical_devices('GPU')\n[]", ["os=Windows 11", "tensorflow=2.15"]),
        ("aarch64_wheel_without_cuda", "[]", ["os=Ubuntu aarch64"]),
        ("macos_metal_plugin_missing", "[]", ["os=macOS"]),
        ("tensorflow_gpu_package_removed", "No matching distribution found for tensorflow-gpu==2.13.0", []),
        ("unsupported_python_version", "ERROR: No matching distribution found for tensorflow-gpu", []),
        ("unsupported_python_version", "No matching distribution found for tensorflow_gpu==1.15", []),
        ("no_nvidia_driver", "ImportError: libcuda.so.1: cannot open shared object file", []),
        ("container_started_without_gpu", "ImportError: libcuda.so.1: cannot open shared object file", ["os=Kubernetes"]),
        ("no_nvidia_driver", "Could not load dynamic library 'nvcuda.dll'; dlerror: nvcuda.dll not found", []),
        ("gpu_libs_not_found", "ImportError: libcudnn.so.7: cannot open shared object file", []),
        ("gpu_libs_not_found", "Couldn't open CUDA library libcudnn.so.5. LD_LIBRARY_PATH: /usr/local/cuda/lib64", []),
        ("cuda_toolkit_wrong_major", "Could not load dynamic library 'libcudart.so.11.0'; dlerror: x", ["cuda=12.4"]),
        ("gpu_libs_not_found", "Could not load dynamic library 'libcudart.so.11.0'; dlerror: x", ["cuda=11.8"]),
        ("cuda_toolkit_wrong_major", "Could not load dynamic library 'cudart64_101.dll'; dlerror: x", ["cuda=11.2"]),
        ("gpu_libs_not_found", "Could not load dynamic library 'cudart64_12.dll'; dlerror: x", ["cuda=12.1"]),
        ("cuda_toolkit_wrong_major", "ImportError: libcublas.so.9.0: cannot open shared object file", ["cuda=9.1.85"]),
        ("uvm_broken_after_suspend", "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", ["gpu=RTX 3060 Laptop"]),
        ("torch_tf_nvidia_wheel_conflict", "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.",
         ["install_method=pip, with PyTorch"]),
        ("libdevice_or_ptxas_missing", "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.",
         ["install_method=Docker latest-gpu-jupyter"]),
        ("gpu_memory_held_by_other_process", "\n".join(
            f"failed to allocate {size} (1 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY" for size in ("1.2G", "900.5M")), []),
    ],
)  # fmt: skip
def test_what_is_given_decides(first: str, log: str, context: list[str]) -> None:
    assert labels(log, *context)[0] == first


HOST = "I cuda_diagnostics.cc:158] retrieving CUDA diagnostic information for host: "


@pytest.mark.parametrize(
    ("first", "log"),
    [
        ("container_started_without_gpu", HOST + "16c54693e7f2\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("container_started_without_gpu", HOST + "train-job-5f7d446b77-kmsxn\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("no_nvidia_driver", HOST + "my-workstation\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("native_windows_no_gpu_build", "C:\\Program Files\\Python\nTensorFlow version: 2.15.0\n[]"),
        ("wsl_libcuda_not_on_path", "5.15.153.1-microsoft-standard-WSL2\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("native_windows_no_gpu_build", "- OS Platform and Distribution (e.g., Linux Ubuntu 16.04): Windows 11\n"
         "- TensorFlow version (use command below): v2.12.0\nNum GPUs Available:  0"),
        ("pip_cuda_libs_not_found", "Successfully installed numpy-1.26.4 tensorflow-2.16.1\nCannot dlopen some GPU libraries."),
        ("cuda_toolkit_wrong_major", "Cuda compilation tools, release 12.4, V12.4.99\n"
         "Could not load dynamic library 'libcudart.so.11.0'; dlerror: x; LD_LIBRARY_PATH: /usr/local/cuda-12.4/lib64"),
        ("pip_without_and_cuda_extra", "cudart_stub.cc:32] Could not find cuda drivers on your machine, GPU will not be used.\n"
         "gpu_device.cc:2344] Cannot dlopen some GPU libraries."),
        ("aarch64_wheel_without_cuda", "/usr/lib/aarch64-linux-gnu/libc.so.6\n[]"),
        ("selinux_blocks_container_gpu", "avc:  denied  { read } for  comm=\"python\" tcontext=u:object_r:xserver_misc_device_t:s0"),
    ],
)  # fmt: skip
def test_what_the_log_tells_of_the_machine_decides(first: str, log: str) -> None:
    assert labels(log)[0] == first


def test_what_is_said_counts_more_than_what_the_log_tells() -> None:
    log = "TensorFlow version: 2.15.0\nC:\\Program Files\\Python\n[]"
    assert "native_windows_no_gpu_build" not in labels(log, "tensorflow=2.9")
    assert {cause.confidence for cause in read(log, "tensorflow=2.9").causes} == {"low"}
    assert labels(log)[0] == "native_windows_no_gpu_build"


def test_the_facts_of_a_log_are_told() -> None:
    report = read(
        "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n"
        "gpu_device.cc:2251] Cannot dlopen some GPU libraries.\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no\n"
        "GPU:0 -> device: 0, name: NVIDIA A100, pci bus id: 0000:01:00.0, compute capability: 8.0\n"
    )
    assert report.context == {}
    assert report.extracted == {
        "capability": ("8.0",), "driver": ("550.54.15",), "error": ("CUDA_ERROR_NO_DEVICE",), "gpu": ("NVIDIA A100",),
        "tensorflow": ("2.16",),
    }  # fmt: skip


NOT_FOUND = "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)"


@every("context, commands", [
    (["python=3.14.2"], "`uv pip install --python tensorflow-gpu 'tensorflow[and-cuda]'`"),
    (["python=3.15.0", "os=Windows 11"], "`uv pip install --python tensorflow-gpu tensorflow`"),
    (["python=3.14", "tensorflow=2.18"], ""),
    (["python=3.13.1"], ""),
    (["python=3.7.9"], ""),
    ([], ""),
])  # fmt: skip
def test_for_a_python_that_is_too_new_the_fix_brings_another(context: list[str], commands: str) -> None:
    cause = read(NOT_FOUND, *context).causes[0]
    assert cause.label == "unsupported_python_version"
    assert ("`uv venv --seed --python 3.13 tensorflow-gpu`" in cause.fix) is bool(commands)
    assert commands in cause.fix


CUDNN_LOST = "CUDA 9.1, tensorflow version 1.14.0. It does not use the GPU.\n{opened}\nCould not dlopen library 'libcudnn.so.7'; dlerror: x"


@every("opened, cause", [
    ("", "cuda_toolkit_wrong_major"),
    ("Successfully opened dynamic library libcuda.so.1", "cuda_toolkit_wrong_major"),
    ("Successfully opened dynamic library libcudart.so.10.0", "gpu_libs_not_found"),
    ("Successfully opened dynamic library libcusparse.so.10.0", "gpu_libs_not_found"),
])  # fmt: skip
def test_a_cuda_that_tensorflow_opened_is_the_right_one(opened: str, cause: str) -> None:
    """Whatever CUDA the author names (tensorflow 42156)."""
    report = read(CUDNN_LOST.format(opened=opened))
    assert report.causes[0].label == cause
    assert report.extracted["tensorflow"] == ("1.14.0",)
    assert not any("1.14.0.`" in each.fix for each in report.causes)


def test_the_cuda_that_nvidia_smi_shows_is_no_wrong_toolkit() -> None:
    said = "My TensorFlow 2.10 does not use the GPU. nvidia-smi shows CUDA Version 12.2. I installed CUDA {} and cuDNN 8.1.\n"
    assert "cuda_toolkit_wrong_major" not in labels(said.format("11.2"))
    assert labels(said.format("12.2"))[0] == "cuda_toolkit_wrong_major"


def test_an_old_release_that_shows_the_gpu_has_its_cuda() -> None:
    given = ("tensorflow=1.12.0", "cuda=10.0", "os=Ubuntu", "gpu=Tesla P100")
    asked = "My TensorFlow does not use the GPU.\n"
    shown = "name: Tesla P100-SXM2-16GB major: 6 minor: 0 memoryClockRate(GHz): 1.4805\n"
    assert labels(asked, *given)[:1] == ["cuda_toolkit_wrong_major"]
    assert "cuda_toolkit_wrong_major" not in labels(asked + shown, *given)
    later = ("tensorflow=1.13.1", "cuda=9.0", "os=Ubuntu", "gpu=Tesla P100")
    assert "cuda_toolkit_wrong_major" in labels(asked + shown, *later)


@every("said, given, first", [
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 5080", "tensorflow=2.17.0"), "gpu_compute_capability_too_new"),
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 5080",), "gpu_compute_capability_too_new"),
    ("On my B200 (sm_100) it fails with CUDA_ERROR_INVALID_HANDLE.", (), "gpu_compute_capability_too_new"),
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 4080", "tensorflow=2.17.0"), "gpu_kernel_fault"),
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 5080", "tensorflow=2.22.0"), "gpu_kernel_fault"),
], key=lambda said, given, first: f"{said} {given}")  # fmt: skip
def test_an_invalid_handle_on_a_gpu_that_is_too_new(said: str, given: tuple[str, ...], first: str) -> None:
    assert labels(f"I use TensorFlow in Docker with shm_size: 1gb, and have an error.\n\n{said}\n", *given)[0] == first


@every("given, named", [
    (("gpu=Tesla V100", "tensorflow=2.12"), False),
    (("gpu=2 x RTX 3090", "tensorflow=2.12"), False),
    (("gpu=Tesla V100",), True),
    (("gpu=Tesla V100", "tensorflow=2.12", "install_method=built from source"), True),
    (("gpu=RTX 5090", "tensorflow=2.12"), True),
], key=lambda given, named: str(given))  # fmt: skip
def test_a_gpu_that_a_release_has_kernels_for_waits_for_no_compiler(given: tuple[str, ...], named: bool) -> None:
    found = labels("TensorFlow takes a very long time to start the training on the GPU.\n", "os=Ubuntu", *given)
    assert ("ptx_jit_startup_delay" in found) == named


@every("said", [
    "How do I get this on a DGX Spark? TensorFlow keeps defaulting to CPU.",
    "I have trouble getting the GPU recognized by TensorFlow on a GB10.",
    "TensorFlow doesn't use the GPU. jtop shows 0 % on this board.",
    "TensorFlow cannot find the GPU on our GH200 server.",
    "TensorFlow cannot find the GPU beside the Grace CPU.",
])  # fmt: skip
def test_an_arm_machine_is_known_by_its_name(said: str) -> None:
    assert labels(f"{said}\n")[0] == "aarch64_wheel_without_cuda"


@every("release, named", [("2.13.1", False), ("2.16.1", True)], key=lambda release, named: release)
def test_a_release_without_the_extra_does_not_lack_it(release: str, named: bool) -> None:
    line = "cudart_stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.\n[]\n"
    found = labels(line, f"tensorflow={release}", "gpu=RTX 4090", "os=Ubuntu")
    assert ("pip_without_and_cuda_extra" in found) == named
    assert found[0] != "undetermined"


def test_an_invalid_kernel_image_on_a_newer_gpu_is_not_of_cudnn() -> None:
    line = "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: device kernel image is invalid"
    cause = read(line, "tensorflow=2.3.0", "gpu=RTX 3090", "cudnn=8.0", "os=Ubuntu").causes[0]
    assert (cause.label, cause.confidence) == ("gpu_compute_capability_too_new", "medium")
    cause = read(line, "tensorflow=2.3.0", "gpu=Tesla V100", "cudnn=8.0", "os=Ubuntu").causes[0]
    assert (cause.label, cause.confidence) == ("gpu_compute_capability_too_new", "low")


def test_no_device_in_a_virtual_machine_is_no_gpu_in_it() -> None:
    log = "I run it {}, can anybody help?\n\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
    assert read(log.format("in a VM without the GPU of its host")).causes[0].label == "no_gpu_in_machine"
    assert read(log.format("on my desktop")).causes[0].label == "cuda_visible_devices_hides_gpu"


def test_a_toolkit_of_another_cuda_does_not_help_a_release_whose_cuda_is_from_pip() -> None:
    line = "I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used."
    cause = read(line, "tensorflow=2.15.1", "cuda=11.4", "os=Ubuntu (WSL)").causes[0]
    assert (cause.label, cause.confidence) == ("cuda_toolkit_wrong_major", "low")
    assert "[and-cuda]" in cause.fix
    found = [each.label for each in read(line, "tensorflow=2.15.1", "cuda=12.2", "os=Ubuntu (WSL)").causes]
    assert "cuda_toolkit_wrong_major" not in found


def test_in_jax_a_dnn_library_that_is_not_found_may_have_no_memory() -> None:
    line = "RuntimeError: UNKNOWN: Failed to determine best cudnn convolution algorithm: DNN library is not found."
    confidence = {each.label: each.confidence for each in read(line, "install_method=jax").causes}
    assert confidence["cudnn_version_mismatch"] == "low"
    confidence = {each.label: each.confidence for each in read(line, "install_method=pip").causes}
    assert confidence["cudnn_version_mismatch"] == "medium"


def test_what_began_with_a_release_is_no_matter_of_the_machine() -> None:
    asked = "The loss is NaN with several GPUs and MirroredStrategy in TensorFlow"
    assert labels(f"{asked} since tf 2.16. This is not the case in 2.15.\n") == ["undetermined"]
    assert labels(f"{asked}.\n")[0] == "multi_gpu_p2p_iommu_acs"
    assert (
        labels(f"{asked} since tf 2.16.\n\nDMAR: DRHD: handling fault status reg 2\n")[0] == "multi_gpu_p2p_iommu_acs"
    )


@pytest.mark.parametrize(
    ("before", "given", "found"),
    [
        ("", "tensorflow=2.21.0", ["cudnn_nvrtc_not_found"]),
        ("Loaded cuDNN version 90501\n", "", ["cudnn_nvrtc_not_found"]),
        ("Loaded cuDNN version 91002\n", "", ["cudnn_nvrtc_not_found"]),
        ("Loaded cuDNN version 91100\n", "", ["undetermined"]),  # this one finds the compiler
        ("Loaded cuDNN version 92400\n", "", ["undetermined"]),
        ("Loaded cuDNN version 100000\n", "", ["undetermined"]),
        ("", "cudnn=9.24.0.43", ["undetermined"]),
    ],
)
def test_a_convolution_without_a_plan_lacks_the_compiler_where_cudnn_does_not_find_it(
    before: str, given: str, found: list[str]
) -> None:
    assert labels(before + example("convolution_without_plan"), *given.split()) == found


def test_a_listed_gpu_is_not_too_old() -> None:
    listed = 'physical_device_desc: "device: 0, name: GRID K520, pci bus id: 0000:00:03.0, compute capability: 3.0"'
    assert not read(f"{listed}\n").causes
    said = "My card has compute capability 3.0. Why does TensorFlow fail?\n"
    assert "gpu_compute_capability_too_old" in [cause.label for cause in read(said).causes]
    assert "gpu_compute_capability_too_old" not in [cause.label for cause in read(f"{said}\n{listed}\n").causes]


def test_a_release_that_there_is_not_is_told() -> None:
    (cause,) = read("ERROR: No matching distribution found for tensorflow==2.16.9").causes
    assert (cause.label, cause.fix.startswith("No release 2.16.9 of TensorFlow is known")) == ("undetermined", True)


@every("said, first", [
    ("Tensorflow - 2.3.0-dev20200615\nCUDA v10.0", "cuda_toolkit_wrong_major"),
    ("", "gpu_libs_not_found"),
], key=lambda said, first: first)  # fmt: skip
def test_a_gpu_for_xla_alone_lacks_libraries(said: str, first: str) -> None:
    listed = 'name: "/device:XLA_GPU:0"\ndevice_type: "XLA_GPU"\n'
    assert labels(f"TensorFlow does not see my GPU, can anyone help?\n\n{said}\n{listed}")[0] == first
    noise = "oneDNN custom operations are on. You may see\n"
    assert labels(f"{noise}/job:localhost/replica:0/task:0/device:XLA_GPU:0 -> device: XLA_GPU device\n") == [HARMLESS]


def test_a_package_of_the_home_folder_may_break_a_container() -> None:
    frame = 'File "/home/me/.local/lib/python3.6/site-packages/tensorflow/__init__.py", line 101, in <module>'
    log = f"{frame}\nModuleNotFoundError: No module named 'setuptools._distutils'\n"
    assert labels(f"I run TensorFlow with singularity, and get this error:\n\n{log}")[0] == "user_site_shadowing"
    assert "user_site_shadowing" not in labels(f"I run TensorFlow, and get this error:\n\n{log}")
