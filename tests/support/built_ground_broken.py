"""Machines whose ground is at fault: limits, batch systems, container engines, platforms, notebooks, requirements.

The figures of limits and what TensorFlow says of them are those that real processes gave under real control groups and
`prlimit`, with TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import msgspec
from built_ground import GIB, OPEN, TOOLKIT, limits, one_gpu
from built_machines import (
    NO_LIBRARIES,
    cuda_that_fails,
    in_container,
    no_driver,
    several,
    tensorflow_after,
    variables,
)
from healthy import ANSWERED, DRIVER, broken, distribution, nvml_gpu, runtime, target

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.engines import Engines
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.machine import Container, Environment, PciDevice, Scheduler, System
from tfgpu_doctor.model.facts.notebooks import Interpreter
from tfgpu_doctor.model.facts.nvidia import Driver
from tfgpu_doctor.model.facts.project import Project, ProjectRequirement
from tfgpu_doctor.model.facts.python import Runtime

COMPOSE = Project(gpu_containers=(ProjectRequirement(file="/home/user/project/compose.yaml", words="driver: nvidia"),))
BARE: dict[str, Any] = {
    "tensorflow_file": "",
    "tensorflow_owners": (),
    "nvidia_libraries": (),
    "distributions": (distribution("pip", "24.0"),),
}
IMPORTING = (
    "I0000 00:00:1795280576.203486   24765 port.cc:153] oneDNN custom operations are on.",
    "I0000 00:00:1795280576.389302   24765 cuda_memory_allocator.cc:70] Registering collective allocator factory for NCCL",
)
NO_THREAD = "Check failed: ret == 0 (11 vs. 0) Thread tf_Compute creation via pthread_create() failed."


def without_tensorflow(**sections: Any) -> Facts:
    """The healthy machine with a Python that has no TensorFlow, and no environment active."""
    return broken(
        **{
            "tensorflow": None,
            "target": target(**BARE),
            "runtime": Runtime(attempt=ANSWERED, import_error="ModuleNotFoundError: No module named 'tensorflow'"),
            "environment": Environment(),
            **sections,
        }
    )


def broken_ground() -> dict[str, Facts]:
    """Name to facts of every such machine."""
    return {**_limited(), **_jobs(), **_engines(), **_platforms(), **_environments()}


def _limited() -> dict[str, Facts]:
    t4 = one_gpu("Tesla T4", "7.5", 15 * GIB, 40)
    at_work = nvml_gpu(name="Tesla T4", memory_total_bytes=15 * GIB, memory_free_bytes=4 * GIB)
    no_memory = "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    return {
        "container-with-half-a-processor": in_container(
            **t4, limits=limits(32, cpu_quota=0.5, cpu_quota_group="/sys/fs/cgroup", cpu_periods=131, cpu_throttled_periods=118)
        ),
        "pod-stopped-by-its-quota": in_container(
            Container(kind="kubernetes", evidence=("$KUBERNETES_SERVICE_HOST is set",), shm_bytes=64 << 20), **{**t4, "nvml": {"gpus": (at_work,)}},
            system={"cpu_count": 64},
            limits=limits(64, cpu_quota=4.0, cpu_quota_group="/sys/fs/cgroup", cpu_periods=86_412, cpu_throttled_periods=78_630),
        ),
        "grid-engine-address-space": broken(
            scheduler=Scheduler(kind="sge", job="4711", granted={"SGE_HGR_gpu": "0"}, cpus=4, cpus_said_by="NSLOTS"),
            limits=limits(32, resources={**OPEN, "as": 8 * GIB}),
            cuda_driver=cuda_that_fails(2, "CUDA_ERROR_OUT_OF_MEMORY"),
            runtime=tensorflow_after(2, no_memory),
        ),
        "address-space-ends-at-import": broken(
            limits=limits(32, resources={**OPEN, "as": 1_363_148_800}),
            runtime=Runtime(
                attempt=ANSWERED,
                import_error="ImportError: /home/user/venv/lib/python3.12/site-packages/tensorflow/python/profiler/internal/"
                "_pywrap_profiler_plugin.so: failed to map segment from shared object",
            ),
        ),
        "few-open-files": broken(
            limits=limits(32, resources={**OPEN, "nofile": 64}),
            runtime=Runtime(
                attempt=ANSWERED, import_error="OSError: [Errno 24] Too many open files: '/home/user/venv/lib/python3.12/site-packages'"
            ),
        ),
        "container-out-of-memory": in_container(
            limits=limits(32, memory_limit_bytes=157_286_400, memory_used_bytes=16_834_560, oom_kills=1),
            runtime=Runtime(
                attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL", exit_code=-9, seconds=8.3, phase="importing TensorFlow",
                                stderr=IMPORTING),
            ),
        ),
        "container-with-few-tasks": in_container(
            limits=limits(32, tasks_limit=100, tasks_used=42),
            runtime=runtime(
                attempt=Attempt(outcome="killed_by_signal", signal="SIGABRT", exit_code=-6, seconds=9.1, phase="computing on /GPU:0",
                                stderr=(f"F0000 00:00:1795280723.421627   26774 env.cc:84] {NO_THREAD}",)),
                computations=(), log=(f"F env.cc:84] {NO_THREAD}",),
            ),
        ),
    }  # fmt: skip


def _jobs() -> dict[str, Facts]:
    nothing = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
    no_device = tensorflow_after(100, "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
    return {
        "slurm-step-without-gres": broken(
            scheduler=Scheduler(kind="slurm", job="81236", granted={"SLURM_JOB_GPUS": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"},
                                step="1", cpus=8, cpus_said_by="SLURM_CPUS_PER_TASK"),
            limits=limits(8), cuda_driver=nothing, runtime=no_device,
        ),
        "htcondor-without-gpu": broken(
            scheduler=Scheduler(kind="htcondor", job="slot1_12", denied={"_CONDOR_AssignedGPUs": "10000"}),
            environment=variables(CUDA_VISIBLE_DEVICES="10000"), limits=limits(8), cuda_driver=nothing, runtime=no_device,
        ),
    }  # fmt: skip


def _engines() -> dict[str, Facts]:
    packaged = Engines(docker="/usr/bin/dockerd", docker_runs_as_root=True)
    configured = msgspec.structs.replace(
        packaged, toolkit=TOOLKIT, no_cgroups=False, runtime_named_in=("/etc/docker/daemon.json",)
    )
    return {
        "docker-host-of-snap": without_tensorflow(project=COMPOSE, engines=Engines(docker_of_snap="/snap/bin/docker")),
        "docker-host-without-toolkit": without_tensorflow(project=COMPOSE, engines=packaged),
        "docker-host-whose-toolkit-was-removed": broken(
            engines=msgspec.structs.replace(packaged, runtime_named_in=("/etc/docker/daemon.json",))
        ),
        "docker-host-without-cgroups": broken(engines=msgspec.structs.replace(configured, no_cgroups=True)),
        "nspawn-without-gpu": no_driver(
            container=Container(kind="systemd-nspawn", evidence=("/run/systemd/container contains 'systemd-nspawn'",), shm_bytes=GIB),
            driver=Driver(version=DRIVER, flavour="open", modules=("nvidia", "nvidia_uvm"), gpus=("0000:01:00.0",)),
        ),
    }  # fmt: skip


def _platforms() -> dict[str, Facts]:
    virtual = PciDevice(address="0000:00:02.0", vendor="1af4", device="1050", class_code="030000", driver="virtio-pci")
    none = no_driver(pci={"devices": (virtual,), "device_count": 6}, limits=limits(2))
    windows = System(os="Windows", release="10", architecture="AMD64", distribution="Windows 10", cpu_count=16)
    two = several(2)
    return {
        "colab-without-gpu": msgspec.structs.replace(
            none,
            container=Container(kind="docker", evidence=("/.dockerenv exists",), shm_bytes=6 * GIB),
            hosting=Hosting(service="Google Colab", evidence=("$COLAB_RELEASE_TAG is set",), vendor="Google", product="Google Compute Engine"),
        ),
        "codespace-without-gpu": msgspec.structs.replace(
            none,
            container=Container(kind="docker", evidence=("/.dockerenv exists",), shm_bytes=64 << 20),
            hosting=Hosting(service="GitHub Codespaces", evidence=("$CODESPACES is set",), vendor="Microsoft Corporation", product="Virtual Machine"),
        ),
        "cloud-vm-of-a-type-without-gpu": msgspec.structs.replace(none, hosting=Hosting(vendor="Amazon EC2", product="t3.large")),
        "grace-hopper-wheel-from-pypi": broken(
            **{**one_gpu("NVIDIA GH200 480GB", "9.0", 95 * GIB, 132), "runtime": runtime(gpus=(), computations=(), libraries=(), log=())},
            system={"architecture": "aarch64", "cpu_flags": ("asimd",), "cpu_count": 72},
            tensorflow={"built_with_cuda": False, "cuda_version": "", "wheel_tag": "cp312-cp312-manylinux_2_17_aarch64"},
        ),
        "windows-2.10-two-gpus-healthy": broken(
            **{key: two[key] for key in ("cuda_driver", "nvml", "runtime")},
            system=windows, pci=None, driver=Driver(), device_nodes=None, driver_libraries=NO_LIBRARIES, container=Container(),
            tensorflow={"version": "2.10.1", "cuda_version": "64_112", "cudnn_version": "64_8", "wheel_tag": "cp310-cp310-win_amd64",
                        "compute_capabilities": ("sm_50", "sm_60", "sm_70", "sm_80", "compute_86")},
            target=target(tensorflow_owners=("tensorflow",), version="3.10.11", distributions=tuple(
                each for each in target(nvidia_libraries=()).distributions if not each.name.startswith("nvidia-") and each.name != "numpy")),
        ),
    }  # fmt: skip


def _environments() -> dict[str, Facts]:
    from tfgpu_doctor.model.facts.notebooks import Notebooks

    kernel = "/home/user/miniconda3/envs/tf/bin/python"
    return {
        "notebook-of-another-environment": without_tensorflow(
            target=target(executable="/home/user/.local/pipx/venvs/tfgpu-doctor/bin/python",
                          prefix="/home/user/.local/pipx/venvs/tfgpu-doctor", **BARE),
            notebooks=Notebooks(inside="Jupyter", running=Interpreter(path=kernel, prefix="/home/user/miniconda3/envs/tf", is_target=False)),
        ),
        "system-python-that-refuses-pip": without_tensorflow(
            target=target(executable="/usr/bin/python3", prefix="/usr", base_prefix="/usr", externally_managed=True, **BARE)
        ),
        "requirements-name-tensorflow-gpu": without_tensorflow(
            project=Project(requirements=(ProjectRequirement(file="/home/user/project/requirements.txt", words="tensorflow-gpu>=2.8"),)),
        ),
        "legacy-keras-without-its-package": broken(environment=variables(TF_USE_LEGACY_KERAS="1")),
    }  # fmt: skip
