"""Containers, batch jobs and variables that keep the GPU from TensorFlow."""

from __future__ import annotations

from lab import roots
from lab.damage import started_with
from lab.machine import NO_DRIVER, NO_LIBCUDA, NO_NVML, RTX_3090, Machine, driver
from lab.roots import in_docker, in_kubernetes, in_podman, without_nodes

_HIDDEN = "cuda_visible_devices_hides_gpu"
_STUB, _COMPAT = "usr/local/cuda/lib64/stubs/libcuda.so", "usr/local/cuda/compat/libcuda.so.570.86.10"

CONTAINERS = (
    Machine("docker-without-gpus", "container_started_without_gpu", done=(in_docker, without_nodes), driver=NO_DRIVER),
    Machine("devel-image-without-gpus", "container_started_without_gpu", done=(in_docker, without_nodes),
            driver=driver(cuInit=34, missing=NO_NVML), libcuda=_STUB),
    Machine("pod-without-gpu", "container_started_without_gpu", "kube", done=(in_kubernetes, without_nodes),
            driver=NO_DRIVER),
    Machine("capabilities-utility", "nvidia_driver_capabilities_without_compute", "libcuda", done=(in_docker,),
            driver=driver(missing=NO_LIBCUDA), variables={"NVIDIA_DRIVER_CAPABILITIES": "utility"}),
    Machine("capabilities-compute", "nvidia_driver_capabilities_without_compute", "libnvidia-ml", done=(in_docker,),
            driver=driver(missing=NO_NVML), variables={"NVIDIA_DRIVER_CAPABILITIES": "compute"}),
    Machine("nvml-missing", "gpu_libs_not_found", "libnvidia-ml.so.1", driver=driver(missing=NO_NVML)),
    Machine("compat-on-geforce", "cuda_compat_package_conflict", "804", done=(in_docker,),
            driver=driver(cuInit=804), libcuda=_COMPAT),
    Machine("compat-for-another-driver", "cuda_compat_package_conflict", "803", done=(in_docker,),
            driver=driver(cuInit=803), libcuda=_COMPAT),
    Machine("toolkit-stub-on-path", "libcuda_stub_loaded", "34", driver=driver(cuInit=34), libcuda=_STUB),
    Machine("image-with-own-libcuda", "foreign_libcuda_bundled", "opt/conda", done=(in_docker, roots.own_libcuda),
            driver=driver(cuInit=999), libcuda="opt/conda/lib/libcuda.so.1"),
    Machine("shm-of-docker", "docker_shm_too_small", "64 MiB", done=(in_docker,), driver=driver(RTX_3090, RTX_3090),
            under=roots.SMALL_SHM),
    Machine("cgroup-lost", "container_lost_gpu_cgroup", "EPERM", done=(in_docker, roots.nodes_that_refuse),
            driver=driver(cuInit=100, nvmlInit=999), as_root=True),
    Machine("selinux-in-podman", "selinux_blocks_container_gpu", "EACCES", done=(in_podman, roots.real_nodes),
            driver=driver(cuInit=100, nvmlInit=4), under=roots.NO_DEVICES, as_root=True),
    Machine("slurm-without-gres", "scheduler_did_not_grant_gpu", "slurm", driver=driver(cuInit=100),
            variables={"SLURM_JOB_ID": "4711"}),
    Machine("slurm-with-empty-list", "scheduler_did_not_grant_gpu", "slurm",
            variables={"SLURM_JOB_ID": "4711", "CUDA_VISIBLE_DEVICES": ""}),
    Machine("lsf-without-gpu", "scheduler_did_not_grant_gpu", "lsf", driver=driver(cuInit=100),
            variables={"LSB_JOBID": "4711"}),
    Machine("hidden-by-minus-one", _HIDDEN, "-1", variables={"CUDA_VISIBLE_DEVICES": "-1"}),
    Machine("hidden-by-nothing", _HIDDEN, "empty", variables={"CUDA_VISIBLE_DEVICES": ""}),
    Machine("hidden-by-index", _HIDDEN, "'2'", variables={"CUDA_VISIBLE_DEVICES": "2"}),
    Machine("hidden-by-uuid", _HIDDEN, "GPU-deadbeef", variables={"CUDA_VISIBLE_DEVICES": "GPU-deadbeef"}),
    Machine("half-hidden", _HIDDEN, "ends at", driver=driver(RTX_3090, RTX_3090),
            variables={"CUDA_VISIBLE_DEVICES": "0,7"}),
    Machine("hidden-by-import", _HIDDEN, "while Python started",
            done=(started_with("import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'"),)),
    Machine("hidden-on-fresh-install", _HIDDEN, "-1", variables={"CUDA_VISIBLE_DEVICES": "-1"}, library_path=()),
)  # fmt: skip
