"""The probe of the kernel driver."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.driver import driver, parse_parameters, parse_version
from tfgpu_doctor.host import Host

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

VERSION_FILE = "/proc/driver/nvidia/version"
KERNEL = "6.8.0-48-generic"
GCC = "GCC version:  gcc version 13.2.0 (Ubuntu 13.2.0-23ubuntu4) \n"
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n" + GCC
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder@U16-I3-B03-4-3)"
    "  Fri Aug 16 21:42:42 UTC 2024\n" + GCC
)
ORIN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (buildbrain@mobile-u64-6336)"
    "  Tue Jan  7 17:35:12 PST 2025\nGCC version:  collect2: error: ld returned 1 exit status\n"
)
R32_JETSON = (
    "NVRM version: NVIDIA UNIX Kernel Module for aarch64  32.7.1  Release Build  (buildbrain@mobile-u64-5414)\n"
)
BETA = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  396.26  Mon Apr 30 18:01:39 PDT 2018\n" + GCC
SINGLE_SPACES = "NVRM version: NVIDIA UNIX x86_64 Kernel Module 390.48 Thu Mar 22 00:42:57 PDT 2018\n" + GCC
GRACE = "NVRM version: NVIDIA UNIX aarch64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n" + GCC
PARAMETERS = """\
ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 44
DeviceFileMode: 432
InitializeSystemMemoryAllocations: 1
PreserveVideoMemoryAllocations: 0
EnablePCIeGen3: 0
RmProfilingAdminOnly: 1
RegistryDwords: ""
RmMsg: "a: b"
"""


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [
        (PROPRIETARY, "550.54.15", "proprietary"),
        (OPEN, "560.35.03", "open"),
        (ORIN, "540.4.0", "open"),
        (R32_JETSON, "32.7.1", "proprietary"),
        (BETA, "396.26", "proprietary"),
        (SINGLE_SPACES, "390.48", "proprietary"),
        (GRACE, "535.129.03", "proprietary"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06\n", "555.42.06", "open"),
        (GCC + PROPRIETARY, "550.54.15", "proprietary"),
    ],
)
def test_version_and_flavour_of_the_loaded_module(machine: Machine, text: str, version: str, flavour: str) -> None:
    machine.file(VERSION_FILE, text)
    found = machine.ask(driver)
    assert (found.version, found.flavour) == (version, flavour)


@pytest.mark.parametrize(
    "text", ["", GCC, "NVRM version: unknown\n", "550.54.15\n", "\0\xff\xfe junk", "NVRM version:"]
)
def test_a_text_without_a_version_has_none(text: str) -> None:
    assert parse_version(text) == ("", "")


def test_without_a_driver_nothing_is_found(machine: Machine) -> None:
    found = machine.ask(driver)
    assert (found.version, found.flavour, found.modules, found.gpus, found.built_for) == ("", "", (), (), ())
    assert (found.parameters, found.secure_boot, found.suspends) == ({}, None, None)
    assert found.running_kernel == platform.release()


def test_a_version_that_may_not_be_read_is_no_answer(machine: Machine) -> None:
    machine.folder(VERSION_FILE)
    with pytest.raises(Unavailable, match=r"/proc/driver/nvidia/version cannot be read \(Is a directory\)"):
        machine.ask(driver)


@pytest.mark.usefixtures("closed_to_me")
def test_a_version_without_permission_is_no_answer(machine: Machine) -> None:
    machine.file(VERSION_FILE, PROPRIETARY).chmod(0)
    with pytest.raises(Unavailable, match="Permission denied"):
        machine.ask(driver)


def test_the_modules_own_version_counts_where_proc_has_none(machine: Machine) -> None:
    machine.file("/sys/module/nvidia/version", "535.183.01\n")
    found = machine.ask(driver)
    assert (found.version, found.flavour) == ("535.183.01", "")


def test_loaded_modules_are_named(machine: Machine) -> None:
    for name in ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "i915", "nvidia_wmi_ec_backlight"):
        machine.folder(f"/sys/module/{name}")
    assert machine.ask(driver).modules == ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm")


@pytest.mark.parametrize("name", ["nouveau", "nova_core"])
def test_another_driver_of_the_card_is_named(machine: Machine, name: str) -> None:
    machine.folder(f"/sys/module/{name}")
    assert machine.ask(driver).modules == (name,)


def test_gpus_of_the_driver_are_listed(machine: Machine) -> None:
    for address in ("0000:41:00.0", "0000:01:00.0"):
        machine.file(f"/proc/driver/nvidia/gpus/{address}/information", "Model: NVIDIA A100\n")
    assert machine.ask(driver).gpus == ("0000:01:00.0", "0000:41:00.0")


def test_parameters_that_a_check_reads_are_taken(machine: Machine) -> None:
    machine.file("/proc/driver/nvidia/params", PARAMETERS)
    assert machine.ask(driver).parameters == {
        "ModifyDeviceFiles": "1",
        "DeviceFileMode": "432",
        "PreserveVideoMemoryAllocations": "0",
        "RmProfilingAdminOnly": "1",
    }


@pytest.mark.parametrize("text", ["", "\n\n", "no colon", "Other: 1", "\0\xff"])
def test_odd_parameters_are_none(text: str) -> None:
    assert parse_parameters(text) == {}


@pytest.mark.parametrize(
    "line",
    [
        "kernel/drivers/video/nvidia.ko:",
        "updates/dkms/nvidia.ko.zst: kernel/drivers/char/ipmi/ipmi_msghandler.ko.zst",
        "extra/nvidia.ko.xz:",
        "kernel/nvidia-535srv/nvidia.ko: kernel/drivers/acpi/video.ko",
        "updates/dkms/nvidia-current.ko:",
        "updates/dkms/nvidia-current-open.ko.xz:",
        "updates/dkms/nvidia-legacy-390xx.ko: kernel/drivers/acpi/video.ko",  # Debian 11
        "updates/dkms/nvidia-tesla-470.ko:",
        "updates/dkms/nvidia-tesla.ko.xz:",
    ],
)
def test_a_kernel_with_the_module_is_named(machine: Machine, line: str) -> None:
    machine.file("/proc/sys/kernel/osrelease", KERNEL + "\n")
    machine.file(f"/lib/modules/{KERNEL}/modules.dep", f"kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko\n{line}\n")
    found = machine.ask(driver)
    assert (found.built_for, found.running_kernel) == ((KERNEL,), KERNEL)


@pytest.mark.parametrize(
    "line",
    [
        "kernel/drivers/video/fbdev/nvidia/nvidiafb.ko: kernel/drivers/video/vgastate.ko",
        "updates/dkms/nvidia-uvm.ko:",
        "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko:",
        "kernel/drivers/i2c/busses/i2c-nvidia-gpu.ko:",
        "kernel/a.ko: updates/dkms/nvidia.ko",
    ],
)
def test_a_kernel_with_another_module_is_not_named(machine: Machine, line: str) -> None:
    machine.file(f"/lib/modules/{KERNEL}/modules.dep", line + "\n")
    assert machine.ask(driver).built_for == ()


def test_modules_behind_the_usual_link_of_lib_are_found(machine: Machine) -> None:
    machine.link("/lib", "usr/lib")
    machine.file("/usr/lib/modules/6.1.0-18-amd64/modules.dep", "updates/dkms/nvidia-current.ko:\n")
    machine.file("/usr/lib/modules/6.1.0-20-amd64/modules.dep", "kernel/fs/ext4/ext4.ko:\n")
    machine.folder("/usr/lib/modules/broken")
    assert machine.ask(driver).built_for == ("6.1.0-18-amd64",)


SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
NO_VALUE = "_secure_boot takes the last byte of whatever there is for the value, which is the fifth byte"


@pytest.mark.parametrize(
    ("content", "secure_boot"),
    [
        (b"\x06\0\0\0\x01", True),
        (b"\x06\0\0\0\0", False),
        (b"\x16\0\0\0\x01\x01", True),
        pytest.param(b"", None),
        pytest.param(b"\x06\0\0\0", None),
    ],
)
def test_secure_boot_is_the_byte_after_the_attributes(
    machine: Machine, content: bytes, secure_boot: bool | None
) -> None:
    machine.file(SECURE_BOOT, content)
    assert machine.ask(driver).secure_boot is secure_boot


@pytest.mark.parametrize(("text", "suspends"), [("0\n", 0), ("17\n", 17), ("", None), ("many\n", None), ("-1", None)])
def test_suspends_are_counted(machine: Machine, text: str, suspends: int | None) -> None:
    machine.file("/sys/power/suspend_stats/success", text)
    assert machine.ask(driver).suspends == suspends


def test_what_switched_a_laptops_gpu_off_is_read(machine: Machine) -> None:
    assert (machine.ask(driver).prime, machine.ask(driver).bbswitch) == ("", "")
    machine.file("/etc/prime-discrete", "on-demand\n")
    machine.file("/proc/acpi/bbswitch", "0000:01:00.0 OFF\n")
    assert (machine.ask(driver).prime, machine.ask(driver).bbswitch) == ("on-demand", "OFF")


REMOVE_RULE = (
    "# Automatically generated by EnvyControl\n\n# Remove NVIDIA VGA/3D controller devices\n"
    'ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x10de", ATTR{class}=="0x03[0-9]*", ATTR{power/control}="auto", '
    'ATTR{remove}="1"\n'
)  # https://github.com/bayasdev/envycontrol/blob/main/envycontrol.py
SUPERGFXD = "# Automatically generated by supergfxd\n"  # https://gitlab.com/asus-linux/supergfxctl, src/lib.rs
INTEGRATED = f"{SUPERGFXD}blacklist i2c_nvidia_gpu\nblacklist nvidia\nblacklist nvidia-drm\nblacklist nouveau\n"
HYBRID = f"{SUPERGFXD}blacklist nouveau\nalias nouveau off\noptions nvidia NVreg_DynamicPowerManagement=0x02\n"


@pytest.mark.parametrize(
    ("path", "content", "counts"),
    [
        ("/etc/udev/rules.d/50-remove-nvidia.rules", REMOVE_RULE, True),
        ("/lib/udev/rules.d/50-remove-nvidia.rules", REMOVE_RULE, True),
        ("/lib/udev/rules.d/50-remove-nvidia.rules", "# nothing\n", False),
        ("/etc/modprobe.d/supergfxd.conf", INTEGRATED, True),
        ("/etc/modprobe.d/supergfxd.conf", HYBRID, False),
    ],
)
def test_the_file_that_takes_the_gpu_off_the_bus(machine: Machine, path: str, content: str, counts: bool) -> None:
    assert machine.ask(driver).removed_by == ""
    machine.file(path, content)
    assert machine.ask(driver).removed_by == (path if counts else "")


def test_this_machine_is_read_as_it_is() -> None:
    found = driver.function(host=Host())
    assert found.running_kernel == platform.release()
    assert ("nvidia" in found.modules) == os.path.isdir("/sys/module/nvidia")
    if not os.path.exists("/sys/module/nvidia"):
        assert found.version == ""
