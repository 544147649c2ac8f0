"""What each message of the kernel is about."""

from __future__ import annotations

import pytest

from tfgpu_doctor.collect.probes.kernel_lines import Line
from tfgpu_doctor.collect.probes.kernel_messages import RELEVANT, gather, understand
from tfgpu_doctor.model.facts.kernel import KernelMessage

XID = "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python, GPU has fallen off the bus."
GPU_OF_10DE = "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c58) installed in this system"


@pytest.mark.parametrize(
    ("text", "code", "place", "process"),
    [
        (XID, 79, "0000:01:00", "python"),
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", 79, "0000:01:00", ""),
        ("NVRM: Xid (PCI:0000:17:00): 119, pid='<unknown>', name=<unknown>, Timeout waiting for RPC from GSP0!", 119, "0000:17:00", ""),
        ("NVRM: Xid (PCI:0000:41:00 GPU-I:05): 94, pid=7194, name=python3, Contained: CE User Channel (0x9).", 94, "0000:41:00", "python3"),
        ("NVRM: Xid (PCI:0000:41:00 GPU-I:05 GPU-CI:00): 43, pid=7, name=a b, Ch 00000008", 43, "0000:41:00", "a b"),
        ("NVRM: Xid (PCI:000F:A1:00): 48, DBE (double bit error)", 48, "000f:a1:00", ""),
        ("NVRM: Xid (0000:af:00): 31, Ch 00000010, intr 10000000.", 31, "0000:af:00", ""),
        ("NVRM: Xid (PCI:00010001:00:00): 63, Row Remapper: New row", 63, "00010001:00:00", ""),
    ],
)  # fmt: skip
def test_an_xid_has_a_code_a_gpu_and_maybe_a_process(text: str, code: int, place: str, process: str) -> None:
    found = understand(Line(text, 5.0))
    assert found == KernelMessage(
        kind="xid", text=text, code=code, pci_address=place, process=process, first_age_s=5.0, last_age_s=5.0
    )


def test_an_sxid_has_a_code_and_a_switch() -> None:
    text = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
    found = understand(Line(text))
    assert found and (found.kind, found.code, found.pci_address) == ("sxid", 12028, "0000:05:00.0")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NVRM: The NVIDIA GPU 0000:5d:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.", "off_the_bus"),
        ("NVRM: The NVIDIA GeForce GTX 870M GPU installed in this system is supported through the NVIDIA 470.xx Legacy drivers. Please visit", "legacy_gpu"),
        (f"{GPU_OF_10DE} is not supported by the NVIDIA 470.256.02 driver release.", "unsupported_gpu"),
        (f"{GPU_OF_10DE} is not supported by the 304.116 NVIDIA Linux driver release.", "unsupported_gpu"),
        (f"{GPU_OF_10DE} is not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP).", "open_module_cannot"),
        (f"{GPU_OF_10DE} requires use of the NVIDIA open kernel modules.", "open_module_needed"),
        ("NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)", "init_failed"),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024", "driver_loaded"),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build", "driver_loaded"),
        ("nvidia 0000:03:00.0: Direct firmware load for nvidia/535.129.03/gsp_ga10x.bin failed with error -2", "firmware_missing"),
        ("nvidia 0000:03:00.0: Direct firmware load for nvidia/515.43.04/gsp.bin failed with error -2", "firmware_missing"),
        ("nvidia 0000:06:00.0: loading /lib/firmware/nvidia/570.172.08/gsp_ga10x.bin failed with error -4", "firmware_missing"),
        ("NVRM: RmFetchGspRmImages: No firmware image found", "firmware_missing"),
        ("Loading of unsigned module is rejected", "module_refused"),
        ("Loading of module with unavailable key is rejected", "module_refused"),
        ("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7", "module_refused"),
        ("nvidia: version magic '6.8.0-45-generic SMP mod_unload ' should be '6.8.0-48-generic SMP mod_unload '", "module_mismatch"),
        ("nvidia: disagrees about version of symbol module_layout", "module_mismatch"),
        ("nvidia 0000:01:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)", "pci_corrected"),
        ("nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)", "pci_corrected"),
        ("pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)", "pci_fatal"),
        ("pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Receiver ID)", "pci_nonfatal"),
        ("DMAR: [DMA Write NO_PASID] Request device [01:00.0] fault addr 0xffbc0000 [fault reason 0x05]", "iommu_fault"),
        ("DMAR:[DMA Read] Request device [01:00.0] fault addr bdf74000", "iommu_fault"),
        ("AMD-Vi: Event logged [IO_PAGE_FAULT device=01:00.0 domain=0x0021 address=0x0 flags=0x0020]", "iommu_fault"),
        ("nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0xfd00 flags=0x0020]", "iommu_fault"),
        ("PM: suspend exit", "resumed"),
        ("PM: hibernation: hibernation exit", "resumed"),
        ("Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB", "out_of_memory"),
        ("Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB", "out_of_memory"),
        ("systemd-journald[345]: File /var/log/journal/1/system.journal corrupted or uncleanly shut down, renaming and replacing.", "unclean_boot"),
        ("EXT4-fs (nvme0n1p2): recovery complete", "unclean_boot"),
        ("XFS (dm-0): Starting recovery (logdev: internal)", "unclean_boot"),
    ],
)  # fmt: skip
def test_a_message_has_a_kind(text: str, kind: str) -> None:
    found = understand(Line(text))
    assert found and found.kind == kind
    assert RELEVANT.search(text), "the first sieve must let it through"


@pytest.mark.parametrize(
    "text",
    [
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 235",
        "nvidia-uvm: Loaded the UVM driver, major device number 509.",
        "NVRM: GPU at PCI:0000:01:00: GPU-3f6f3a5e-0000-0000-0000-000000000000",
        "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",  # Xid 79 says so already
        "tegra-xusb 3530000.usb: Direct firmware load for nvidia/tegra186/xusb.bin failed with error -2",
        "nouveau 0000:01:00.0: Direct firmware load for nvidia/tu102/gsp/gsp-535.113.01.bin failed with error -2",
        "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  550.54.15",
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
        "EXT4-fs (nvme0n1p2): orphan cleanup on readonly fs",
        "PM: suspend entry (deep)",
        "DMAR: IOMMU enabled",
        "AMD-Vi: Interrupt remapping enabled",
        "pcieport 0000:00:01.0: AER: enabled with IRQ 122",
        "",
    ],
)
def test_an_ordinary_message_has_none(text: str) -> None:
    assert understand(Line(text)) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("DMAR: [DMA Write] Request device [01:00.0] fault addr 0", "01:00.0"),
        ("nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021]", "0000:01:00.0"),
        ("pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=x", "0000:00:01.0"),
    ],
)
def test_a_fault_on_the_bus_names_its_device(text: str, place: str) -> None:
    found = understand(Line(text))
    assert found and found.pci_address == place


@pytest.mark.parametrize(
    ("text", "kind", "process"),
    [
        ("NVRM: API mismatch: the client has the version 535.54.03, but this kernel module has", "api_mismatch", ""),
        ("NVRM: API mismatch: the client 'kwin_wayland' (pid 1005) has the version", "api_mismatch", "kwin_wayland"),
        ("nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)", "pci_unrecovered", ""),
        ("NVRM: The NVIDIA Tesla K80 GPU installed in this system is", "legacy_gpu", ""),
    ],
)
def test_further_messages_of_the_driver(text: str, kind: str, process: str) -> None:
    found = understand(Line(text))
    assert found and (found.kind, found.process) == (kind, process)


def test_another_device_that_cannot_recover_is_none_of_ours() -> None:
    assert understand(Line("snd_hda_intel 0000:03:00.1: AER: can't recover (no error_detected callback)")) is None


def test_programs_with_another_driver_version_are_told_apart() -> None:
    form = "NVRM: API mismatch: the client '{}' (pid 7) has the version 1.2"
    assert len(gather([Line(form.format(name), 5.0) for name in ("Xorg", "python3", "Xorg")])[0]) == 2


def test_the_details_of_an_sxid_do_not_replace_what_it_says() -> None:
    form = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, {}"
    said = ("Fatal, Link 30 sourcetrack timeout", "Severity 1 Engine instance 30", "Data {0x00000001, 0x00000002}")
    (found,), _ = gather([Line(form.format(each), 9.0 - place) for place, each in enumerate(said)])
    assert (found.text, found.count, found.last_age_s) == (form.format(said[0]), 3, 7.0)
    (cut,), _ = gather([Line(form.format(each), 9.0) for each in said[1:]])
    assert "Severity 1" in cut.text


def test_a_line_that_is_not_fatal_hides_no_fatal_one() -> None:
    form = "NVRM: Xid (PCI:0001:00:00): 145, {} XC1 i0 Link 10 (0x1 0x2)"
    said = ("RLW_REMAP Fatal", "RLW_RXPIPE Nonfatal", "RLW_REMAP Fatal", "RLW_RXPIPE Nonfatal")
    found, _ = gather([Line(form.format(each), 9.0 - place) for place, each in enumerate(said)])
    assert sorted(("Nonfatal" in each.text, each.count) for each in found) == [(False, 2), (True, 2)]


def test_messages_alike_are_counted() -> None:
    lines = [Line(XID.replace("1234", str(age)), float(age)) for age in (900, 30, 500)]
    (found,), left_out = gather(lines)
    assert (found.count, found.first_age_s, found.last_age_s, left_out) == (3, 900.0, 30.0, 0)
    assert "pid=30," in found.text


def test_another_code_gpu_or_boot_is_counted_apart() -> None:
    lines = [
        Line(XID, 10.0),
        Line(XID.replace(": 79", ": 119"), 10.0),
        Line(XID.replace(":01:00)", ":02:00)"), 10.0),
        Line(XID, 99_000.0, boots_ago=1),
    ]
    found, _ = gather(lines)
    assert [each.count for each in found] == [1, 1, 1, 1]
    assert [each.boots_ago for each in found] == [0, 0, 0, 1]


def test_messages_without_a_date_are_counted_too() -> None:
    (found,), _ = gather([Line(XID), Line(XID, 7.0), Line(XID)])
    assert (found.count, found.first_age_s, found.last_age_s) == (3, 7.0, 7.0)


def test_the_fact_stays_small_and_keeps_what_matters() -> None:
    noise = [
        Line(f"pcieport 0000:{bus:02x}:00.0: PCIe Bus Error: severity=Corrected, type={'x' * 5000}", 1.0)
        for bus in range(200)
    ]
    found, left_out = gather([*noise, Line(XID, 80_000.0)])
    assert (len(found), left_out) == (60, 141)
    assert found[0].code == 79
    assert all(len(each.text) <= 400 for each in found)


def test_who_ran_out_of_memory_is_told_apart() -> None:
    found, _ = gather(
        [Line(f"Out of memory: Killed process 1 ({name}) total-vm:1kB", 1.0) for name in ("python3", "java", "python3")]
    )
    assert {each.process: each.count for each in found} == {"python3": 2, "java": 1}
