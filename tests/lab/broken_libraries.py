"""Environments whose CUDA libraries are lost, damaged, or not those that TensorFlow needs."""

from __future__ import annotations

from lab.damage import (
    activated_with_cusolver,
    deleted,
    from_other_target,
    installed,
    moved_to_toolkit,
    truncated,
    uninstalled,
    with_cpu_build,
    with_toolkit_11,
    with_torch,
)
from lab.machine import CUSOLVER, Machine, driver, gpu

_TOOLKIT_11, _TOOLKIT_12 = "usr/local/cuda-11.8/lib64", "usr/local/cuda-12.5/lib64"
_OLDER_CUDNN = "{parts}/cudnn-9.1/nvidia/cudnn/lib"

LIBRARIES = (
    Machine("fresh-2.21.0", "pip_cuda_libs_not_found", "libcusolver.so.11", only_of="2.21.0", library_path=()),
    Machine("fresh-2.16.1", "pip_cuda_libs_not_found", "libcudnn.so.8", target="2.16.1", library_path=()),
    Machine("started-without-activation", "env_vars_not_inherited_by_ide_or_notebook", "libcusolver.so.11",
            done=(activated_with_cusolver,), only_of="2.21.0", library_path=()),
    Machine("without-extra", "pip_without_and_cuda_extra", done=(uninstalled("nvidia_*"),), library_path=()),
    Machine("without-extra-2.18.1", "pip_without_and_cuda_extra", done=(uninstalled("nvidia_*"),), target="2.18.1",
            library_path=()),
    Machine("toolkit-11-on-path", "cuda_toolkit_wrong_major", "libcudart.so.11.0", target="2.18.1",
            done=(with_toolkit_11,), library_path=("{root}/" + _TOOLKIT_11,)),
    Machine("toolkit-12-off-path", "gpu_libs_not_found", _TOOLKIT_12, done=(moved_to_toolkit(_TOOLKIT_12),),
            library_path=()),
    Machine("cudnn-deleted", "gpu_libs_not_found", "libcudnn.so.9", done=(deleted("nvidia/cudnn/lib/libcudnn.so.9"),)),
    Machine("cudnn-graph-deleted", "gpu_libs_not_found", "libcudnn_graph.so.9",
            done=(deleted("nvidia/cudnn/lib/libcudnn_graph.so.9"),)),
    Machine("cudnn-cnn-deleted-2.18.1", "gpu_libs_not_found", "libcudnn_cnn.so.9", target="2.18.1", library_path=(),
            done=(deleted("nvidia/cudnn/lib/libcudnn_cnn.so.9"),)),
    Machine("cublas-truncated", "gpu_libs_not_found", "libcublasLt.so.12",
            done=(truncated("nvidia/cublas/lib/libcublasLt.so.12"),)),
    Machine("cufft-truncated-2.18.1", "gpu_libs_not_found", "libcufft.so.11", target="2.18.1", library_path=(),
            done=(truncated("nvidia/cufft/lib/libcufft.so.11"),)),
    Machine("cu11-beside-cu12", "cuda_minor_library_mix", "libnvJitLink.so.12",
            done=(uninstalled("nvidia_nvjitlink_cu12"), installed("cudart-11"))),
    Machine("older-cudnn-first", "ld_library_path_shadows_pip_libs", "cudnn-9.1", library_path=(_OLDER_CUDNN, CUSOLVER)),
    Machine("older-cudnn-first-2.18.1", "ld_library_path_shadows_pip_libs", "cudnn-9.1", target="2.18.1",
            library_path=(_OLDER_CUDNN,)),
    Machine("older-cudnn-installed", "cudnn_version_mismatch", "9.1.0.70", done=(installed("cudnn-9.1"),)),
    Machine("cudnn-8-installed", "cudnn_version_mismatch", "8.9.7.29",
            done=(from_other_target("2.16.1", "nvidia_cudnn_cu12", "cudnn"),)),
    Machine("cudnn-9.3-installed", "cudnn_nvrtc_not_found", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            done=(from_other_target("2.18.1", "nvidia_cudnn_cu12", "cudnn"),)),
    Machine("torch-after-tensorflow", "torch_tf_nvidia_wheel_conflict", "torch pins",
            done=(with_torch, installed("cudnn-9.1", "cudart-12.1", "nvrtc-12.1"))),
    Machine("libdevice-deleted", "libdevice_or_ptxas_missing", "nvvm/libdevice", done=(deleted("nvidia/cuda_nvcc/nvvm"),)),
    Machine("ptxas-of-cuda-11", "ptxas_too_old_for_gpu", "11.7", done=(installed("nvcc-11"),),
            driver=driver(gpu("NVIDIA GeForce RTX 4090"))),
    Machine("cpu-over-gpu-package", "cpu_package_shadows_gpu_package", "tensorflow-cpu", done=(with_cpu_build,)),
)  # fmt: skip
