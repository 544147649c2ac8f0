"""Every root cause of the vocabulary is shown by something: a check, a log, or marked as one that a person must find."""

from __future__ import annotations

import pytest
from doctor_command import run_doctor
from every import every
from locations import TESTS

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import Cause
from tfgpu_doctor.model import UNDETERMINED

CAUSES = read_knowledge().causes
DECLARED = {label for check in ALL_CHECKS for label in check.causes}
BY_LOG = {label for label, cause in CAUSES.items() if cause.shown_by == "log"}
# What the classification of logs finds without a rule: that nothing is wrong.
WITHOUT_RULE = {"harmless_noise_only"}


@every("cause", CAUSES.values(), key=lambda cause: cause.label)
def test_a_label_is_named_by_a_check_or_says_what_shows_it(cause: Cause) -> None:
    named = cause.label in DECLARED or cause.label == UNDETERMINED  # every check may find what it cannot name
    assert named == (cause.shown_by == "check")


def test_a_label_that_logs_show_has_a_rule_for_them() -> None:
    ruled = {rule.label for rule in read_knowledge().log_rules}
    assert ruled >= BY_LOG - WITHOUT_RULE


def test_what_is_for_people_alone_has_no_rule() -> None:
    ruled = {rule.label for rule in read_knowledge().log_rules}
    assert not ruled & {label for label, cause in CAUSES.items() if cause.shown_by == "advice"}


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("device_config_after_init", "`tfgpu-doctor log` finds it"),
        ("reboot_pending", "DRV011"),
        ("container_toolkit_missing", "CNT006"),
    ],
)
def test_explain_says_what_shows_it(label: str, words: str) -> None:
    done = run_doctor("explain", label)
    assert done.returncode == 0
    assert words in done.stdout


def test_checks_declare_labels_of_the_vocabulary_alone() -> None:
    assert set(CAUSES) >= DECLARED


def test_the_ground_has_a_machine_for_each_label_that_it_can_show() -> None:
    """Labels of this project's containers, batch systems, platforms and environments are first on some machine."""
    import json

    machines = TESTS / "machines"
    first = {tuple(json.loads(path.read_text())["causes"])[:1] for path in machines.glob("*/*/expected.json")}
    wanted = {
        "container_started_without_gpu", "container_toolkit_missing", "container_toolkit_misconfigured",
        "docker_installed_as_snap", "container_lost_gpu_cgroup", "selinux_blocks_container_gpu", "docker_shm_too_small",
        "nvidia_driver_capabilities_without_compute", "scheduler_did_not_grant_gpu", "no_gpu_in_machine",
        "wsl1_instead_of_wsl2", "wsl_libcuda_not_on_path", "native_windows_no_gpu_build", "aarch64_wheel_without_cuda",
        "macos_metal_plugin_missing", "macos_metal_plugin_mismatch", "cpu_without_avx", "glibc_too_old",
        "wrong_python_environment", "externally_managed_python", "tensorflow_gpu_package_removed",
        "keras3_incompatible_code", "input_pipeline_bound", "conda_cpu_build_selected", "mixed_conda_pip_install",
        "unsupported_python_version", "user_site_shadowing", "local_module_shadows_tensorflow",
    }  # fmt: skip
    assert {label for label in wanted if (label,) not in first} == set()
