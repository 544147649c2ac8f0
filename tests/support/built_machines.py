"""Machines built by hand: the healthy one, broken in one way each. `tools/write_generated.py` writes them to machines/.

Where a real log was at hand (the project's own runs against a placeholder driver) its lines are used; other lines are
in the form that TensorFlow's source gives them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from healthy import (
    ANSWERED,
    DRIVER,
    SITE,
    broken,
    computation,
    cuda_gpu,
    distribution,
    driver_library,
    gpu,
    healthy,
    lost_library,
    node,
    nvml_gpu,
    pip_library,
    runtime,
    target,
    without_gpus,
)

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, GpuProcess, Libraries, LibraryFile, Nvml
from tfgpu_doctor.model.facts.python import Runtime, Target

NO_LIBCUDA = "libcuda.so.1: cannot open shared object file: No such file or directory"
NO_NVML = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
NO_LIBRARIES = Libraries()
DOCKER = Container(kind="docker", evidence=("/.dockerenv exists",), shm_bytes=64 << 20)


def cuda_without_library() -> CudaDriver:
    return CudaDriver(attempt=ANSWERED, library_error=NO_LIBCUDA)


def cuda_that_fails(code: int, name: str, **changes: Any) -> CudaDriver:
    fields = {"library": f"/usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}", "cuda_version": "12.6", **changes}
    return CudaDriver(attempt=ANSWERED, init_code=code, init_name=name, **fields)


def tensorflow_after(code: int, text: str) -> Runtime:
    line = f"E cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: {text} ({code})"
    return runtime(gpus=(), computations=(), libraries=(), log=(line,))


def no_driver(**sections: Any) -> Facts:
    """Nothing of NVIDIA's driver: neither module, nor nodes, nor libraries."""
    return broken(
        **{
            "driver": Driver(running_kernel="6.8.0-48-generic", secure_boot=False, suspends=0),
            "device_nodes": DeviceNodes(uid=1000, groups=(1000,)),
            "driver_libraries": NO_LIBRARIES,
            "cuda_driver": cuda_without_library(),
            "nvml": Nvml(attempt=ANSWERED, library_error=NO_NVML),
            "pci": {"devices": (PciDevice(address="0000:01:00.0", vendor="10de", device="2204", class_code="030000"),)},
            "runtime": tensorflow_after(303, "UNKNOWN ERROR"),
            **sections,
        }
    )


def in_container(container: Container = DOCKER, **sections: Any) -> Facts:
    """The healthy machine's GPU inside a container."""
    return broken(**{"container": container, **sections})


def without_gpu_in(container: Container, **sections: Any) -> Facts:
    """A container that was not given the GPU: the host's module is visible, nothing else."""
    bound = (PciDevice(address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia"),)
    host = Driver(version=DRIVER, flavour="open", modules=("nvidia", "nvidia_uvm"), gpus=("0000:01:00.0",),
                  running_kernel="6.8.0-48-generic")  # fmt: skip
    return no_driver(container=container, pci={"devices": bound}, driver=host, **sections)


def failed_import(error: str, *traceback: str) -> Runtime:
    return Runtime(attempt=ANSWERED, import_error=error, import_traceback=(*traceback, error))


def variables(**values: str) -> Environment:
    return Environment(variables={"VIRTUAL_ENV": "/home/user/venv", **values})


def packages(*changed: tuple[str, str], without: tuple[str, ...] = (), **changes: Any) -> Target:
    """The target with other versions of some distributions."""
    base = target()
    versions = dict(changed)
    kept = [
        msgspec.structs.replace(each, version=versions.pop(each.name, each.version))
        for each in base.distributions
        if each.name not in without
    ]
    added = [distribution(name, version) for name, version in versions.items()]
    return msgspec.structs.replace(base, distributions=(*kept, *added), **changes)


def wsl(version: int, **sections: Any) -> Facts:
    """Ubuntu in the Windows Subsystem for Linux."""
    release = "5.15.167.4-microsoft-standard-WSL2" if version == 2 else "4.4.0-19041-Microsoft"
    lib = "/usr/lib/wsl/lib"
    copies = tuple(
        LibraryFile(soname=name, path=f"{lib}/{name}", real_path=f"{lib}/{name}", size_bytes=1 << 18, kind="wsl",
                    found_in="ld.so.cache")
        for name in ("libcuda.so.1", "libnvidia-ml.so.1")
    )  # fmt: skip
    fields: dict[str, Any] = {
        "system": {"release": release, "wsl": version},
        "pci": Pci(
            devices=(PciDevice(address="0b1a:00:00.0", vendor="1414", device="008e", class_code="030200"),),
            device_count=4,
        ),
        "driver": Driver(running_kernel=release),
        "device_nodes": DeviceNodes(nodes=(node("/dev/dxg", major=10),), opening=ANSWERED, uid=1000, groups=(1000,)),
        "driver_libraries": Libraries(copies=copies),
        "cuda_driver": {"library": f"{lib}/libcuda.so.1"},
    }
    return broken(**{**fields, **sections})


def conda(build: str, **changes: Any) -> Any:
    return packages(conda_packages={"tensorflow": f"2.17.0 {build}", "tensorflow-base": f"2.17.0 {build}"},
                    prefix="/home/user/miniconda3/envs/tf", **changes)  # fmt: skip


H100 = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "memory_bytes": 80 << 30, "multiprocessors": 132}


def several(count: int, device: str = "2204", **changes: Any) -> dict[str, Any]:
    """The sections of a machine with `count` GPUs of one kind: its PCI id, and how it differs as CUDA lists it."""
    one = cuda_gpu(**changes)
    kind = {"compute_capability": one.compute_capability}
    memory = {"memory_total_bytes": one.memory_bytes, "memory_free_bytes": one.memory_bytes - (1 << 30)}
    devices = tuple(
        PciDevice(address=f"0000:0{i + 1}:00.0", vendor="10de", device=device, class_code="030000", driver="nvidia")
        for i in range(count)
    )
    nodes = [node(path) for path in ("/dev/nvidia-uvm", *(f"/dev/nvidia{i}" for i in range(count)), "/dev/nvidiactl")]
    return {
        "pci": {"devices": devices, "device_count": 60},
        "driver": {"gpus": tuple(device.address for device in devices)},
        "device_nodes": {"nodes": tuple(nodes)},
        "cuda_driver": {"gpus": tuple(cuda_gpu(i, **changes) for i in range(count))},
        "nvml": {"gpus": tuple(nvml_gpu(i, name=one.name, **kind, **memory) for i in range(count))},
        "runtime": runtime(
            gpus=tuple(gpu(i, description=one.name, **kind) for i in range(count)),
            computations=tuple(computation(op, i) for i in range(count) for op in ("matmul", "convolution")),
        ),
    }


def capability(value: str, name: str, **sections: Any) -> Facts:
    """The machine with a GPU of another compute capability."""
    return broken(
        **{
            "cuda_driver": {"gpus": (cuda_gpu(compute_capability=value, name=name),)},
            "nvml": {"gpus": (nvml_gpu(compute_capability=value, name=name),)},
            **sections,
        }
    )


def built() -> dict[str, Facts]:
    """Name to facts of every machine that is built by hand."""
    return {**_drivers(), **_containers(), **_platforms(), **_packages(), **_libraries(), **_gpus()}


def _drivers() -> dict[str, Facts]:
    nvswitch = PciDevice(address="0000:05:00.0", vendor="10de", device="22a3", class_code="068000")
    a100 = PciDevice(address="0000:07:00.0", vendor="10de", device="20b2", class_code="030200", driver="nvidia")
    nouveau = PciDevice(address="0000:01:00.0", vendor="10de", device="1db4", class_code="030200", driver="nouveau")
    tenant = GpuProcess(pid=4711, name="/usr/bin/python3", memory_bytes=9 << 30)
    refused = tuple(
        node(path, mode="0660", gid=44, error="EACCES")
        for path in ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    )
    unknown = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    return {
        "workstation-healthy": healthy(),
        "workstation-healthy-quick": healthy(quick=True),
        "ubuntu-without-driver": no_driver(),
        "debian-nouveau": no_driver(
            pci={"devices": (nouveau,)},
            driver=Driver(modules=("nouveau",), running_kernel="6.1.0-26-amd64"),
            system={"distribution": "Debian GNU/Linux 12 (bookworm)"},
        ),
        "ubuntu-secure-boot": no_driver(
            driver=Driver(built_for=("6.8.0-48-generic",), running_kernel="6.8.0-48-generic", secure_boot=True, suspends=0),
            driver_libraries=healthy().driver_libraries,
            cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"),
        ),
        "ubuntu-kernel-upgraded": no_driver(
            driver=Driver(built_for=("6.8.0-45-generic",), running_kernel="6.8.0-48-generic", secure_boot=False, suspends=0),
            driver_libraries=healthy().driver_libraries,
            cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"),
        ),
        "ubuntu-half-upgraded-driver": broken(
            driver={"version": "550.120"},
            cuda_driver=cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
            nvml=Nvml(attempt=ANSWERED, error_code=18, error_text="Driver/library version mismatch"),
            runtime=tensorflow_after(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver combination"),
        ),
        "ubuntu-driver-470": broken(
            driver={"version": "470.256.02", "flavour": "proprietary"},
            driver_libraries=Libraries(copies=(
                driver_library("libcuda", real_path="/usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02", version="470.256.02"),)),
            cuda_driver={"cuda_version": "11.4", "library": "/usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02"},
            nvml={"driver_version": "470.256.02"},
            runtime=runtime(computations=(
                computation("matmul", largest_error=None, placed_on="",
                            error="InternalError: CUDA driver version is insufficient for CUDA runtime version"),)),
        ),
        "server-uvm-missing": broken(
            driver={"modules": ("nvidia",)},
            device_nodes={"nodes": (node("/dev/nvidia0"), node("/dev/nvidiactl"))},
            cuda_driver=unknown,
            runtime=tensorflow_after(999, "CUDA_ERROR_UNKNOWN: unknown error"),
        ),
        "laptop-after-suspend": broken(
            driver={"suspends": 3}, cuda_driver=unknown, runtime=tensorflow_after(999, "CUDA_ERROR_UNKNOWN: unknown error")
        ),
        "cluster-not-in-video-group": broken(
            device_nodes={"nodes": refused},
            cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"),
            nvml=Nvml(attempt=ANSWERED, error_code=4, error_text="Insufficient Permissions"),
            runtime=tensorflow_after(100, "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"),
        ),
        "hgx-without-fabric-manager": broken(
            pci={"devices": (a100, nvswitch)},
            cuda_driver=cuda_that_fails(802, "CUDA_ERROR_SYSTEM_NOT_READY"),
            nvml={"gpus": (nvml_gpu(name="NVIDIA A100-SXM4-80GB", compute_capability="8.0"),)},
            runtime=tensorflow_after(802, "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"),
        ),
        "a100-mig-without-instances": broken(
            nvml={"gpus": (nvml_gpu(name="NVIDIA A100-SXM4-80GB", mig=True),)},
            cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"),
            runtime=tensorflow_after(100, "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"),
        ),
        "server-exclusive-process": broken(
            nvml={"gpus": (nvml_gpu(compute_mode="exclusive_process", processes=(tenant,)),)},
            cuda_driver=cuda_that_fails(46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
            runtime=tensorflow_after(46, "CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable"),
        ),
        "server-cuinit-hangs": broken(
            cuda_driver=CudaDriver(
                attempt=Attempt(outcome="timed_out", seconds=15.0, phase="cuInit"),
                library=f"/usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}",
            ),
            nvml=Nvml(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="nvmlInit")),
            runtime=Runtime(
                attempt=Attempt(outcome="timed_out", seconds=120.0, phase="listing the GPUs"), version="2.20.0", import_seconds=2.0
            ),
        ),
    }  # fmt: skip


def _containers() -> dict[str, Facts]:
    kubernetes = Container(kind="kubernetes", evidence=("$KUBERNETES_SERVICE_HOST is set",), shm_bytes=64 << 20)
    podman = Container(kind="podman", evidence=("/run/.containerenv exists",), shm_bytes=64 << 20)
    compat = driver_library(
        "libcuda", path="/usr/local/cuda/compat/libcuda.so.1", real_path="/usr/local/cuda-12.8/compat/libcuda.so.570.124.06",
        version="570.124.06", kind="compat", found_in="ld.so.cache",
    )  # fmt: skip
    stub = driver_library(
        "libcuda", path="/usr/local/cuda/lib64/stubs/libcuda.so.1", real_path="/usr/local/cuda-12.5/lib64/stubs/libcuda.so",
        version="", kind="stub", size_bytes=100 << 10, found_in="LD_LIBRARY_PATH",
    )  # fmt: skip
    stray = driver_library(
        "libcuda",
        path="/opt/conda/lib/libcuda.so.1",
        real_path="/opt/conda/lib/libcuda.so.1",
        version="",
        found_in="LD_LIBRARY_PATH",
    )
    nodes = ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    blocked = {"nodes": tuple(node(path, error="EPERM") for path in nodes)}
    labelled = {"nodes": tuple(node(path, error="EACCES") for path in nodes)}
    nothing = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
    nvml_unknown = Nvml(attempt=ANSWERED, error_code=999, error_text="Unknown Error")
    no_device = tensorflow_after(100, "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
    return {
        "docker-without-gpus": without_gpu_in(DOCKER),
        "kubernetes-pod-without-gpu": without_gpu_in(kubernetes),
        "docker-capabilities-utility-alone": in_container(
            environment=Environment(variables={"NVIDIA_DRIVER_CAPABILITIES": "utility", "NVIDIA_VISIBLE_DEVICES": "all"}),
            cuda_driver=cuda_without_library(),
            driver_libraries=Libraries(copies=(driver_library("libnvidia-ml"),)),
            runtime=tensorflow_after(303, "UNKNOWN ERROR"),
        ),
        "docker-capabilities-compute-alone": in_container(
            environment=Environment(variables={"NVIDIA_DRIVER_CAPABILITIES": "compute", "NVIDIA_VISIBLE_DEVICES": "all"}),
            nvml=Nvml(attempt=ANSWERED, library_error=NO_NVML),
            driver_libraries=Libraries(copies=(driver_library("libcuda"),)),
            runtime=runtime(gpus=(), computations=(), log=()),
        ),
        "docker-cuda-compat-on-geforce": in_container(
            driver_libraries=Libraries(copies=(compat, driver_library("libcuda"), driver_library("libnvidia-ml"))),
            cuda_driver=cuda_that_fails(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", library=compat.real_path),
            runtime=tensorflow_after(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility was attempted on non supported HW"),
        ),
        "docker-devel-image-stub": in_container(
            environment=Environment(variables={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs:/usr/local/cuda/lib64"}),
            driver_libraries=Libraries(copies=(stub, driver_library("libcuda"), driver_library("libnvidia-ml"))),
            cuda_driver=cuda_that_fails(34, "CUDA_ERROR_STUB_LIBRARY", library=stub.real_path),
            runtime=tensorflow_after(34, "UNKNOWN ERROR"),
        ),
        "docker-image-with-own-libcuda": in_container(
            environment=Environment(variables={"LD_LIBRARY_PATH": "/opt/conda/lib"}),
            driver_libraries=Libraries(copies=(stray, driver_library("libcuda"), driver_library("libnvidia-ml"))),
            cuda_driver=cuda_that_fails(-1, "", library=stray.real_path),
            runtime=tensorflow_after(-1, "UNKNOWN ERROR"),
        ),
        "docker-lost-gpu-after-reload": in_container(
            device_nodes=blocked, cuda_driver=nothing, nvml=nvml_unknown, runtime=no_device
        ),
        "podman-selinux": in_container(podman, device_nodes=labelled, cuda_driver=nothing, nvml=nvml_unknown, runtime=no_device),
        "docker-two-gpus-small-shm": in_container(**several(2)),
        "slurm-without-gres": broken(
            scheduler=Scheduler(kind="slurm", job="81234"),
            environment=Environment(variables={"CUDA_VISIBLE_DEVICES": "NoDevFiles"}),
            cuda_driver=nothing,
            runtime=no_device,
        ),
        "slurm-node-healthy": broken(
            scheduler=Scheduler(kind="slurm", job="81235", granted={"SLURM_JOB_GPUS": "0", "SLURM_GPUS_ON_NODE": "1"}),
            environment=Environment(variables={"CUDA_VISIBLE_DEVICES": "0"}),
        ),
        "dgx-8-gpus-healthy": in_container(
            Container(kind="docker", evidence=("/.dockerenv exists",), shm_bytes=64 << 30),
            **several(8, "2330", **H100),
        ),
        "shell-hides-gpu": broken(
            environment=variables(CUDA_VISIBLE_DEVICES=""), cuda_driver=nothing, runtime=no_device
        ),
        "shell-names-gpu-that-is-not-there": broken(
            environment=variables(CUDA_VISIBLE_DEVICES="1"), cuda_driver=nothing, runtime=no_device
        ),
    }  # fmt: skip


def _platforms() -> dict[str, Facts]:
    metal_error = (
        "NotFoundError: dlopen(/Users/user/venv/lib/python3.12/site-packages/tensorflow-plugins/libmetal_plugin.dylib, 0x0006): "
        "Symbol not found: __ZN10tensorflow28_AttrValue_default_instance_E"
    )
    windows = System(os="Windows", release="10.0.22631", architecture="AMD64", cpu_count=16)
    mac = System(os="Darwin", release="24.1.0", architecture="arm64", cpu_count=10)
    elsewhere: dict[str, Any] = {
        "pci": None, "driver": Driver(), "device_nodes": None, "driver_libraries": NO_LIBRARIES, "container": Container(),
        "cuda_libraries": NO_LIBRARIES,
    }  # fmt: skip
    mac_runtime = runtime(gpus=(gpu(description="METAL", compute_capability=""),), libraries=(), log=())
    mac_wheel = {"built_with_cuda": False, "cuda_version": "", "cudnn_version": "", "compute_capabilities": (),
                 "wheel_tag": "cp312-cp312-macosx_12_0_arm64"}  # fmt: skip
    mac_drivers = {"cuda_driver": cuda_without_library(), "nvml": Nvml(attempt=ANSWERED, library_error=NO_NVML)}
    jetson = {"architecture": "aarch64", "board": "NVIDIA Jetson AGX Orin Developer Kit", "cpu_flags": ("asimd",)}
    return {
        "wsl2-healthy": wsl(2),
        "wsl1": wsl(
            1, device_nodes=DeviceNodes(uid=1000), cuda_driver=cuda_without_library(), driver_libraries=NO_LIBRARIES,
            nvml=Nvml(attempt=ANSWERED, library_error=NO_NVML), runtime=tensorflow_after(303, "UNKNOWN ERROR"),
        ),
        "wsl2-libcuda-off-the-path": wsl(
            2,
            driver_libraries=Libraries(copies=tuple(
                msgspec.structs.replace(copy, found_in="known place") for copy in (wsl(2).driver_libraries or NO_LIBRARIES).copies)),
            cuda_driver=cuda_without_library(),
            nvml=Nvml(attempt=ANSWERED, library_error=NO_NVML),
            runtime=tensorflow_after(303, "UNKNOWN ERROR"),
        ),
        "windows-native-2.20": broken(
            **elsewhere, system=windows, tensorflow={"built_with_cuda": False, "cuda_version": "", "wheel_tag": "cp312-cp312-win_amd64"},
            runtime=runtime(gpus=(), computations=(), libraries=(), log=()),
        ),
        "mac-without-metal": broken(
            **elsewhere, **mac_drivers, system=mac, tensorflow=mac_wheel, runtime=runtime(gpus=(), computations=(), libraries=(), log=()),
        ),
        "mac-metal-of-another-release": broken(
            **elsewhere, **mac_drivers, system=mac, tensorflow=mac_wheel, target=packages(("tensorflow-metal", "1.1.0")),
            runtime=failed_import(metal_error),
        ),
        "mac-metal-healthy": broken(
            **elsewhere, **mac_drivers, system=mac, tensorflow=mac_wheel, target=packages(("tensorflow-metal", "1.2.0")), runtime=mac_runtime,
        ),
        "jetson-wheel-from-pypi": broken(
            system=jetson, pci=Pci(device_count=3),
            tensorflow={"built_with_cuda": False, "cuda_version": "", "wheel_tag": "cp312-cp312-manylinux_2_17_aarch64"},
            device_nodes=DeviceNodes(nodes=(node("/dev/nvmap", major=10),), opening=ANSWERED, uid=1000, groups=(1000,)),
            runtime=runtime(gpus=(), computations=(), libraries=(), log=()),
        ),
        "vm-without-avx": broken(
            system={"cpu_flags": ("sse4_1", "sse4_2"), "cpu_model": "Common KVM processor"},
            runtime=Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGILL", phase="importing TensorFlow")),
        ),
        "centos-7-glibc": broken(
            system={"glibc": "2.17", "distribution": "CentOS Linux 7 (Core)"},
            tensorflow={"wheel_tag": "cp312-cp312-manylinux_2_27_x86_64"},
            runtime=failed_import("ImportError: /lib64/libm.so.6: version `GLIBC_2.27' not found (required by libtensorflow_cc.so.2)"),
        ),
    }  # fmt: skip


def _packages() -> dict[str, Facts]:
    nothing: dict[str, Any] = {
        "tensorflow": None,
        "runtime": failed_import("ModuleNotFoundError: No module named 'tensorflow'"),
    }
    bare = {"tensorflow_file": "", "tensorflow_owners": (), "distributions": (), "nvidia_libraries": ()}
    own = "/home/user/project/tensorflow.py"
    numpy = "AttributeError: _ARRAY_API not found"
    protobuf = "TypeError: Descriptors cannot be created directly."
    cudnn_pin = distribution("torch", "2.4.1", requires=("nvidia-cudnn-cu12==9.1.0.70",))
    with_torch = packages(("nvidia-cudnn-cu12", "9.1.0.70"))
    user_site = "/home/user/.local/lib/python3.12/site-packages"
    mixed = packages(("tensorflow-cpu", "2.20.0"), tensorflow_owners=("tensorflow", "tensorflow-cpu"))
    dnn = "E cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.  CuDNN library needs to have matching major version and equal or higher minor version."
    failed_convolution = runtime(
        computations=(
            computation("matmul"),
            computation("convolution", largest_error=None, error="UnimplementedError: DNN library is not found."),
        ),
        log=(dnn,),
    )
    base = {"architecture": "x86_64"}
    return {
        "pipx-doctor-beside-active-venv": broken(
            **nothing, target=target(executable="/home/user/.local/pipx/venvs/tfgpu-doctor/bin/python",
                                     prefix="/home/user/.local/pipx/venvs/tfgpu-doctor", **bare),
        ),
        "python-3.14": broken(**nothing, target=target(version="3.14.0", **bare)),
        "tensorflow-and-tensorflow-cpu": broken(
            target=mixed, tensorflow={"built_with_cuda": False, "cuda_version": ""}, runtime=runtime(gpus=(), computations=(), libraries=(), log=()),
        ),
        "tensorflow-cpu-alone": broken(
            target=packages(("tensorflow-cpu", "2.20.0"), without=("tensorflow",), tensorflow_owners=("tensorflow-cpu",)),
            tensorflow={"distribution": "tensorflow-cpu", "built_with_cuda": False, "cuda_version": ""},
            runtime=runtime(gpus=(), computations=(), libraries=(), log=()),
        ),
        "own-file-named-tensorflow": broken(
            target=target(tensorflow_file=own, local_modules=(own,)), tensorflow=None,
            runtime=failed_import("AttributeError: module 'tensorflow' has no attribute '__version__'", f'File "{own}", line 1'),
        ),
        "numpy-2-with-tensorflow-2.15": broken(
            system=base, target=packages(("numpy", "2.1.3"), ("tensorflow", "2.15.1")), tensorflow={"version": "2.15.1"},
            runtime=failed_import(numpy),
        ),
        "protobuf-too-old": broken(
            target=packages(("protobuf", "3.20.3")), runtime=failed_import(protobuf),
        ),
        "user-site-hides-numpy": broken(
            target=msgspec.structs.replace(
                target(), user_site=user_site,
                distributions=(distribution("numpy", "1.21.0", folder=user_site), *target().distributions)),
            runtime=failed_import("ImportError: numpy.core.multiarray failed to import: numpy 1.21.0 is too old"),
        ),
        "conda-cpu-build": broken(
            target=conda("cpu_py312_0", without=("tensorflow",), tensorflow_owners=()), tensorflow={"built_with_cuda": False, "cuda_version": ""},
            runtime=runtime(gpus=(), computations=(), libraries=(), log=()),
        ),
        "pip-over-conda": broken(target=conda("cuda120py312_0"), runtime=without_gpus(lost_library("libcudnn.so.9"))),
        "torch-after-tensorflow": broken(
            target=msgspec.structs.replace(with_torch, distributions=(*with_torch.distributions, cudnn_pin)), runtime=failed_convolution,
        ),
    }  # fmt: skip


def _libraries() -> dict[str, Facts]:
    names = (
        "libcudart.so.12",
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcufft.so.11",
        "libcusolver.so.11",
        "libcusparse.so.12",
        "libcudnn.so.9",
    )
    lost = tuple(lost_library(name) for name in names)
    cannot = (
        "W gpu_device.cc:2365] Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed properly",
    )
    without_wheels = packages(
        without=tuple(each.name for each in target().distributions if each.name.startswith("nvidia-")),
        nvidia_libraries=(),
    )
    toolkit_11 = Libraries(
        copies=tuple(
            LibraryFile(
                soname=name,
                path=f"/usr/local/cuda-11.8/lib64/{name}",
                real_path=f"/usr/local/cuda-11.8/lib64/{name}",
                size_bytes=1 << 20,
                found_in="ld.so.cache",
            )
            for name in ("libcudart.so.11.0", "libcublas.so.11")
        )
    )
    off_path = Libraries(
        copies=tuple(
            LibraryFile(
                soname=name,
                path=f"/usr/local/cuda-12.5/lib64/{name}",
                real_path=f"/usr/local/cuda-12.5/lib64/{name}",
                size_bytes=1 << 20,
                found_in="known place",
            )
            for name in names
        )
    )
    old_cudnn = pip_library(
        "libcudnn.so.9",
        path="/opt/cudnn-9.0/lib/libcudnn.so.9",
        real_path="/opt/cudnn-9.0/lib/libcudnn.so.9.0.0",
        found_in="LD_LIBRARY_PATH",
    )
    dnn = "E cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.0.0 but source was compiled with: 9.3.0.  CuDNN library needs to have matching major version and equal or higher minor version."
    bad_convolution = runtime(
        computations=(
            computation("matmul"),
            computation("convolution", largest_error=None, error="UnimplementedError: DNN library is not found."),
        ),
        log=(dnn,),
    )
    jitlink = lost_library(
        "libcusolver.so.11", "libnvJitLink.so.12: cannot open shared object file: No such file or directory"
    )
    copies = (healthy().cuda_libraries or NO_LIBRARIES).copies
    of_toolkit = [*(name for name in names if "cusolver" not in name), "libcusolver.so.10"]
    toolkit_with_cusolver_10 = tuple(
        LibraryFile(
            soname=name, path=f"/usr/local/cuda-12.5/lib64/{name}", real_path=f"/usr/local/cuda-12.5/lib64/{name}",
            size_bytes=1 << 20, found_in="ld.so.cache",
        )
        for name in of_toolkit
    )  # fmt: skip
    return {
        "tensorflow-2.16.1-finds-none-of-pip": broken(
            tensorflow={"version": "2.16.1"}, target=packages(("tensorflow", "2.16.1"), ("numpy", "1.26.4")),
            runtime=msgspec.structs.replace(without_gpus(*lost, log=cannot), version="2.16.1"),
        ),
        "plain-pip-tensorflow": broken(target=without_wheels, cuda_libraries=NO_LIBRARIES, runtime=without_gpus(*lost, log=cannot)),
        "plain-pip-tensorflow-quick": broken(healthy(quick=True), target=without_wheels, cuda_libraries=NO_LIBRARIES),
        "toolkit-11-for-tensorflow-of-12": broken(target=without_wheels, cuda_libraries=toolkit_11, runtime=without_gpus(*lost, log=cannot)),
        "toolkit-12-off-the-path": broken(target=without_wheels, cuda_libraries=off_path, runtime=without_gpus(*lost, log=cannot)),
        "older-cudnn-on-library-path": broken(
            environment=variables(LD_LIBRARY_PATH="/opt/cudnn-9.0/lib"), cuda_libraries=Libraries(copies=(old_cudnn, *copies)), runtime=bad_convolution,
        ),
        "older-cudnn-in-environment": broken(
            target=packages(("nvidia-cudnn-cu12", "9.0.0.312")), runtime=bad_convolution,
        ),
        "nvjitlink-missing": broken(runtime=without_gpus(jitlink, log=cannot)),
        "cusolver-of-another-minor-release": broken(
            target=without_wheels, cuda_libraries=Libraries(copies=toolkit_with_cusolver_10),
            runtime=without_gpus(lost_library("libcusolver.so.11"), log=cannot),
        ),
    }  # fmt: skip


def _gpus() -> dict[str, Facts]:
    no_image = "InternalError: CUDA error: no kernel image is available for execution on the device (CUDA_ERROR_NO_BINARY_FOR_GPU)"
    too_new = "InternalError: 'cuLaunchKernel(...)' failed with 'CUDA_ERROR_INVALID_HANDLE'"
    jit = ("W gpu_device.cc:2447] TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0. CUDA kernels will be "
           "jit-compiled from PTX, which could take 30 minutes or longer.",)  # fmt: skip
    notebook = GpuProcess(pid=2214, name="/home/user/jupyter/bin/python", memory_bytes=23 << 30)
    full = nvml_gpu(memory_free_bytes=300 << 20, processes=(notebook,))
    no_memory = computation(
        "matmul", largest_error=None, error="InternalError: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    )
    no_handle = computation(
        "matmul",
        largest_error=None,
        error="InternalError: Attempting to perform BLAS operation: CUBLAS_STATUS_ALLOC_FAILED",
    )
    two = several(2)
    growth = msgspec.structs.replace(two["runtime"], gpus=(gpu(0, memory_growth=True), gpu(1, memory_growth=False)))
    small = {**several(2), "cuda_driver": {"gpus": (cuda_gpu(0), cuda_gpu(1, name="Quadro K620", multiprocessors=3))}}
    small["runtime"] = msgspec.structs.replace(
        runtime(), log=("I gpu_device.cc:2335] Ignoring visible gpu device (core count)",)
    )
    return {
        "maxwell-too-old": capability(
            "5.2", "NVIDIA GeForce GTX 980",
            runtime=runtime(computations=(computation("matmul", largest_error=None, error=no_image),), log=()),
        ),
        "blackwell-too-new": capability(
            "12.0", "NVIDIA GeForce RTX 5090", cuda_driver={"gpus": (cuda_gpu(compute_capability="12.0"),), "cuda_version": "12.8"},
            runtime=runtime(computations=(computation("matmul", largest_error=None, error=too_new),), log=jit),
        ),
        "blackwell-compiled-from-ptx": capability(
            "12.0", "NVIDIA GeForce RTX 5090", cuda_driver={"gpus": (cuda_gpu(compute_capability="12.0"),), "cuda_version": "12.8"},
            runtime=runtime(log=jit),
        ),
        "hopper-ptx-newer-than-driver": capability(
            "9.0", "NVIDIA H100 80GB HBM3", tensorflow={"compute_capabilities": ("sm_60", "sm_70", "compute_80")},
            cuda_driver={"gpus": (cuda_gpu(compute_capability="9.0"),), "cuda_version": "12.2"},
            runtime=runtime(computations=(computation("matmul", largest_error=None, error="InternalError: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),),
                            log=()),
        ),
        "second-gpu-has-few-multiprocessors": broken(**small),
        "notebook-holds-memory": broken(
            nvml={"gpus": (full,)}, runtime=runtime(computations=(no_memory,), log=()),
        ),
        "no-memory-for-cublas": broken(runtime=runtime(computations=(no_handle,), log=())),
        "growth-on-one-of-two": broken(**{**two, "runtime": growth}),
        "growth-variable-misspelt": broken(environment=variables(TF_FORCE_GPU_ALLOW_GROWTH="1")),
        "allocator-misspelt": broken(environment=variables(TF_GPU_ALLOCATOR="cuda_async")),
    }  # fmt: skip


__all__ = ["SITE", "built"]
