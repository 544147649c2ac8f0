"""Formats that real machines wrote, from the test data and reports of other projects (read 2026-11-22): values, not files.

Of 11 driver versions 9 were read right at first, of 31 kernel logs 24, of 2 jobs of Slurm 1 (the CPUs of the other are not
known), of 4 sets of control groups 4.
"""

from __future__ import annotations

import calendar
import re
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.container import container
from tfgpu_doctor.collect.probes.driver import parse_version
from tfgpu_doctor.collect.probes.kernel_lines import Clock, Line, read_log
from tfgpu_doctor.collect.probes.kernel_messages import RELEVANT, gather, understand
from tfgpu_doctor.collect.probes.limits import limits
from tfgpu_doctor.collect.probes.scheduler import scheduler
from tfgpu_doctor.collect.probes.system import system

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

ALL = re.compile("")


@pytest.mark.parametrize(
    ("rest", "version", "flavour"),
    [
        ("x86_64 Kernel Module  580.173.02  Tue Jun 23 08:38:17 UTC 2026", "580.173.02", "proprietary"),
        ("x86_64 Kernel Module 390.48 Thu Mar 22 00:42:57 PDT 2018", "390.48", "proprietary"),  # pasted: single spaces
        ("x86 Kernel Module  169.12  Thu Feb 14 17:53:07 PST 2008", "169.12", "proprietary"),
        ("aarch64 Kernel Module  550.120  Fri Sep 13 11:01:10 UTC 2024", "550.120", "proprietary"),
        ("Open Kernel Module for aarch64  550.144.03  Release Build  (dvs-builder@U16)  Mon Dec 30", "550.144.03", "open"),
        ("Open Kernel Module for aarch64  540.4.0  Release Build  (buildbrain@mobile-u64)  Tue Jan  7", "540.4.0", "open"),
        ("Open Kernel Module for x86_64  575.64.03  Debug Build  (me@here)  Sun 10 Aug 12:36:54 BST 2025", "575.64.03", "open"),
        ("Open Kernel Module for x86_64  555.42.06  Release Build  (abuild@host)  Thu Jul 11", "555.42.06", "open"),  # SUSE
        ("Open Kernel Module for aarch64  580.173.02\n", "580.173.02", "open"),
        ("Open Kernel Module for aarch64 550.90.07", "550.90.07", "open"),
        ("Open Kernel Module 580.65", "580.65", "open"),
    ],
)  # fmt: skip
def test_the_version_of_the_driver(rest: str, version: str, flavour: str) -> None:
    compiler = "" if rest.endswith(("07", "65")) else "\nGCC version:  gcc version 13.3.0\n"
    assert parse_version(f"NVRM version: NVIDIA UNIX {rest}{compiler}") == (version, flavour)


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "off_the_bus", "0000:01:00.0"),  # driver 331
        ("NVRM: This can occur when a driver such as: ", "taken_by_another", ""),  # before 430
        ("NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)", "init_failed", "0000:98:00.0"),
        ("pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
         "pci_fatal", "0000:00:03.0"),
        ("nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 24007, Severity 1 Engine instance 12 Sub-engine instance 00",
         "sxid", "0000:aa:00.0"),
    ],
)  # fmt: skip
def test_messages_of_older_drivers_and_kernels(text: str, kind: str, place: str) -> None:
    found = understand(Line(text))
    assert found and (found.kind, found.pci_address) == (kind, place)


def test_an_unknown_process_has_no_name() -> None:
    found = understand(Line("NVRM: Xid (PCI:0000:0a:00): 62, pid='<unknown>', name=<unknown>, 2023b230 20238a3a"))
    assert found and (found.code, found.process) == (62, "")


@pytest.mark.parametrize(
    "moment",
    [
        "2025-01-17T17:39:30+0000",
        "2025-01-17T18:39:30+01:00",
        "2025-01-17T17:39:30.123456789Z",
        "2025-01-17T17:39:30,12+00:00",
    ],
)
def test_the_moments_of_journalctl_and_dmesg(moment: str) -> None:
    now = calendar.timegm((2025, 1, 17, 17, 40, 30))
    (line,) = read_log(f"{moment} exp03.lan kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU", ALL, Clock(now)).lines
    assert line.age_s is not None
    assert 59.0 <= line.age_s <= 60.0


def test_an_older_kernel_prints_a_fault_of_the_iommu_in_two_lines() -> None:
    rows = (
        "Oct 18 10:00:00 host kernel: [  221.562629] AMD-Vi: Event logged [",
        "Oct 18 10:00:00 host kernel: [  221.565929] IO_PAGE_FAULT device=05:00.0 domain=0x0012 address=0x00000000ff6101b0",
    )
    messages, _ = gather(read_log("\n".join(rows), RELEVANT, Clock(0.0)).lines)
    assert [(each.kind, each.pci_address, each.count) for each in messages] == [("iommu_fault", "05:00.0", 1)]


def test_an_older_dmesg_prints_the_rest_of_a_message_without_a_prefix() -> None:
    rows = (
        "[15280.304871] NVRM: The NVIDIA Tesla M2070 GPU installed in this system is",
        "NVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please",
        "NVRM:  this GPU.  Continuing probe...",
        "[15280.304900] NVRM: No NVIDIA graphics adapter found!",
    )
    log = read_log("\n".join(rows), ALL, Clock(0.0))
    messages, _ = gather(log.lines)
    assert [(each.kind, each.count) for each in messages] == [("legacy_gpu", 1)]
    assert len(log.lines) == 2


def test_a_batch_step_of_slurm_with_one_a100(machine: Machine) -> None:
    variables = {
        "CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "89533", "SLURM_JOB_GPUS": "0", "SLURM_GPUS_ON_NODE": "1",
        "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "4", "SLURM_TRES_PER_TASK": "cpu=4", "SLURM_PROCID": "0",
    }  # fmt: skip
    found = machine.ask(scheduler, environment=variables)
    assert (found.kind, found.job, found.cpus, found.denied) == ("slurm", "89533", 4, {})
    assert found.granted["SLURM_JOB_GPUS"] == "0"


def test_an_interactive_step_of_slurm_with_one_h100(machine: Machine) -> None:
    variables = {
        "CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "0", "GPU_DEVICE_ORDINAL": "0", "ZE_AFFINITY_MASK": "0",
        "SLURM_JOB_ID": "1884900", "SLURM_JOB_GPUS": "0", "SLURM_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
        "SLURM_CPUS_ON_NODE": "8", "SLURM_STEP_ID": "4294967290", "SLURM_STEPID": "4294967290",
    }  # fmt: skip
    found = machine.ask(scheduler, environment=variables)
    assert (found.kind, found.job, found.step) == ("slurm", "1884900", "4294967290")
    assert found.granted["SLURM_JOB_GPUS"] == "0"
    assert found.denied == {}


POWER9 = (
    *(
        "11:memory:/",
        "10:pids:/",
        "9:cpu,cpuacct:/",
        "8:blkio:/",
        "7:cpuset:/jjh",
        "6:hugetlb:/",
        "5:net_cls,net_prio:/",
    ),
    *("4:devices:/", "3:freezer:/", "2:perf_event:/", "1:name=systemd:/user.slice/user-5183288.slice/session-6.scope"),
)


@pytest.mark.parametrize(
    ("lines", "version"),
    [(POWER9, 1), (("0::/user.slice/user-61469.slice/session-3210.scope",), 2)],
    ids=["POWER9 with six V100", "DGX Spark"],
)
def test_control_groups_outside_of_a_container(machine: Machine, lines: tuple[str, ...], version: int) -> None:
    machine.file("/proc/self/status", "Cpus_allowed_list:\t0-19\n")
    machine.file("/proc/self/cgroup", "\n".join(lines) + "\n")
    found = machine.ask(limits)
    assert (found.cgroup_version, found.cpu_list, found.device_rules) == (version, "0-19", ())
    assert machine.ask(container).kind == ""


@pytest.mark.parametrize(
    "rules", [("c 195:254 rw", "c 195:0 rw"), ("c 195:* m",)], ids=["before", "lost after a reload"]
)
def test_the_device_rules_of_a_container_with_version_1(machine: Machine, rules: tuple[str, ...]) -> None:
    machine.file("/proc/self/status", "Cpus_allowed_list:\t0-3\n")
    machine.file("/proc/self/cgroup", "9:devices:/kubepods/pod1/a\n")
    machine.file(
        "/proc/self/mountinfo", "40 30 0:30 /kubepods/pod1/a /sys/fs/cgroup/devices ro - cgroup cgroup rw,devices\n"
    )
    machine.file("/sys/fs/cgroup/devices/devices.list", "\n".join(rules) + "\n")
    assert machine.ask(limits).device_rules == rules


def test_a_processor_without_avx(machine: Machine) -> None:
    flags = "fpu sse sse2 pni monitor cx16 popcnt lahf_lm cmp_legacy svm sse4a misalignsse 3dnowprefetch"
    machine.file("/proc/cpuinfo", f"model name\t: AMD Opteron(tm) Processor 6134\nflags\t\t: {flags}\n")
    found = machine.ask(system)
    assert (found.cpu_model, found.cpu_flags) == ("AMD Opteron(tm) Processor 6134", ())
