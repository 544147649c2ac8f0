"""Whatever the facts hold, a check yields what can be shown, or skips; it never breaks."""

from __future__ import annotations

import math
import typing
from typing import Any

import msgspec
from healthy import DRIVER, broken
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_bench import BENCH_FACTS
from odd_ground import GROUND_FACTS, with_ground
from odd_health import ODD_HEALTH, ODD_TROUBLES
from odd_kernel import KERNEL_FACTS
from odd_stress import STRESS_FACTS
from said_numbers import names_a_gpu

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Check, Evidence, Finding, Skip
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import (
    CudaDriver,
    CudaGpu,
    DeviceNode,
    DeviceNodes,
    Driver,
    GpuProcess,
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
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary
from tfgpu_doctor.model.facts.xla import XlaTools

WORDS = st.sampled_from(["", " ", "0", "odd", "a b", "it's", "$HOME", "é", "tensorflow", "/", "-1", "1.2.3"])
VERSIONS = st.sampled_from(
    ["", "0", "1.1", "2.15.1", "2.20.0", "9.3.0.75", "12.5.1", "525.60.13", DRIVER, "99", "64_112", "x"]
)
PATHS = st.sampled_from(
    ["", "/", "/opt/my cuda/lib/libcuda.so.1", "/usr/lib/libcuda.so.1", "/home/user/project/tensorflow.py"]
)
SIZES = st.sampled_from([None, 0, 1, 300 << 20, 24 << 30])
COUNTS = st.integers(0, 9)
CAPABILITIES = st.sampled_from(["3.5", "8.6", "9.0", "12.0", "99.9"])
SONAMES = st.sampled_from(
    ["libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.12", "libcudart.so.11.0", "libcudnn.so.9", "libcublas.so.11"]
)
UUIDS = st.sampled_from(["", "GPU-1", "MIG-1"])
ERRORS = st.sampled_from(
    [
        "",
        "odd",
        "libfoo.so.1: cannot open shared object file",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "ECC",
        "GLIBC_2.99' not found",
    ]
)
LINES = st.sampled_from(
    ["", "W odd", "E odd", "I core count", "W jit-compiled from PTX", "minimum required Cuda capability"]
)


def many(of: Any, most: int = 3) -> Any:
    return st.lists(of, max_size=most).map(tuple)


def table(of: Any, names: Any) -> Any:
    return st.dictionaries(names, of, max_size=4)


ATTEMPTS = st.builds(
    Attempt,
    outcome=st.sampled_from(
        ["answered", "answered", "failed", "killed_by_signal", "timed_out", "unparsable", "not_started"]
    ),
    exit_code=st.none() | COUNTS,
    signal=WORDS,
    phase=WORDS,
    error=ERRORS,
    stderr=many(LINES),
    stuck=st.booleans(),
)
VARIABLES = st.sampled_from([*read_knowledge().variables, "HOME"])
NODES = st.builds(
    DeviceNode,
    path=st.sampled_from(
        [
            "/dev/nvidia0",
            "/dev/nvidia1",
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia-modeset",
            "/dev/dxg",
            "/dev/nvmap",
        ]
    ),
    mode=st.sampled_from(["0666", "0660", "0600", "0000"]),
    uid=st.sampled_from([0, 1000]),
    gid=st.sampled_from([0, 44]),
    error=st.sampled_from(["", "EACCES", "EPERM", "EIO", "no response"]),
)
COPIES = st.builds(
    LibraryFile,
    soname=SONAMES,
    path=PATHS,
    real_path=PATHS,
    size_bytes=COUNTS,
    version=VERSIONS,
    kind=st.sampled_from(["driver", "stub", "compat", "wsl"]),
    found_in=st.sampled_from(["", "LD_LIBRARY_PATH", "ld.so.cache", "default folder", "known place", "pip", "conda"]),
)
LIBRARIES = st.builds(Libraries, copies=many(COPIES, 5))
RESOLVED = st.builds(
    ResolvedLibrary,
    soname=SONAMES | st.just("libcudnn_ops.so.9"),
    found=st.booleans(),
    needed_by_tensorflow=st.booleans(),
    asked_by=SONAMES | st.just(""),
    path=PATHS,
    real_path=PATHS,
    version=VERSIONS,
    origin=WORDS,
    wheel=st.sampled_from(["", "nvidia-cudnn-cu12==9.3.0.75"]),
    found_by=st.sampled_from(["", "RUNPATH", "LD_LIBRARY_PATH", "ld.so.cache"]),
    error=WORDS,
    missing_chain=many(SONAMES),
    shadowed=many(PATHS),
    elsewhere=many(PATHS),
)
NVML_GPUS = st.builds(
    NvmlGpu,
    index=COUNTS,
    name=WORDS,
    uuid=UUIDS,
    compute_capability=CAPABILITIES | st.just(""),
    memory_total_bytes=SIZES,
    memory_free_bytes=SIZES,
    mig=st.none() | st.booleans(),
    mig_devices=many(UUIDS),
    compute_mode=st.sampled_from(["", "default", "exclusive_process", "prohibited"]),
    processes=many(st.builds(GpuProcess, pid=COUNTS, name=WORDS, computes=st.booleans(), memory_bytes=SIZES)),
    health=ODD_HEALTH,
)
DISTRIBUTIONS = st.builds(
    Distribution,
    name=st.sampled_from(
        ["tensorflow", "tensorflow-cpu", "numpy", "protobuf", "torch", "nvidia-cudnn-cu12", "nvidia-cublas-cu12"]
    ),
    version=VERSIONS,
    folder=PATHS,
    installer=st.sampled_from(["", "pip", "conda"]),
    requires=many(
        st.sampled_from(
            [
                "protobuf",
                "protobuf>=5",
                "protobuf (<4,>=3)",
                'nvidia-cudnn-cu12==9.3.0.75; extra == "and-cuda"',
                "nvidia-cublas-cu12==12.1",
                'nvidia-cublas-cu12>=12.5; extra == "and-cuda"',
                "nvidia-: not a requirement",
                "",
            ]
        )
    ),
)
FACTS = {
    "system": st.builds(
        System,
        os=st.sampled_from(["Linux", "Linux", "Windows", "Darwin", "FreeBSD"]),
        release=WORDS,
        distribution=WORDS,
        glibc=VERSIONS,
        architecture=st.sampled_from(["x86_64", "aarch64", "arm64", "AMD64", ""]),
        cpu_model=WORDS,
        cpu_flags=st.none() | many(st.just("avx")),
        memory_bytes=SIZES,
        wsl=st.sampled_from([0, 0, 1, 2]),
        board=st.sampled_from(["", "NVIDIA Jetson", "Raspberry Pi"]),
    ),
    "pci": st.builds(
        Pci,
        devices=many(
            st.builds(
                PciDevice,
                address=WORDS,
                vendor=st.sampled_from(["10de", "8086"]),
                device=WORDS,
                class_code=st.sampled_from(["", "030000", "030200", "068000"]),
                driver=st.sampled_from(["", "nvidia", "nouveau", "vfio-pci"]),
            )
        ),
        device_count=COUNTS,
    ),
    "container": st.builds(
        Container, kind=st.sampled_from(["", "docker", "lxc", "oci"]), evidence=many(WORDS), shm_bytes=SIZES
    ),
    "scheduler": st.builds(
        Scheduler, kind=st.sampled_from(["", "slurm", "lsf", "pbs"]), job=WORDS, granted=table(WORDS, WORDS)
    ),
    "environment": st.builds(Environment, variables=table(WORDS | PATHS | UUIDS, VARIABLES)),
    "driver": st.builds(
        Driver,
        version=VERSIONS,
        flavour=WORDS,
        modules=many(st.sampled_from(["nvidia", "nvidia_uvm", "nouveau"])),
        gpus=many(WORDS),
        parameters=table(WORDS, st.just("PreserveVideoMemoryAllocations")),
        built_for=many(WORDS),
        running_kernel=WORDS,
        secure_boot=st.none() | st.booleans(),
        suspends=st.none() | COUNTS,
    ),
    "device_nodes": st.builds(
        DeviceNodes,
        nodes=many(NODES, 5),
        opening=st.none() | ATTEMPTS,
        uid=st.sampled_from([0, 1000]),
        groups=many(st.just(44)),
    ),
    "driver_libraries": LIBRARIES,
    "cuda_driver": st.builds(
        CudaDriver,
        attempt=ATTEMPTS,
        library=PATHS,
        library_error=ERRORS,
        init_name=WORDS,
        cuda_version=VERSIONS,
        init_code=st.sampled_from([None, 0, 0, -1, 34, 46, 100, 303, 802, 803, 804, 999, 12345]),
        gpus=many(
            st.builds(CudaGpu, index=COUNTS, name=WORDS, compute_capability=CAPABILITIES, multiprocessors=COUNTS)
        ),
    ),
    "nvml": st.builds(
        Nvml,
        attempt=ATTEMPTS,
        library_error=ERRORS,
        error_code=st.sampled_from([0, 0, 18, 999]),
        error_text=WORDS,
        driver_version=VERSIONS,
        gpus=many(NVML_GPUS),
        troubles=ODD_TROUBLES,
    ),
    "target": st.builds(
        Target,
        attempt=ATTEMPTS,
        executable=PATHS,
        version=VERSIONS | st.sampled_from(["3.12.7", "3.14.0"]),
        bits=st.sampled_from([0, 32, 64]),
        implementation=st.sampled_from(["", "cpython", "pypy", "graalpy", "other"]),
        free_threaded=st.booleans(),
        prefix=PATHS,
        base_prefix=PATHS,
        search_path=many(PATHS),
        working_folder=PATHS,
        user_site=PATHS,
        externally_managed=st.booleans(),
        breaks_system_packages=st.booleans(),
        extends=PATHS,
        beside=PATHS,
        is_of_one_tool=st.booleans(),
        conda_packages=table(WORDS, WORDS),
        distributions=many(DISTRIBUTIONS, 6),
        tensorflow_file=PATHS,
        tensorflow_owners=many(WORDS),
        local_modules=many(PATHS),
        nvidia_libraries=many(PATHS),
        exports=st.dictionaries(st.just("LD_LIBRARY_PATH"), PATHS | st.just('"$VIRTUAL_ENV/lib:${LD_LIBRARY_PATH}"')),
    ),
    "tensorflow": st.builds(
        TensorFlow,
        version=VERSIONS,
        distribution=st.sampled_from(["", "tensorflow", "tensorflow-cpu", "tf-nightly"]),
        folder=PATHS,
        built_with_cuda=st.none() | st.booleans(),
        cuda_version=VERSIONS,
        cudnn_version=VERSIONS,
        compute_capabilities=many(st.sampled_from(["sm_80", "compute_80", "sm_90a", "compute_120", "odd"])),
        wheel_tag=st.sampled_from(["", "cp312-cp312-manylinux_2_27_x86_64", "cp312-cp312-win_amd64"]),
        runpath=many(PATHS),
    ),
    "cuda_libraries": LIBRARIES,
    "resolution": st.builds(Resolution, opener=PATHS, search_folders=many(PATHS), libraries=many(RESOLVED, 4)),
    "xla_tools": st.builds(XlaTools, libdevice=PATHS, ptxas=PATHS, ptxas_version=VERSIONS, searched=many(PATHS)),
    "runtime": st.builds(
        Runtime,
        attempt=ATTEMPTS,
        version=VERSIONS,
        import_error=ERRORS,
        import_traceback=many(LINES),
        gpus_listed=st.booleans(),
        gpus=many(st.builds(TensorFlowGpu, name=WORDS, memory_growth=st.none() | st.booleans())),
        use_error=ERRORS,
        libraries=many(st.builds(LibraryLoad, soname=SONAMES, opened=st.booleans(), error=ERRORS)),
        computations=many(
            st.builds(
                Computation,
                operation=st.sampled_from(["matmul", "convolution"]),
                device=st.sampled_from(["/GPU:0", "/GPU:1"]),
                placed_on=WORDS,
                largest_error=st.none() | st.sampled_from([0.0, 1.0]),
                error=ERRORS,
            )
        ),
        log=many(LINES),
        changed_variables=table(WORDS, VARIABLES),
    ),
    **BENCH_FACTS,
    **KERNEL_FACTS,
    **STRESS_FACTS,
    **GROUND_FACTS,
}

FACTS["system"] = with_ground(FACTS["system"])
OF_PROBES = set(Facts.__struct_fields__) - {"schema", "doctor", "recorded", "quick", "level", "unknown", "simulated"}


def odd_by_type(name: str) -> Any:
    """Any values that the fields of a fact can have."""
    kind = typing.get_args(typing.get_type_hints(Facts)[name])[0]
    return st.builds(kind, **{field: st.from_type(hint) for field, hint in typing.get_type_hints(kind).items()})


# A fact that nobody has described above.
FACTS |= {name: odd_by_type(name) for name in sorted(OF_PROBES - set(FACTS))}


@st.composite
def odd_machines(draw: st.DrawFn) -> Facts:
    """The healthy machine with some facts replaced by odd ones, and perhaps one taken away."""
    names = draw(st.sets(st.sampled_from(sorted(FACTS)), min_size=3, max_size=6))
    odd = {name: draw(FACTS[name]) for name in sorted(names)}
    lost = draw(st.none() | st.sampled_from(sorted(FACTS)))
    return broken(**{**odd, **({lost: None} if lost else {})})


def test_every_fact_has_its_odd_ones() -> None:
    assert set(FACTS) == OF_PROBES


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(facts=odd_machines())
def test_no_check_breaks(facts: Facts) -> None:
    known = {**msgspec.structs.asdict(facts), "knowledge": read_knowledge()}
    for check in ALL_CHECKS:
        if all(known[name] is not None for name in check.needs):
            names = (*check.needs, *(name for name in check.optional if known[name] is not None))
            assert_it_can_be_shown(check, {name: known[name] for name in names})


def assert_it_can_be_shown(check: Check, facts: dict[str, Any]) -> None:
    try:
        yielded = check(**facts)
    except Skip as skip:
        reason = str(skip)
        yielded = [Evidence(reason)] if reason else []
    assert yielded, check.id
    for each in yielded:
        if isinstance(each, Finding):
            assert each.message, check.id
            assert each.fix and each.fix.text, check.id
            assert each.cause in (*check.causes, "undetermined"), check.id
            assert not any("\n" in command for command in each.fix.commands), check.id
            assert any(each.devices) or not names_a_gpu(each.message), f"{check.id}: {each.message}"
            for figure in each.figures:
                assert figure.name and math.isfinite(figure.value), f"{check.id}: {figure}"
                assert not figure.device or figure.device in each.devices, f"{check.id}: {figure}"
        else:
            assert isinstance(each, Evidence)
