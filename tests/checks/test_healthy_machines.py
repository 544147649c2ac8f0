"""On machines where everything works, no check raises a false alarm, whichever fact is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import DOCKER, NO_NVML, conda, cuda_without_library, packages, several, variables, wsl
from every import every
from healthy import (
    ANSWERED,
    CUDA_WHEELS,
    DRIVER,
    broken,
    computation,
    cuda_gpu,
    distribution,
    driver_library,
    gpu,
    healthy,
    node,
    nvml_gpu,
    pip_library,
    runtime,
    target,
)

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.model import Finding, Skip
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler
from tfgpu_doctor.model.facts.nvidia import DeviceNodes, Driver, GpuProcess, Libraries, Nvml
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary
from tfgpu_doctor.model.facts.xla import XlaTools

if TYPE_CHECKING:
    from checks.conftest import Judge

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
MIG = "MIG-1f2e3d4c-0000-0000-0000-000000000000"
UUIDS = [f"GPU-3f6f3a5e-0000-0000-0000-00000000000{index}" for index in range(4)]
SLURM = Scheduler(kind="slurm", job="81235", granted={"SLURM_JOB_GPUS": "0", "SLURM_GPUS_ON_NODE": "1"})
KUBERNETES = Container(kind="kubernetes", evidence=("$KUBERNETES_SERVICE_HOST is set",), shm_bytes=64 << 20)
OTHERS_JOB = GpuProcess(pid=2214, name="python", memory_bytes=79 << 30)
INTEL = PciDevice(address="0000:00:02.0", vendor="8086", device="46a6", class_code="030000", driver="i915")
RTX = PciDevice(address="0000:01:00.0", vendor="10de", device="24dc", class_code="030000", driver="nvidia")
NVSWITCH = PciDevice(address="0000:85:00.0", vendor="10de", device="22a3", class_code="068000")

NO_TOOLS = XlaTools(searched=("/usr/local/cuda",))  # the folder that is compiled in is not known
WHEELS = {name for name, _, _ in CUDA_WHEELS.values()}


def nodes(*paths: str, refused: tuple[str, ...] = ()) -> DeviceNodes:
    opened = tuple(node(path) for path in paths)
    return DeviceNodes(
        nodes=(*opened, *(node(path, error="EPERM") for path in refused)), opening=ANSWERED, uid=1000, groups=(1000,)
    )


def libcuda_at(path: str, **changes: Any) -> dict[str, Any]:
    """The driver's libraries in a folder of their own, and CUDA that opened libcuda there."""
    copy = driver_library("libcuda", path=path, real_path=path, **changes)
    return {"driver_libraries": Libraries(copies=(copy,)), "cuda_driver": {"library": path}}


def with_one_of_four_visible(visible: str, *theirs: GpuProcess) -> Facts:
    """A server of four GPUs, all seen by NVML and one left to CUDA; somebody else may be at work on the rest."""
    free = 300 << 20 if theirs else 79 << 30
    rest = (nvml_gpu(i, memory_total_bytes=80 << 30, memory_free_bytes=free, processes=theirs) for i in range(1, 4))
    machine = several(4)
    return broken(
        **{
            **machine,
            "nvml": {"gpus": (nvml_gpu(0), *rest)},
            "cuda_driver": {"gpus": (cuda_gpu(),)},
            "runtime": runtime(),
            "environment": variables(CUDA_VISIBLE_DEVICES=visible),
        }
    )


def jetson() -> Facts:
    folder = "/usr/lib/aarch64-linux-gnu"
    orin = cuda_gpu(name="Orin", compute_capability="8.7", multiprocessors=16, memory_bytes=61 << 30)
    libraries = libcuda_at(f"{folder}/nvidia/libcuda.so.1.1", version="1.1")
    libraries["cuda_driver"] = {**libraries["cuda_driver"], "gpus": (orin,), "cuda_version": "12.2"}
    return broken(
        **libraries,
        system={"architecture": "aarch64", "board": "NVIDIA Jetson AGX Orin Developer Kit", "cpu_flags": ("asimd",)},
        pci=Pci(device_count=3),
        nvml=Nvml(attempt=ANSWERED, library_error=NO_NVML),
        driver=Driver(
            version="540.3.0", flavour="open", modules=("nvidia", "nvidia_modeset"), running_kernel="5.15.136-tegra"
        ),
        device_nodes=nodes("/dev/nvmap", "/dev/nvhost-gpu"),
        tensorflow={
            "version": "2.16.1+nv24.8",
            "cuda_version": "12.2",
            "compute_capabilities": ("sm_72", "sm_87", "compute_87"),
        },
        target=packages(("tensorflow", "2.16.1+nv24.8"), ("numpy", "1.26.4")),
    )


def user_site() -> Facts:
    mine = "/home/user/.local/lib/python3.12/site-packages"
    found = (
        *(msgspec.structs.replace(each, folder=mine) for each in target().distributions),
        distribution("numpy", "1.26.4", folder="/usr/lib/python3/dist-packages", installer="debian"),
    )
    return broken(
        target=target(
            executable="/usr/bin/python3",
            prefix="/usr",
            base_prefix="/usr",
            user_site=mine,
            externally_managed=True,
            tensorflow_file=f"{mine}/tensorflow/__init__.py",
            distributions=found,
        )
    )


def by_runpath(**folders: str) -> Resolution:
    """The libraries that TensorFlow's own RUNPATH leads to, each with its folder."""
    libraries = (
        ResolvedLibrary(
            soname=name,
            found=True,
            needed_by_tensorflow=True,
            path=f"{folder}/{name}",
            real_path=f"{folder}/{name}",
            found_by="RUNPATH",
        )
        for name, folder in folders.items()
    )
    return Resolution(libraries=tuple(libraries))


def nixos() -> Facts:
    """An interpreter alone finds no library of the driver: only TensorFlow's library names /run/opengl-driver/lib."""
    folder = "/run/opengl-driver/lib"
    names = ("libcuda.so.1", "libnvidia-ml.so.1", *CUDA_WHEELS)
    known = (
        driver_library(stem, path=f"{folder}/{stem}.so.1", found_in="known place")
        for stem in ("libcuda", "libnvidia-ml")
    )
    return broken(
        driver_libraries=Libraries(copies=tuple(known)),
        cuda_driver=cuda_without_library(),
        nvml=Nvml(attempt=ANSWERED, library_error=NO_NVML),
        tensorflow={"folder": "/nix/store/def-python3-3.12/lib/python3.12/site-packages/tensorflow"},
        driver={"built_for": ()},
        cuda_libraries=Libraries(),
        xla_tools=NO_TOOLS,
        resolution=by_runpath(**dict.fromkeys(names, folder)),
    )


def site_build() -> Facts:
    """A cluster's own wheel, whose RUNPATHs replace LD_LIBRARY_PATH, and whose CUDA is compiled in as a folder."""
    folder = "/cvmfs/site.example/cuda/12.2/lib64"
    version = "2.17.0+site.1"
    return broken(
        tensorflow={"version": version, "wheel_tag": "cp312-cp312-linux_x86_64"},
        target=packages(("tensorflow", version), ("numpy", "1.26.4"), without=tuple(WHEELS)),
        cuda_libraries=Libraries(),
        xla_tools=NO_TOOLS,
        resolution=by_runpath(**dict.fromkeys(CUDA_WHEELS, folder)),
    )


def machines() -> dict[str, Facts]:
    mig = cuda_gpu(name=f"{A100} MIG 1g.10gb", compute_capability="8.0", multiprocessors=14, memory_bytes=10 << 30)
    mig_parent = nvml_gpu(name=A100, compute_capability="8.0", mig=True, mig_devices=(MIG,))
    switched = several(8, name=H100, compute_capability="9.0", multiprocessors=132)
    switched["pci"] = {"devices": (*switched["pci"]["devices"], NVSWITCH, NVSWITCH)}
    opengl = libcuda_at(f"/nix/store/abc-nvidia-x11-{DRIVER}/lib/libcuda.so.{DRIVER}", found_in="known place")
    forward = "/usr/local/cuda-12.8/compat/lib.real/libcuda.so.570.124.06"
    compat = libcuda_at(forward, version="570.124.06", kind="compat")
    compat["cuda_driver"] = {**compat["cuda_driver"], "cuda_version": "12.8"}
    gke = libcuda_at(f"/usr/local/nvidia/lib64/libcuda.so.{DRIVER}", found_in="LD_LIBRARY_PATH")
    return {
        "workstation": healthy(),
        "quick": healthy(quick=True),
        "laptop with two GPUs that slept": broken(
            pci={"devices": (INTEL, RTX)}, driver={"suspends": 12, "secure_boot": True}
        ),
        "eight GPUs and their switches": broken(**switched),
        "docker": broken(
            container=DOCKER,
            environment=variables(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute,utility"),
        ),
        "docker given two GPUs of eight": broken(
            **several(2),
            container=Container(kind="docker", shm_bytes=1 << 30),
            environment=variables(NVIDIA_VISIBLE_DEVICES="2,3"),
        ),
        "podman without root": broken(
            container=Container(kind="podman", shm_bytes=64 << 20), device_nodes={"uid": 0, "groups": (0, 65534)}
        ),
        "apptainer in a slurm job": broken(
            container=Container(kind="apptainer"), scheduler=SLURM, environment=variables(CUDA_VISIBLE_DEVICES="0")
        ),
        "kubernetes on gke": broken(
            **gke, container=KUBERNETES, environment=variables(LD_LIBRARY_PATH="/usr/local/nvidia/lib64")
        ),
        "kubernetes in a sandbox that hides the host": broken(
            container=KUBERNETES,
            pci=None,
            driver=Driver(running_kernel="4.4.0"),
            device_nodes=nodes("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"),
        ),
        "nvidia's container with a newer libcuda": broken(
            **compat, container=Container(kind="docker", shm_bytes=64 << 20)
        ),
        "slurm that hides the other GPUs": broken(
            scheduler=SLURM,
            environment=variables(CUDA_VISIBLE_DEVICES="0"),
            device_nodes=nodes(
                "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl", refused=("/dev/nvidia1", "/dev/nvidia2")
            ),
        ),
        "slurm that names one of four": msgspec.structs.replace(with_one_of_four_visible("0"), scheduler=SLURM),
        "one of four by its uuid": with_one_of_four_visible(UUIDS[0]),
        "one of four with a blank": with_one_of_four_visible(" 0 "),
        "all four in another order": broken(**several(4), environment=variables(CUDA_VISIBLE_DEVICES="3, 1,0 ,2")),
        "an instance of mig": broken(
            container=KUBERNETES,
            environment=variables(NVIDIA_VISIBLE_DEVICES=MIG, CUDA_VISIBLE_DEVICES=MIG),
            nvml={"gpus": (mig_parent,)},
            cuda_driver={"gpus": (mig,)},
        ),
        "wsl": wsl(2),
        "docker in wsl": wsl(2, container=DOCKER),
        "pip in a conda environment": broken(
            environment=Environment(variables={"CONDA_PREFIX": "/opt/conda/envs/tf", "CONDA_DEFAULT_ENV": "tf"}),
            target=target(conda_packages={"cudatoolkit": "11.8 h1"}),
        ),
        "conda's own build": broken(
            target=msgspec.structs.replace(
                conda("cuda120py312_0"),
                distributions=tuple(
                    msgspec.structs.replace(each, installer="conda") for each in target().distributions
                ),
            )
        ),
        "nixos": broken(
            **opengl,
            tensorflow={"folder": "/nix/store/def-python3-3.12/lib/python3.12/site-packages/tensorflow"},
            driver={"built_for": ()},
            cuda_libraries=Libraries(),
            environment=variables(LD_LIBRARY_PATH="/run/opengl-driver/lib"),
        ),
        "nixos whose tensorflow has the driver's folder in its runpath": nixos(),
        "a site's own build with runpaths": site_build(),
        "packages of the user": user_site(),
        "an older release": broken(
            tensorflow={"version": "2.15.1", "cuda_version": "12.2", "cudnn_version": "8"},
            target=packages(("tensorflow", "2.15.1"), ("numpy", "1.26.4")),
        ),
        "a nightly build": broken(tensorflow={"version": "2.22.0.dev20261101", "distribution": "tf-nightly"}),
        "releases newer than the tables": broken(
            system={"release": "9.1.0"},
            driver={"version": "999.10"},
            nvml={"driver_version": "999.10"},
            driver_libraries=Libraries(
                copies=(driver_library("libcuda", version="999.10", real_path="/usr/lib/libcuda.so.999.10"),)
            ),
            cuda_driver={
                "cuda_version": "19.1",
                "library": "/usr/lib/libcuda.so.999.10",
                "gpus": (cuda_gpu(compute_capability="25.0"),),
            },
            tensorflow={
                "version": "4.1.0",
                "cuda_version": "19.0",
                "cudnn_version": "17",
                "compute_capabilities": ("sm_250",),
            },
            cuda_libraries=Libraries(
                copies=tuple(
                    msgspec.structs.replace(pip_library("libcudart.so.12"), soname=name)
                    for name in ("libcudart.so.19", "libcudnn.so.17")
                )
            ),
            target=packages(("tensorflow", "4.1.0"), ("numpy", "5.0"), ("keras", "9.0")),
            runtime=runtime(version="4.1.0"),
        ),
        "settings that are all understood": broken(
            environment=variables(
                TF_FORCE_GPU_ALLOW_GROWTH="true",
                TF_GPU_ALLOCATOR="cuda_malloc_async",
                CUDA_DEVICE_ORDER="PCI_BUS_ID",
                TF_CPP_MIN_LOG_LEVEL="3",
            )
        ),
        "a desktop that draws on the same GPU": broken(
            nvml={
                "gpus": (
                    nvml_gpu(
                        processes=(GpuProcess(pid=1, name="Xorg", computes=False, memory_bytes=1 << 30),),
                        memory_free_bytes=20 << 30,
                    ),
                )
            }
        ),
    }


def alarms(judge: Judge, facts: Facts) -> list[str]:
    """The findings that are faults, as the checks come to them, each for itself."""
    found = []
    for check in ALL_CHECKS:
        if any(getattr(facts, name) is None for name in check.needs if name != "knowledge"):
            continue
        try:
            yielded = judge(check, facts)
        except Skip:
            continue
        faults = [each for each in yielded if isinstance(each, Finding) and each.severity != "info"]
        found += [f"{check.id} {each.severity}: {each.message}" for each in faults]
    return found


@every("name", machines())
def test_nothing_is_wrong(judge: Judge, name: str) -> None:
    assert alarms(judge, machines()[name]) == []


@every("name", machines())
def test_nothing_is_wrong_at_a_quick_look(judge: Judge, name: str) -> None:
    assert alarms(judge, broken(machines()[name], runtime=None)) == []


MISSING = [
    "pci",
    "container",
    "scheduler",
    "environment",
    "driver",
    "device_nodes",
    "driver_libraries",
    "cuda_driver",
    "nvml",
    "target",
    "tensorflow",
    "cuda_libraries",
    "runtime",
]


@every("fact", MISSING)
@pytest.mark.parametrize(
    "name",
    [
        "workstation",
        "eight GPUs and their switches",
        "wsl",
        "docker",
        "an instance of mig",
        "slurm that names one of four",
    ],
)
def test_a_fact_that_is_missing_is_no_fault(judge: Judge, name: str, fact: str) -> None:
    assert alarms(judge, broken(machines()[name], **{fact: None})) == []


def test_nothing_is_wrong_with_a_jetson(judge: Judge) -> None:
    assert alarms(judge, jetson()) == []


def test_nothing_is_wrong_with_a_jetson_seen_quickly(judge: Judge) -> None:
    assert alarms(judge, broken(jetson(), runtime=None)) == []


@pytest.mark.parametrize("visible", ["0", UUIDS[0]])
def test_the_work_of_others_on_other_gpus_is_no_fault(judge: Judge, visible: str) -> None:
    assert alarms(judge, with_one_of_four_visible(visible, OTHERS_JOB)) == []


def test_a_gpu_that_is_shared_by_mps_is_no_fault(judge: Judge) -> None:
    server = GpuProcess(pid=990, name="nvidia-cuda-mps-server", memory_bytes=30 << 20)
    shared = nvml_gpu(compute_mode="exclusive_process", processes=(server,))
    environment = variables(CUDA_MPS_PIPE_DIRECTORY="/tmp/nvidia-mps", TF_FORCE_GPU_ALLOW_GROWTH="true")
    assert alarms(judge, broken(nvml={"gpus": (shared,)}, environment=environment)) == []


def test_an_old_card_for_the_display_is_no_error(judge: Judge) -> None:
    old = {"name": "NVIDIA GeForce GT 710", "compute_capability": "3.5", "multiprocessors": 1}
    machine = several(2)
    machine["cuda_driver"] = {"gpus": (cuda_gpu(0), cuda_gpu(1, **old))}
    machine["runtime"] = runtime(
        gpus=(gpu(0),),
        computations=(computation("matmul"), computation("convolution")),
        log=("W gpu_device.cc:1] Ignoring visible gpu device. The minimum required Cuda capability is 6.0.",),
    )
    assert not any(" error: " in alarm for alarm in alarms(judge, broken(**machine)))
