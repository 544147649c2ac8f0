"""Machines built by hand for the ground that TensorFlow stands on: limits, batch systems, containers, clouds, notebooks.

Those on which nothing is wrong; built_ground_broken.py has the others.

`tools/write_generated.py` writes them to machines/. The figures of limits and of what TensorFlow says of them are those
that real processes gave under real control groups and `prlimit`, with TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import msgspec
from built_machines import (
    NO_NVML,
    in_container,
    packages,
    several,
    variables,
)
from healthy import (
    ANSWERED,
    broken,
    cuda_gpu,
    driver_library,
    gpu,
    node,
    nvml_gpu,
    runtime,
)

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.engines import Engines
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, NumaNode, Pci
from tfgpu_doctor.model.facts.notebooks import Interpreter, Kernel, Notebooks
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Libraries, Nvml

GIB = 1 << 30
MIG = "MIG-1f2e3d4c-0000-0000-0000-000000000000"
A100 = "NVIDIA A100-SXM4-80GB"
OPEN = {"as": -1, "memlock": 8 << 20, "nofile": 1024, "nproc": 127_000}
POD = Container(
    kind="kubernetes", evidence=("$KUBERNETES_SERVICE_HOST is set",), shm_bytes=64 << 20, shm_free_bytes=64 << 20,
    engine="containerd", user_namespace=False, privileged=False, seccomp="filter",
)  # fmt: skip
TOOLKIT = ("/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-runtime", "/usr/bin/nvidia-container-runtime-hook")


def limits(cpus: int = 32, **changes: Any) -> Limits:
    """The limits of a login on a machine with so many processors."""
    return Limits(
        **{"cgroup_version": 2, "cpu_list": f"0-{cpus - 1}" if cpus > 1 else "0", "resources": OPEN, **changes}
    )


def one_gpu(name: str, capability: str, memory_bytes: int, multiprocessors: int, **changes: Any) -> dict[str, Any]:
    """The sections of a machine with one GPU of that kind."""
    known: dict[str, Any] = {"name": name, "compute_capability": capability}
    whole = {"memory_total_bytes": memory_bytes, "memory_free_bytes": memory_bytes - (300 << 20)}
    return {
        "cuda_driver": {
            "gpus": (cuda_gpu(**known, memory_bytes=memory_bytes, multiprocessors=multiprocessors, **changes),)
        },
        "nvml": {"gpus": (nvml_gpu(**known, **whole),)},
        "runtime": runtime(gpus=(gpu(description=name, compute_capability=capability),)),
    }


def built() -> dict[str, Facts]:
    """Name to facts of every machine that is built by hand."""
    from built_ground_broken import broken_ground

    return {**_healthy(), **broken_ground()}


def _healthy() -> dict[str, Facts]:
    t4 = one_gpu("Tesla T4", "7.5", 15 * GIB, 40)
    mig = one_gpu(f"{A100} MIG 1g.10gb", "8.0", 10 * GIB, 14)
    mig["nvml"] = {"gpus": (nvml_gpu(name=A100, compute_capability="8.0", mig=True, mig_devices=(MIG,), memory_total_bytes=80 * GIB,
                                     memory_free_bytes=79 * GIB),)}  # fmt: skip
    nodes = (
        NumaNode(number=0, cpu_list="0-63,128-191", memory_bytes=1008 * GIB),
        NumaNode(number=1, cpu_list="64-127,192-255", memory_bytes=1008 * GIB),
    )
    eight = several(
        8, name="NVIDIA H100 80GB HBM3", compute_capability="9.0", multiprocessors=132, memory_bytes=80 * GIB
    )
    eight["pci"]["devices"] = tuple(
        msgspec.structs.replace(each, numa_node=index // 4) for index, each in enumerate(eight["pci"]["devices"])
    )
    cloud = {"cpu_count": 4, "memory_bytes": 15 * GIB, "memory_free_bytes": 12 * GIB, "memory_available_bytes": 14 * GIB,
             "cpu_model": "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz"}  # fmt: skip
    colab = {
        "cpu_count": 2,
        "memory_bytes": 13_600_000_000,
        "memory_free_bytes": 9 * GIB,
        "memory_available_bytes": 11 * GIB,
    }
    return {
        "kubernetes-mig-slice-healthy": in_container(
            POD, **mig,
            system={"cpu_count": 128, "memory_bytes": 1008 * GIB, "memory_free_bytes": 6 * GIB, "memory_available_bytes": 900 * GIB},
            environment=variables(NVIDIA_VISIBLE_DEVICES=MIG, NVIDIA_DRIVER_CAPABILITIES="compute,utility"),
            limits=limits(128, cpu_quota=4.0, cpu_quota_group="/sys/fs/cgroup", cpu_periods=2214, cpu_throttled_periods=310,
                          memory_limit_bytes=16 * GIB, memory_used_bytes=2 * GIB, oom_kills=0, tasks_limit=4096, tasks_used=61),
        ),
        "kubernetes-pod-with-4-processors-healthy": in_container(
            POD, **t4,
            environment=variables(NVIDIA_VISIBLE_DEVICES="GPU-3f6f3a5e-0000-0000-0000-000000000000"),
            limits=limits(32, cpu_quota=4.0, cpu_quota_group="/sys/fs/cgroup", cpu_periods=51_000, cpu_throttled_periods=4_100,
                          memory_limit_bytes=32 * GIB, memory_used_bytes=3 * GIB, oom_kills=0),
        ),
        "ci-container-with-2-processors-healthy": in_container(
            **t4,
            system={"cpu_count": 2, "memory_bytes": 7 * GIB, "memory_free_bytes": 2 * GIB, "memory_available_bytes": 5 * GIB},
            limits=limits(2, cpu_quota=2.0, cpu_quota_group="/sys/fs/cgroup", cpu_periods=9_000, cpu_throttled_periods=8_100),
            hosting=Hosting(service="GitHub Actions", evidence=("$GITHUB_ACTIONS is set",)),
        ),
        "cloud-vm-t4-healthy": broken(
            **t4, system=cloud, limits=limits(4), hosting=Hosting(vendor="Amazon EC2", product="g4dn.xlarge"),
            engines=Engines(docker="/usr/bin/dockerd", docker_runs_as_root=True, toolkit=TOOLKIT, no_cgroups=False,
                            runtime_named_in=("/etc/docker/daemon.json",)),
        ),
        "colab-t4-healthy": in_container(
            Container(kind="docker", evidence=("/.dockerenv exists",), shm_bytes=6 * GIB), **t4, system=colab,
            limits=limits(2, cgroup_version=0, resources={**OPEN, "nofile": 1_048_576}),
            hosting=Hosting(service="Google Colab", evidence=("$COLAB_RELEASE_TAG is set",), vendor="Google", product="Google Compute Engine"),
            notebooks=Notebooks(inside="Jupyter", running=Interpreter(path="/usr/bin/python3", is_target=True)),
        ),
        "two-sockets-8-gpus-healthy": broken(
            **eight,
            system={"cpu_count": 256, "memory_bytes": 2016 * GIB, "numa_nodes": nodes, "rdma_devices": ("uverbs0", "uverbs1")},
            limits=limits(256, resources={**OPEN, "memlock": -1, "nofile": 65_536}),
        ),
        "workstation-with-docker-healthy": broken(
            limits=limits(32), engines=Engines(docker="/usr/bin/dockerd", docker_runs_as_root=True),
            notebooks=Notebooks(
                kernels=(Kernel(name="python3", folder="/home/user/venv/share/jupyter/kernels/python3",
                                interpreter=Interpreter(path="python", is_target=True)),),
            ),
        ),
        "jetson-healthy": _jetson(),
        "grace-hopper-healthy": broken(
            **one_gpu("NVIDIA GH200 480GB", "9.0", 95 * GIB, 132),
            system={"architecture": "aarch64", "cpu_flags": ("asimd",), "cpu_count": 72, "cpu_model": "", "memory_bytes": 574 * GIB,
                    # the GPU's memory is a node of its own, without processors
                    "numa_nodes": (NumaNode(number=0, cpu_list="0-71", memory_bytes=478 * GIB), NumaNode(number=1, memory_bytes=95 * GIB))},
            container=Container(kind="docker", evidence=("/.dockerenv exists",), shm_bytes=64 << 20),
            tensorflow={"version": "2.17.0", "distribution": "tensorflow", "cuda_version": "12.8", "cudnn_version": "9",
                        "compute_capabilities": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "compute_120"), "wheel_tag": "cp312-cp312-linux_aarch64"},
            target=packages(("tensorflow", "2.17.0+nv25.2"), ("numpy", "1.26.4"), nvidia_libraries=()),
            limits=limits(72),
        ),
    }  # fmt: skip


def _jetson() -> Facts:
    folder = "/usr/lib/aarch64-linux-gnu/nvidia"
    library = driver_library(
        "libcuda", path=f"{folder}/libcuda.so.1.1", real_path=f"{folder}/libcuda.so.1.1", version="1.1"
    )
    return broken(
        system={
            "release": "5.15.148-tegra", "architecture": "aarch64", "distribution": "Ubuntu 22.04.5 LTS", "glibc": "2.35",
            "board": "NVIDIA Jetson AGX Orin Developer Kit", "cpu_flags": ("asimd",), "cpu_model": "ARMv8 Processor rev 1 (v8l)",
            "cpu_count": 12, "memory_bytes": 64_350_000_000,
        },
        pci=Pci(device_count=3),
        nvml=Nvml(attempt=ANSWERED, library_error=NO_NVML),
        driver=Driver(version="540.4.0", flavour="open", modules=("nvidia", "nvidia_modeset"), running_kernel="5.15.148-tegra"),
        device_nodes=DeviceNodes(
            nodes=tuple(node(path, major=10, mode="0660", gid=44) for path in ("/dev/nvmap", "/dev/nvhost-gpu")),
            opening=ANSWERED, uid=1000, groups=(44, 1000),
        ),
        driver_libraries=Libraries(copies=(library,)),
        cuda_driver=CudaDriver(
            attempt=ANSWERED, library=library.path, init_code=0, init_name="CUDA_SUCCESS", cuda_version="12.6",
            gpus=(cuda_gpu(name="Orin", compute_capability="8.7", multiprocessors=16, memory_bytes=64_350_000_000),),
        ),
        tensorflow={
            "version": "2.16.1", "cuda_version": "12.6", "cudnn_version": "9", "wheel_tag": "cp310-cp310-linux_aarch64",
            "compute_capabilities": ("sm_72", "sm_87", "compute_87"),
        },
        target=packages(("tensorflow", "2.16.1+nv24.8"), ("numpy", "1.26.4"), version="3.10.12", nvidia_libraries=()),
        runtime=runtime(gpus=(gpu(description="Orin", compute_capability="8.7"),)),
        hosting=Hosting(l4t="36.4.0", jetpack="6.1+b123"),
        limits=limits(12),
    )  # fmt: skip
