"""DEV: the driver's files under /dev."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import DOCKER, cuda_that_fails, tensorflow_after, wsl
from every import every
from healthy import ANSWERED, broken, node

from tfgpu_doctor.checks.driver.device_nodes import device_nodes_exist, user_may_open_nodes, uvm_is_there
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.kernel import ModuleFiles
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNode, DeviceNodes, Driver
from tfgpu_doctor.model.facts.python import Target

if TYPE_CHECKING:
    from checks.conftest import Judge

UNKNOWN = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
NOTHING = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
HUNG = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="cuInit"))
JETSON = {"architecture": "aarch64", "board": "NVIDIA Jetson AGX Orin Developer Kit"}
ELSEWHERE: list[dict[str, Any]] = [{"os": "Windows"}, {"os": "Darwin"}, {"wsl": 2}, {"wsl": 1}, JETSON]
NEVER_ASKED = [
    CudaDriver(attempt=Attempt(outcome="not_started", error="No such file or directory")),
    CudaDriver(
        attempt=Attempt(outcome="failed", exit_code=1, error="ModuleNotFoundError: No module named 'encodings'")
    ),
    CudaDriver(attempt=Attempt(outcome="unparsable")),
]
SLURM = Scheduler(kind="slurm", job="81234", granted={"SLURM_JOB_GPUS": "0"})


def nodes(*given: DeviceNode | str, **changes: Any) -> DeviceNodes:
    made = tuple(node(each) if isinstance(each, str) else each for each in given)
    return DeviceNodes(**{"nodes": made, "opening": ANSWERED, "uid": 1000, "groups": (1000,), **changes})


def refused(path: str, error: str = "EACCES", **changes: Any) -> DeviceNode:
    return node(path, error=error, **changes)


# DEV001


def test_nodes_that_exist_pass(judge: Judge) -> None:
    evidence = judge.passes(device_nodes_exist, cuda_driver=None)
    assert evidence == "/dev/nvidia-modeset, /dev/nvidia-uvm, /dev/nvidia0, /dev/nvidiactl"


@pytest.mark.parametrize("first", ["/dev/nvidia0", "/dev/nvidia3", "/dev/nvidia12"])
def test_a_gpu_of_any_number_has_its_node(judge: Judge, first: str) -> None:
    assert judge.passes(device_nodes_exist, device_nodes=nodes(first, "/dev/nvidiactl"), cuda_driver=None)


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ((), "/dev/nvidiactl or /dev/nvidia0"),
        (("/dev/nvidiactl",), "/dev/nvidia0"),
        (("/dev/nvidia0",), "/dev/nvidiactl"),
        (("/dev/nvidia-uvm", "/dev/nvidia-modeset"), "/dev/nvidiactl or /dev/nvidia0"),
    ],
)
@pytest.mark.parametrize("cuda", [None, NOTHING, HUNG])
def test_a_loaded_driver_without_nodes_cannot_be_reached(
    judge: Judge, there: tuple[str, ...], missing: str, cuda: CudaDriver | None
) -> None:
    finding = judge.finding(device_nodes_exist, device_nodes=nodes(*there), cuda_driver=cuda)
    assert (finding.cause, finding.severity, finding.confidence) == ("no_nvidia_driver", "error", "medium")
    assert finding.message == f"the driver is loaded, but there is no {missing}"
    assert finding.evidence == (f"nodes that exist: {', '.join(there) or 'none'}",)
    assert finding.fix and "nvidia-modprobe" in finding.fix.text


def test_a_cuda_that_works_needs_no_nodes(judge: Judge) -> None:
    assert judge.passes(device_nodes_exist, device_nodes=nodes()) == "cuInit succeeds without them"


@pytest.mark.parametrize("cuda", NEVER_ASKED)
def test_nodes_that_cuda_was_not_asked_to_create_are_not_judged(judge: Judge, cuda: CudaDriver) -> None:
    reason = judge.skips(device_nodes_exist, device_nodes=nodes(), cuda_driver=cuda)
    assert reason == f"the process that queries the CUDA driver, which may create them, {cuda.attempt.ending}"
    assert judge.passes(device_nodes_exist, cuda_driver=cuda)


@pytest.mark.parametrize("system", ELSEWHERE)
def test_other_systems_have_other_nodes(judge: Judge, system: dict[str, Any]) -> None:
    assert judge.skips(device_nodes_exist, system=system, device_nodes=nodes(), cuda_driver=None)


# DEV002


def test_a_cuda_that_works_has_uvm(judge: Judge) -> None:
    assert judge.passes(uvm_is_there, driver={"modules": ("nvidia",)}, device_nodes=nodes()) == "cuInit succeeds"


@pytest.mark.parametrize("cuda", [None, NOTHING, UNKNOWN, HUNG])
def test_a_node_and_a_module_are_uvm(judge: Judge, cuda: CudaDriver | None) -> None:
    evidence = judge.passes(uvm_is_there, cuda_driver=cuda)
    assert evidence == "/dev/nvidia-uvm exists and the module is loaded"


def test_a_node_is_enough_where_no_module_can_be_seen(judge: Judge) -> None:
    assert judge.passes(uvm_is_there, driver=Driver(), cuda_driver=None) == "/dev/nvidia-uvm exists"


@pytest.mark.parametrize(
    ("there", "modules", "message"),
    [
        ((), ("nvidia",), "there is no /dev/nvidia-uvm"),
        ((), ("nvidia", "nvidia_uvm"), "there is no /dev/nvidia-uvm"),
        ((), (), "there is no /dev/nvidia-uvm"),
        (("/dev/nvidia-uvm",), ("nvidia",), "its module is not loaded"),
    ],
)
def test_uvm_that_is_not_there_is_missing(
    judge: Judge, there: tuple[str, ...], modules: tuple[str, ...], message: str
) -> None:
    finding = judge.finding(
        uvm_is_there, driver={"modules": modules}, device_nodes=nodes("/dev/nvidia0", *there), cuda_driver=UNKNOWN
    )
    assert (finding.cause, finding.severity) == ("nvidia_uvm_missing", "error")
    assert finding.message == f"nvidia-uvm is missing: {message}"
    assert "cuInit returned 999" in finding.evidence
    assert finding.fix and "nvidia-modprobe -u -c=0" in finding.fix.text
    assert finding.fix.commands == ()


def test_uvm_is_judged_without_cuda(judge: Judge) -> None:
    finding = judge.finding(uvm_is_there, driver={"modules": ("nvidia",)}, device_nodes=nodes(), cuda_driver=None)
    assert finding.evidence == ("/dev/nvidia-uvm does not exist", "the module nvidia_uvm is not loaded")


def test_a_cuda_without_a_code_is_no_evidence_about_uvm(judge: Judge) -> None:
    finding = judge.finding(uvm_is_there, driver={"modules": ("nvidia",)}, device_nodes=nodes(), cuda_driver=HUNG)
    assert "cuInit" not in str(finding.evidence)


RUNNING, NEXT = "6.16.10-arch1-1", "6.17.1-arch1-1"
# nvidia was loaded at the start for the display; nvidia-uvm is first needed after an upgrade removed the kernel's modules.
MODULES_GONE: dict[str, Any] = {
    "driver": {"modules": ("nvidia", "nvidia_modeset", "nvidia_drm"), "running_kernel": RUNNING, "built_for": (NEXT,)},
    "module_files": ModuleFiles(),
    "device_nodes": nodes("/dev/nvidia-modeset", "/dev/nvidia0", "/dev/nvidiactl"),
    "cuda_driver": UNKNOWN,
    "runtime": tensorflow_after(999, "CUDA_ERROR_UNKNOWN: unknown error"),
}


def test_uvm_cannot_be_loaded_once_the_modules_of_the_running_kernel_are_gone(judge: Judge) -> None:
    machine = broken(**MODULES_GONE)
    finding = judge.finding(uvm_is_there, machine)
    assert (finding.cause, finding.severity) == ("reboot_pending", "error")
    assert finding.message.startswith("nvidia-uvm is missing")
    assert f"/lib/modules/{RUNNING} holds no modules; {NEXT} has the NVIDIA module" in finding.evidence
    assert finding.fix and "Restart the machine" in finding.fix.text and "nvidia-modprobe" not in finding.fix.text
    assert [cause.label for cause in diagnose(machine).causes] == ["reboot_pending"]


@every(
    "changes",
    [
        {"module_files": None},
        {"module_files": ModuleFiles(headers=True)},  # the kernel has other modules
        {"driver": {"modules": ("nvidia",), "built_for": (RUNNING, NEXT), "running_kernel": RUNNING}},
        {"driver": {"modules": ("nvidia",), "built_for": (), "running_kernel": RUNNING}},  # NixOS
        {"driver": {"modules": ("nvidia", "nvidia_uvm"), "built_for": (NEXT,), "running_kernel": RUNNING}},
        {"container": DOCKER},  # /lib/modules is the image's
    ],
    key=lambda changes: str(changes),
)
def test_uvm_that_can_be_loaded_is_missing(judge: Judge, changes: dict[str, Any]) -> None:
    finding = judge.finding(uvm_is_there, broken(**{**MODULES_GONE, **changes}))
    assert finding.cause == "nvidia_uvm_missing"


@pytest.mark.parametrize("cuda", NEVER_ASKED)
def test_uvm_that_cuda_was_not_asked_to_load_is_not_judged(judge: Judge, cuda: CudaDriver) -> None:
    facts: dict[str, Any] = {
        "driver": {"modules": ("nvidia",)},
        "device_nodes": nodes("/dev/nvidia0", "/dev/nvidiactl"),
    }
    reason = judge.skips(uvm_is_there, **facts, cuda_driver=cuda)
    assert reason == f"the process that queries the CUDA driver, which may load the module, {cuda.attempt.ending}"
    assert judge.passes(uvm_is_there, cuda_driver=cuda) == "/dev/nvidia-uvm exists and the module is loaded"


def test_a_python_that_does_not_start_is_the_only_fault_of_a_machine_just_booted() -> None:
    attempt = Attempt(outcome="not_started", error="No such file or directory")
    machine = broken(
        target=Target(attempt=attempt, executable="/opt/python"),
        cuda_driver=CudaDriver(attempt=attempt),
        driver={"modules": ("nvidia",)},
        device_nodes=nodes(),
        runtime=None,
        tensorflow=None,
    )
    report = diagnose(machine)
    assert [result.id for result in report.results if result.outcome == "fail"] == ["PKG001"]


@pytest.mark.parametrize("system", ELSEWHERE)
def test_other_systems_have_no_uvm(judge: Judge, system: dict[str, Any]) -> None:
    assert judge.skips(uvm_is_there, system=system, device_nodes=nodes(), cuda_driver=None)


# DEV003


def test_nodes_that_open_pass(judge: Judge) -> None:
    assert (
        judge.passes(user_may_open_nodes, device_nodes=nodes("/dev/nvidia0"), cuda_driver=None) == "opened /dev/nvidia0"
    )


def test_without_nodes_there_is_nothing_to_open(judge: Judge) -> None:
    assert judge.skips(user_may_open_nodes, device_nodes=DeviceNodes()) == "there is no node to open"


@pytest.mark.parametrize("mode", ["", "rw-rw----", "0o660", "99"])
def test_a_mode_that_no_system_writes_is_not_judged(judge: Judge, mode: str) -> None:
    finding = judge.finding(
        user_may_open_nodes, device_nodes=nodes(refused("/dev/nvidia0", mode=mode)), cuda_driver=NOTHING
    )
    assert finding.cause == "undetermined"
    assert "its mode is not known" in finding.message


def test_a_cuda_that_works_may_have_been_refused_a_node(judge: Judge) -> None:
    evidence = judge.passes(user_may_open_nodes, device_nodes=nodes(refused("/dev/nvidia-modeset"), "/dev/nvidia0"))
    assert evidence == "cuInit succeeds, although opening /dev/nvidia-modeset fails with EACCES"


@pytest.mark.parametrize("cuda", [None, NOTHING, HUNG])
def test_a_user_outside_of_the_nodes_group_may_not_open_it(judge: Judge, cuda: CudaDriver | None) -> None:
    finding = judge.finding(
        user_may_open_nodes,
        device_nodes=nodes(
            refused("/dev/nvidia0", mode="0660", gid=44), refused("/dev/nvidiactl", mode="0660", gid=44)
        ),
        cuda_driver=cuda,
    )
    assert (finding.cause, finding.severity) == ("device_node_permission_denied", "error")
    assert finding.confidence == "high"
    assert finding.message == "this user may not open /dev/nvidia0: mode 0660, group 44, and you are not in it"
    assert finding.evidence == (
        "/dev/nvidia0 (mode 0660, group 44): EACCES",
        "/dev/nvidiactl (mode 0660, group 44): EACCES",
    )
    assert finding.fix and "group 44" in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize(
    ("mode", "user", "allowed"),
    [
        ("0660", {"groups": (1000, 44)}, True),
        ("0640", {"groups": (1000, 44)}, False),  # reading is not enough
        ("0666", {}, True),
        ("0664", {}, False),
        ("0662", {}, False),
        ("0600", {"uid": 0}, True),
        ("0600", {"uid": 500}, True),  # the owner
        ("0600", {}, False),
    ],
)
def test_a_mode_that_lets_the_user_in_leaves_something_else_to_forbid_it(
    judge: Judge, mode: str, user: dict[str, Any], allowed: bool
) -> None:
    refusal = refused("/dev/nvidia0", mode=mode, gid=44, uid=500)
    finding = judge.finding(
        user_may_open_nodes, container=DOCKER, device_nodes=nodes(refusal, **user), cuda_driver=NOTHING
    )
    assert finding.cause == ("selinux_blocks_container_gpu" if allowed else "device_node_permission_denied")


def test_a_job_is_not_blamed_for_what_the_mode_forbids(judge: Judge) -> None:
    refusal = refused("/dev/nvidia0", mode="0660", gid=44)
    finding = judge.finding(user_may_open_nodes, scheduler=SLURM, device_nodes=nodes(refusal), cuda_driver=NOTHING)
    assert finding.cause == "device_node_permission_denied"


def test_nodes_are_judged_without_knowing_how_they_were_opened(judge: Judge) -> None:
    refusal = refused("/dev/nvidia0", mode="0660", gid=44)
    finding = judge.finding(user_may_open_nodes, device_nodes=nodes(refusal, opening=None), cuda_driver=NOTHING)
    assert finding.cause == "device_node_permission_denied"


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_a_container_is_kept_out_by_selinux_where_the_mode_lets_everybody_in(judge: Judge, kind: str) -> None:
    finding = judge.finding(
        user_may_open_nodes,
        container=Container(kind=kind),
        device_nodes=nodes(refused("/dev/nvidia0")),
        cuda_driver=NOTHING,
    )
    assert (finding.cause, finding.severity, finding.confidence) == ("selinux_blocks_container_gpu", "error", "medium")
    assert "/dev/nvidia0" in finding.message
    assert finding.fix and "container_use_devices" in finding.fix.text


def test_a_container_whose_user_lacks_the_group_is_not_blamed_on_selinux(judge: Judge) -> None:
    finding = judge.finding(
        user_may_open_nodes,
        container=DOCKER,
        device_nodes=nodes(refused("/dev/nvidia0", mode="0660", gid=44)),
        cuda_driver=NOTHING,
    )
    assert finding.cause == "device_node_permission_denied"


def test_a_container_that_lost_its_right_to_the_devices_is_told_so(judge: Judge) -> None:
    finding = judge.finding(
        user_may_open_nodes,
        container=DOCKER,
        device_nodes=nodes(refused("/dev/nvidia0", "EPERM")),
        cuda_driver=NOTHING,
    )
    assert (finding.cause, finding.severity, finding.confidence) == ("container_lost_gpu_cgroup", "error", "medium")
    assert finding.fix and "Restart the container" in finding.fix.text


def test_what_restricts_the_container_is_evidence(judge: Judge) -> None:
    confined = Container(kind="podman", user_namespace=True, seccomp="filter")
    refusal = nodes(refused("/dev/nvidia0"))
    finding = judge.finding(user_may_open_nodes, container=confined, device_nodes=refusal, cuda_driver=NOTHING)
    assert finding.evidence[-1] == "container: in its own user namespace, seccomp mode filter"
    assert finding.confidence == "medium"


@pytest.mark.parametrize("container", [Container(), Container(kind="apptainer")])
def test_a_job_whose_rules_forbid_the_device_was_not_granted_it(judge: Judge, container: Container) -> None:
    finding = judge.finding(
        user_may_open_nodes,
        container=container,
        scheduler=Scheduler(kind="slurm", job="1"),
        device_nodes=nodes(refused("/dev/nvidia0", "EPERM")),
        cuda_driver=NOTHING,
    )
    assert (finding.cause, finding.severity) == ("scheduler_did_not_grant_gpu", "error")
    assert finding.fix and "--gres=gpu:1" in finding.fix.text


@pytest.mark.parametrize("error", ["EIO", "ENXIO", "ENODEV"])
@pytest.mark.parametrize("container", [Container(), DOCKER])
def test_another_error_has_no_known_cause(judge: Judge, error: str, container: Container) -> None:
    refusal = nodes(refused("/dev/nvidia0", error))
    finding = judge.finding(user_may_open_nodes, container=container, device_nodes=refusal, cuda_driver=UNKNOWN)
    assert finding.cause == "undetermined"
    assert error in finding.message
    assert finding.fix and "dmesg" in finding.fix.text


@pytest.mark.parametrize(
    ("opening", "words"),
    [
        (Attempt(outcome="timed_out", seconds=10.0, phase="opening /dev/nvidia0"), "did not respond within 10 s"),
        (Attempt(outcome="killed_by_signal", signal="SIGBUS"), "was killed by SIGBUS"),
    ],
)
def test_a_node_that_never_opens_is_told_as_such(judge: Judge, opening: Attempt, words: str) -> None:
    hanging = nodes(refused("/dev/nvidia0", "no response"), opening=opening)
    finding = judge.finding(user_may_open_nodes, device_nodes=hanging, cuda_driver=HUNG, nvml=None, runtime=None)
    assert (finding.cause, finding.severity, finding.blocks) == ("undetermined", "error", True)
    assert words in finding.message
    assert finding.evidence == ("/dev/nvidia0: no response",)


SLOW = nodes(
    refused("/dev/nvidia0", "no response"),
    opening=Attempt(outcome="timed_out", seconds=34.0, phase="opening /dev/nvidia0"),
)


def test_a_node_that_opens_slowly_is_a_suspicion_where_nvml_reads_its_gpu(judge: Judge) -> None:
    finding = judge.finding(user_may_open_nodes, device_nodes=SLOW, cuda_driver=HUNG, runtime=None)
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert finding.fix and "--deadline" in finding.fix.text and "reset" not in finding.fix.text


def test_a_node_that_opens_slowly_is_open_where_tensorflow_computes(judge: Judge) -> None:
    evidence = judge.passes(user_may_open_nodes, device_nodes=SLOW, cuda_driver=HUNG)
    assert evidence == "TensorFlow computes on the GPU"


@pytest.mark.parametrize(
    "opening",
    [
        Attempt(outcome="not_started", error="Resource temporarily unavailable"),
        Attempt(outcome="failed", exit_code=1, error="MemoryError"),
        Attempt(outcome="unparsable"),
    ],
)
def test_trouble_of_the_doctors_own_is_no_fault_of_the_nodes(judge: Judge, opening: Attempt) -> None:
    unknown = nodes(refused("/dev/nvidia0", "no response"), opening=opening)
    why = judge.skips(user_may_open_nodes, device_nodes=unknown, cuda_driver=HUNG, runtime=None)
    assert opening.ending in why


def test_the_node_of_wsl_is_judged_alike(judge: Judge) -> None:
    machine = wsl(2, device_nodes=nodes(refused("/dev/dxg", mode="0660", gid=44)), cuda_driver=NOTHING)
    assert judge.finding(user_may_open_nodes, machine).cause == "device_node_permission_denied"


@pytest.mark.parametrize("cuda", [None, UNKNOWN])
@pytest.mark.parametrize(
    ("refusal", "machine"),
    [
        (refused("/dev/nvidia1", "EPERM"), {"scheduler": SLURM}),  # the GPU of another job
        (refused("/dev/nvidia-modeset", "EPERM"), {"container": DOCKER}),  # for drawing alone
    ],
    ids=["another job's GPU", "modeset"],
)
def test_a_node_that_is_not_needed_may_be_refused(
    judge: Judge, refusal: DeviceNode, machine: dict[str, Any], cuda: CudaDriver | None
) -> None:
    mine = nodes("/dev/nvidia0", refusal, "/dev/nvidiactl", "/dev/nvidia-uvm")
    assert judge.does_not_object(user_may_open_nodes, device_nodes=mine, cuda_driver=cuda, **machine)


def test_outside_of_a_container_none_is_blamed(judge: Judge) -> None:
    finding = judge.finding(
        user_may_open_nodes, device_nodes=nodes(refused("/dev/nvidia0", "EPERM")), cuda_driver=NOTHING
    )
    assert finding.cause != "container_lost_gpu_cgroup"
    assert finding.fix and "Restart the container" not in finding.fix.text


def test_outside_of_a_container_a_mode_that_lets_everybody_in_is_not_blamed(judge: Judge) -> None:
    finding = judge.finding(user_may_open_nodes, device_nodes=nodes(refused("/dev/nvidia0")), cuda_driver=NOTHING)
    assert "you are not in it" not in finding.message


def test_nobody_is_told_to_join_a_group_that_has_no_right_itself(judge: Judge) -> None:
    finding = judge.finding(
        user_may_open_nodes, device_nodes=nodes(refused("/dev/nvidia0", mode="0600")), cuda_driver=NOTHING
    )
    assert finding.cause == "device_node_permission_denied"
    assert finding.fix and "add you to the group 0" not in finding.fix.text


# Who forbids it


V1_RULES = ("c 1:3 rwm", "c 5:0 rwm")


def all_refused(error: str) -> DeviceNodes:
    return nodes(*(refused(path, error) for path in ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")))


@pytest.mark.parametrize(
    ("rules", "sure"), [(V1_RULES, True), ((*V1_RULES, "c 195:* rw"), False), (("a *:* rwm",), False), ((), False)]
)
def test_device_rules_that_can_be_read_make_it_sure(judge: Judge, rules: tuple[str, ...], sure: bool) -> None:
    finding = judge.finding(
        user_may_open_nodes,
        device_nodes=all_refused("EPERM"),
        container=DOCKER,
        cuda_driver=NOTHING,
        limits=Limits(device_rules=rules),
    )
    assert finding.cause == "container_lost_gpu_cgroup"
    assert finding.confidence == ("high" if sure else "medium")


def test_selinuxs_label_of_containers_makes_it_sure(judge: Judge) -> None:
    labelled = msgspec.structs.replace(DOCKER, security_label="system_u:system_r:container_t:s0:c1,c2")
    finding = judge.finding(
        user_may_open_nodes, device_nodes=all_refused("EACCES"), container=labelled, cuda_driver=NOTHING
    )
    assert (finding.cause, finding.confidence) == ("selinux_blocks_container_gpu", "high")
    assert any("container_t" in line for line in finding.evidence)


def test_apparmor_is_not_selinux(judge: Judge) -> None:
    labelled = msgspec.structs.replace(DOCKER, security_label="docker-default (enforce)")
    finding = judge.finding(
        user_may_open_nodes, device_nodes=all_refused("EACCES"), container=labelled, cuda_driver=NOTHING
    )
    assert finding.cause == "undetermined"
    assert finding.fix and "apparmor=unconfined" in finding.fix.text
