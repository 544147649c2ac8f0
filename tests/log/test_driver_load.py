"""What the kernel says before the driver is loaded: the driver probes the GPUs first, and says then that it loads."""

from __future__ import annotations

import io

from every import every

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.classification import classify
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.signatures import Scanner

KNOWLEDGE = read_knowledge()
BEGINS = "[14386.100000] nvidia-nvlink: Nvlink Core is being initialized, major device number 235\n"
ENDS = "[14391.100000] nvidia-nvlink: Unregistered Nvlink Core, major device number 235\n"
LOADS = "[14387.274366] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.125.06  Tue May 30 05:11:37 UTC 2023\n"
BOOTS = "May 01 10:00:00 node kernel: Linux version 5.15.0-107-generic (buildd@lcy02-amd64-017)\n"
LOST = """\
[14387.209961] NVRM: The NVIDIA GPU 0000:5d:00.0
               NVRM: (PCI ID: 10de:2330) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[14387.210134] nvidia: probe of 0000:5d:00.0 failed with error -1
[14387.274303] NVRM: The NVIDIA probe routine failed for 1 device(s).
"""
UNSUPPORTED = """\
[   12.209961] NVRM: The NVIDIA GPU 0000:5d:00.0 (PCI ID: 10de:1040)
               NVRM: installed in this system is not supported by the
               NVRM: NVIDIA 535.54.03 driver release.
               NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'
[   12.274303] NVRM: The NVIDIA probe routine failed for 1 device(s).
"""
NOT_BY_OPEN = """\
[   12.209961] NVRM: The NVIDIA GPU 0000:5d:00.0 (PCI ID: 10de:1db1)
               NVRM: installed in this system is not supported by open
               NVRM: nvidia.ko because it does not include the required GPU
               NVRM: System Processor (GSP).
"""
LEGACY = """\
[   12.209961] NVRM: The NVIDIA GeForce 210 GPU installed in this system is
               NVRM:  supported through the NVIDIA 340.xx Legacy drivers. Please
               NVRM:  visit http://www.nvidia.com/object/unix.html for more
"""
NO_MEMORY = """\
[   12.209961] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:
               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:5d:00.0)
"""
NONE_LEFT = "[14387.274366] NVRM: None of the NVIDIA devices were initialized.\n"
XID = "[  900.000000] NVRM: Xid (PCI:0000:5d:00): 79, pid=1, GPU has fallen off the bus.\n"
AT_WORK = (
    "[  900.000001] NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus.\n",
    "[  900.000001] NVRM: GPU 0000:5d:00.0: RmInitAdapter failed! (0x26:0x56:1482)\n",
    "[  900.000001] NVRM: API mismatch: the client has the version 535.54.03, but\n",
    "[  900.000001] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 10003, Fatal, Link 32\n",
)
DEVICE = (
    "2024-05-01 10:00:01.234567: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1928] Created device "
    "/job:localhost/replica:0/task:0/device:GPU:0 with 22134 MB memory:  -> device: 0, name: NVIDIA GeForce RTX 3090, "
    "pci bus id: 0000:01:00.0, compute capability: 8.6\n"
)


def labels(log: str) -> list[str]:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    report = classify(scanner.found, Context({}), KNOWLEDGE, scanner.lines, scanner.kept.texts())
    return [cause.label for cause in report.causes]


@every("before", ["", BEGINS, XID, XID + ENDS + BEGINS, BOOTS, LOADS, BOOTS + LOADS + XID])
def test_a_gpu_that_does_not_answer_the_probe_is_told(before: str) -> None:
    assert labels(before + LOST + LOADS) == ["gpu_lost"]


@every(
    "said, label",
    [
        (LOST, "gpu_lost"),
        (UNSUPPORTED, "driver_does_not_support_gpu"),
        (NOT_BY_OPEN, "driver_does_not_support_gpu"),
        (LEGACY, "driver_does_not_support_gpu"),
        (NO_MEMORY, "undetermined"),
    ],
    key=lambda said, label: said,
    least=5,
)
def test_what_the_probe_says_of_a_gpu_is_told_where_another_gpu_loads(said: str, label: str) -> None:
    assert labels(said + LOADS) == labels(said) == [label]


@every("said", [UNSUPPORTED, LEGACY, NOT_BY_OPEN])
def test_a_gpu_that_the_driver_does_not_support_is_no_cause_where_tensorflow_has_another(said: str) -> None:
    assert labels(said + LOADS + DEVICE) == []


def test_a_lost_gpu_is_a_cause_even_if_tensorflow_has_another() -> None:
    assert labels(LOST + LOADS + DEVICE) == ["gpu_lost"]


@every("between", [LOADS, BOOTS, BEGINS, ENDS, NONE_LEFT, NONE_LEFT + ENDS + BEGINS])
def test_what_an_earlier_probe_said_does_not_matter(between: str) -> None:
    assert labels(LOST + between + LOADS) == []


@every("said", [XID, *AT_WORK])
def test_what_the_driver_said_at_work_before_it_was_loaded_again_does_not_matter(said: str) -> None:
    assert labels(said + LOADS) == labels(said + BEGINS + LOADS) == []
    assert labels(LOADS + said) != []


def test_what_the_driver_said_before_the_machine_was_started_again_does_not_matter() -> None:
    assert labels(LOST + LOADS + XID + BOOTS) == []
