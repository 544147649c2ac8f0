"""Every rule: it names its cause, and what it asks for is reached."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from classified import CREATED, KNOWLEDGE, example, labels, seen
from every import every

from tfgpu_doctor.knowledge.schema import LogRule
from tfgpu_doctor.log.classification import HARMLESS
from tfgpu_doctor.log.context import _WORDS, KEYS, Context

FAMILIES = {row.name for row in KNOWLEDGE.log_messages}
NAMES = {row.name for row in KNOWLEDGE.log_signatures} | {row.name for row in KNOWLEDGE.log_symptoms}
# Lines from which a derived signature follows.
DERIVED = {
    "libcuda_lost": "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file",
    "needed_library_lost": "Could not load dynamic library 'libcusolver.so.11'; dlerror: libnvJitLink.so.12: cannot open",
    "cudart_lost": "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open",
    "whole_cuda_lost": "\n".join(
        f"dlopen_checker.cc:38] Could not load dynamic library '{each}'; dlerror: {each}: cannot open shared object file"
        for each in ("libcublas.so.12", "libcufft.so.11", "libcudnn.so.9")
    ),
    "some_cuda_lost": "dlopen_checker.cc:38] Could not load dynamic library 'libcudnn.so.9'; dlerror: libcudnn.so.9: cannot",
    "minor_library_lost": "Could not load dynamic library 'libcusolver.so.10'; dlerror: libcusolver.so.10: cannot open",
    "cudnn_needs_libcuda": "Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object",
    "not_built_for_new": "not built with CUDA kernel binaries compatible with compute capability 12.0. CUDA",
    "not_built_for_middle": "not built with CUDA kernel binaries compatible with compute capability 9.0. CUDA",
    "not_built_for_old": "not built with CUDA kernel binaries compatible with compute capability 5.2. CUDA",
    "low_free_memory": "failed to allocate 90.5M (94896128 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "older_library": "kernel version 550.54.15 does not match DSO version 390.25.0 -- cannot find working devices",
    "xid_memory": "NVRM: Xid (PCI:0000:01:00): 48, pid=1, DBE (double bit error)",
    "xid_off_the_bus": "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.",
    "xid_application": "NVRM: Xid (PCI:0000:01:00): 31, pid=1, MMU Fault",
    "own_cuda_opened": "Successfully opened dynamic library libcudart.so.10.1",
    "gpu_newer_than_opened_cuda": "Successfully opened dynamic library libcudart.so.10.1\n"
    "pciBusID: 0000:01:00.0 name: GeForce RTX 3060 Ti computeCapability: 8.6",
    "stopped_at_adding": "I tensorflow/core/common_runtime/gpu/gpu_device.cc:1746] Adding visible gpu devices: 0",
    "xid_power": "NVRM: Xid (PCI:0000:01:00): 54, pid=1, power cables",
    "xid_hang": "NVRM: Xid (PCI:0000:01:00): 119, pid=1, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
    "xid_reset": "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    "xid_start": "NVRM: Xid (PCI:0000:01:00): 143, GPU initialization failed",
    "xid_switch": "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 10003, Fatal, Link 32",
    "xid_nvlink": "NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 02",
    "xid_faulty": "NVRM: Xid (PCI:0000:01:00): 58, pid=1, Unstable video memory interface",
    "no_tensorrt_libs": "ERROR: Could not find a version that satisfies the requirement tensorrt-libs==8.6.1",
    "no_gpu_package": "ERROR: Could not find a version that satisfies the requirement tensorflow-gpu==2.12.0",
    "plain_no_such_release": "ERROR: Could not find a version that satisfies the requirement tensorflow==2.16.9",
    "no_tensorflow_version": "ERROR: Could not find a version that satisfies the requirement tensorflow==2.5",
    "libcuda_only_lost": "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open",
    "toolkit_library_lost": "ImportError: libcublas.so.9.0: cannot open shared object file: No such file or directory",
    "ptxas_with_known_bug": "ptxas 12.3.103 has a bug that we think can affect XLA. Please use a different version.",
    "kernels_fit_gpu": "TensorFlow version: 2.12.0\nGPU model and memory: Tesla V100",
    "cudart_noise": "W dso_loader.cc:59] Could not load dynamic library 'libcudart.so.10.1'; dlerror: libcudart.so.10.1: cannot\n"
    "I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up",
    "cudart_before_exception": "W dso_loader.cc:59] Could not load dynamic library 'libcudart.so.10.1'; dlerror: libcudart.so.10.1:\n"
    "I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up\n"
    "Traceback (most recent call last):\nKeyError: 'train'",
    "gpus_absent": "Num GPUs Available:  0",
    "smi_idle": "| 32%   46C    P8    28W / 250W |    320MiB / 12066MiB |      0%      Default |",
    "small_pool": "total_region_allocated_bytes_: 37363712 memory_limit_: 37363712 available bytes: 0",
    "little_memory_registered": CREATED.format("2417"),
    "tenth_of_memory_registered": CREATED.format("660"),
    "gpu_computes": "Successfully opened dynamic library libcudart.so.10.1\n"
    + CREATED.format("22000")
    + "\nEpoch 1, step 40, loss: 0.51",
    "cuda_other": "CUDA/cuDNN version: 12.4/8.9\nCould not load dynamic library 'libcudart.so.11.0'; dlerror: x",
    "cuda_as_wanted": "CUDA/cuDNN version: 11.8/8.6\nCould not load dynamic library 'libcudart.so.11.0'; dlerror: x",
}
# What follows from the machine that a text describes: an output of a tool, and what is given.
_SMI = """
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          Off |   00000000:07:00.0 Off |                    {ecc} |
| N/A   31C    P0             55W /  400W |   {used}MiB /  40960MiB |      0%   {mode} |
+-----------------------------------------+------------------------+----------------------+
"""
_SLOWED = """==============NVSMI LOG==============
Driver Version                            : 550.54.15
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
"""
TOLD = {
    "check:gpu_compute_capability_too_new": ("", ("gpu=RTX 5090", "tensorflow=2.15.0", "os=Ubuntu")),
    "check:gpu_compute_capability_too_old": ("", ("gpu=GeForce GTX 680", "tensorflow=2.15.0", "os=Ubuntu")),
    "check:ptx_jit_startup_delay": ("", ("gpu=A100", "tensorflow=2.3.0", "os=Ubuntu")),
    "check:driver_too_old": ("", ("driver=470.82.01", "tensorflow=2.16.1", "os=Ubuntu")),
    "check:exclusive_compute_mode": (_SMI.format(ecc="0", used=20000, mode="Prohibited"), ()),
    "check:gpu_memory_held_by_other_process": (_SMI.format(ecc="0", used=40900, mode="   Default"), ()),
    "check:hardware_ecc_error": (_SMI.format(ecc="7", used=20000, mode="   Default"), ()),
    "check:gpu_thermal_or_power_throttling": (_SLOWED, ()),
    "check:gpu_lost": (
        "Unable to determine the device handle for GPU0000:07:00.0: GPU is lost.  Reboot the system",
        (),
    ),
    "prose_gpu_idle": (
        "TensorFlow does not use the GPU.\n[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]",
        (),
    ),
    "cuda_fits": ("", ("tensorflow=2.10.0", "cuda=11.2", "os=Ubuntu")),
    "cuda_of_other_major": ("", ("tensorflow=2.10.0", "cuda=10.1", "os=Ubuntu")),
    "cuda_of_other_minor": ("", ("tensorflow=1.14.0", "cuda=10.1", "os=Ubuntu")),
    "cudnn_does_not_fit": ("", ("tensorflow=2.10.0", "cudnn=7.6", "os=Ubuntu")),
    "python_too_new": ("", ("tensorflow=2.10.0", "python=3.13", "os=Ubuntu")),
    "python_too_old": ("", ("tensorflow=2.16.1", "python=3.7", "os=Ubuntu")),
    "gpu_newer_than_cuda": ("", ("tensorflow=2.3.0", "gpu=RTX 3090", "os=Ubuntu")),
    "has_tensor_cores": ("", ("gpu=A100",)),
    "no_gpu_build": ("", ("tensorflow=2.16.1", "os=Windows 11")),
}
# What somebody may write from which a word is known.
SAID = {
    "container": "os=Docker on Ubuntu", "nix": "install_method=Nix dockerTools", "snap": "install_method=Docker from snap",
    "rootful": "install_method=Docker rootful", "rootless": "install_method=rootless podman", "wsl": "os=WSL2",
    "wsl1": "os=Windows 10, WSL 1", "windows": "os=Windows 11", "macos": "os=macOS 14", "arm": "os=Jetson Orin",
    "optimus": "os=Fedora, bumblebee", "no_gpu": "os=Ubuntu, no GPU", "pip": "install_method=pip", "ide": "os=PyCharm",
    "blackwell": "gpu=RTX 5090", "laptop": "gpu=RTX 2060 Mobile", "mig": "gpu=A100 MIG 1g.5gb", "selinux": "os=Fedora, SELinux",
    "torch": "install_method=pip, with torch", "gpu_dropped": "gpu=GeForce 210", "gpu": "gpu=RTX 3090", "no_toolkit": "os=Ubuntu",
    "tensorflow>=2.11": "tensorflow=2.15.0", "tensorflow>=2.12": "tensorflow=2.12", "tensorflow>=2.14": "tensorflow=2.18",
    "tensorflow>=1": "tensorflow=2.4", "tensorflow>=2": "tensorflow=2.4", "tensorflow<2.4": "tensorflow=2.3",
    "tensorflow<2.12": "tensorflow=2.3", "kubernetes": "os=Kubernetes", "scheduler": "os=Rocky, Slurm", "conda": "install_method=conda",
    "linux": "os=Ubuntu", "hosted": "os=Colab", "jax": "install_method=jax", "r": "install_method=RStudio",
    "tensorflow==2.16": "tensorflow=2.16.1", "tensorflow==2.21": "tensorflow=tf-nightly 2.21.0-dev", "tensorflow<2": "tensorflow=1.x",
    "cudnn>=9.11": "cudnn=9.24.0",
    "tensorflow>=2.22": "tensorflow=2.22.0", "tensorflow<2.14": "tensorflow=2.13.1",
}  # fmt: skip


def line_of(name: str) -> str:
    if name in TOLD:
        return TOLD[name][0]
    return DERIVED.get(name) or example(name)


def rule_id(rule: LogRule) -> str:
    return f"{rule.label}-{rule.rank}"


@every("rule", KNOWLEDGE.log_rules, key=rule_id)
def test_every_rule_is_well_formed(rule: LogRule) -> None:
    assert rule.label in KNOWLEDGE.causes
    assert rule.any
    assert {*rule.any, *rule.all, *rule.none} <= NAMES | set(DERIVED) | set(TOLD)
    assert all(word.removeprefix("!") in {*SAID, *_WORDS} for word in rule.context)
    assert 0 < rule.rank < 100
    assert rule.confidence == "high" or rule.ask or rule.rank >= 46, "say what would tell"


@every("rule", KNOWLEDGE.log_rules, key=rule_id)
def test_every_rule_names_its_cause(rule: LogRule) -> None:
    reached = False
    for name in rule.any:
        names = (name, *rule.all)
        log = "\n".join(["A question about TensorFlow and its GPU:", "", *map(line_of, names)])
        told = [pair for each in names if each in TOLD for pair in TOLD[each][1]]
        said = [SAID[word] for word in rule.context if not word.startswith("!")]
        context = dict.fromkeys([*told, *(pair for pair in said if pair.split("=")[0] not in str(told))])
        found = labels(log, *context)
        blocked = [other for other in rule.none if other in seen(log, *context)]
        reached = reached or rule.label in found
        explained = name in FAMILIES and name not in seen(log, *context)
        assert rule.label in found or blocked or explained or _contradicts(rule, context), (
            f"{name}: {found} in {log!r}, {context}"
        )
    assert reached or rule.rank < 50, "no example reaches it"


def _contradicts(rule: LogRule, pairs: Iterable[str]) -> bool:
    """Whether an example needs a machine that the rule excludes."""
    context = Context(dict(pair.split("=", 1) for pair in pairs))
    return not all(context.knows(word) for word in rule.context)


@every("name", sorted(TOLD))
def test_what_follows_from_the_machine(name: str) -> None:
    log, context = TOLD[name]
    assert name in seen(log or "A question about TensorFlow", *context)


@every("name", sorted(DERIVED))
def test_derived_signatures_follow(name: str) -> None:
    assert name in seen(DERIVED[name])


@every("word, said", SAID.items())
def test_words_are_known_from_what_people_write(word: str, said: str) -> None:
    key, value = said.split("=", 1)
    assert key in KEYS
    assert Context({key: value}).knows(word)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("windows", "os=Windows 11 + WSL2 Ubuntu"), ("wsl1", "os=WSL2 Ubuntu 22.04"), ("arm", "os=macOS arm64"),
        ("container", "os=Ubuntu 22.04"), ("tensorflow>=2.11", "tensorflow=2.9.1"), ("tensorflow<2", "tensorflow=2.0"),
        ("tensorflow>=2.11", "os=Ubuntu"), ("tensorflow==2.16", "tensorflow=2.17.0"), ("no_toolkit", "cuda=12.4"),
        ("gpu_dropped", "gpu=GeForce RTX 2080 Ti"), ("gpu_dropped", "gpu=GeForce GTX 960"), ("blackwell", "gpu=GeForce RTX 4090"),
        ("blackwell", "gpu=Quadro RTX 5000"), ("arm", "gpu=B200"),
    ],
)  # fmt: skip
def test_words_that_are_not_said(word: str, said: str) -> None:
    key, value = said.split("=", 1)
    assert not Context({key: value}).knows(word)


def test_every_label_is_reached_but_those_for_people() -> None:
    reached = {rule.label for rule in KNOWLEDGE.log_rules} | {HARMLESS}
    by_machines_alone = {label for label, cause in KNOWLEDGE.causes.items() if cause.shown_by == "check"} - reached
    by_advice = {label for label, cause in KNOWLEDGE.causes.items() if cause.shown_by == "advice"}
    assert set(KNOWLEDGE.causes) - reached == by_machines_alone | by_advice
    # A text does not show when a driver was installed, nor what a run without LD_PRELOAD does.
    assert by_machines_alone == {"reboot_pending", "preloaded_library_fails"}


@every("cause", KNOWLEDGE.causes.values(), key=lambda cause: cause.label)
def test_every_label_has_words(cause: object) -> None:
    for name in ("title", "definition", "fix"):
        text = getattr(cause, name)
        assert len(text) > 15, name
        assert not re.search(r"\bTODO\b|  ", text)
