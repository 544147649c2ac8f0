"""Odd facts of the kernel, for the test that no check breaks on any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tfgpu_doctor.model.facts.kernel import (
    DkmsModule,
    KernelLog,
    KernelMessage,
    LogSource,
    ModuleFile,
    ModuleFiles,
    Services,
)

AGES = st.none() | st.sampled_from([0.0, 5.0, 90_000.0, 1e9])
PLACES = st.sampled_from(["", "0000:01:00", "0000:01:00.0", "00000000:01:00.0", "01:00.0", "odd", ":", "0000:00:01.0"])
WORDS = st.sampled_from(["", "odd", "550.54.15", "6.8.0-48-generic", "dmesg", "a\nb"])
SAID = st.sampled_from(
    [
        "",
        "odd",
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30",
        "supported through the NVIDIA 470.xx Legacy drivers",
    ]
)
KINDS = st.sampled_from(
    [
        "xid", "xid", "sxid", "off_the_bus", "legacy_gpu", "unsupported_gpu", "open_module_cannot", "open_module_needed",
        "init_failed", "driver_loaded", "module_refused", "module_mismatch", "pci_fatal", "pci_nonfatal", "pci_corrected",
        "iommu_fault", "resumed", "out_of_memory", "unclean_boot", "last_message", "odd",
    ]
)  # fmt: skip
MESSAGES = st.builds(
    KernelMessage,
    kind=KINDS,
    text=SAID,
    code=st.none() | st.sampled_from([0, 13, 45, 48, 54, 63, 79, 119, 154, 175, 20034, 99_999]),
    pci_address=PLACES,
    count=st.sampled_from([1, 7]),
    first_age_s=AGES,
    last_age_s=AGES,
    boots_ago=st.sampled_from([0, 0, 1]),
)
SOURCES = st.builds(LogSource, name=WORDS, error=WORDS, oldest_age_s=AGES, newest_age_s=AGES, from_boot=st.booleans())
MODULES = st.builds(
    DkmsModule,
    name=WORDS,
    version=WORDS,
    state=st.sampled_from(["added", "built", "installed"]),
    failed_for=WORDS,
    log=WORDS,
    error=WORDS,
)
FILES = st.builds(
    ModuleFile, path=WORDS, version=WORDS, flavour=st.sampled_from(["", "open", "proprietary"]), signer=WORDS, kernel=WORDS
)  # fmt: skip


def _many(of: Any) -> Any:
    return st.lists(of, max_size=3).map(tuple)


KERNEL_FACTS: dict[str, Any] = {
    "kernel_log": st.builds(
        KernelLog, source=st.sampled_from(["", "dmesg"]), tried=_many(SOURCES), uptime_s=AGES, messages=_many(MESSAGES)
    ),
    "module_files": st.builds(
        ModuleFiles, file=st.none() | FILES, dkms=_many(MODULES), headers=st.none() | st.booleans()
    ),
    "services": st.builds(
        Services,
        visible=st.booleans(),
        running=_many(st.sampled_from(["nv-fabricmanager", "nvidia-persistenced", "odd"])),
        fabric_manager_version=WORDS,
    ),
}
