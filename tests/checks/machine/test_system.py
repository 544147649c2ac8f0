"""SYS: operating system, processor, C library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_ground_broken import broken_ground
from built_machines import cuda_without_library, failed_import, packages
from healthy import ANSWERED, broken, gpu, runtime, target

from tfgpu_doctor.checks.machine.system import (
    c_library_is_new_enough,
    cpu_has_avx,
    system_has_gpu_support,
    wsl_is_version_2,
)
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

WINDOWS = {"os": "Windows", "release": "10.0.22631", "architecture": "AMD64"}
MAC = {"os": "Darwin", "release": "24.1.0", "architecture": "arm64"}
ILLEGAL_INSTRUCTION = Runtime(
    attempt=Attempt(outcome="killed_by_signal", signal="SIGILL", phase="importing TensorFlow"),
)


# SYS001


def test_a_machine_that_is_no_wsl_is_not_judged_as_one(judge: Judge) -> None:
    assert judge.skips(wsl_is_version_2) == "this is not WSL"


def test_wsl_2_passes(judge: Judge) -> None:
    release = "5.15.167.4-microsoft-standard-WSL2"
    assert release in judge.passes(wsl_is_version_2, system={"wsl": 2, "release": release})


def test_wsl_1_has_no_gpu(judge: Judge) -> None:
    finding = judge.finding(wsl_is_version_2, system={"wsl": 1, "release": "4.4.0-19041-Microsoft"})
    assert (finding.cause, finding.severity, finding.confidence) == ("wsl1_instead_of_wsl2", "error", "high")
    assert "4.4.0-19041-Microsoft" in finding.evidence[0]
    assert finding.fix and "wsl --set-version NAME 2" in finding.fix.text


# SYS002


@pytest.mark.parametrize("architecture", ["x86_64", "AMD64"])
def test_avx_among_the_flags_passes(judge: Judge, architecture: str) -> None:
    system = {"architecture": architecture, "cpu_flags": ("avx",)}
    assert "avx is among" in judge.passes(cpu_has_avx, system=system, runtime=None)


@pytest.mark.parametrize("flags", [(), ("sse4_1", "sse4_2"), ("avx2",)])
@pytest.mark.parametrize("run", [None, ILLEGAL_INSTRUCTION])
def test_a_processor_without_avx_cannot_run_tensorflow(
    judge: Judge, flags: tuple[str, ...], run: Runtime | None
) -> None:
    system = {"cpu_flags": flags, "cpu_model": "Common KVM processor"}
    finding = judge.finding(cpu_has_avx, system=system, runtime=run)
    assert (finding.cause, finding.severity) == ("cpu_without_avx", "error")
    assert "Common KVM processor" in finding.message
    assert "1.6" in finding.evidence[1]


def test_a_processor_without_a_name_is_still_judged(judge: Judge) -> None:
    finding = judge.finding(cpu_has_avx, system={"cpu_flags": (), "cpu_model": ""}, runtime=None)
    assert "of unknown name" in finding.message


@pytest.mark.parametrize("flags", [(), ("sse4_1",), None])
def test_a_tensorflow_that_was_imported_needs_no_flags(judge: Judge, flags: tuple[str, ...] | None) -> None:
    assert "TensorFlow 2.20.0 was imported" in judge.passes(cpu_has_avx, system={"cpu_flags": flags})


def test_flags_that_cannot_be_read_are_no_fault(judge: Judge) -> None:
    assert judge.skips(cpu_has_avx, system={"cpu_flags": None}, runtime=None) == "the CPU flags cannot be read"


@pytest.mark.parametrize("architecture", ["aarch64", "arm64", "ppc64le"])
def test_avx_is_asked_of_no_other_processor(judge: Judge, architecture: str) -> None:
    system = {"architecture": architecture, "cpu_flags": ("asimd",)}
    assert architecture in judge.skips(cpu_has_avx, system=system, runtime=None)


# SYS003


@pytest.mark.parametrize("glibc", ["2.17", "2.27", "2.39", "2.100", "3.0"])
def test_a_c_library_as_new_as_the_wheel_or_newer_passes(judge: Judge, glibc: str) -> None:
    assert f"glibc {glibc}, and the wheel needs 2.17" in judge.passes(
        c_library_is_new_enough, system={"glibc": glibc}, runtime=None
    )


@pytest.mark.parametrize("glibc", ["2.16", "2.5", "2.9"])
@pytest.mark.parametrize("run", [None, failed_import("ImportError: odd")])
def test_a_c_library_older_than_the_wheel_is_too_old(judge: Judge, glibc: str, run: Runtime | None) -> None:
    finding = judge.finding(c_library_is_new_enough, system={"glibc": glibc}, runtime=run)
    assert "ImportError" not in str(finding.evidence)
    assert (finding.cause, finding.severity) == ("glibc_too_old", "error")
    assert f"glibc {glibc} is older than 2.17" in finding.message
    assert "manylinux_2_17_x86_64" in finding.evidence[0]
    assert finding.fix and "2.17" in finding.fix.text


def test_the_loaders_own_complaint_is_evidence(judge: Judge) -> None:
    error = "ImportError: /lib64/libm.so.6: version `GLIBC_2.27' not found (required by libtensorflow_cc.so.2)"
    finding = judge.finding(
        c_library_is_new_enough,
        system={"glibc": "2.17"},
        tensorflow={"wheel_tag": "cp312-cp312-manylinux_2_27_x86_64"},
        runtime=failed_import(error),
    )
    assert finding.cause == "glibc_too_old"
    assert "glibc 2.17 is older than 2.27" in finding.message
    assert error in finding.evidence


@pytest.mark.parametrize("symbol", ["GLIBC_2.38", "GLIBCXX_3.4.29"])
def test_the_loaders_own_complaint_outweighs_the_tag(judge: Judge, symbol: str) -> None:
    error = f"ImportError: /lib64/libm.so.6: version `{symbol}' not found (required by libtensorflow_cc.so.2)"
    finding = judge.finding(c_library_is_new_enough, runtime=failed_import(error))
    assert finding.cause == "glibc_too_old"
    assert error in finding.evidence


def test_a_tensorflow_that_was_imported_has_a_c_library_that_is_new_enough(judge: Judge) -> None:
    assert judge.passes(c_library_is_new_enough, system={"glibc": "2.12"})


def test_an_import_that_fails_for_another_reason_is_not_the_c_librarys_fault(judge: Judge) -> None:
    assert judge.passes(c_library_is_new_enough, runtime=failed_import("ImportError: numpy failed to import"))


@pytest.mark.parametrize(
    "tag", ["", "cp312-cp312-linux_x86_64", "cp312-cp312-win_amd64", "cp310-cp310-manylinux2014_x86_64"]
)
def test_a_wheel_that_names_no_c_library_is_not_judged(judge: Judge, tag: str) -> None:
    reason = judge.skips(c_library_is_new_enough, tensorflow={"wheel_tag": tag})
    assert reason == "the glibc version of the wheel or of the system is unknown"


def test_a_system_without_glibc_is_not_judged(judge: Judge) -> None:
    assert judge.skips(c_library_is_new_enough, system={"glibc": ""}, runtime=None)


def test_a_wheel_with_several_tags_is_judged_by_its_oldest(judge: Judge) -> None:
    tensorflow = {"wheel_tag": "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64"}
    assert judge.passes(c_library_is_new_enough, system={"glibc": "2.17"}, tensorflow=tensorflow, runtime=None)


def test_an_old_cpp_library_is_not_told_as_an_old_c_library(judge: Judge) -> None:
    library = "/opt/conda/lib/libstdc++.so.6"
    error = f"ImportError: {library}: version `GLIBCXX_3.4.29' not found (required by libtensorflow_cc.so.2)"
    finding = judge.finding(c_library_is_new_enough, runtime=failed_import(error))
    assert finding.cause == "glibc_too_old"
    assert "glibc 2.39 is older than 2.17" not in finding.message
    assert "GLIBCXX_3.4.29" in finding.message


@pytest.mark.parametrize("tag", ["", "cp312-cp312-linux_x86_64"])
def test_the_loaders_complaint_needs_no_tag(judge: Judge, tag: str) -> None:
    error = "ImportError: /lib64/libm.so.6: version `GLIBC_2.27' not found (required by libtensorflow_cc.so.2)"
    finding = judge.finding(
        c_library_is_new_enough,
        system={"glibc": "2.17"},
        tensorflow={"wheel_tag": tag},
        runtime=failed_import(error),
    )
    assert finding.cause == "glibc_too_old"


# SYS004


def test_linux_always_has_gpu_support(judge: Judge) -> None:
    assert judge.skips(system_has_gpu_support) == "TensorFlow always has GPU support on Linux"


@pytest.mark.parametrize("version", ["2.10.0", "2.10.1", "2.9.3", "1.15.5"])
def test_the_last_release_for_windows_leaves_the_driver_to_be_judged(judge: Judge, version: str) -> None:
    reason = judge.skips(system_has_gpu_support, system=WINDOWS, tensorflow={"version": version}, runtime=None)
    assert reason == f"TensorFlow {version} has GPU support on native Windows; the checks of the driver tell of a GPU"


@pytest.mark.parametrize("version", ["2.11.0", "2.20.0", "2.22.0.dev20261101", "3.0.0"])
def test_later_releases_have_no_gpu_support_on_windows(judge: Judge, version: str) -> None:
    tensorflow = {"version": version, "built_with_cuda": False, "wheel_tag": "cp312-cp312-win_amd64"}
    finding = judge.finding(
        system_has_gpu_support, system=WINDOWS, tensorflow=tensorflow, runtime=runtime(gpus=(), computations=())
    )
    assert (finding.cause, finding.severity) == ("native_windows_no_gpu_build", "error")
    assert version in finding.message
    assert "2.10" in finding.message
    assert "win_amd64" in finding.evidence[0]
    assert finding.fix and "WSL 2" in finding.fix.text
    assert finding.fix.commands == ()


def test_a_wheel_without_tag_is_named_by_its_distribution(judge: Judge) -> None:
    finding = judge.finding(system_has_gpu_support, system=WINDOWS, tensorflow={"wheel_tag": ""}, runtime=None)
    assert finding.evidence == ("the system is Windows, the wheel tensorflow",)


def test_a_mac_without_metal_lacks_it(judge: Judge) -> None:
    finding = judge.finding(system_has_gpu_support, system=MAC, runtime=runtime(gpus=(), computations=()))
    assert (finding.cause, finding.severity) == ("macos_metal_plugin_missing", "error")
    assert "/home/user/venv" in finding.evidence[0]
    assert finding.fix
    assert "TensorFlow 2.18, the newest release that its page names" in finding.fix.text
    assert finding.fix.commands == ("/home/user/venv/bin/python -m pip install 'tensorflow==2.18.*' tensorflow-metal",)


@pytest.mark.parametrize("version", ["2.18.0", "2.18.1", "2.15.0"])
def test_a_release_that_metal_supports_is_kept(judge: Judge, version: str) -> None:
    finding = judge.finding(system_has_gpu_support, system=MAC, tensorflow={"version": version}, runtime=None)
    assert finding.fix and finding.fix.commands == ("/home/user/venv/bin/python -m pip install tensorflow-metal",)


@pytest.mark.parametrize("python", ["3.13.1", "3.14.0"])
def test_where_metal_has_no_wheel_another_python_is_named(judge: Judge, python: str) -> None:
    there = target(version=python)
    finding = judge.finding(system_has_gpu_support, system=MAC, target=there, runtime=None)
    assert finding.fix
    assert "3.9, 3.10, 3.11, 3.12" in finding.fix.text
    assert finding.fix.commands == (
        "uv venv --seed --python 3.12 tensorflow-gpu",
        "uv pip install --python tensorflow-gpu 'tensorflow==2.18.*' tensorflow-metal",
        "tfgpu-doctor --python tensorflow-gpu",
    )


def test_a_mac_with_metal_passes(judge: Judge) -> None:
    there = packages(("tensorflow-metal", "1.2.0"))
    said = judge.passes(
        system_has_gpu_support, system=MAC, target=there, tensorflow={"version": "2.18.0"}, runtime=None
    )
    assert "tensorflow-metal 1.2.0" in said


def test_a_release_that_metal_does_not_name_is_not_judged_by_files(judge: Judge) -> None:
    there = packages(("tensorflow-metal", "1.2.0"))
    reason = judge.skips(system_has_gpu_support, system=MAC, target=there, runtime=None)
    assert (
        reason == "tensorflow-metal 1.2.0 is installed; whether it works with TensorFlow 2.20.0, only an import tells"
    )


def test_another_system_on_arm_is_not_told_to_install_metal(judge: Judge) -> None:
    system = {"os": "FreeBSD", "architecture": "arm64"}
    assert "FreeBSD" in judge.skips(system_has_gpu_support, system=system, runtime=None)


def test_a_mac_with_an_intel_processor_has_no_gpu_support(judge: Judge) -> None:
    reason = judge.skips(system_has_gpu_support, system={**MAC, "architecture": "x86_64"}, runtime=None)
    assert reason == "TensorFlow has no GPU support on Macs with Intel CPUs"


@pytest.mark.parametrize(
    ("system", "tensorflow", "metal", "healthy"),
    [
        ({**MAC, "architecture": "x86_64"}, "2.16.2", False, False),
        (WINDOWS, "2.10.1", False, False),
        (MAC, "2.18.0", True, True),
        (MAC, "2.20.0", True, False),
    ],
    ids=["Intel Mac", "Windows", "Apple silicon", "a release that Metal does not name"],
)
def test_a_quick_look_calls_no_system_healthy_on_which_it_saw_no_gpu(
    system: dict[str, Any], tensorflow: str, metal: bool, healthy: bool
) -> None:
    report = diagnose(
        broken(
            quick=True,
            system=system,
            target=packages(("numpy", "1.26.4"), *([("tensorflow-metal", "1.2.0")] if metal else ())),
            tensorflow={"version": tensorflow, "built_with_cuda": None},
            pci=None,
            driver=Driver(),
            device_nodes=None,
            driver_libraries=None,
            cuda_driver=cuda_without_library(),
            nvml=Nvml(attempt=ANSWERED, library_error="no NVML"),
            cuda_libraries=None,
            runtime=None,
        )
    )
    assert [result.id for result in report.results if result.outcome == "fail"] == []
    assert (report.healthy, report.judged, report.exit_code()) == (healthy, healthy, 0 if healthy else 3)


def test_a_quick_look_at_windows_asks_the_driver() -> None:
    machine = broken(broken_ground()["windows-2.10-two-gpus-healthy"], runtime=None)
    assert diagnose(msgspec.structs.replace(machine, quick=True)).healthy


def test_the_command_for_metal_survives_a_blank_in_the_path(judge: Judge) -> None:
    there = target(executable="/Users/jane doe/venv/bin/python")
    finding = judge.finding(system_has_gpu_support, system=MAC, target=there, runtime=None)
    assert finding.fix
    assert finding.fix.commands == (
        "'/Users/jane doe/venv/bin/python' -m pip install 'tensorflow==2.18.*' tensorflow-metal",
    )


@pytest.mark.parametrize(
    "sections",
    [
        {"system": WINDOWS, "tensorflow": {"version": "2.15.0"}},  # built by somebody for Windows
        {"system": MAC, "runtime": runtime(gpus=(gpu(description="METAL"),))},  # a plug-in of another name
    ],
    ids=["windows", "mac"],
)
def test_a_tensorflow_that_computes_on_a_gpu_has_gpu_support(judge: Judge, sections: dict[str, Any]) -> None:
    assert judge.does_not_object(system_has_gpu_support, **sections)
