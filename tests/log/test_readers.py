"""The outputs of other tools in a text become the facts of the machine that they were made on."""

from __future__ import annotations

import datetime as dt
import pathlib
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfgpu_doctor.log.readers import Documents, read_documents
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts
from tfgpu_doctor.model.facts.nvidia import NvmlGpu

MIB = 1 << 20
TABLE_375 = """\
Mon Mar  6 10:11:12 2017
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 375.39                 Driver Version: 375.39                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 107...  Off  | 0000:04:00.0      On |                  N/A |
| 27%   41C    P8    11W / 151W |    310MiB /  8113MiB |      3%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla K80           On   | 0000:05:00.0     Off |                    2 |
| N/A   52C    P0   139W / 149W |  11000MiB / 11439MiB |     98%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|    0      1201    G   /usr/lib/xorg/Xorg                             290MiB |
|    1     22017    C   ...da3/envs/my env/bin/python                10940MiB |
+-----------------------------------------------------------------------------+
"""
TABLE_550 = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   31C    P0             45W /  400W |      87MiB /  40960MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  ERR!                           On  |   00000000:0B:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!             ERR! / ERR!  |   Unknown Error        |     ERR!        ERR! |
|                                         |                        |                 ERR! |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |
|==================+==================================+===========+=======================|
|  0    3   0   0  |              37MiB /  9984MiB    | 28      0 |  2   0    1    0    0 |
|                  |                 0MiB / 16383MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    3    0      41022    C+G   python3                                       30MiB  |
|    0   N/A  N/A     41023      C   Insufficient Permissions                        N/A  |
+-----------------------------------------------------------------------------------------+
"""
TABLE_610 = """\
| NVIDIA-SMI 610.44                 KMD Version: 610.44        CUDA UMD Version: 13.3     |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   39C    P8              4W /  N/A  | Not Supported          |      0%   Prohibited |
|                                         |                        |            Disabled* |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
QUERY = """\
==============NVSMI LOG==============

Timestamp                                 : Tue Sep  3 08:00:00 2024
Driver Version                            : 535.104.12
CUDA Version                              : 12.2

Attached GPUs                             : 4
GPU 00000000:3B:00.0
    Product Name                          : Tesla V100-PCIE-32GB
    Persistence Mode                      : Disabled
    MIG Mode
        Current                           : N/A
    GPU UUID                              : GPU-aaaa1111-2222-3333-4444-555566667777
    Minor Number                          : 2
    GPU Virtualization Mode
        Virtualization Mode               : VGPU
    vGPU Software Licensed Product
        License Status                    : Unlicensed (Restricted)
    GPU Reset Status
        Reset Required                    : Yes
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 3
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 4x
        Replays Since Reset               : 5
    Performance State                     : P2
    Clocks Throttle Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    FB Memory Usage
        Total                             : 32768 MiB
        Free                              : 1024 MiB
    Compute Mode                          : Exclusive_Process
    Utilization
        Gpu                               : 97 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Disabled
    ECC Errors
        Volatile
            Single Bit
                Total                     : 7
            Double Bit
                Device Memory             : 1
                Total                     : 3
        Aggregate
            SRAM Uncorrectable Parity     : 1
            SRAM Uncorrectable SEC-DED    : 2
            DRAM Uncorrectable            : 4
            SRAM Threshold Exceeded       : Yes
    Retired Pages
        Single Bit ECC                    : 2
        Double Bit ECC                    : 1
        Pending Page Blacklist            : Yes
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 6
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 88 C
        GPU Slowdown Temp                 : 87 C
        GPU Slowdown T.Limit Temp         : -2 C
        GPU T.Limit Temp                  : -1 C
    Power Readings
        Power Draw                        : 120.50 W
        Power Limit                       : 150.00 W
        Default Power Limit               : 250.00 W
        Enforced Power Limit              : 140.00 W
    Fabric
        State                             : In Progress
        Status                            : N/A
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 900
            Type                          : C
            Name                          : python
            Used GPU Memory               : 31000 MiB
        GPU instance ID                   : N/A
        Process ID                        : 901
            Type                          : G
            Name                          : Xorg
            Used GPU Memory               : [Insufficient Permissions]

that is all
"""
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>560.28.03</driver_version>
  <cuda_version>12.6</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:C1:00.0">
    <product_name>NVIDIA H100 PCIe</product_name>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <mig_devices>
      <mig_device><gpu_instance_id>1</gpu_instance_id><fb_memory_usage><total>9984 MiB</total></fb_memory_usage></mig_device>
      <mig_device><gpu_instance_id>2</gpu_instance_id><fb_memory_usage><total>9984 MiB</total></fb_memory_usage></mig_device>
    </mig_devices>
    <gpu_recovery_action>Reset</gpu_recovery_action>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_display_clocks_setting>Active</clocks_event_reason_display_clocks_setting>
    </clocks_event_reasons>
    <fb_memory_usage><total>81559 MiB</total><free>80000 MiB</free></fb_memory_usage>
    <ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
    <ecc_errors><volatile>
      <sram_uncorrectable_parity>1</sram_uncorrectable_parity><dram_uncorrectable>2</dram_uncorrectable>
    </volatile></ecc_errors>
    <temperature><gpu_temp>60 C</gpu_temp></temperature>
    <processes><process_info><pid>77</pid><type>C</type><process_name>a &amp; b</process_name></process_info></processes>
  </gpu>
</nvidia_smi_log>
"""
LIST = """\
GPU 0: NVIDIA H100 PCIe (UUID: GPU-12121212-0000-1111-2222-333333333333)
  MIG 1g.10gb     Device  0: (UUID: MIG-abababab-0000-1111-2222-333333333333)
  MIG 1g.10gb     Device  1: (UUID: MIG-cdcdcdcd-0000-1111-2222-333333333333)
"""
PIP = """\
Package                Version     Editable project location
---------------------- ----------- -------------------------
absl-py                2.1.0
My_Tool                0.3         /home/me/my tool
nvidia-cudnn-cu12      8.9.4.25
tensorflow             2.15.0.post1

Thanks 4 reading
"""
FREEZE = "$ pip freeze\nabsl-py==1.0.0\ntorch @ file:///tmp/torch-2.0-cp310.whl\nTensorFlow_GPU==2.6.0\n"
CONDA = """\
# packages in environment at /opt/conda/envs/tf:
#
# Name                    Version                   Build  Channel
_libgcc_mutex             0.1                        main
cudatoolkit               11.2.2              hbe64b41_10    conda-forge
ca-certificates           2024.7.2             h06a4308_0
numpy                     1.23.5          py310h5f9d8c6_0
tensorflow-base           2.10.0          mkl_py310hb9daa73_0
tensorflow                2.9.3                    pypi_0    pypi
"""
LSPCI = """\
00:00.0 Host bridge [0600]: Intel Corporation Device [8086:3e30] (rev 0a)
01:00.0 VGA compatible controller [0300]: NVIDIA Corporation TU106 [GeForce RTX 2070] [10de:1f02] (rev a1) (prog-if 00)
\tSubsystem: Some Vendor Device [1458:37c5]
\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM L0s L1
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\tKernel driver in use: nouveau
01:00.1 Audio device [0403]: NVIDIA Corporation TU106 High Definition Audio Controller [10de:10f9] (rev a1)
"""
UNAME = (
    "Linux box 5.15.90.1-microsoft-standard-WSL2 #1 SMP Fri Jan 27 02:56:13 UTC 2023 x86_64 x86_64 x86_64 GNU/Linux\n"
)
SYSTEM = f"""\
NAME="Ubuntu"
PRETTY_NAME="Ubuntu 22.04.4 LTS"
{UNAME}os platform: Linux-5.15.90.1-microsoft-standard-WSL2-x86_64-with-glibc2.35
"""
DOCKER = """\
Server:
 Server Version: 24.0.7
 Runtimes: io.containerd.runc.v2 nvidia runc
 Default Runtime: runc
 Kernel Version: 6.1.0-18-amd64
 Operating System: Debian GNU/Linux 12 (bookworm)
 Architecture: x86_64
"""
ENVIRONMENT = """\
== check python ===================================================
python version: 3.7.4

== check pips ===================================================
numpy                1.17.2
tensorflow-gpu       2.0.0

== cuda libs  ===================================================
/usr/local/cuda-10.0/lib64/libcudart.so.10.0.130

== tensorflow installed from info ==================
Name: tensorflow-gpu
Version: 2.0.0
Summary: TensorFlow is an open source machine learning framework.
Location: /opt/venv/lib/python3.7/site-packages
"""
KERNEL = """\
[Tue Feb  4 10:00:00 2025] NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[Tue Feb  4 10:30:00 2025] usb 1-2: new device
"""
LDD = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibcudart.so.12 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n"
ALL = (TABLE_375, TABLE_550, QUERY, XML, LIST, PIP, FREEZE, CONDA, LSPCI, SYSTEM, DOCKER, ENVIRONMENT, KERNEL, LDD)


def gpus(text: str) -> tuple[NvmlGpu, ...]:
    nvml = read_documents(text).nvml
    assert nvml is not None and nvml.attempt.answered
    return nvml.gpus


def test_old_table() -> None:
    read = read_documents(TABLE_375)
    one, two = gpus(TABLE_375)
    assert (read.driver_version, read.driver_cuda, read.sources) == ("375.39", "", {"nvidia-smi": 3})
    assert (one.name, one.pci_address, one.memory_free_bytes) == ("GeForce GTX 107...", "0000:04:00.0", 7803 * MIB)
    assert (one.health.ecc, one.mig, one.processes[0].computes, one.health.throttle_reasons) == (
        None,
        None,
        False,
        None,
    )
    assert two.health.ecc and two.health.ecc.volatile_uncorrected == 2 and two.compute_mode == "exclusive_process"
    assert (two.processes[0].name, two.processes[0].memory_bytes) == ("...da3/envs/my env/bin/python", 10940 * MIB)
    assert (two.health.power.enforced_limit_w, two.health.utilization_percent, two.health.performance_state) == (
        149,
        98,
        0,
    )


def test_table_with_mig_and_lost_gpu() -> None:
    nvml = read_documents(TABLE_550).nvml
    assert nvml and nvml.count == 2 and nvml.driver_version == "550.90.07"
    one, two = nvml.gpus
    assert one.mig and one.health.mig_pending and one.health.mig_devices[0].multiprocessors == 28
    assert [(each.pid, each.name, each.memory_bytes) for each in one.processes] == [
        (41022, "python3", 30 * MIB),
        (41023, "", None),
    ]
    assert [(each.index, each.error_code) for each in nvml.troubles] == [(1, 999)] and two.memory_total_bytes is None


def test_new_table_without_memory() -> None:
    read = read_documents(TABLE_610)
    (gpu,) = gpus(TABLE_610)
    assert (read.driver_version, read.driver_cuda, gpu.compute_mode) == ("610.44", "13.3", "prohibited")
    assert (gpu.memory_total_bytes, gpu.mig, gpu.health.mig_pending, gpu.processes) == (None, False, True, ())


def test_query() -> None:
    (gpu,) = gpus(QUERY)
    health = gpu.health
    assert (gpu.index, gpu.uuid[:8], gpu.compute_mode, gpu.mig) == (2, "GPU-aaaa", "exclusive_process", None)
    assert health.throttle_reasons == ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown")
    assert health.ecc and (health.ecc.volatile_corrected, health.ecc.volatile_uncorrected) == (7, 3)
    assert (health.ecc.aggregate_uncorrected, health.ecc.aggregate_corrected, health.ecc.pending) == (7, None, False)
    assert health.ecc.sram_threshold_exceeded and health.retired_pages and health.retired_pages.pending
    assert health.remapped_rows and health.remapped_rows.pending and not health.remapped_rows.failed
    assert (health.temperature.slowdown_c, health.temperature.margin_c, health.recovery_action) == (87, -1, "gpu_reset")
    assert (health.pcie.generation, health.pcie.width, health.pcie.max_width, health.pcie.replays) == (1, 4, 16, 5)
    assert health.fabric and (health.fabric.state, health.licensed, health.persistence_mode) == (
        "in_progress",
        False,
        False,
    )
    assert [(each.pid, each.computes, each.memory_bytes) for each in gpu.processes] == [
        (900, True, 31000 * MIB),
        (901, False, None),
    ]


@pytest.mark.parametrize("text", [QUERY, XML, TABLE_375])
def test_a_cut_changes_no_value(text: str) -> None:
    (*_, full) = gpus(text)
    for end in range(len(text)):
        nvml = read_documents(text[:end]).nvml
        for gpu in nvml.gpus if nvml else ():
            if gpu.pci_address == full.pci_address:
                kept = msgspec.structs.replace(gpu, index=0, processes=(), mig_devices=())
                assert_part_of(kept, full)


def assert_part_of(one: object, whole: object) -> None:
    if isinstance(one, msgspec.Struct):
        for name in one.__struct_fields__:
            value = getattr(one, name)
            if value not in (None, "", ()) and name not in ("index", "mig_devices"):
                if name == "throttle_reasons":
                    assert set(value) <= set(getattr(whole, name))
                else:
                    assert_part_of(value, getattr(whole, name))
    else:
        assert one == whole


def test_xml_with_list() -> None:
    (gpu,) = gpus(XML + LIST)
    assert gpu.mig_devices == ("MIG-abababab-0000-1111-2222-333333333333", "MIG-cdcdcdcd-0000-1111-2222-333333333333")
    assert [(each.profile, each.gpu_instance) for each in gpu.health.mig_devices] == [("1g.10gb", 1), ("1g.10gb", 2)]
    assert (gpu.uuid[:8], gpu.health.recovery_action) == ("GPU-1212", "gpu_reset")
    assert gpu.health.throttle_reasons == ("display_clock_setting",) and gpu.processes[0].name == "a & b"
    assert gpu.health.ecc and (gpu.health.ecc.volatile_uncorrected, gpu.health.ecc.volatile_corrected) == (3, None)


def test_xml_with_entities_is_not_read() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n<nvidia_smi_log><gpu id="1"><name>&b;</name></gpu>'
    assert read_documents(bomb + "</nvidia_smi_log>").nvml is None


@pytest.mark.parametrize(
    ("line", "code", "index", "address"),
    [
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system",
            15,
            2,
            "0000:02:00.0",
        ),
        ("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error", 999, 1, "0000:34:00.0"),
        ("Unable to determine the device handle for GPU0000:08:00.0: Unknown Error", 999, 2, "0000:08:00.0"),
    ],
)
def test_gpu_without_handle(line: str, code: int, index: int, address: str) -> None:
    nvml = read_documents(f"{TABLE_375}\n{line}\n").nvml
    assert nvml and [(each.error_code, each.index, each.pci_address) for each in nvml.troubles] == [
        (code, index, address)
    ]


def test_of_gpus_without_a_handle_each_has_a_number_of_its_own() -> None:
    lost = "Unable to determine the device handle for GPU"
    nvml = read_documents(f"{lost}0: 0000:34:00.0: Unknown Error\n{lost}0000:08:00.0: Unknown Error\n").nvml
    assert nvml and [(each.index, each.pci_address) for each in nvml.troubles] == [
        (0, "0000:34:00.0"), (1, "0000:08:00.0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["Uncorrectable Error               : 6", "Pending                           : Yes", "Remapping Failure Occurred        : No"],
)  # fmt: skip
def test_remapped_rows_are_told_only_as_a_whole(line: str) -> None:
    assert QUERY.count(f"        {line}\n") == 1
    (gpu,) = gpus(QUERY.replace(f"        {line}\n", ""))
    assert gpu.health.remapped_rows is None


def test_failures_of_nvidia_smi() -> None:
    mismatch = read_documents("> Failed to initialize NVML: Driver/library version mismatch\n").nvml
    assert mismatch and mismatch.error_code == 18 and not mismatch.works
    none = read_documents("No devices were found\r\n").nvml
    assert none and none.works and none.count == 0
    working = read_documents(f"{TABLE_375}\nFailed to initialize NVML: Unknown Error\n").nvml
    assert working and working.works


def test_packages() -> None:
    pip, freeze, conda = (read_documents(text) for text in (PIP, FREEZE, CONDA))
    assert [each.name for each in pip.distributions] == ["absl-py", "my-tool", "nvidia-cudnn-cu12", "tensorflow"]
    assert pip.distributions[-1].version == "2.15.0.post1" and pip.all_distributions and freeze.all_distributions
    assert [each.name for each in freeze.distributions] == ["absl-py", "tensorflow-gpu"]
    assert [(each.name, each.installer) for each in conda.distributions] == [("numpy", "conda"), ("tensorflow", "pip")]
    assert conda.conda_packages == {
        "cudatoolkit": "11.2.2 hbe64b41_10",
        "tensorflow-base": "2.10.0 mkl_py310hb9daa73_0",
    }
    assert read_documents("tensorflow==2.4\nnumpy==1.19\n").distributions == ()
    some = read_documents("$ pip list | grep tensor\ntensorflow    2.4.1\n")
    assert [each.version for each in some.distributions] == ["2.4.1"] and not some.all_distributions


def test_bus() -> None:
    pci = read_documents(LSPCI).pci
    assert pci and pci.device_count == 3 and len(pci.devices) == 2
    (gpu,) = pci.nvidia_gpus
    assert (gpu.address, gpu.device, gpu.class_code, gpu.driver) == ("0000:01:00.0", "1f02", "030000", "nouveau")
    assert gpu.link and (gpu.link.speed_gt_per_s, gpu.link.width, gpu.link.max_width) == (2.5, 8, 16)
    excerpt = "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 630\n"
    assert read_documents(excerpt).pci is None  # no evidence that there is no GPU of NVIDIA
    whole = (
        LSPCI.splitlines()[0]
        + "\n"
        + excerpt
        + "".join(f"00:1{n}.0 USB controller: Intel Corporation x\n" for n in range(8))
    )
    assert (found := read_documents(whole).pci) and found.nvidia_gpus == ()


def test_system() -> None:
    system = read_documents(SYSTEM).system
    assert system and (system.os, system.distribution, system.glibc, system.wsl) == (
        "Linux",
        "Ubuntu 22.04.4 LTS",
        "2.35",
        2,
    )
    docker = read_documents(DOCKER)
    assert docker.docker_runtimes == ("io.containerd.runc.v2", "nvidia", "runc") and docker.system
    assert (docker.system.release, docker.system.architecture) == ("6.1.0-18-amd64", "x86_64")
    collected = read_documents(ENVIRONMENT)
    assert (collected.python_version, len(collected.library_files)) == ("3.7.4", 1)
    assert [(each.name, each.version) for each in collected.distributions] == [
        ("numpy", "1.17.2"),
        ("tensorflow-gpu", "2.0.0"),
    ]
    assert read_documents("Description:\tUbuntu\n").system is None


def test_the_first_python_version_counts() -> None:
    text = "== python version  ====\n(3, 7, 4, 'final', 0)\n\n== python version  ====\n(3, 9, 1, 'final', 0)\n"
    assert read_documents(text).python_version == "3.7.4"
    assert read_documents("== check pips  ====\n(3, 9, 1) of something\n").python_version == ""


def test_the_lines_around_the_runtimes_of_docker_are_read_from_the_first_one_on() -> None:
    lines = sorted(DOCKER.splitlines(keepends=True)[1:])
    assert lines[0] == " Architecture: x86_64\n"
    system = read_documents("".join(lines)).system
    assert system and (system.release, system.architecture) == ("6.1.0-18-amd64", "x86_64")


@pytest.mark.parametrize(
    ("text", "age"),
    [
        (KERNEL, 1800.0),
        ("[  100.000001] NVRM: Xid (PCI:0000:65:00): 79, x\n[  160.000001] usb 1-2: new device\n", 60.0),
        (
            "Feb  4 10:00:00 box kernel: [1.5] NVRM: Xid (PCI:0000:65:00): 79, x\nFeb  4 10:00:30 box kernel: usb\n",
            30.0,
        ),
        ("kern  :err   : 2025-01-21T02:21:33,498559+00:00 NVRM: Xid (PCI:0000:65:00): 79, x\n", 0.0),
        ("NVRM: Xid (PCI:0000:65:00): 79, x\n", 0.0),
        ("10.0.0.9: kern:     err: [2026-04-22T21:25:20.466440686Z]: NVRM: Xid (PCI:0000:65:00): 79, x\n", 0.0),
        (
            " kern: warning: [2026-04-22T21:25:20.5Z]: NVRM: Xid (PCI:0000:65:00): 79, x\n"
            "kern: info: [2026-04-22T21:25:50.5Z]: usb 1-2: new\n",
            30.0,
        ),
        ("[  +0.000316] NVRM: Xid (PCI:0000:65:00): 79, x\n[  +9.000005] usb 1-2: new device\n", 0.0),
        ("[Feb23 16:24] NVRM: Xid (PCI:0000:65:00): 79, x\n", 0.0),
        (
            "[  100.000001 <    0.000316>] NVRM: Xid (PCI:0000:65:00): 79, x\n[  160.000001 <   60.0>] usb\n"
            "[  160.000001 <   60.000000>] usb\n",
            60.0,
        ),
    ],
)
def test_kernel_log(text: str, age: float) -> None:
    log = read_documents("some words\n" + text).kernel_log
    assert log and [(each.code, each.pci_address, each.last_age_s) for each in log.messages] == [
        (79, "0000:65:00", age)
    ]
    assert log.reach


def test_ages_count_from_the_newest_line_even_if_its_clock_is_ahead() -> None:
    later = dt.datetime.now() + dt.timedelta(hours=10)
    rows = [f"{later - dt.timedelta(seconds=age):%Y-%m-%dT%H:%M:%S} box kernel: {text}" for age, text in
            ((90, "NVRM: Xid (PCI:0000:65:00): 79, x"), (0, "usb 1-2: new device"))]  # fmt: skip
    log = read_documents("\n".join(rows)).kernel_log
    assert log and [each.last_age_s for each in log.messages] == [90.0]


def test_a_long_message_in_lines_of_its_own_is_one() -> None:
    text = "NVRM: This can occur when a driver such as: \nNVRM: nouveau, rivafb\nNVRM: was loaded and obtained ownership.\n"
    log = read_documents(text + "NVRM: Try unloading it.\n").kernel_log
    assert log and log.messages[0].text.endswith("such as: nouveau, rivafb was loaded and obtained ownership.")


def test_indented_lines_belong_to_the_kernel_message_before_them() -> None:
    text = (
        "[  100.000001] NVRM: The NVIDIA GPU 0000:65:00.0 (PCI ID: 10de:1eb8)\n"
        "               NVRM: installed in this system is not supported by the\n"
        "               NVRM: NVIDIA 595.45.04 driver release.\n"
        "[  101.000001] usb 1-2: new device\n"
    )
    log = read_documents(text).kernel_log
    assert log and [(each.kind, each.pci_address) for each in log.messages] == [("unsupported_gpu", "0000:65:00.0")]
    assert log.messages[0].text.endswith("is not supported by the NVIDIA 595.45.04 driver release.")


def test_values_that_were_cut_out_do_not_end_the_output() -> None:
    text = "GPU 00000000:10:1C.0\n    Product Name : NVIDIA A100\n    [...]\n    Compute Mode : Prohibited\n    Last : 1\n\n"
    nvml = read_documents(text).nvml
    assert nvml and nvml.gpus[0].compute_mode == "prohibited"


def test_text_without_documents() -> None:
    text = "I ran nvidia-smi and pip list. | a | b |\n[0.5] loss\nName: me\nGPU 0: fast\nlibfoo.so not found\n12:15.3 x: y\n"
    assert read_documents(text) == Documents()
    assert read_documents("[  1.000000] usb 1-2: new device\n").kernel_log is None
    assert read_documents("Of the NVSMI LOG I know:\nDriver Version : 535.104.12\n\n").driver_version == ""


@pytest.mark.parametrize("text", [TABLE_550, QUERY, CONDA, LSPCI])
def test_blanks_of_a_web_page_are_blanks(text: str) -> None:
    assert read_documents(text.replace(" ", "\xa0")) == read_documents(text)


@pytest.mark.parametrize(
    "prefix", ["> ", "    ", "> > ", "2024-01-01T10:00:00.1234567Z ", "# ", "> 2024-01-01T10:00:00Z "]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quoted_indented_dated(prefix: str, end: str) -> None:
    for text in (TABLE_375, TABLE_550, QUERY, XML, LIST, PIP, CONDA, LSPCI, SYSTEM, LDD):
        if prefix == "# " and "|==" not in text:
            continue  # only tables are also found in comments
        plain, marked = (
            read_documents(text),
            read_documents("".join(f"{prefix}{line}{end}" for line in text.splitlines())),
        )
        assert marked == plain


def test_all_together_survive_a_record() -> None:
    read = read_documents("```\n".join(ALL))
    assert read.missing_libraries == ("libcudart.so.12",)
    assert len(read.sources) == 16 and list(read.sources.values()) == sorted(read.sources.values())
    facts = Facts(nvml=read.nvml, pci=read.pci, system=read.system, kernel_log=read.kernel_log)
    assert decode_facts(encode_facts(facts)) == facts


@settings(max_examples=150, deadline=None)
@given(st.text() | st.text(alphabet="|+- 0123456789:.=>[]()<\nGPUNVIDIAxN/A%MiB"))
def test_any_text(text: str) -> None:
    read_documents(text)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(ALL), st.integers(0, 6000), st.integers(0, 6000), st.text(max_size=5))
def test_any_cut(text: str, start: int, end: int, between: str) -> None:
    read = read_documents(text[start:] + text[:end] + between + text[end + 1 :])
    encode_facts(Facts(nvml=read.nvml, pci=read.pci, system=read.system, kernel_log=read.kernel_log))


def test_large_texts_take_linear_time() -> None:
    begun = time.process_time()
    for line in (
        *TABLE_375.splitlines()[2:9],
        "<nvidia_smi_log><gpu>",
        "GPU 00000000:3B:00.0",
        "Name: x",
        "a==1",
        "a (1)",
        "| " * 2000,
    ):
        read_documents(f"{line}\n" * (200_000 // (len(line) + 1)))
    assert time.process_time() - begun < 30


def test_captures_of_real_machines(shared: pathlib.Path) -> None:
    captures = shared / "captures"
    if not captures.is_dir():
        pytest.skip("../shared/captures is not there")
    hot = gpus((captures / "gpud/nvidia-smi-q-8xh100-535.161.08.txt").read_text())
    assert len(hot) == 8 and all("hw_power_brake_slowdown" in (gpu.health.throttle_reasons or ()) for gpu in hot)
    for path in (*captures.glob("telegraf/*.xml"), *captures.glob("nvidia_gpu_exporter/*.txt")):
        for gpu in gpus(path.read_text()):
            assert (
                gpu.name and gpu.uuid and gpu.pci_address and gpu.memory_total_bytes and gpu.compute_mode == "default"
            ), path.name
            assert gpu.health.temperature.gpu_c is not None and not gpu.name.endswith("..."), path.name
