"""DRV: the kernel driver's version, against what TensorFlow needs and against its own libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import DOCKER, cuda_that_fails, cuda_without_library, tensorflow_after, wsl
from every import every
from healthy import ANSWERED, DRIVER, broken, driver_library, nvml_gpu

from tfgpu_doctor.checks.driver.versions import driver_is_new_enough, libraries_match_module
from tfgpu_doctor.checks.tensorflow.kernels import kernels_fit_gpu
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.kernel import ModuleFile, ModuleFiles
from tfgpu_doctor.model.facts.machine import Container
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Libraries, Nvml, NvmlGpu

if TYPE_CHECKING:
    from checks.conftest import Judge

HUNG = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="cuInit"))
JETSON = {"architecture": "aarch64", "board": "NVIDIA Jetson AGX Orin Developer Kit"}


# DRV002


def test_a_driver_that_knows_the_cuda_passes(judge: Judge) -> None:
    assert "supports CUDA 12.6, TensorFlow was built with 12.5.1" in judge.passes(driver_is_new_enough)


@pytest.mark.parametrize("supported", ["12.0", "12.4", "12.9", "13.0", "14.2", "99.0"])
def test_any_minor_version_and_any_later_cuda_will_do(judge: Judge, supported: str) -> None:
    assert f"supports CUDA {supported}" in judge.passes(driver_is_new_enough, cuda_driver={"cuda_version": supported})


@pytest.mark.parametrize(
    ("built_with", "supported", "needed"),
    [
        ("12.5.1", "11.8", "525.60.13"),
        ("12.0", "11.4", "525.60.13"),
        ("11.8", "10.2", "450.80.02"),
        ("13.0.1", "12.9", "580.65.06"),
    ],
)
def test_a_driver_of_an_earlier_cuda_is_too_old(judge: Judge, built_with: str, supported: str, needed: str) -> None:
    finding = judge.finding(
        driver_is_new_enough,
        tensorflow={"cuda_version": built_with},
        cuda_driver={"cuda_version": supported},
        runtime=None,
    )
    assert (finding.cause, finding.severity, finding.confidence) == ("driver_too_old", "error", "high")
    assert finding.message == f"driver {DRIVER} is older than {needed}, needed by CUDA {built_with}"
    assert f"TensorFlow 2.20.0 was built with CUDA {built_with}" in finding.evidence[0]
    assert f"supports CUDA up to {supported}" in finding.evidence[1]
    assert needed in finding.evidence[2]
    assert finding.fix and f"Upgrade the driver to {needed}" in finding.fix.text


@pytest.mark.parametrize(
    ("driver", "old"),
    [
        ("525.60.13", False),
        ("525.60.12", True),
        ("525.60", True),
        ("525.147.05", False),
        ("470.256.02", True),
        ("1000.10", False),
    ],
)
def test_where_cuda_does_not_answer_the_drivers_own_version_counts(judge: Judge, driver: str, old: bool) -> None:
    findings = judge.findings(driver_is_new_enough, driver={"version": driver}, cuda_driver=None, runtime=None)
    assert [finding.cause for finding in findings] == (["driver_too_old"] if old else [])
    assert all(driver in finding.message and "525.60.13" in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("names", "driver", "offered"),
    [
        (["NVIDIA A100-SXM4-80GB"], "470.82.01", True),
        (["Tesla T4", "Tesla V100-SXM2-16GB"], "470.82.01", True),
        (["NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 3090"], "470.82.01", False),
        (["NVIDIA GeForce RTX 3090"], "470.82.01", False),
        (["NVIDIA A100-SXM4-80GB"], "460.32.03", False),
        ([], "470.82.01", False),
    ],
)
def test_a_data_centre_gpu_may_do_without_a_new_driver(
    judge: Judge, names: list[str], driver: str, offered: bool
) -> None:
    gpus = tuple(nvml_gpu(name=name) for name in names)
    unknown: dict[str, Any] = {"cuda_driver": None, "runtime": None}
    finding = judge.finding(driver_is_new_enough, driver={"version": driver}, nvml={"gpus": gpus}, **unknown)
    assert finding.fix and ("cuda-compat-12-5" in finding.fix.text) == offered


KEPLER = nvml_gpu(name="Tesla K80", compute_capability="3.7")


def test_a_driver_that_the_gpu_can_never_have_is_not_asked_for(judge: Judge) -> None:
    unknown: dict[str, Any] = {"cuda_driver": None, "runtime": None}
    reason = judge.skips(driver_is_new_enough, driver={"version": "470.256.02"}, nvml={"gpus": (KEPLER,)}, **unknown)
    assert "525.60.13" in reason and "the last branch is 470" in reason
    assert "TFB002" in reason
    finding = judge.finding(kernels_fit_gpu, nvml={"gpus": (KEPLER,)}, **unknown)
    assert finding.cause == "gpu_compute_capability_too_old"


@pytest.mark.parametrize(
    "gpus",
    [
        (KEPLER, nvml_gpu(index=1, name="NVIDIA A100-SXM4-80GB", compute_capability="8.0")),
        (nvml_gpu(name="Tesla P100-PCIE-16GB", compute_capability="6.0"),),
        (nvml_gpu(name="a GPU of unknown capability", compute_capability=""),),
    ],
)
def test_where_a_newer_driver_helps_one_gpu_it_is_asked_for(judge: Judge, gpus: tuple[NvmlGpu, ...]) -> None:
    finding = judge.finding(
        driver_is_new_enough, driver={"version": "470.256.02"}, nvml={"gpus": gpus}, cuda_driver=None, runtime=None
    )
    assert finding.cause == "driver_too_old"


def test_nvml_tells_the_version_where_the_kernel_does_not(judge: Judge) -> None:
    finding = judge.finding(
        driver_is_new_enough,
        driver=None,
        cuda_driver=None,
        nvml=Nvml(attempt=ANSWERED, driver_version="470.82.01"),
        runtime=None,
    )
    assert "driver 470.82.01 is older than 525.60.13" in finding.message


def test_a_driver_known_by_its_cuda_alone_is_named_by_it(judge: Judge) -> None:
    cuda = {"cuda_version": "11.4"}
    finding = judge.finding(driver_is_new_enough, driver=None, nvml=None, cuda_driver=cuda, runtime=None)
    assert finding.message == "driver for CUDA 11.4 is older than 525.60.13, needed by CUDA 12.5.1"


def test_in_wsl_the_driver_needed_is_that_of_windows(judge: Judge) -> None:
    finding = judge.finding(
        driver_is_new_enough,
        wsl(2),
        cuda_driver=None,
        nvml=Nvml(attempt=ANSWERED, driver_version="472.84"),
        runtime=None,
    )
    assert "driver 472.84 is older than 528.33" in finding.message


@pytest.mark.parametrize(("driver", "old"), [("528.33", False), ("528.32", True), ("560.94", False)])
def test_windows_has_minimum_drivers_of_its_own(judge: Judge, driver: str, old: bool) -> None:
    nvml = Nvml(attempt=ANSWERED, driver_version=driver)
    unknown: dict[str, Any] = dict.fromkeys(("driver", "cuda_driver", "runtime"))
    found = judge.findings(driver_is_new_enough, system={"os": "Windows"}, nvml=nvml, **unknown)
    assert bool(found) == old


def test_a_build_that_names_no_cuda_is_not_judged(judge: Judge) -> None:
    assert "does not report" in judge.skips(driver_is_new_enough, tensorflow={"cuda_version": ""})


@pytest.mark.parametrize("cuda", ["14.0", "15.1.2", "64_112"])
def test_a_cuda_that_the_tables_do_not_hold_is_no_fault(judge: Judge, cuda: str) -> None:
    for cuda_driver in (None, {"cuda_version": ""}):
        reason = judge.skips(driver_is_new_enough, tensorflow={"cuda_version": cuda}, cuda_driver=cuda_driver)
        assert reason == f"CUDA {cuda} is newer than the doctor's tables"


def test_a_cuda_of_a_later_major_version_that_the_driver_knows_passes(judge: Judge) -> None:
    assert judge.passes(driver_is_new_enough, tensorflow={"cuda_version": "14.1"}, cuda_driver={"cuda_version": "14.0"})


@pytest.mark.parametrize("nvml", [None, Nvml(attempt=Attempt(outcome="timed_out", seconds=15.0))])
def test_a_driver_of_unknown_version_is_no_fault(judge: Judge, nvml: Nvml | None) -> None:
    for driver in (None, Driver()):
        reason = judge.skips(driver_is_new_enough, driver=driver, nvml=nvml, cuda_driver=HUNG)
        assert reason == "the driver's version is unknown"


@pytest.mark.parametrize(
    ("built_with", "supported", "needed"), [("10.1", "10.0", "418.39"), ("10.2", "10.1", "440.33")]
)
def test_before_cuda_11_each_minor_version_needs_its_own_driver(
    judge: Judge, built_with: str, supported: str, needed: str
) -> None:
    finding = judge.finding(
        driver_is_new_enough,
        tensorflow={"cuda_version": built_with},
        driver={"version": "410.48"},
        cuda_driver={"cuda_version": supported},
        runtime=None,
    )
    assert finding.cause == "driver_too_old"
    assert needed in finding.message


def test_a_driver_on_which_tensorflow_computes_is_new_enough(judge: Judge) -> None:
    assert judge.does_not_object(driver_is_new_enough, cuda_driver={"cuda_version": "11.8"})


# DRV006


def libcuda(version: str, **changes: Any) -> Libraries:
    real = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}"
    return Libraries(copies=(driver_library("libcuda", version=version, real_path=real, **changes),))


def compat(found_in: str = "ld.so.cache") -> Libraries:
    real = "/usr/local/cuda-12.8/compat/libcuda.so.570.124.06"
    copy = driver_library(
        "libcuda",
        version="570.124.06",
        real_path=real,
        path="/usr/local/cuda/compat/libcuda.so.1",
        kind="compat",
        found_in=found_in,
    )
    return Libraries(copies=(copy, driver_library("libcuda")))


def test_libraries_of_the_modules_version_pass(judge: Judge) -> None:
    assert judge.passes(libraries_match_module) == f"libcuda and the kernel module are both {DRIVER}"


def test_libraries_of_another_version_do_not_match_the_module(judge: Judge) -> None:
    finding = judge.finding(
        libraries_match_module,
        driver={"version": "550.120"},
        cuda_driver=cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        nvml=Nvml(attempt=ANSWERED, error_code=18, error_text="Driver/library version mismatch"),
    )
    assert (finding.cause, finding.severity, finding.confidence) == ("driver_library_version_mismatch", "error", "high")
    assert finding.message == f"libcuda has version {DRIVER}, but the loaded kernel module has version 550.120"
    assert finding.evidence == (
        f"libcuda is /usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}",
        "/proc/driver/nvidia/version says 550.120",
        "NVML says: Driver/library version mismatch",
        "cuInit returned 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    )
    assert finding.fix and "Reboot" in finding.fix.text


def test_a_mismatch_shows_without_nvml(judge: Judge) -> None:
    finding = judge.finding(
        libraries_match_module, driver={"version": "550.120"}, cuda_driver=cuda_that_fails(999, ""), nvml=None
    )
    assert (finding.cause, finding.confidence) == ("driver_library_version_mismatch", "high")


def test_nvmls_word_is_enough(judge: Judge) -> None:
    finding = judge.finding(
        libraries_match_module,
        driver=Driver(),
        driver_libraries=Libraries(),
        cuda_driver=cuda_without_library(),
        nvml=Nvml(attempt=ANSWERED, error_code=18, error_text="Driver/library version mismatch"),
    )
    assert (finding.cause, finding.confidence) == ("driver_library_version_mismatch", "high")
    assert finding.message == "the driver's libraries do not match the loaded kernel module of unknown version"


@pytest.mark.parametrize(
    ("code", "name"), [(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE")]
)
def test_cuinits_code_alone_makes_it_likely(judge: Judge, code: int, name: str) -> None:
    finding = judge.finding(libraries_match_module, cuda_driver=cuda_that_fails(code, name))
    assert (finding.cause, finding.confidence) == ("driver_library_version_mismatch", "medium")
    assert f"cuInit returned {code}, {name}" in finding.evidence


@pytest.mark.parametrize("code", [803, 804])
def test_the_compatibility_library_that_is_refused_is_in_conflict(judge: Judge, code: int) -> None:
    cuda = cuda_that_fails(code, "CUDA_ERROR", library="/usr/local/cuda-12.8/compat/libcuda.so.570.124.06")
    finding = judge.finding(libraries_match_module, driver_libraries=compat(), cuda_driver=cuda)
    assert (finding.cause, finding.severity) == ("cuda_compat_package_conflict", "error")
    assert finding.evidence == (
        "libcuda is /usr/local/cuda-12.8/compat/libcuda.so.570.124.06",
        f"/proc/driver/nvidia/version says {DRIVER}",
        f"cuInit returned {code}, CUDA_ERROR",
    )
    assert finding.fix and "compat" in finding.fix.text


def test_the_compatibility_library_is_in_conflict_with_a_module_of_unknown_version(judge: Judge) -> None:
    cuda = cuda_that_fails(803, "CUDA_ERROR", library="/usr/local/cuda-12.8/compat/libcuda.so.570.124.06")
    finding = judge.finding(libraries_match_module, driver_libraries=compat(), cuda_driver=cuda, driver=Driver())
    assert finding.cause == "cuda_compat_package_conflict"


# The container toolkit may mount the image's compatibility library over the driver's: libcuda.so.1 in /usr/lib leads to
# it, as `ls` shows in https://github.com/NVIDIA/nvidia-container-toolkit/pull/1055.
MOUNTED = libcuda("570.124.06").copies[0]
OF_IMAGE = driver_library(
    "libcuda",
    version="570.124.06",
    path="/usr/local/cuda/compat/libcuda.so.1",
    real_path="/usr/local/cuda-12.8/compat/libcuda.so.570.124.06",
    kind="compat",
    found_in="known place",
)
REFUSED = cuda_that_fails(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", library=MOUNTED.real_path, gpus=())
MOUNTED_COMPAT: dict[str, Any] = {
    "container": DOCKER,
    "driver": {"version": "550.54.15"},
    "driver_libraries": Libraries(copies=(MOUNTED, OF_IMAGE, driver_library("libnvidia-ml", version="550.54.15"))),
    "cuda_driver": REFUSED,
    "nvml": {"driver_version": "550.54.15"},
    "runtime": tensorflow_after(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
}


def test_the_compatibility_library_that_the_engine_mounted_over_the_drivers_is_in_conflict(judge: Judge) -> None:
    machine = broken(**MOUNTED_COMPAT)
    finding = judge.finding(libraries_match_module, machine)
    assert (finding.cause, finding.confidence) == ("cuda_compat_package_conflict", "high")
    assert f"{OF_IMAGE.real_path} of the image has the same version" in finding.evidence
    assert finding.fix and "image" in finding.fix.text and "Upgrade the host's driver" in finding.fix.text
    assert "eboot" not in finding.fix.text and finding.fix.commands == ()
    assert [cause.label for cause in diagnose(machine).causes] == ["cuda_compat_package_conflict"]


@every(
    "changes",
    [
        {"container": Container()},
        {"container": None},
        {"driver_libraries": Libraries(copies=(MOUNTED,))},
        {"driver_libraries": Libraries(copies=(MOUNTED, driver_library("libcuda", version="565.1.1", kind="compat")))},
        {"nvml": Nvml(attempt=ANSWERED, error_code=18, error_text="Driver/library version mismatch")},
        {"driver": {"version": "570.124.06"}},
    ],
)
def test_a_libcuda_that_is_not_the_images_is_a_mismatch(judge: Judge, changes: dict[str, Any]) -> None:
    finding = judge.finding(libraries_match_module, broken(**{**MOUNTED_COMPAT, **changes}))
    assert finding.cause == "driver_library_version_mismatch"


def test_the_mounted_library_is_not_blamed_for_another_error(judge: Judge) -> None:
    unknown = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN", library=MOUNTED.real_path)
    machine = broken(**{**MOUNTED_COMPAT, "cuda_driver": unknown})
    assert "not both known" in judge.skips(libraries_match_module, machine)


def test_the_mounted_library_that_works_passes(judge: Judge) -> None:
    machine = broken(**{**MOUNTED_COMPAT, "cuda_driver": {"library": MOUNTED.real_path}})
    assert "forward-compatibility" in judge.passes(libraries_match_module, machine)


@every("kind", ["docker", "podman", "kubernetes", "apptainer", "lxc"])
def test_a_container_gets_the_libraries_of_the_hosts_module(judge: Judge, kind: str) -> None:
    files = ModuleFiles(file=ModuleFile(path="/lib/modules/k/nvidia.ko", version="550.120"))
    for module_files in (None, files):
        finding = judge.finding(
            libraries_match_module,
            container=Container(kind=kind),
            driver={"version": "550.120"},
            cuda_driver=cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
            module_files=module_files,
        )
        assert finding.cause == "driver_library_version_mismatch"
        assert finding.fix and "550.120" in finding.fix.text and f"this {kind} container" in finding.fix.text
        assert not finding.fix.text.startswith(("Reboot", "A reboot"))
        assert "nvidia-uninstall" not in finding.fix.text


def test_the_compatibility_library_that_works_passes(judge: Judge) -> None:
    cuda = {"library": "/usr/local/cuda-12.8/compat/libcuda.so.570.124.06", "cuda_version": "12.8"}
    assert "forward-compatibility" in judge.passes(libraries_match_module, driver_libraries=compat(), cuda_driver=cuda)


def test_a_compatibility_library_that_the_loader_does_not_take_is_not_judged(judge: Judge) -> None:
    assert judge.passes(libraries_match_module, driver_libraries=compat("known place"))


def test_a_copy_that_is_not_the_drivers_is_judged_elsewhere(judge: Judge) -> None:
    stub = libcuda("12.5.40", kind="stub")
    assert judge.does_not_object(libraries_match_module, driver_libraries=stub, cuda_driver=cuda_that_fails(34, ""))


def test_in_wsl_there_is_no_module_to_match(judge: Judge) -> None:
    assert "cuInit succeeds" in judge.passes(libraries_match_module, wsl(2))


@pytest.mark.parametrize(
    "sections",
    [{"driver": Driver()}, {"driver_libraries": Libraries()}, {"driver_libraries": libcuda("")}],
    ids=["no module", "no library", "no version in the name"],
)
def test_versions_that_are_not_both_known_are_no_fault(judge: Judge, sections: dict[str, Any]) -> None:
    assert judge.passes(libraries_match_module, **sections)
    unknown = {"cuda_driver": cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")}
    assert "not both known" in judge.skips(libraries_match_module, **{**unknown, **sections})


def test_an_error_of_nvml_that_is_another_one_is_not_a_mismatch(judge: Judge) -> None:
    assert judge.passes(libraries_match_module, nvml=Nvml(attempt=ANSWERED, error_code=999, error_text="Unknown Error"))


def test_a_jetsons_libcuda_has_a_version_of_its_own(judge: Judge) -> None:
    folder = "/usr/lib/aarch64-linux-gnu/nvidia"
    copy = driver_library("libcuda", path=f"{folder}/libcuda.so.1", real_path=f"{folder}/libcuda.so.1.1", version="1.1")
    assert judge.does_not_object(
        libraries_match_module,
        system=JETSON,
        driver={"version": "540.3.0"},
        driver_libraries=Libraries(copies=(copy,)),
        cuda_driver={"library": copy.real_path},
    )


def test_a_libcuda_with_which_cuinit_succeeds_matches(judge: Judge) -> None:
    cuda = {"library": f"/nix/store/abc-nvidia-x11-{DRIVER}/lib/libcuda.so.{DRIVER}"}
    assert judge.does_not_object(libraries_match_module, driver_libraries=libcuda("535.183.01"), cuda_driver=cuda)


def test_a_mismatch_is_not_followed_by_its_contrary(judge: Judge) -> None:
    yielded = judge(libraries_match_module, driver={"version": "550.120"}, cuda_driver=cuda_that_fails(803, "MISMATCH"))
    assert "are both" not in str(yielded)


def test_a_refusal_between_equal_versions_is_not_told_as_two_versions(judge: Judge) -> None:
    finding = judge.finding(
        libraries_match_module, cuda_driver=cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")
    )
    assert finding.message.count(DRIVER) < 2
