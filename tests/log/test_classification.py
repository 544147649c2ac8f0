"""From signatures to causes: every rule, what is given, and logs of several troubles or none."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

import pytest
from every import every

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import LogRule
from tfgpu_doctor.log.classification import (
    HARMLESS,
    _all_hits,
    classify,
)
from tfgpu_doctor.log.context import _WORDS, KEYS, Context
from tfgpu_doctor.log.derived import derive
from tfgpu_doctor.log.last_step import with_last_step
from tfgpu_doctor.log.report import LogReport
from tfgpu_doctor.log.signatures import Found, Hit, Scanner
from tfgpu_doctor.log.statements import read_statements

KNOWLEDGE = read_knowledge()
SYMPTOMS = {row.name: row.example for row in KNOWLEDGE.log_symptoms}
FAMILIES = {row.name for row in KNOWLEDGE.log_messages}
NAMES = {row.name for row in KNOWLEDGE.log_signatures} | set(SYMPTOMS)
_CREATED = (
    "I gpu_device.cc:1928] Created device /job:localhost/replica:0/task:0/device:GPU:0 with {} MB memory:  -> device: 0, "
    "name: NVIDIA GeForce RTX 3090, pci bus id: 0000:17:00.0, compute capability: 8.6"
)
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
    "little_memory_registered": _CREATED.format("2417"),
    "tenth_of_memory_registered": _CREATED.format("660"),
    "gpu_computes": "Successfully opened dynamic library libcudart.so.10.1\n"
    + _CREATED.format("22000")
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


def read(log: str, *context: str) -> LogReport:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    known = Context(dict(pair.split("=", 1) for pair in context))
    return classify(scanner.found, known, KNOWLEDGE, scanner.lines, scanner.kept.texts())


def labels(log: str, *context: str) -> list[str]:
    return [cause.label for cause in read(log, *context).causes]


def example(name: str) -> str:
    if name in TOLD:
        return TOLD[name][0]
    return (
        DERIVED.get(name)
        or SYMPTOMS.get(name)
        or next(row.example for row in KNOWLEDGE.log_signatures if row.name == name)
    )


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
        log = "\n".join(["A question about TensorFlow and its GPU:", "", *map(example, names)])
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


def seen(log: str, *pairs: str) -> set[str]:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    statements = read_statements(scanner.kept.texts(), KNOWLEDGE.log_symptoms)
    context = (
        Context(dict(pair.split("=", 1) for pair in pairs))
        .learning(scanner.found, KNOWLEDGE)
        .hearing(statements.values)
    )
    return set(_all_hits(scanner.found, statements.symptoms, context, KNOWLEDGE, scanner.kept.texts()))


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


@pytest.mark.parametrize(
    "log",
    [
        "", "\n\n\n", "Epoch 1/10\n100/100 - loss: 0.5", "Created device /job:localhost/replica:0/task:0/device:GPU:0 with "
        "22000 MB memory:  -> device: 0, name: NVIDIA GeForce RTX 3090, pci bus id: 0000:01:00.0, compute capability: 8.6",
        "All tests passed on the GPU", "Error: could not reach the server, retrying",
        "[]", "[]\n42 integration tests passed on jetson", "Successfully installed tensorflow-2.16.1 numpy-1.26.4",
        'File "/venv/lib/python3.11/site-packages/mlflow/tensorflow.py", line 7, in <module>',
        'File "/home/user/.local/lib/python3.10/site-packages/keras/models.py", line 7, in fit\nKeyError: 5',
        "Using GPU: 0", "No space left on device: /data", "The file system is not yet initialized: system not yet initialized",
        "modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service",
        "crw-rw----+ 1 root video 195, 0 10-20 21:39 /dev/nvidia0", "drwxr-xr-x docker run --rm ubuntu",
        "Using libdevice at /usr/local/cuda/nvvm/libdevice/libdevice.10.bc", "lsmod: nouveau is not loaded",
    ],
)  # fmt: skip
def test_a_log_without_trouble_is_left_in_peace(log: str) -> None:
    assert labels(log) == []


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION: an illegal instruction was encountered", "gpu_kernel_fault"),
        ("AssertionError: Torch not compiled with CUDA enabled", "undetermined"),
        ("failed to synchronize the stop event: CUDA_ERROR_UNKNOWN: unknown error", "undetermined"),
        (
            "failed to allocate 2.96G (3179741184 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            "gpu_out_of_memory",
        ),
        ("NCCL: unhandled system error.\nNCCL WARN Call to ibv_create_qp failed", "nccl_failure"),
        ("2026-11-21 10:00:00.1: E tensorflow/core/common_runtime/session.cc:64] Not found: something", "undetermined"),
        ("tensorflow.python.framework.errors_impl.InternalError: something odd", "undetermined"),
        ("F0000 00:00:1738697930.202924    7665 cuda_event.cc:5] Check failed: nothing known", "undetermined"),
        ("NVRM: Xid (PCI:0000:01:00): 32, pid=1, Channel ID 00000008", "undetermined"),
    ],
)
def test_an_error_of_this_field_is_never_passed_over(log: str, label: str) -> None:
    cause = read(log).causes[0]
    assert (cause.label, cause.confidence == "high") == (label, False)
    assert cause.lines[0] == 1
    assert cause.ask


def test_noise_alone_is_called_harmless() -> None:
    report = read("TF-TRT Warning: Could not find TensorRT\noneDNN custom operations are on. You may see\nnothing\n")
    assert [cause.label for cause in report.causes] == [HARMLESS]
    assert report.causes[0].severity == "info"
    assert [each.name for each in report.noise] == ["noise_tensorrt", "noise_onednn"]


@pytest.mark.parametrize(
    "line",
    [
        "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file",
        "Not creating XLA devices, tf_xla_enable_xla_devices not set",
        "Local rendezvous is aborting with status: OUT_OF_RANGE: End of sequence",
        "computation placer already registered. Please check linkage",
        "Your kernel may have been built without NUMA support.",
        "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",  # TensorFlow prints it, and goes on
        "E external/local_xla/xla/service/slow_operation_alarm.cc:65] Trying algorithm eng0{} for conv (f32[64,3,3,3]{3,2,1,0}) "
        'custom-call(f32[32,3,224,224]{3,2,1,0}), custom_call_target="__cudnn$convBackwardFilter" is taking a while...',
        "W bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 16.54GiB with freed_by_count=0. The "
        "caller indicates that this is not a failure, but this may mean that there could be performance gains if more memory "
        "were available.",
        "W tensorflow/core/kernels/data/prefetch_autotuner.cc:52] Prefetch autotuner tried to allocate 1073741824 bytes after "
        "encountering the first element of size 1073741824 bytes.This already causes the autotune ram budget to be exceeded. To "
        "stay within the ram budget, either increase the ram budget or reduce element size",
        "E0000 00:00:1745000000.123456 40 meta_optimizer.cc:967] remapper failed: INVALID_ARGUMENT: Mutation::Apply error: fanout "
        "'gradient_tape/while/gradients' exist for missing node 'while/BiasAdd'.",
        "W tensorflow/core/kernels/gpu_utils.cc:50] Failed to allocate memory for convolution redzone checking; skipping this "
        "check. This is benign and only means that we won't check cudnn for out-of-bounds reads and writes.",
    ],
)
def test_what_looks_like_trouble_and_is_none(line: str) -> None:
    assert labels(line) == [HARMLESS]


def test_what_pip_says_of_conflicts_is_no_complaint_of_a_person() -> None:
    report = read(
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This "
        "behaviour is the source of the following dependency conflicts.\n"
        "tensorflow-decision-forests 1.11.0 requires tensorflow==2.18.0, but you have tensorflow 2.19.0 which is incompatible.\n"
        "gpu_device.cc:2019] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13757 MB memory:  -> device: 0\n"
    )
    assert report.causes == ()
    assert "tensorflow" not in report.stated


def test_a_protobuf_that_ends_a_program_is_no_noise() -> None:
    end = "    message = factory.GetPrototype(kind)\n" + example("noise_getprototype")
    assert labels(end) == ["protobuf_incompatible"]


def test_noise_beside_a_cause_stays_noise() -> None:
    report = read("TF-TRT Warning: Could not find TensorRT\nNVRM: Xid (PCI:0000:01:00): 48, pid=1\n")
    assert [cause.label for cause in report.causes] == ["hardware_ecc_error"]
    assert len(report.noise) == 1


def test_the_compiler_that_cudnn_does_not_find_is_one_cause() -> None:
    assert labels(example("nvrtc_lost"), "tensorflow=2.21.0") == ["cudnn_nvrtc_not_found"]


@pytest.mark.parametrize(
    ("before", "given", "found"),
    [
        ("", "tensorflow=2.21.0", ["cudnn_nvrtc_not_found"]),
        ("Loaded cuDNN version 90501\n", "", ["cudnn_nvrtc_not_found"]),
        ("Loaded cuDNN version 91002\n", "", ["cudnn_nvrtc_not_found"]),
        ("Loaded cuDNN version 91100\n", "", ["undetermined"]),  # this one finds the compiler
        ("Loaded cuDNN version 92400\n", "", ["undetermined"]),
        ("Loaded cuDNN version 100000\n", "", ["undetermined"]),
        ("", "cudnn=9.24.0.43", ["undetermined"]),
    ],
)
def test_a_convolution_without_a_plan_lacks_the_compiler_where_cudnn_does_not_find_it(
    before: str, given: str, found: list[str]
) -> None:
    assert labels(before + example("convolution_without_plan"), *given.split()) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("LLVM ERROR: PTX version 8.5 does not support target 'sm_120a'.", "gpu_compute_capability_too_new"),
        ("LLVM ERROR: PTX version 8.5 does not support target 'sm_100a'.", "gpu_compute_capability_too_new"),
        ("LLVM ERROR: PTX version 7.5 does not support target 'sm_90a'.", "ptxas_too_old_for_gpu"),
        ("LLVM ERROR: PTX version 7.0 does not support target 'sm_86'.", "ptxas_too_old_for_gpu"),
    ],
)
def test_what_llvm_refuses_to_write(line: str, found: str) -> None:
    assert labels(line) == [found]


@pytest.mark.parametrize(
    "line",
    [
        "E0000 00:00:1743133500.726998 2738871 buffer_comparator.cc:156] Difference at 0: nan, expected 1.65142",
        "E external/xla/xla/service/gpu/autotuning/gemm_fusion_autotuner.cc:1138] Results do not match the reference. This is "
        "likely a bug/unexpected loss of precision.",
        "Results mismatch between different convolution algorithms. This is likely a bug/unexpected loss of precision in cudnn.",
    ],
)
def test_kernels_of_xla_that_disagree_are_a_warning(line: str) -> None:
    (cause,) = read(line).causes
    assert (cause.label, cause.severity, cause.confidence) == ("xla_kernels_disagree", "warning", "medium")


def test_another_end_by_llvm_is_an_error_of_unknown_cause() -> None:
    assert labels("LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync") == ["undetermined"]


def test_two_troubles_are_named_with_their_own_lines() -> None:
    report = read(
        "x\nValueError: Memory growth cannot differ between GPU devices\ny\nDMAR: DRHD: handling fault status reg 2\n"
    )
    lines = {cause.label: cause.lines for cause in report.causes}
    assert lines == {"memory_growth_differs_between_gpus": (2,), "multi_gpu_p2p_iommu_acs": (4,)}


@pytest.mark.parametrize(
    ("first", "log", "context"),
    [
        ("container_started_without_gpu", "failed call to cuInit: UNKNOWN ERROR (303)", ["install_method=docker run"]),
        ("no_nvidia_driver", "failed call to cuInit: UNKNOWN ERROR (303)", []),
        ("no_gpu_in_machine", "failed call to cuInit: UNKNOWN ERROR (303)", ["os=Ubuntu VM without GPU"]),
        ("cuda_visible_devices_hides_gpu", "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", []),
        ("pip_cuda_libs_not_found", "gpu_device.cc:2251] Cannot dlopen some GPU libraries.", []),
        ("pip_cuda_libs_not_found", "gpu_device.cc:2365] Cannot dlopen some GPU libraries.", []),
        ("gpu_libs_not_found", "gpu_device.cc:2365] Cannot dlopen some GPU libraries.", ["cuda=13.0", "tensorflow=2.21"]),
        ("gpu_libs_not_found", "Cannot dlopen some GPU libraries.", []),
        ("cuda_compat_package_conflict", DERIVED["older_library"].replace("390.25.0", "560.1"), ["os=kubernetes"]),
        ("driver_library_version_mismatch", DERIVED["older_library"].replace("390.25.0", "560.1"), []),
        ("ld_library_path_shadows_pip_libs", "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.",
         ["install_method=pip", "tensorflow=2.18"]),
        ("cudnn_version_mismatch", "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.", []),
        ("native_windows_no_gpu_build", ">>> tf.config.list_physical_devices('GPU')\n[]", ["os=Windows 11", "tensorflow=2.15"]),
        ("aarch64_wheel_without_cuda", "[]", ["os=Ubuntu aarch64"]),
        ("macos_metal_plugin_missing", "[]", ["os=macOS"]),
        ("tensorflow_gpu_package_removed", "No matching distribution found for tensorflow-gpu==2.13.0", []),
        ("unsupported_python_version", "ERROR: No matching distribution found for tensorflow-gpu", []),
        ("unsupported_python_version", "No matching distribution found for tensorflow_gpu==1.15", []),
        ("no_nvidia_driver", "ImportError: libcuda.so.1: cannot open shared object file", []),
        ("container_started_without_gpu", "ImportError: libcuda.so.1: cannot open shared object file", ["os=Kubernetes"]),
        ("no_nvidia_driver", "Could not load dynamic library 'nvcuda.dll'; dlerror: nvcuda.dll not found", []),
        ("gpu_libs_not_found", "ImportError: libcudnn.so.7: cannot open shared object file", []),
        ("gpu_libs_not_found", "Couldn't open CUDA library libcudnn.so.5. LD_LIBRARY_PATH: /usr/local/cuda/lib64", []),
        ("cuda_toolkit_wrong_major", "Could not load dynamic library 'libcudart.so.11.0'; dlerror: x", ["cuda=12.4"]),
        ("gpu_libs_not_found", "Could not load dynamic library 'libcudart.so.11.0'; dlerror: x", ["cuda=11.8"]),
        ("cuda_toolkit_wrong_major", "Could not load dynamic library 'cudart64_101.dll'; dlerror: x", ["cuda=11.2"]),
        ("gpu_libs_not_found", "Could not load dynamic library 'cudart64_12.dll'; dlerror: x", ["cuda=12.1"]),
        ("cuda_toolkit_wrong_major", "ImportError: libcublas.so.9.0: cannot open shared object file", ["cuda=9.1.85"]),
        ("uvm_broken_after_suspend", "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", ["gpu=RTX 3060 Laptop"]),
        ("torch_tf_nvidia_wheel_conflict", "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.",
         ["install_method=pip, with PyTorch"]),
        ("libdevice_or_ptxas_missing", "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.",
         ["install_method=Docker latest-gpu-jupyter"]),
        ("gpu_memory_held_by_other_process", "\n".join(
            f"failed to allocate {size} (1 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY" for size in ("1.2G", "900.5M")), []),
    ],
)  # fmt: skip
def test_what_is_given_decides(first: str, log: str, context: list[str]) -> None:
    assert labels(log, *context)[0] == first


HOST = "I cuda_diagnostics.cc:158] retrieving CUDA diagnostic information for host: "


@pytest.mark.parametrize(
    ("first", "log"),
    [
        ("container_started_without_gpu", HOST + "16c54693e7f2\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("container_started_without_gpu", HOST + "train-job-5f7d446b77-kmsxn\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("no_nvidia_driver", HOST + "my-workstation\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("native_windows_no_gpu_build", "C:\\Program Files\\Python\nTensorFlow version: 2.15.0\n[]"),
        ("wsl_libcuda_not_on_path", "5.15.153.1-microsoft-standard-WSL2\nfailed call to cuInit: UNKNOWN ERROR (303)"),
        ("native_windows_no_gpu_build", "- OS Platform and Distribution (e.g., Linux Ubuntu 16.04): Windows 11\n"
         "- TensorFlow version (use command below): v2.12.0\nNum GPUs Available:  0"),
        ("pip_cuda_libs_not_found", "Successfully installed numpy-1.26.4 tensorflow-2.16.1\nCannot dlopen some GPU libraries."),
        ("cuda_toolkit_wrong_major", "Cuda compilation tools, release 12.4, V12.4.99\n"
         "Could not load dynamic library 'libcudart.so.11.0'; dlerror: x; LD_LIBRARY_PATH: /usr/local/cuda-12.4/lib64"),
        ("pip_without_and_cuda_extra", "cudart_stub.cc:32] Could not find cuda drivers on your machine, GPU will not be used.\n"
         "gpu_device.cc:2344] Cannot dlopen some GPU libraries."),
        ("aarch64_wheel_without_cuda", "/usr/lib/aarch64-linux-gnu/libc.so.6\n[]"),
        ("selinux_blocks_container_gpu", "avc:  denied  { read } for  comm=\"python\" tcontext=u:object_r:xserver_misc_device_t:s0"),
    ],
)  # fmt: skip
def test_what_the_log_tells_of_the_machine_decides(first: str, log: str) -> None:
    assert labels(log)[0] == first


def test_what_is_said_counts_more_than_what_the_log_tells() -> None:
    log = "TensorFlow version: 2.15.0\nC:\\Program Files\\Python\n[]"
    assert "native_windows_no_gpu_build" not in labels(log, "tensorflow=2.9")
    assert {cause.confidence for cause in read(log, "tensorflow=2.9").causes} == {"low"}
    assert labels(log)[0] == "native_windows_no_gpu_build"


def test_the_facts_of_a_log_are_told() -> None:
    report = read(
        "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n"
        "gpu_device.cc:2251] Cannot dlopen some GPU libraries.\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no\n"
        "GPU:0 -> device: 0, name: NVIDIA A100, pci bus id: 0000:01:00.0, compute capability: 8.0\n"
    )
    assert report.context == {}
    assert report.extracted == {
        "capability": ("8.0",), "driver": ("550.54.15",), "error": ("CUDA_ERROR_NO_DEVICE",), "gpu": ("NVIDIA A100",),
        "tensorflow": ("2.16",),
    }  # fmt: skip


def test_free_memory_is_compared_with_the_total() -> None:
    assert labels("Total memory: 7.92GiB\nFree memory: 190.31MiB") == ["gpu_memory_held_by_other_process"]
    assert labels("Total memory: 7.92GiB\nFree memory: 7.31GiB") == []


def test_evidence_is_short_and_in_the_order_of_the_log() -> None:
    log = "\n".join(f"E{place} failed call to cuInit: UNKNOWN ERROR (34)" for place in range(50))
    (cause, *_) = read(log).causes
    assert list(cause.lines) == sorted(cause.lines)
    assert 1 <= len(cause.evidence) <= 4


@every("cause", KNOWLEDGE.causes.values(), key=lambda cause: cause.label)
def test_every_label_has_words(cause: object) -> None:
    for name in ("title", "definition", "fix"):
        text = getattr(cause, name)
        assert len(text) > 15, name
        assert not re.search(r"\bTODO\b|  ", text)


def test_hits_of_one_signature_are_not_mixed_with_derived_ones() -> None:
    row = next(row for row in KNOWLEDGE.log_signatures if row.name == "xid")
    found = {"xid": Found(row, 1, [Hit(1, "x", {"xid": "79"})])}
    derive(found, Context({}), KNOWLEDGE)
    assert set(found) == {"xid"}


NOT_FOUND = "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)"


@every("context, commands", [
    (["python=3.14.2"], "`uv pip install --python tensorflow-gpu 'tensorflow[and-cuda]'`"),
    (["python=3.15.0", "os=Windows 11"], "`uv pip install --python tensorflow-gpu tensorflow`"),
    (["python=3.14", "tensorflow=2.18"], ""),
    (["python=3.13.1"], ""),
    (["python=3.7.9"], ""),
    ([], ""),
])  # fmt: skip
def test_for_a_python_that_is_too_new_the_fix_brings_another(context: list[str], commands: str) -> None:
    cause = read(NOT_FOUND, *context).causes[0]
    assert cause.label == "unsupported_python_version"
    assert ("`uv venv --seed --python 3.13 tensorflow-gpu`" in cause.fix) is bool(commands)
    assert commands in cause.fix


CUDNN_LOST = "CUDA 9.1, tensorflow version 1.14.0. It does not use the GPU.\n{opened}\nCould not dlopen library 'libcudnn.so.7'; dlerror: x"


@every("opened, cause", [
    ("", "cuda_toolkit_wrong_major"),
    ("Successfully opened dynamic library libcuda.so.1", "cuda_toolkit_wrong_major"),
    ("Successfully opened dynamic library libcudart.so.10.0", "gpu_libs_not_found"),
    ("Successfully opened dynamic library libcusparse.so.10.0", "gpu_libs_not_found"),
])  # fmt: skip
def test_a_cuda_that_tensorflow_opened_is_the_right_one(opened: str, cause: str) -> None:
    """Whatever CUDA the author names (tensorflow 42156)."""
    report = read(CUDNN_LOST.format(opened=opened))
    assert report.causes[0].label == cause
    assert report.extracted["tensorflow"] == ("1.14.0",)
    assert not any("1.14.0.`" in each.fix for each in report.causes)


def test_the_cuda_that_nvidia_smi_shows_is_no_wrong_toolkit() -> None:
    said = "My TensorFlow 2.10 does not use the GPU. nvidia-smi shows CUDA Version 12.2. I installed CUDA {} and cuDNN 8.1.\n"
    assert "cuda_toolkit_wrong_major" not in labels(said.format("11.2"))
    assert labels(said.format("12.2"))[0] == "cuda_toolkit_wrong_major"


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("name: GRID K520 major: 3 minor: 0\nI cannot use the GPU", "vgpu_unlicensed"),  # a board, no vGPU
        (
            "The TensorFlow library wasn't compiled to use SSE4.2 instructions, but these are available on your machine and "
            "could speed up CPU computations.",
            "cpu_without_avx",
        ),
        ("It says that these instructions could speed up CPU computations", "workload_too_small_for_gpu"),
        (
            "ERROR: Could not find a version that satisfies the requirement tensorflow==2.16.9",
            "unsupported_python_version",
        ),
        ("ImportError: /v/site-packages/nvidia/cublas/lib/libcublas.so.12: file too short", "library_shadowed"),
        ("W redzone_allocator.cc:318] Internal: Failed to launch ptxas", "gpu_kernel_fault"),
    ],
)
def test_what_only_looks_like_a_cause_is_none(log: str, label: str) -> None:
    assert label not in [cause.label for cause in read(log).causes]


# What 40 threads that nobody here had read showed (batch 22 of unseen.json).
_ADDING = (
    "2020-01-01 10:00:0{}: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1746] Adding visible gpu devices: 0\n"
)
_NEXT = "2020-01-01 10:00:07.5: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1159] Device interconnect StreamExecutor\n"


@every("log, found", [
    (_ADDING.format("1.0"), ["ptx_jit_startup_delay"]),
    (f"My TensorFlow on a GPU:\n\n```\n{_ADDING.format('1.0')}```\nThat is all.\n", ["ptx_jit_startup_delay"]),
    (_ADDING.format("1.0") + _NEXT, []),
    (_ADDING.format("1.0") + _NEXT + _ADDING.format("8.0") + _NEXT, []),
    ("TensorFlow hangs on my GPU.\n\n" + _ADDING.format("1.0") + _NEXT, ["ptx_jit_startup_delay"]),
], key=lambda log, found: log)  # fmt: skip
def test_a_start_that_goes_on_does_not_wait_for_a_compiler(log: str, found: list[str]) -> None:
    assert labels(log) == found


def test_what_follows_a_line_that_is_not_kept_is_not_known() -> None:
    """Of a large log only parts are kept: this one's end is another part."""
    hits = {"adding_gpus": [Hit(500, _ADDING, {})]}
    assert "stopped_at_adding" not in with_last_step(hits, [(1, "step 1\nstep 2\n")])
    assert "stopped_at_adding" not in with_last_step(hits, [(499, f"step\n{_ADDING}step\n")])
    assert "stopped_at_adding" in with_last_step(hits, [(1, "step 1\n"), (499, f"step\n{_ADDING}")])


@every("line", [
    "Mar  3 04:05:06 node kernel: RIP: 0010:_nv000123rm+0x1f/0x170 [nvidia]",
    "[   29.798452] IP: [<ffffffffc075549f>] _nv000123rm+0x1f/0x170",
    "RIP: 0010:uvm_gpu_release+0x20/0x40 [nvidia_uvm]",
    "[ 1208.1] INFO: task nvidia-smi:4167 blocked for more than 120 seconds.",
])  # fmt: skip
def test_a_driver_that_fails_in_the_kernel_is_named(line: str) -> None:
    assert labels(line)[:1] == ["gpu_hang"]


@every("line", [
    "RIP: 0010:ext4_readdir+0x20/0x40 [ext4]",
    "[ 1208.1] INFO: task jbd2/sda1-8:300 blocked for more than 120 seconds.",
    "Modules linked in: nvidia_uvm(OE) nvidia(POE) veth ip_tables",
])  # fmt: skip
def test_another_part_of_the_kernel_says_nothing_of_the_gpu(line: str) -> None:
    assert labels(line) == []


def test_an_old_release_that_shows_the_gpu_has_its_cuda() -> None:
    given = ("tensorflow=1.12.0", "cuda=10.0", "os=Ubuntu", "gpu=Tesla P100")
    asked = "My TensorFlow does not use the GPU.\n"
    shown = "name: Tesla P100-SXM2-16GB major: 6 minor: 0 memoryClockRate(GHz): 1.4805\n"
    assert labels(asked, *given)[:1] == ["cuda_toolkit_wrong_major"]
    assert "cuda_toolkit_wrong_major" not in labels(asked + shown, *given)
    later = ("tensorflow=1.13.1", "cuda=9.0", "os=Ubuntu", "gpu=Tesla P100")
    assert "cuda_toolkit_wrong_major" in labels(asked + shown, *later)


def test_a_backend_of_keras_that_works_is_not_the_one_that_fails() -> None:
    asked = "Keras never finishes a batch on my GPU with TensorFlow. "
    assert labels(asked + "It is set to the torch backend.\n")[:1] == ["keras_backend_not_tensorflow"]
    assert "keras_backend_not_tensorflow" not in labels(asked + "With the pytorch backend it works.\n")


def test_the_engines_that_tf_trt_builds_later_are_no_trouble() -> None:
    log = (
        "W tensorflow/core/framework/op_kernel.cc:1655] OP_REQUIRES failed at trt_engine_resource_ops.cc:183 : Not found: "
        "Container TF-TRT does not exist. (Could not find resource: TF-TRT/TRTEngineOp_0)\n"
        "INFO:tensorflow:Could not find TRTEngineOp_0 in TF-TRT cache. This can happen if build() is not called, which "
        "means TensorRT engines will be built and cached at runtime.\n"
    )
    assert labels(log) == [HARMLESS]


def test_a_release_that_there_is_not_is_told() -> None:
    (cause,) = read("ERROR: No matching distribution found for tensorflow==2.16.9").causes
    assert (cause.label, cause.fix.startswith("No release 2.16.9 of TensorFlow is known")) == ("undetermined", True)


# What 40 more such threads showed (batch 23).
_REFUSED = (
    "2024-06-06 09:03:48.670640: F external/local_xla/xla/service/gpu/nvptx_compiler.cc:619] ptxas returned an error during "
    "compilation of ptx to sass: 'INTERNAL: ptxas 12.3.103 has a bug that we think can affect XLA. Please use a different "
    "version.'  If the error message indicates that a file could not be written, please verify that sufficient filesystem "
    "space is provided.\n"
)
_IN_NOTEBOOK = "My TensorFlow on the GPU fails in the notebook, and in the terminal it works.\n\n"


def test_a_ptxas_that_xla_refuses_is_named_with_another_to_install() -> None:
    first = read(_IN_NOTEBOOK + _REFUSED).causes[0]
    assert (first.label, first.confidence) == ("libdevice_or_ptxas_missing", "high")
    assert "12.3.103" in first.fix
    assert "nvidia-cuda-nvcc-cu12" in first.fix
    assert read("Couldn't get ptxas version string: ptxas not found\n").causes[0].fix != first.fix


def test_what_a_person_says_does_not_outrank_a_fatal_line_of_tensorflow() -> None:
    line = "tensorflow/core/x.cc:5] ptxas exited with non-zero error code 2, output: something\n"
    fatal, plain = (f"2024-06-06 09:03:48.6: {level} {line}" for level in "FI")
    absl = "F0000 00:00:1738697930.202924    7665 x.cc:5] ptxas exited with non-zero error code 2\n"
    for ended in (fatal, absl):
        assert labels(_IN_NOTEBOOK + ended)[0] == "ptxas_too_old_for_gpu"
    assert "env_vars_not_inherited_by_ide_or_notebook" in labels(_IN_NOTEBOOK + fatal)
    assert labels(_IN_NOTEBOOK + plain)[0] == "env_vars_not_inherited_by_ide_or_notebook"
    assert labels(_IN_NOTEBOOK + "F0000 00:00:1738697930.202924    7665 x.cc:5] something\n")[:1] == [
        "env_vars_not_inherited_by_ide_or_notebook"
    ], "no signature knows this line"


@every("said, given, first", [
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 5080", "tensorflow=2.17.0"), "gpu_compute_capability_too_new"),
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 5080",), "gpu_compute_capability_too_new"),
    ("On my B200 (sm_100) it fails with CUDA_ERROR_INVALID_HANDLE.", (), "gpu_compute_capability_too_new"),
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 4080", "tensorflow=2.17.0"), "gpu_kernel_fault"),
    ("It fails with CUDA_ERROR_INVALID_HANDLE.", ("gpu=RTX 5080", "tensorflow=2.22.0"), "gpu_kernel_fault"),
], key=lambda said, given, first: f"{said} {given}")  # fmt: skip
def test_an_invalid_handle_on_a_gpu_that_is_too_new(said: str, given: tuple[str, ...], first: str) -> None:
    assert labels(f"I use TensorFlow in Docker with shm_size: 1gb, and have an error.\n\n{said}\n", *given)[0] == first


@every("said, found", [
    ("The training hangs on the GPU. dmesg shows a kernel WARNING of the driver.", ["gpu_hang"]),
    ("The training hangs on the GPU. dmesg shows no errors.", []),
    ("It crashes on the GPU, with many small kernel launches.", []),
    ("It crashes on the GPU, with two other processes on it.", ["gpu_memory_held_by_other_process"]),
], key=lambda said, found: said)  # fmt: skip
def test_a_hang_that_the_kernel_tells_of(said: str, found: list[str]) -> None:
    assert [label for label in labels(f"My TensorFlow.\n\n{said}\n") if label != "undetermined"] == found


_LOADED = (
    "2024-04-08 20:09:58.2: I tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:424] Loaded cuDNN version 8907\n"
)
_HIDDEN = (
    "With os.environ['CUDA_VISIBLE_DEVICES'] = '3' I get:\n\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no device\n"
)


def test_a_gpu_that_is_hidden_for_a_comparison_is_not_the_trouble() -> None:
    same = "The inference time on CPU and GPU is the same.\n\n"
    assert labels(same + _LOADED + _HIDDEN)[0] == "workload_too_small_for_gpu"
    assert "cuda_visible_devices_hides_gpu" in labels(same + _HIDDEN)
    for asked in ("TensorFlow does not find my GPU.\n\n", "I have an error with TensorFlow.\n\n"):
        assert labels(asked + _LOADED + _HIDDEN)[0] == "cuda_visible_devices_hides_gpu"


@every("given, named", [
    (("gpu=Tesla V100", "tensorflow=2.12"), False),
    (("gpu=2 x RTX 3090", "tensorflow=2.12"), False),
    (("gpu=Tesla V100",), True),
    (("gpu=Tesla V100", "tensorflow=2.12", "install_method=built from source"), True),
    (("gpu=RTX 5090", "tensorflow=2.12"), True),
], key=lambda given, named: str(given))  # fmt: skip
def test_a_gpu_that_a_release_has_kernels_for_waits_for_no_compiler(given: tuple[str, ...], named: bool) -> None:
    found = labels("TensorFlow takes a very long time to start the training on the GPU.\n", "os=Ubuntu", *given)
    assert ("ptx_jit_startup_delay" in found) == named


@every("said", [
    "How do I get this on a DGX Spark? TensorFlow keeps defaulting to CPU.",
    "I have trouble getting the GPU recognized by TensorFlow on a GB10.",
    "TensorFlow doesn't use the GPU. jtop shows 0 % on this board.",
    "TensorFlow cannot find the GPU on our GH200 server.",
    "TensorFlow cannot find the GPU beside the Grace CPU.",
])  # fmt: skip
def test_an_arm_machine_is_known_by_its_name(said: str) -> None:
    assert labels(f"{said}\n")[0] == "aarch64_wheel_without_cuda"


def test_another_server_is_no_arm_machine() -> None:
    assert "aarch64_wheel_without_cuda" not in labels("TensorFlow cannot find the GPU on our DGX B200 server.\n")


def test_the_name_of_a_variable_in_code_hides_no_gpu() -> None:
    for code in ("'cuda_visible_devices': cuda_visible_devices,", "assert cuda_visible_devices, 'x'"):
        assert "visible_devices_hide" not in seen(code)
    for code in ("export CUDA_VISIBLE_DEVICES=", 'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")'):
        assert "visible_devices_hide" in seen(code)
    asked = "With Ray and TensorFlow, `CUDA_VISIBLE_DEVICES` is always set to empty string, making the gpus unused.\n"
    assert labels(asked + "$ pip freeze\n")[0] == "cuda_visible_devices_hides_gpu"


_BUILT_FOR = (
    "Can I still run TensorFlow on this GPU? Seems it can still run fine in this container.\n\n"
    "ERROR: This container was built for NVIDIA Driver Release 535.86 or later, but\n"
    "       version 470.57.02 was detected and compatibility mode is UNAVAILABLE.\n\n"
)


def test_the_banner_of_an_image_names_both_drivers() -> None:
    report = read(_BUILT_FOR)
    (first,) = report.causes
    assert (first.label, first.confidence) == ("driver_too_old", "medium")
    assert "535.86" in first.evidence[0]
    assert report.extracted["driver"] == ("470.57.02",)
    certain = read(_BUILT_FOR + "       [[CUDA Driver UNAVAILABLE (cuInit(0) returned 804)]]\n").causes[0]
    assert (certain.label, certain.confidence) == ("driver_too_old", "high")


_FAILED = (
    "ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.  GPU functionality will not be available.\n"
)


@every("line, first", [
    (_FAILED + "   [[ System not yet initialized (error 802) ]]", "fabric_manager_not_running"),
    (_FAILED + "   [[ System has unsupported display driver / cuda driver combination (error 803) ]]",
     "driver_library_version_mismatch"),
    (_FAILED + "   [[ Forward compatibility was attempted on non supported HW (error 804) ]]", "cuda_compat_package_conflict"),
    (_FAILED + "   [[ Unknown error (error 999) ]]", "nvidia_uvm_missing"),
    (_FAILED + "   [[ Initialization error (error 3) ]]\n\n   [[ Possible MIG misconfiguration detected ]]",
     "mig_single_instance_per_process"),
    (_FAILED, "undetermined"),
    ("       [[CUDA Driver UNAVAILABLE (cuInit(0) returned 803)]]", "driver_library_version_mismatch"),
    ("WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.", "container_started_without_gpu"),
    ("ERROR: Detected Tesla K80 GPU, which is not supported by this container", "gpu_compute_capability_too_old"),
    ("WARNING: Detected NVIDIA B200 GPU, which is not yet supported in this version of the container",
     "gpu_compute_capability_too_new"),
    ("ERROR: This container was built for CPUs supporting at least the AVX instruction set, but", "cpu_without_avx"),
], key=lambda line, first: line)  # fmt: skip
def test_the_banner_of_an_image_is_read(line: str, first: str) -> None:
    assert labels(line)[:1] == [first]


@every("line", [
    "Failed to detect NVIDIA driver version.",
    "NOTE: Legacy NVIDIA Driver detected.  Compatibility mode ENABLED.",
    "NOTE: CUDA Forward Compatibility mode ENABLED.",
    "NOTE: MOFED driver for multi-node communication was not detected.",
])  # fmt: skip
def test_a_note_of_an_image_is_no_trouble(line: str) -> None:
    assert labels(line) == [HARMLESS]
    assert labels("NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be\n   insufficient") == []


@every("said, found", [
    ("We see slow compilation times with XLA on the GPU.", ["undetermined"]),
    ("With Keras on the GPU, the new Adam is slower than the legacy one.", ["undetermined"]),
    ("TensorFlow 2.16 on the GPU is slower than TensorFlow 2.15.", ["undetermined"]),
    ("Training with TensorFlow on my GPU is slow.", ["workload_too_small_for_gpu", "input_pipeline_bound"]),
    ("TensorFlow on the GPU is slower than on the CPU.", ["workload_too_small_for_gpu", "input_pipeline_bound"]),
], key=lambda said, found: said)  # fmt: skip
def test_what_is_slower_than_another_program_is_not_too_small(said: str, found: list[str]) -> None:
    assert labels(f"{said}\n") == found


def test_what_began_with_a_release_is_no_matter_of_the_machine() -> None:
    asked = "The loss is NaN with several GPUs and MirroredStrategy in TensorFlow"
    assert labels(f"{asked} since tf 2.16. This is not the case in 2.15.\n") == ["undetermined"]
    assert labels(f"{asked}.\n")[0] == "multi_gpu_p2p_iommu_acs"
    assert (
        labels(f"{asked} since tf 2.16.\n\nDMAR: DRHD: handling fault status reg 2\n")[0] == "multi_gpu_p2p_iommu_acs"
    )


@every("release, named", [("2.13.1", False), ("2.16.1", True)], key=lambda release, named: release)
def test_a_release_without_the_extra_does_not_lack_it(release: str, named: bool) -> None:
    line = "cudart_stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.\n[]\n"
    found = labels(line, f"tensorflow={release}", "gpu=RTX 4090", "os=Ubuntu")
    assert ("pip_without_and_cuda_extra" in found) == named
    assert found[0] != "undetermined"


@every("line", ["GPU is NOT AVAILABLE", "Num GPUs Available:  0", "Default GPU Device: "])
def test_a_program_that_says_that_there_is_no_gpu_is_never_healthy(line: str) -> None:
    cause = read(f"Keras 2.4.0\n{line}\n").causes[0]
    assert (cause.label, cause.confidence) == ("undetermined", "low")
    assert "release" in cause.ask
    assert not read("Num GPUs Available:  0\nNum GPUs Available:  1\n").causes  # another cell has one
    assert not read("primitive types:\n[]\n").causes  # an empty list may be one of anything


@every("line, first", [
    ("pycuda._driver.Error: cuInit failed: unknown error", "nvidia_uvm_missing"),
    ("pycuda._driver.RuntimeError: cuInit failed: no CUDA-capable device is detected", "cuda_visible_devices_hides_gpu"),
    ("pycuda._driver.LogicError: cuMemAlloc failed: initialization error", "undetermined"),
])  # fmt: skip
def test_the_texts_of_the_driver_api_count_as_its_codes(line: str, first: str) -> None:
    assert read(f"{line}\n").causes[0].label == first
    assert not read("request 7 failed: unknown error\n").causes


def test_a_placer_without_cuda_is_a_build_without_cuda() -> None:
    line = "InvalidArgumentError: Cannot assign a device. The requested device appears to be a GPU, but CUDA is not enabled."
    found = [cause.label for cause in read(line).causes]
    assert found[0] == "cpu_package_shadows_gpu_package"
    assert "no_nvidia_driver" not in found
    assert read(line, "tensorflow=2.12.0", "os=Windows 11").causes[0].label == "native_windows_no_gpu_build"
    assert read("could not find any TF GPUs\n").causes[0].label == "no_nvidia_driver"


def test_an_error_of_the_program_beside_a_gpu_in_use_is_no_cause() -> None:
    created, error = _CREATED.format("22000"), "tensorflow.python.framework.errors_impl.InvalidArgumentError: {}"
    shapes = error.format("Assign requires shapes of both tensors to match.")
    assert not read(f"{created}\n{shapes}\n").causes
    assert not read(f"True\n/device:GPU:0\n{shapes}\n").causes
    assert read(f"{shapes}\n").causes[0].label == "undetermined"  # nothing shows a GPU
    assert read(f"{created}\n{error.format('CUDA graph was invalid')}\n").causes[0].label == "undetermined"
    assert (
        read(f"My GPU training fails. Can anyone help me?\n\n{created}\n{shapes}\n").causes[0].label == "undetermined"
    )


def test_singularity_needs_an_option_and_no_toolkit() -> None:
    text = "My {} container does not see the GPU. How can I train with it?\n"
    found = [cause.label for cause in read(text.format("singularity")).causes]
    assert found[0] == "container_started_without_gpu"
    assert "container_toolkit_missing" not in found
    assert "container_toolkit_missing" in [cause.label for cause in read(text.format("docker")).causes]


def test_slow_beside_an_idle_gpu_is_not_called_little_work() -> None:
    text = "My training is very slow. Here is nvidia-smi:\n\n{}\n"
    row = "| 32%   46C    P8    28W / 250W |  {}MiB / 12066MiB |     {}%      Default |"
    assert [cause.label for cause in read(text.format(row.format(320, 0))).causes] == ["undetermined"]
    assert read(text.format(row.format(11320, 0))).causes[0].label == "workload_too_small_for_gpu"
    assert read(text.format(row.format(420, 37))).causes[0].label == "workload_too_small_for_gpu"
    busy = row.format(11320, 90)
    assert read(text.format(f"{row.format(320, 0)}\n{busy}")).causes[0].label == "workload_too_small_for_gpu"


def test_an_invalid_kernel_image_on_a_newer_gpu_is_not_of_cudnn() -> None:
    line = "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: device kernel image is invalid"
    cause = read(line, "tensorflow=2.3.0", "gpu=RTX 3090", "cudnn=8.0", "os=Ubuntu").causes[0]
    assert (cause.label, cause.confidence) == ("gpu_compute_capability_too_new", "medium")
    cause = read(line, "tensorflow=2.3.0", "gpu=Tesla V100", "cudnn=8.0", "os=Ubuntu").causes[0]
    assert (cause.label, cause.confidence) == ("gpu_compute_capability_too_new", "low")


def test_a_listed_gpu_is_not_too_old() -> None:
    listed = 'physical_device_desc: "device: 0, name: GRID K520, pci bus id: 0000:00:03.0, compute capability: 3.0"'
    assert not read(f"{listed}\n").causes
    said = "My card has compute capability 3.0. Why does TensorFlow fail?\n"
    assert "gpu_compute_capability_too_old" in [cause.label for cause in read(said).causes]
    assert "gpu_compute_capability_too_old" not in [cause.label for cause in read(f"{said}\n{listed}\n").causes]


def test_a_mismatch_beside_a_missing_dnn_library_is_not_of_the_driver() -> None:
    said, label = (
        "My TensorFlow fails on the GPU. Is that because of a version mismatch?\n",
        "driver_library_version_mismatch",
    )
    found = read(f"{said}\nRuntimeError: Unimplemented: DNN library is not found.\n").causes
    assert label not in [each.label for each in found]
    assert label in [each.label for each in read(said).causes]


def test_a_thread_that_cannot_be_created_is_a_limit() -> None:
    line = "F tsl/platform/default/env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread {} creation via pthread_create() failed."
    assert read(line.format("tf_data_private_threadpool")).causes[0].label == "task_limit"


def test_red_zones_are_checked_without_ptxas_on_windows_too() -> None:
    line = (
        "W tensorflow/stream_executor/cuda/redzone_allocator.cc:312] Internal: Invoking ptxas not supported on Windows"
    )
    log = f"{_CREATED.format('3040')}\n{line}\nRelying on driver to perform ptx compilation.\n"
    assert labels(log) == ["harmless_noise_only"]


@every("title, first", [
    ("Stuck with importerror: libcublas.so.9.0 in Colab", "cuda_toolkit_wrong_major"),
    ("Stuck with importerror: libssl.so.1.1 in Colab", "undetermined"),
    ("docker: no capabilities with [[gpu]], but the GPU is there", "container_toolkit_missing"),
])  # fmt: skip
def test_an_error_in_a_title_has_lost_its_end(title: str, first: str) -> None:
    assert read(f"{title}\n\nI use tensorflow-gpu 1.12.0. Can anyone help?\n").causes[0].label == first


def test_no_device_in_a_virtual_machine_is_no_gpu_in_it() -> None:
    log = "I run it {}, can anybody help?\n\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
    assert read(log.format("in a VM without the GPU of its host")).causes[0].label == "no_gpu_in_machine"
    assert read(log.format("on my desktop")).causes[0].label == "cuda_visible_devices_hides_gpu"


def test_a_toolkit_of_another_cuda_does_not_help_a_release_whose_cuda_is_from_pip() -> None:
    line = "I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used."
    cause = read(line, "tensorflow=2.15.1", "cuda=11.4", "os=Ubuntu (WSL)").causes[0]
    assert (cause.label, cause.confidence) == ("cuda_toolkit_wrong_major", "low")
    assert "[and-cuda]" in cause.fix
    found = [each.label for each in read(line, "tensorflow=2.15.1", "cuda=12.2", "os=Ubuntu (WSL)").causes]
    assert "cuda_toolkit_wrong_major" not in found


def test_a_library_that_fails_is_not_an_idle_gpu() -> None:
    seen_gpu = "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]"
    said = f"TensorFlow fails to use my GPU, can anyone help?\n\n{seen_gpu}\n"
    assert read(said).causes[0].label == "workload_too_small_for_gpu"
    found = [
        each.label
        for each in read(
            f"{said}DNN library initialization failed. Look at the errors above for more details.\n"
        ).causes
    ]
    assert found[0] == "cudnn_init_failed_memory"
    assert "workload_too_small_for_gpu" not in found


def test_in_jax_a_dnn_library_that_is_not_found_may_have_no_memory() -> None:
    line = "RuntimeError: UNKNOWN: Failed to determine best cudnn convolution algorithm: DNN library is not found."
    confidence = {each.label: each.confidence for each in read(line, "install_method=jax").causes}
    assert confidence["cudnn_version_mismatch"] == "low"
    confidence = {each.label: each.confidence for each in read(line, "install_method=pip").causes}
    assert confidence["cudnn_version_mismatch"] == "medium"


def test_code_that_would_print_a_message_has_not_printed_it() -> None:
    said = "No GPU detected, running on CPU."
    assert not read(f'if gpus:\n    run()\nelse:\n    print("{said}")\n').causes
    assert read(f"{said}\n").causes[0].label == "no_nvidia_driver"


def test_placements_without_a_device_are_a_list_without_gpu() -> None:
    assert "no_gpu_listed" in seen(
        "I tensorflow/core/common_runtime/direct_session.cc:284] Device mapping: no known devices."
    )


def test_a_product_that_fails_after_a_kernel_died_is_no_gpu_that_is_too_new() -> None:
    product = "E cuda_blas.cc:551] failed to run cuBLAS routine cublasSgemm_v2: CUBLAS_STATUS_EXECUTION_FAILED\n"
    died = "E cuda_driver.cc:1068] failed to synchronize the stop event: CUDA_ERROR_LAUNCH_FAILED\n"
    assert labels(product, "tensorflow=1.3.0")[0] == "gpu_compute_capability_too_new"
    assert labels(died + product, "tensorflow=1.3.0")[0] == "gpu_kernel_fault"


def test_an_allocator_of_a_gpu_is_a_gpu_in_use() -> None:
    said = "TensorFlow does not use my GPU on Windows 11, can anyone help?\n\n"
    line = next(row.example for row in KNOWLEDGE.log_signatures if row.name == "gpu_allocator")
    assert labels(said)[0] == "native_windows_no_gpu_build"
    assert labels(f"{said}{line}\n")[0] == "workload_too_small_for_gpu"


def test_a_training_that_shows_its_progress_has_not_stopped() -> None:
    added = "2018-09-18 13:03:07.512768: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1484] Adding visible gpu devices: 0"
    said = "Why is my GPU no faster than a CPU? Can anyone help?\n\n"
    assert "stopped_at_adding" in seen(f"{said}{added}\n\nThat is all.\n")
    assert "stopped_at_adding" not in seen(
        f"{said}{added}\nEpochs: 100%|##########| 300/300 [12:27<00:00,  2.49s/it]\n"
    )
