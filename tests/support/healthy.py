"""A healthy machine, as facts, for tests to take and break: `healthy()`, and `broken(section=changes)`."""

from __future__ import annotations

from typing import Any

import msgspec

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import (
    CudaDriver,
    CudaGpu,
    DeviceNode,
    DeviceNodes,
    Driver,
    Libraries,
    LibraryFile,
    Nvml,
    NvmlGpu,
)
from tfgpu_doctor.model.facts.python import (
    Computation,
    Distribution,
    LibraryLoad,
    Runtime,
    Target,
    TensorFlow,
    TensorFlowGpu,
)

ANSWERED = Attempt(outcome="answered", seconds=0.1, exit_code=0)
SITE = "/home/user/venv/lib/python3.12/site-packages"
DRIVER = "560.35.03"
CUDA_WHEELS = {  # soname to distribution, version and folder; versions of `pip install tensorflow[and-cuda]==2.20.0`
    "libcublas.so.12": ("nvidia-cublas-cu12", "12.5.3.2", "cublas"),
    "libcublasLt.so.12": ("nvidia-cublas-cu12", "12.5.3.2", "cublas"),
    "libcudart.so.12": ("nvidia-cuda-runtime-cu12", "12.5.82", "cuda_runtime"),
    "libcudnn.so.9": ("nvidia-cudnn-cu12", "9.3.0.75", "cudnn"),
    "libcufft.so.11": ("nvidia-cufft-cu12", "11.2.3.61", "cufft"),
    "libcusolver.so.11": ("nvidia-cusolver-cu12", "11.6.3.83", "cusolver"),
    "libcusparse.so.12": ("nvidia-cusparse-cu12", "12.5.1.3", "cusparse"),
}


def healthy(*, quick: bool = False) -> Facts:
    """A workstation with one RTX 3090 and TensorFlow 2.20.0 from pip, on which everything works."""
    return Facts(
        doctor="0.1.0",
        recorded="2026-11-20T12:00:00Z",
        quick=quick,
        unknown={"runtime": "--quick skips TensorFlow itself"} if quick else {},
        system=System(
            os="Linux", release="6.8.0-48-generic", architecture="x86_64", distribution="Ubuntu 24.04.1 LTS",
            glibc="2.39", cpu_model="AMD Ryzen 9 5950X 16-Core Processor", cpu_count=32,
            cpu_flags=("sse4_1", "sse4_2", "avx", "avx2", "fma"), memory_bytes=64 << 30,
        ),
        pci=Pci(
            devices=(PciDevice(address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia"),),
            device_count=41,
        ),
        container=Container(shm_bytes=32 << 30),
        scheduler=Scheduler(),
        environment=Environment(variables={"VIRTUAL_ENV": "/home/user/venv"}),
        driver=Driver(
            version=DRIVER, flavour="open", modules=("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"),
            gpus=("0000:01:00.0",), built_for=("6.8.0-48-generic",), running_kernel="6.8.0-48-generic",
            secure_boot=False, suspends=0,
            parameters={"RmProfilingAdminOnly": "1", "PreserveVideoMemoryAllocations": "0"},
        ),
        device_nodes=DeviceNodes(
            nodes=tuple(node(path) for path in ("/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")),
            opening=ANSWERED, uid=1000, groups=(1000,),
        ),
        driver_libraries=Libraries(copies=(driver_library("libcuda"), driver_library("libnvidia-ml"))),
        cuda_driver=CudaDriver(
            attempt=ANSWERED, library=f"/usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}", init_code=0,
            init_name="CUDA_SUCCESS", cuda_version="12.6", gpus=(cuda_gpu(),),
        ),
        nvml=Nvml(attempt=ANSWERED, driver_version=DRIVER, gpus=(nvml_gpu(),)),
        target=target(),
        tensorflow=TensorFlow(
            version="2.20.0", distribution="tensorflow", folder=f"{SITE}/tensorflow", built_with_cuda=True,
            cuda_version="12.5.1", cudnn_version="9",
            compute_capabilities=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
            wheel_tag="cp312-cp312-manylinux_2_17_x86_64",
        ),
        cuda_libraries=Libraries(copies=tuple(pip_library(soname) for soname in CUDA_WHEELS)),
        runtime=None if quick else runtime(),
    )  # fmt: skip


def broken(facts: Facts | None = None, /, **sections: Any) -> Facts:
    """The machine with some facts changed: `driver={"version": ""}` changes fields, `nvml=None` takes a fact away.

    A dict with a key that holds a struct or a tuple replaces that field; an object of the fact's type replaces all.
    """
    facts = facts or healthy()
    changed = {}
    for name, change in sections.items():
        known = getattr(facts, name)
        changed[name] = msgspec.structs.replace(known, **change) if isinstance(change, dict) else change
    return msgspec.structs.replace(facts, **changed)


def node(path: str, **changes: Any) -> DeviceNode:
    """A device node that everybody may open."""
    return DeviceNode(**{"path": path, "mode": "0666", "uid": 0, "gid": 0, "major": 195, **changes})


def driver_library(stem: str, **changes: Any) -> LibraryFile:
    """The driver's own copy of libcuda or libnvidia-ml."""
    folder = "/usr/lib/x86_64-linux-gnu"
    fields = {
        "soname": f"{stem}.so.1", "path": f"{folder}/{stem}.so.1", "real_path": f"{folder}/{stem}.so.{DRIVER}",
        "version": DRIVER, "size_bytes": 30 << 20, "found_in": "ld.so.cache",
    }  # fmt: skip
    return LibraryFile(**{**fields, **changes})


def pip_library(soname: str, **changes: Any) -> LibraryFile:
    """A CUDA library as pip's nvidia-* wheels bring it."""
    path = f"{SITE}/nvidia/{CUDA_WHEELS[soname][2]}/lib/{soname}"
    fields = {"soname": soname, "path": path, "real_path": path, "size_bytes": 1 << 20, "found_in": "pip"}
    return LibraryFile(**{**fields, **changes})


def cuda_gpu(index: int = 0, **changes: Any) -> CudaGpu:
    """A GPU as CUDA lists it."""
    fields = {
        "index": index, "name": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6", "memory_bytes": 24 << 30,
        "multiprocessors": 82, "pci_address": f"0000:0{index + 1}:00.0",
    }  # fmt: skip
    return CudaGpu(**{**fields, **changes})


def nvml_gpu(index: int = 0, **changes: Any) -> NvmlGpu:
    """A GPU as NVML lists it, with nobody else on it."""
    fields = {
        "index": index, "name": "NVIDIA GeForce RTX 3090", "uuid": f"GPU-3f6f3a5e-0000-0000-0000-00000000000{index}",
        "pci_address": f"00000000:0{index + 1}:00.0", "compute_capability": "8.6", "memory_total_bytes": 24 << 30,
        "memory_free_bytes": 23 << 30, "compute_mode": "default", "mig": None,
    }  # fmt: skip
    return NvmlGpu(**{**fields, **changes})


def target(**changes: Any) -> Target:
    """A virtual environment with `tensorflow[and-cuda]==2.20.0`."""
    wheels = dict.fromkeys((name, version) for name, version, _ in CUDA_WHEELS.values())
    requires = (
        "numpy>=1.26.0", "protobuf>=5.28.0", "keras>=3.10.0",
        *(f'{name}<13.0,>={version}; extra == "and-cuda"' for name, version in wheels),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "attempt": ANSWERED, "executable": "/home/user/venv/bin/python", "version": "3.12.7", "bits": 64,
        "prefix": "/home/user/venv", "base_prefix": "/usr", "search_path": ("/usr/lib/python3.12", SITE),
        "working_folder": "/home/user/project",
        "distributions": (
            distribution("keras", "3.10.0"), distribution("numpy", "2.1.3"), distribution("protobuf", "5.28.3"),
            *(distribution(name, version) for name, version in wheels),
            distribution("tensorflow", "2.20.0", requires=requires),
        ),
        "tensorflow_file": f"{SITE}/tensorflow/__init__.py", "tensorflow_owners": ("tensorflow",),
        "nvidia_libraries": tuple(pip_library(soname).path for soname in CUDA_WHEELS),
    }  # fmt: skip
    return Target(**{**fields, **changes})


def distribution(name: str, version: str, **changes: Any) -> Distribution:
    """An installed distribution."""
    return Distribution(**{"name": name, "version": version, "folder": SITE, "installer": "pip", **changes})


def runtime(**changes: Any) -> Runtime:
    """TensorFlow imported, one GPU listed, both operations right."""
    fields: dict[str, Any] = {
        "attempt": ANSWERED, "version": "2.20.0", "import_seconds": 2.1, "gpus_listed": True,
        "gpus": (gpu(),),
        "libraries": tuple(LibraryLoad(soname=name, opened=True) for name in ("libcuda.so.1", *CUDA_WHEELS)),
        "computations": (computation("matmul"), computation("convolution")),
        "log": ("I cuda_dnn.cc:529] Loaded cuDNN version 90300",),
    }  # fmt: skip
    return Runtime(**{**fields, **changes})


def gpu(index: int = 0, **changes: Any) -> TensorFlowGpu:
    """A GPU as TensorFlow lists it."""
    fields = {
        "name": f"/physical_device:GPU:{index}", "description": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6",
    }  # fmt: skip
    return TensorFlowGpu(**{**fields, **changes})


def computation(operation: str, index: int = 0, **changes: Any) -> Computation:
    """An operation whose result equals the CPU's."""
    fields = {
        "operation": operation, "device": f"/GPU:{index}",
        "placed_on": f"/job:localhost/replica:0/task:0/device:GPU:{index}", "seconds": 0.3, "largest_error": 0.0,
    }  # fmt: skip
    return Computation(**{**fields, **changes})


def lost_library(soname: str, error: str = "") -> LibraryLoad:
    """A library that TensorFlow could not open."""
    return LibraryLoad(
        soname=soname,
        opened=False,
        error=error or f"{soname}: cannot open shared object file: No such file or directory",
    )


def without_gpus(*lost: LibraryLoad, log: tuple[str, ...] = ()) -> Runtime:
    """TensorFlow imported and no GPU listed, with the libraries that it could not open."""
    names = {load.soname for load in lost}
    opened = tuple(load for load in runtime().libraries if load.soname not in names)
    return runtime(gpus=(), computations=(), libraries=(*opened, *lost), log=log)
