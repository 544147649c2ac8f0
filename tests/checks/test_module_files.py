"""DRV004, DRV005, DRV006: what the module's files and the kernel log add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import KERNEL, UNREADABLE, built, log, message
from every import every
from healthy import DRIVER, healthy

from tfgpu_doctor.checks.driver.kernel_module import module_is_built_for_kernel, secure_boot_lets_module_in
from tfgpu_doctor.checks.driver.versions import libraries_match_module
from tfgpu_doctor.model.facts.kernel import DkmsModule, ModuleFile, ModuleFiles
from tfgpu_doctor.model.facts.nvidia import Driver

if TYPE_CHECKING:
    from checks.conftest import Judge

INSTALLED = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=True)
OTHER_KERNEL = Driver(running_kernel=KERNEL, built_for=("6.8.0-45-generic",))
ADDED = DkmsModule(name="nvidia", version="550.54.15")
FAILED = DkmsModule(
    name="nvidia",
    version="550.54.15",
    failed_for=KERNEL,
    log="/var/lib/dkms/nvidia/550.54.15/build/make.log",
    error="nv.c:1: error: x",
)
MISFIT = message("module_mismatch", "nvidia: version magic '6.8.0-45' should be '6.8.0-48'")


def files(*dkms: DkmsModule, headers: bool | None = True, **file: Any) -> ModuleFiles:
    return ModuleFiles(
        dkms=dkms, headers=headers, file=ModuleFile(path="/lib/modules/k/nvidia.ko", **file) if file else None
    )


# DRV004


def test_a_refusal_in_the_log_makes_sure_of_secure_boot(judge: Judge) -> None:
    refusal = message("module_refused", "Loading of module with unavailable key is rejected")
    finding = judge.finding(
        secure_boot_lets_module_in, driver=INSTALLED, kernel_log=log(refusal), module_files=files(version="560.35.03", signer="MOK")
    )  # fmt: skip
    assert finding.confidence == "high"
    assert "most likely" not in finding.message
    assert "kernel log: Loading of module with unavailable key is rejected" in finding.evidence
    assert "the signer of the module is MOK" in finding.evidence


@pytest.mark.parametrize("kernel_log", [None, UNREADABLE, log()])
def test_without_a_refusal_in_the_log_secure_boot_is_likely(judge: Judge, kernel_log: Any) -> None:
    finding = judge.finding(
        secure_boot_lets_module_in, driver=INSTALLED, kernel_log=kernel_log, module_files=files(version="560.35.03")
    )
    assert finding.confidence == "medium"
    assert "the signer of the module is none" in finding.evidence


# DRV005


def test_dkms_says_that_it_failed_and_why(judge: Judge) -> None:
    finding = judge.finding(module_is_built_for_kernel, driver=OTHER_KERNEL, module_files=files(FAILED))
    assert f"{FAILED.log}: nv.c:1: error: x" in finding.evidence
    assert finding.fix and "DKMS failed to build nvidia/550.54.15" in finding.fix.text


def test_headers_that_are_missing_come_before_a_build_that_failed(judge: Judge) -> None:
    finding = judge.finding(module_is_built_for_kernel, driver=OTHER_KERNEL, module_files=files(FAILED, headers=False))
    assert finding.fix and finding.fix.text.startswith(
        f"As root, install the headers (`apt install linux-headers-{KERNEL}`"
    )


@every(
    "distribution, dkms, akmods",
    [
        ("Fedora Linux 43 (Workstation Edition)", (), True),
        ("Fedora Linux 43 (Workstation Edition)", (ADDED,), False),
        ("Fedora Linux 43 (Workstation Edition)", (FAILED,), False),
        ("Ubuntu 24.04.1 LTS", (), False),
        ("AlmaLinux 9.6 (Sage Margay)", (), False),
        ("", (), False),
    ],
)
def test_on_fedora_akmods_builds_the_module_unless_dkms_has_it(
    judge: Judge, distribution: str, dkms: tuple[DkmsModule, ...], akmods: bool
) -> None:
    # https://rpmfusion.org/Howto/NVIDIA and http://fedorasolved.org/Members/zcat/akmods
    for headers in (True, False):
        finding = judge.finding(
            module_is_built_for_kernel,
            driver=OTHER_KERNEL,
            module_files=files(*dkms, headers=headers),
            system={"distribution": distribution},
        )
        assert finding.cause == "kernel_module_not_built_for_kernel"
        assert finding.fix and (f"akmods --force --kernels {KERNEL}" in finding.fix.text) == akmods
        assert not akmods or f"kernel-devel-{KERNEL}" in finding.fix.text
        assert akmods == ("dkms" not in finding.fix.text.lower())
        assert ("install its package for this kernel" in finding.fix.text) == (not dkms and not akmods)


@every("module_files, system", [(None, {"distribution": "Fedora Linux 43"}), (files(), None)])
def test_what_is_not_known_of_the_builds_leaves_the_general_fix(judge: Judge, module_files: Any, system: Any) -> None:
    finding = judge.finding(module_is_built_for_kernel, driver=OTHER_KERNEL, module_files=module_files, system=system)
    assert finding.fix and "dkms autoinstall" in finding.fix.text


def test_a_module_that_dkms_never_built_is_not_built(judge: Judge) -> None:
    finding = judge.finding(module_is_built_for_kernel, driver=Driver(running_kernel=KERNEL), module_files=files(ADDED))
    assert finding.evidence == ("no kernel has the module", "DKMS lists nvidia/550.54.15 for it in the state 'added'")


@pytest.mark.parametrize("state", ["built", "installed"])
def test_a_module_that_dkms_built_is_looked_for_elsewhere(judge: Judge, state: str) -> None:
    module = DkmsModule(name="nvidia", version="550.54.15", state=state)
    assert "no NVIDIA module" in judge.skips(
        module_is_built_for_kernel, driver=Driver(running_kernel=KERNEL), module_files=files(module)
    )


def test_a_module_of_another_kernel_in_its_place_is_told_by_the_log(judge: Judge) -> None:
    finding = judge.finding(module_is_built_for_kernel, driver=INSTALLED, kernel_log=log(MISFIT))
    assert finding.cause == "kernel_module_not_built_for_kernel"
    assert finding.evidence == (MISFIT.text,)
    assert judge.passes(module_is_built_for_kernel, kernel_log=log(MISFIT)) == "the module is loaded"


def test_the_kernel_of_the_module_file_is_evidence(judge: Judge) -> None:
    finding = judge.finding(
        module_is_built_for_kernel,
        driver=INSTALLED,
        kernel_log=log(MISFIT),
        module_files=files(kernel="6.8.0-45-generic"),
    )
    assert finding.evidence == (
        MISFIT.text,
        "the module file /lib/modules/k/nvidia.ko is built for kernel 6.8.0-45-generic",
    )


# DRV006


@pytest.mark.parametrize(
    ("on_disk", "words"),
    [("550.120", "A reboot does not help"), (DRIVER, "Reboot to load the module of the new driver"), ("", "Reboot to load")],
)  # fmt: skip
def test_the_module_on_the_disk_tells_whether_a_reboot_helps(judge: Judge, on_disk: str, words: str) -> None:
    mismatch = {
        "cuda_driver": {"init_code": 803, "init_name": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "gpus": ()},
        "driver": {"version": "550.120"},
    }
    finding = judge.finding(libraries_match_module, healthy(), module_files=files(version=on_disk), **mismatch)
    assert finding.fix and finding.fix.text.startswith(words)


def test_machines_have_their_evidence() -> None:
    assert {"dkms-build-failed", "dkms-without-headers", "secure-boot-in-the-log"} <= set(built())
