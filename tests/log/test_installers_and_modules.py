"""Messages of DKMS, kmod, conda, protobuf and the dynamic loader, and what people say beside them."""

from __future__ import annotations

import pytest
from classified import labels, read

from tfgpu_doctor.log.classification import HARMLESS

_TREE = """Could not solve for environment specs
├─ mymodel is installable and it requires
│  └─ tensorflow >=2.0  with the potential options
│     └─ tensorflow [2.9.1|2.10.0] would require
│        └─ python 3.10.* , which can be installed;
└─ pin-1 is not installable because it requires
   └─ python 3.12.* , which conflicts with any installable versions previously reported.
"""
_LOST = "Could not load dynamic library 'libcublas.so.11'; dlerror: libcublas.so.11: cannot open shared object file"
_NOT_BUILT = "kernel_module_not_built_for_kernel"
_WOULD_LOAD = (
    "modprobe: ERROR: ../libkmod/libkmod-module.c:838 kmod_module_insert_module() could not find module by name="
)
_THROTTLE = """$ nvidia-smi -q | grep -A6 'Clocks Throttle'
    Clocks Throttle Reasons
        Idle                        : Active
        HW Slowdown                 : Not Active
            HW Thermal Slowdown     : Not Active
            HW Power Brake Slowdown : Not Active
"""


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("'make' -j8 NV_EXCLUDE_BUILD_MODULES='' KERNEL_UNAME=6.8.0-45 modules....(bad exit status: 2)", _NOT_BUILT),
        ("dkms autoinstall on 6.8.0-45-generic/x86_64 failed for nvidia(10)", _NOT_BUILT),
        (f"{_WOULD_LOAD}'nvidia_535'", _NOT_BUILT),
        (f"{_WOULD_LOAD}'nvidia_uvm'", "nvidia_uvm_missing"),
        ("lstat /dev/nvidia-uvm: no such file or directory", "nvidia_uvm_missing"),
        ("ImportError: /lib64/libstdc++.so.6: version `CXXABI_1.3.13' not found (required by _message.so)", "glibc_too_old"),
        ("Could not load library libcudnn_graph.so.9. Error: libnvrtc.so: cannot open shared object", "cudnn_nvrtc_not_found"),
        ("ImportError: cannot import name 'runtime_version' from 'google.protobuf' (x/__init__.py)", "protobuf_incompatible"),
        ("VersionError: Detected mismatched Protobuf Gencode/Runtime major versions when", "protobuf_incompatible"),
        ("This program requires version 3.20.0 of the Protocol Buffer runtime library, but the", "protobuf_incompatible"),
        (_TREE, "unsupported_python_version"),
        ("  - nothing provides __cuda needed by tensorflow-2.17.0-cuda120py312h7de5fd6_200", "conda_cpu_build_selected"),
        ("The vGPU may be unlicensed\nCUDA error: CUDA-capable device(s) is/are busy or unavailable", "vgpu_unlicensed"),
    ],
)  # fmt: skip
def test_the_message_comes_first(log: str, label: str) -> None:
    assert labels(log)[:1] == [label]


@pytest.mark.parametrize(
    "log",
    [
        _THROTTLE,
        "dkms autoinstall on 6.8.0-45-generic/x86_64 failed for vboxhost(10)",
        "'make' KERNEL_UNAME=6.8.0-45 VBOX modules....(bad exit status: 2)",
        f"{_WOULD_LOAD}'vboxdrv'",
        _TREE.replace("tensorflow", "pandas"),
        "  - nothing provides __cuda needed by pytorch-2.3.0-cuda118",
        "libcudnn_ops.so.9 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcudnn_ops.so.9",
    ],
)
def test_what_is_healthy_or_of_another_program_is_left_in_peace(log: str) -> None:
    assert labels(log) == []


@pytest.mark.parametrize(
    ("log", "wrong"),
    [
        ("dkms autoinstall on 6.8.0-45-generic/x86_64 failed for nvidia-fs(10)", (_NOT_BUILT, "high")),
        (f"{_WOULD_LOAD}'nvidia_peermem'", (_NOT_BUILT, "medium")),
        (f"{_WOULD_LOAD}'nvidiafb'", (_NOT_BUILT, "medium")),
        (_TREE.replace("tensorflow", "tensorflow-probability"), ("unsupported_python_version", "medium")),
        ("modprobe: ERROR: could not insert 'nvidia_uvm': Operation not permitted", ("nvidia_uvm_missing", "medium")),
        ("modprobe: ERROR: could not insert 'nvidia_uvm': No such device", ("nvidia_uvm_missing", "medium")),
        ("vllm: ImportError: Error: libnvrtc.so.12: cannot open shared object file", ("cudnn_nvrtc_not_found", "high")),
        ("I use a grid search; the license is MIT\nCUDA error: CUDA-capable device(s) is/are busy or unavailable",
         ("vgpu_unlicensed", "medium")),
        (f"The login node is CPU-only; on the GPU node:\n{_LOST}", (HARMLESS, "medium")),
        (f"My colleague's laptop is CPU-only. On mine with an RTX 3090:\n{_LOST}", (HARMLESS, "medium")),
    ],
)  # fmt: skip
def test_what_is_like_it_and_is_not_it_is_not_sure(log: str, wrong: tuple[str, str]) -> None:
    assert wrong not in [(each.label, each.confidence) for each in read(log).causes]


def test_clocks_that_throttle_are_hot() -> None:
    assert "gpu_thermal_or_power_throttling" in labels(
        "My GPU clocks throttle under load after 5 minutes because it is hot"
    )


def test_code_of_an_older_protobuf_is_only_a_warning() -> None:
    warning = "UserWarning: Protobuf gencode version 5.28.3 is exactly one major version older than the runtime version 6.31.1"
    assert labels(f"site-packages/google/protobuf/runtime_version.py:98: {warning} at x.proto") == [HARMLESS]


def test_containers_that_do_not_restart_say_nothing_of_the_cgroup() -> None:
    said = "After the update none of my nvidia docker containers would restart with the GPU"
    assert "container_lost_gpu_cgroup" not in labels(said)
    said = "Sometimes my docker container does not see the GPU. Only restarting the container helps"
    assert "container_lost_gpu_cgroup" in labels(said)


def test_a_lost_mps_server_asks_for_the_server() -> None:
    cause = read(
        "RuntimeError: Error 805: MPS client failed to connect to the MPS control daemon or the MPS server"
    ).causes[0]
    assert (cause.label, "MPS server" in cause.ask) == ("undetermined", True)


def test_a_machine_that_is_said_to_be_cpu_only_needs_no_cuda() -> None:
    assert labels(f"TensorFlow says this, and my node is CPU-only\n{_LOST}")[:1] == [HARMLESS]
    assert labels(f"TensorFlow says this, and my node has a GPU\n{_LOST}")[:1] == ["gpu_libs_not_found"]
