"""CNT: containers and batch jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import (
    DOCKER,
    NO_LIBCUDA,
    NO_LIBRARIES,
    NO_NVML,
    cuda_that_fails,
    cuda_without_library,
    several,
    tensorflow_after,
    variables,
    without_gpu_in,
    wsl,
)
from every import every
from healthy import ANSWERED, DRIVER, broken, cuda_gpu, driver_library, node, runtime

from tfgpu_doctor.checks.container.access import (
    container_has_compute_libraries,
    container_has_gpu,
    job_was_granted_gpu,
    shared_memory_suffices,
)
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Container, Environment, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Libraries, Nvml
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

NOTHING = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
HUNG = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="cuInit"))
WITHOUT_NVML = Nvml(attempt=ANSWERED, library_error=NO_NVML)


def nodes(*paths: str) -> DeviceNodes:
    return DeviceNodes(nodes=tuple(node(path) for path in paths), opening=ANSWERED, uid=1000)


# CNT001


def test_a_machine_that_is_no_container_is_not_judged_as_one(judge: Judge) -> None:
    assert judge.skips(container_has_gpu) == "this is not a container"


@pytest.mark.parametrize("path", ["/dev/nvidia0", "/dev/nvidia3", "/dev/nvidia15", "/dev/dxg", "/dev/nvmap"])
def test_a_node_of_the_gpu_shows_that_the_container_has_it(judge: Judge, path: str) -> None:
    evidence = judge.passes(container_has_gpu, container=DOCKER, device_nodes=nodes(path), cuda_driver=None, nvml=None)
    assert evidence == f"{path} in a docker container"


@pytest.mark.parametrize("known", ["cuda_driver", "nvml"])
def test_a_driver_that_lists_a_gpu_needs_no_node(judge: Judge, known: str) -> None:
    unknown = {"cuda_driver": None, "nvml": None}
    del unknown[known]
    assert judge.passes(container_has_gpu, container=DOCKER, device_nodes=DeviceNodes(), **unknown)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("docker", "docker run --gpus all"),
        ("podman", "--device nvidia.com/gpu=all"),
        ("kubernetes", "nvidia.com/gpu: 1"),
        ("apptainer", "apptainer exec --nv"),
        ("lxc", "lxc config device add"),
        ("containerd", "nerdctl run --gpus all"),
        ("systemd-nspawn", "--bind=/dev/nvidia0"),
        ("enroot", "NVIDIA_VISIBLE_DEVICES=all"),
        ("charliecloud", "ch-fromhost --nvidia IMAGE"),
        ("garden", "as described in the engine's documentation"),
    ],
)
def test_a_container_without_nodes_was_started_without_the_gpu(judge: Judge, kind: str, words: str) -> None:
    finding = judge.finding(container_has_gpu, without_gpu_in(Container(kind=kind, evidence=("a mark",))))
    assert (finding.cause, finding.severity) == ("container_started_without_gpu", "error")
    assert kind in finding.message
    assert "container detected: a mark" in finding.evidence
    assert "NVIDIA_VISIBLE_DEVICES is not set" in finding.evidence
    assert finding.fix and words in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize("asked", ["void", "none", "", "all"])
def test_what_the_container_asked_for_is_evidence(judge: Judge, asked: str) -> None:
    machine = without_gpu_in(DOCKER, environment=variables(NVIDIA_VISIBLE_DEVICES=asked))
    assert f"NVIDIA_VISIBLE_DEVICES is {asked!r}" in judge.finding(container_has_gpu, machine).evidence


def test_a_container_without_a_mark_is_named_by_its_kind(judge: Judge) -> None:
    finding = judge.finding(container_has_gpu, without_gpu_in(Container(kind="docker")))
    assert "container detected: docker" in finding.evidence


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"engine": "containerd", "user_namespace": True, "seccomp": "filter"},
            "container: engine containerd, in its own user namespace, seccomp mode filter",
        ),
        ({"engine": "kubernetes", "user_namespace": False, "seccomp": "off"}, "container: seccomp mode off"),
        ({"user_namespace": False}, ""),
    ],
)
def test_engine_and_restrictions_of_a_container_are_evidence(judge: Judge, changes: dict[str, Any], line: str) -> None:
    pod = Container(kind="kubernetes", evidence=("a mark",), **changes)
    finding = judge.finding(container_has_gpu, without_gpu_in(pod))
    assert [each for each in finding.evidence if each.startswith("container: ")] == ([line] if line else [])
    said = judge.passes(container_has_gpu, container=pod, device_nodes=nodes("/dev/nvidia0"))
    assert said.splitlines() == ["/dev/nvidia0 in a kubernetes container", *([line] if line else [])]


def test_the_control_node_alone_is_no_gpu(judge: Judge) -> None:
    machine = without_gpu_in(DOCKER, device_nodes=nodes("/dev/nvidiactl", "/dev/nvidia-uvm"))
    assert judge.finding(container_has_gpu, machine).cause == "container_started_without_gpu"


# The host's /dev without the driver's libraries: Apptainer binds /dev by default
# (https://apptainer.org/docs/user/latest/bind_paths_and_mounts.html) and `docker run --privileged` shows every device.
HOSTS_DEV: dict[str, Any] = {
    "device_nodes": nodes("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"),
    "driver_libraries": NO_LIBRARIES,
    "cuda_driver": cuda_without_library(),
    "nvml": WITHOUT_NVML,
    "runtime": tensorflow_after(303, "UNKNOWN ERROR"),
}
APPTAINER = Container(kind="apptainer", evidence=("/.singularity.d exists",))
ENROOT = Container(kind="enroot", evidence=("enroot's /.lock is mounted",))
STUB = driver_library("libcuda", path="/usr/local/cuda/lib64/stubs/libcuda.so.1", kind="stub", found_in="known place")


@every(
    "container, changes, words",
    [
        (APPTAINER, {}, "apptainer exec --nv"),
        (DOCKER, {}, "docker run --gpus all"),
        (Container(kind="podman"), {}, "--device nvidia.com/gpu=all"),
        (Container(kind="kubernetes"), {}, "nvidia.com/gpu: 1"),
        (Container(kind="containerd"), {}, "nerdctl run --gpus all"),
        (DOCKER, {"environment": variables(NVIDIA_DRIVER_CAPABILITIES="compute,utility")}, "docker run --gpus all"),
        (DOCKER, {"environment": variables(NVIDIA_DRIVER_CAPABILITIES="all")}, "docker run --gpus all"),
        (DOCKER, {"driver_libraries": Libraries(copies=(STUB,))}, "docker run --gpus all"),
        (APPTAINER, {"resolution": Resolution()}, "apptainer exec --nv"),
        (APPTAINER, {"runtime": None}, "apptainer exec --nv"),
        # NVIDIA/enroot#205, NVIDIA/pyxis#110: an image that does not set NVIDIA_VISIBLE_DEVICES
        (ENROOT, {}, "srun --container-image"),
        (
            ENROOT,
            {"environment": variables(NVIDIA_DRIVER_CAPABILITIES="compute,utility")},
            "NVIDIA_VISIBLE_DEVICES=all",
        ),
        (Container(kind="charliecloud"), {}, "ch-fromhost --nvidia"),
    ],
    key=lambda container, changes, words: f"{container.kind} {list(changes)}",
)
def test_nodes_without_any_library_of_the_driver_are_not_the_gpu(
    judge: Judge, container: Container, changes: dict[str, Any], words: str
) -> None:
    machine = broken(**{**HOSTS_DEV, "container": container, **changes})
    finding = judge.finding(container_has_gpu, machine)
    assert (finding.cause, finding.severity) == ("container_started_without_gpu", "error")
    assert "/dev/nvidia0" in finding.evidence[0]
    assert {NO_LIBCUDA, NO_NVML} <= set(finding.evidence)
    assert finding.fix and words in finding.fix.text
    assert [cause.label for cause in diagnose(machine).causes] == ["container_started_without_gpu"]


OFF_PATH = {"path": "/usr/local/nvidia/lib64/libcuda.so.1", "found_in": "known place"}  # of Kubernetes on GKE
IN_RUNPATH = ResolvedLibrary(soname="libcuda.so.1", found=True, needed_by_tensorflow=True, found_by="RUNPATH")


@every(
    "changes",
    [
        {"container": Container(kind="lxc")},  # its owner installs the libraries in it
        {"container": Container(kind="systemd-nspawn")},
        {"cuda_driver": cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")},
        {"nvml": Nvml(attempt=ANSWERED, error_code=9, error_text="Driver Not Loaded")},
        {"cuda_driver": None},
        {"nvml": None},
        {"driver_libraries": None},
        {"cuda_driver": HUNG},
        {"environment": variables(NVIDIA_DRIVER_CAPABILITIES="utility")},
        {"environment": variables(NVIDIA_DRIVER_CAPABILITIES="video")},
        {"driver_libraries": Libraries(copies=(driver_library("libcuda", **OFF_PATH),))},
        {"driver_libraries": Libraries(copies=(driver_library("libnvidia-ml"),))},
        {"driver_libraries": Libraries(copies=(driver_library("libcuda", kind="wsl"),))},
        {"device_nodes": nodes("/dev/dxg")},
        {"device_nodes": nodes("/dev/nvmap", "/dev/nvidia0")},
        {"resolution": Resolution(libraries=(IN_RUNPATH,))},
        {"runtime": runtime()},
    ],
    key=lambda changes: str(changes)[:90],
)
def test_nodes_are_the_gpu_where_the_libraries_are_missing_for_another_reason(
    judge: Judge, changes: dict[str, Any]
) -> None:
    judge.passes(container_has_gpu, broken(**{**HOSTS_DEV, "container": DOCKER, **changes}))


def test_a_container_is_judged_without_cuda_and_nvml(judge: Judge) -> None:
    assert judge.finding(container_has_gpu, without_gpu_in(DOCKER), cuda_driver=None, nvml=None)


def test_a_container_in_wsl_has_its_gpu(judge: Judge) -> None:
    assert "/dev/dxg" in judge.passes(container_has_gpu, wsl(2, container=DOCKER))


# CNT002


def test_the_libraries_of_a_machine_that_is_no_container_are_judged_elsewhere(judge: Judge) -> None:
    assert judge.skips(container_has_compute_libraries) == "this is not a container"


@pytest.mark.parametrize("asked", [None, "", "all", "compute,utility", "compute, utility,video", "graphics"])
def test_a_container_whose_libraries_open_passes(judge: Judge, asked: str | None) -> None:
    environment = Environment(variables={} if asked is None else {"NVIDIA_DRIVER_CAPABILITIES": asked})
    evidence = judge.passes(container_has_compute_libraries, container=DOCKER, environment=environment)
    assert evidence == f"libcuda and libnvidia-ml can be opened; NVIDIA_DRIVER_CAPABILITIES is {asked or 'not set'}"


@pytest.mark.parametrize("asked", ["utility", "utility,graphics", " video , utility "])
def test_a_container_without_compute_lacks_libcuda(judge: Judge, asked: str) -> None:
    finding = judge.finding(
        container_has_compute_libraries,
        container=DOCKER,
        environment=variables(NVIDIA_DRIVER_CAPABILITIES=asked),
        cuda_driver=cuda_without_library(),
        runtime=None,
    )
    assert (finding.cause, finding.severity) == ("nvidia_driver_capabilities_without_compute", "error")
    assert f"NVIDIA_DRIVER_CAPABILITIES={asked}" in finding.message
    assert "libcuda.so.1 (part of 'compute')" in finding.message
    assert "libnvidia-ml" not in finding.message
    assert finding.evidence == (NO_LIBCUDA,)
    assert finding.fix and "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.fix.text


def test_enroot_gives_no_libcuda_where_no_capabilities_are_asked_for(judge: Judge) -> None:
    machine = broken(
        container=ENROOT,
        environment=variables(NVIDIA_VISIBLE_DEVICES="all"),
        cuda_driver=cuda_without_library(),
        driver_libraries=Libraries(copies=(driver_library("libnvidia-ml"),)),
        runtime=tensorflow_after(303, "UNKNOWN ERROR"),
    )
    finding = judge.finding(container_has_compute_libraries, machine)
    assert finding.message == (
        "the container was started without NVIDIA_DRIVER_CAPABILITIES, which enroot takes for utility, and therefore lacks "
        "libcuda.so.1 (part of 'compute')"
    )
    assert finding.fix and "srun" in finding.fix.text and "-e " not in finding.fix.text
    assert [cause.label for cause in diagnose(machine).causes] == ["nvidia_driver_capabilities_without_compute"]


def test_enroot_with_both_libraries_passes(judge: Judge) -> None:
    assert judge.passes(container_has_compute_libraries, container=ENROOT)


def test_a_container_without_utility_lacks_nvml(judge: Judge) -> None:
    finding = judge.finding(
        container_has_compute_libraries,
        container=DOCKER,
        environment=variables(NVIDIA_DRIVER_CAPABILITIES="compute"),
        nvml=WITHOUT_NVML,
        runtime=None,
    )
    assert finding.cause == "nvidia_driver_capabilities_without_compute"
    assert "lacks libnvidia-ml.so.1 (part of 'utility')" in finding.message
    assert finding.evidence == (NO_NVML,)


def test_a_container_with_neither_lacks_both(judge: Judge) -> None:
    finding = judge.finding(
        container_has_compute_libraries,
        container=DOCKER,
        environment=variables(NVIDIA_DRIVER_CAPABILITIES="video"),
        cuda_driver=cuda_without_library(),
        nvml=WITHOUT_NVML,
        runtime=None,
    )
    assert "lacks libcuda.so.1 (part of 'compute') and libnvidia-ml.so.1 (part of 'utility')" in finding.message
    assert finding.evidence == (NO_LIBCUDA, NO_NVML)


@pytest.mark.parametrize("asked", [None, "", "all", "compute,utility"])
def test_a_library_that_is_missing_for_another_reason_is_judged_elsewhere(judge: Judge, asked: str | None) -> None:
    environment = Environment(variables={} if asked is None else {"NVIDIA_DRIVER_CAPABILITIES": asked})
    reason = judge.skips(
        container_has_compute_libraries,
        container=DOCKER,
        environment=environment,
        cuda_driver=cuda_without_library(),
        nvml=WITHOUT_NVML,
    )
    assert "NVIDIA_DRIVER_CAPABILITIES is not the reason" in reason


@pytest.mark.parametrize("lost", [{"cuda_driver": cuda_without_library()}, {"nvml": WITHOUT_NVML}])
def test_one_library_that_is_missing_for_another_reason_is_judged_elsewhere(judge: Judge, lost: dict[str, Any]) -> None:
    environment = variables(NVIDIA_DRIVER_CAPABILITIES="all")
    assert judge.skips(container_has_compute_libraries, container=DOCKER, environment=environment, **lost)


def test_a_missing_library_is_not_followed_by_its_contrary(judge: Judge) -> None:
    yielded = judge(
        container_has_compute_libraries,
        container=DOCKER,
        environment=variables(NVIDIA_DRIVER_CAPABILITIES="utility"),
        cuda_driver=cuda_without_library(),
        runtime=None,
    )
    assert "libcuda and libnvidia-ml can be opened" not in str(yielded)


def test_a_tensorflow_that_does_without_nvml_is_left_in_peace(judge: Judge) -> None:
    assert judge.does_not_object(
        container_has_compute_libraries,
        container=DOCKER,
        tensorflow={"version": "2.15.1"},
        environment=variables(NVIDIA_DRIVER_CAPABILITIES="compute"),
        nvml=WITHOUT_NVML,
    )


# CNT003

GIB = 1 << 30
TWO = {"gpus": (cuda_gpu(0), cuda_gpu(1))}


@pytest.mark.parametrize("size", [GIB, GIB + 1, 64 * GIB])
def test_enough_shared_memory_passes(judge: Judge, size: int) -> None:
    container = Container(kind="docker", shm_bytes=size)
    assert f"{size >> 20} MiB" in judge.passes(shared_memory_suffices, container=container, cuda_driver=TWO)


@pytest.mark.parametrize("size", [0, 64 << 20, GIB - 1])
def test_several_gpus_need_more_shared_memory_than_docker_gives(judge: Judge, size: int) -> None:
    container = Container(kind="docker", shm_bytes=size)
    finding = judge.finding(shared_memory_suffices, container=container, cuda_driver=TWO)
    assert (finding.cause, finding.severity) == ("docker_shm_too_small", "warning")
    assert finding.message == f"/dev/shm has {size >> 20} MiB, too little for NCCL between 2 GPUs"
    assert finding.evidence == (f"{size} bytes; NCCL's guide recommends 1 GiB",)
    assert finding.fix and "--shm-size=1g" in finding.fix.text


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({}, "this is not a container"),
        ({"container": Container(kind="docker")}, "the size of /dev/shm could not be read"),
        ({"container": DOCKER}, "relevant only with several GPUs"),
        ({"container": DOCKER, "cuda_driver": NOTHING}, "relevant only with several GPUs"),
    ],
)
def test_shared_memory_matters_to_several_gpus_in_a_container(
    judge: Judge, sections: dict[str, Any], reason: str
) -> None:
    assert judge.skips(shared_memory_suffices, **sections) == reason


# CNT004

SLURM = Scheduler(kind="slurm", job="81234")
GRANTED = Scheduler(kind="slurm", job="81235", granted={"SLURM_JOB_GPUS": "0", "SLURM_GPUS_ON_NODE": "1"})
NO_DEVICES = Environment(variables={"CUDA_VISIBLE_DEVICES": "NoDevFiles"})


def test_a_process_outside_of_a_job_is_not_judged(judge: Judge) -> None:
    assert judge.skips(job_was_granted_gpu) == "this is not a batch job"


@pytest.mark.parametrize("scheduler", [SLURM, GRANTED, Scheduler(kind="pbs", job="7.head")])
def test_a_job_in_which_cuda_lists_a_gpu_was_granted_one(judge: Judge, scheduler: Scheduler) -> None:
    assert "CUDA lists 1 GPU" in judge.passes(job_was_granted_gpu, scheduler=scheduler)


@pytest.mark.parametrize("cuda", [NOTHING, HUNG, cuda_without_library()])
@pytest.mark.parametrize("environment", [Environment(), variables(CUDA_VISIBLE_DEVICES="0")])
def test_a_job_with_a_grant_was_granted_one_whatever_cuda_says(
    judge: Judge, cuda: CudaDriver, environment: Environment
) -> None:
    evidence = judge.passes(job_was_granted_gpu, scheduler=GRANTED, environment=environment, cuda_driver=cuda)
    assert evidence == "SLURM_JOB_GPUS=0; SLURM_GPUS_ON_NODE=1"


@pytest.mark.parametrize(
    ("kind", "words", "environment"),
    [
        ("slurm", "--gres=gpu:1", NO_DEVICES),
        ("lsf", "bsub -gpu num=1", Environment()),
        ("pbs", "select=1:ngpus=1", Environment()),
    ],
)
def test_a_job_without_a_grant_was_given_none(judge: Judge, kind: str, words: str, environment: Environment) -> None:
    finding = judge.finding(
        job_was_granted_gpu,
        scheduler=Scheduler(kind=kind, job="81234"),
        environment=environment,
        cuda_driver=NOTHING,
        runtime=None,
    )
    assert (finding.cause, finding.severity) == ("scheduler_did_not_grant_gpu", "error")
    assert finding.message == f"{kind} gave job 81234 no GPU, although the node has one"
    visible = "'NoDevFiles'" if environment is NO_DEVICES else "not set"
    assert f"CUDA_VISIBLE_DEVICES is {visible}" in finding.evidence
    assert f"the node's driver version is {DRIVER}" in finding.evidence
    assert finding.fix and words in finding.fix.text


def test_a_job_without_a_grant_is_judged_without_the_nodes_driver(judge: Judge) -> None:
    for driver in (None, Driver()):
        finding = judge.finding(
            job_was_granted_gpu,
            scheduler=SLURM,
            environment=Environment(),
            cuda_driver=NOTHING,
            driver=driver,
            runtime=None,
        )
        assert "CUDA_VISIBLE_DEVICES is not set" in finding.evidence
        assert "driver" not in str(finding.evidence)


@pytest.mark.parametrize("visible", ["NoDevFiles", ""])
def test_a_step_that_is_shown_no_device_has_none_of_the_jobs_grant(judge: Judge, visible: str) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES=visible)
    finding = judge.finding(
        job_was_granted_gpu, scheduler=GRANTED, environment=environment, cuda_driver=NOTHING, runtime=None
    )
    assert finding.cause == "scheduler_did_not_grant_gpu"
    assert f"CUDA_VISIBLE_DEVICES is {visible!r}" in finding.evidence


@pytest.mark.parametrize(
    ("kind", "values"),
    [("slurm", ("NoDevFiles", "")), ("htcondor", ("10000", "none")), ("flux", ("-1",)), ("lsf", ()), ("pbs", ()), ("sge", ())],
)  # fmt: skip
@pytest.mark.parametrize("granted", [{}, {"SLURM_JOB_GPUS": "0"}], ids=["no grant", "a grant"])
@pytest.mark.parametrize("visible", ["NoDevFiles", "", "10000", "none", "-1"])
def test_a_batch_system_is_blamed_for_its_own_value_alone(
    judge: Judge, kind: str, values: tuple[str, ...], granted: dict[str, str], visible: str
) -> None:
    facts = {
        "scheduler": Scheduler(kind=kind, job="7", granted=granted),
        "environment": variables(CUDA_VISIBLE_DEVICES=visible),
        "cuda_driver": NOTHING,
        "runtime": None,
    }
    if visible in values:
        assert judge.finding(job_was_granted_gpu, **facts).cause == "scheduler_did_not_grant_gpu"
    elif granted:
        assert judge.passes(job_was_granted_gpu, **facts) == "SLURM_JOB_GPUS=0"
    else:
        assert judge.skips(job_was_granted_gpu, **facts) == (
            f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU, and {kind} does not set that value"
        )


def test_a_job_script_that_hides_the_gpus_is_the_root_cause() -> None:
    machine = broken(
        scheduler=GRANTED,
        environment=variables(CUDA_VISIBLE_DEVICES="-1"),
        cuda_driver=NOTHING,
        runtime=runtime(gpus=(), computations=()),
    )
    assert [cause.label for cause in diagnose(machine).causes] == ["cuda_visible_devices_hides_gpu"]


@pytest.mark.parametrize("visible", ["NoDevFiles", "-1", ""])
def test_any_of_these_values_is_one_of_a_batch_system_that_the_table_does_not_have(judge: Judge, visible: str) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES=visible)
    oar = Scheduler(kind="oar", job="7")
    finding = judge.finding(job_was_granted_gpu, scheduler=oar, environment=environment, cuda_driver=NOTHING)
    assert finding.cause == "scheduler_did_not_grant_gpu"


def test_the_evidence_does_not_deny_the_jobs_grant(judge: Judge) -> None:
    finding = judge.finding(
        job_was_granted_gpu, scheduler=GRANTED, environment=NO_DEVICES, cuda_driver=NOTHING, runtime=None
    )
    assert "no variable that names granted GPUs is set" not in finding.evidence


@pytest.mark.parametrize(
    "cuda",
    [cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), cuda_without_library(), HUNG],
    ids=["driver mismatch", "no libcuda", "cuInit hangs"],
)
def test_a_cluster_that_hands_out_whole_nodes_is_not_blamed_for_a_broken_driver(judge: Judge, cuda: CudaDriver) -> None:
    environment = Environment()
    assert judge.does_not_object(job_was_granted_gpu, scheduler=SLURM, environment=environment, cuda_driver=cuda)


@pytest.mark.parametrize("visible", ["0", "GPU-3f6f3a5e-0000-0000-0000-000000000000"])
def test_a_list_of_devices_is_a_grant_too(judge: Judge, visible: str) -> None:
    assert judge.does_not_object(
        job_was_granted_gpu,
        scheduler=Scheduler(kind="pbs", job="7.head"),
        environment=variables(CUDA_VISIBLE_DEVICES=visible),
        cuda_driver=cuda_that_fails(999, "CUDA_ERROR_UNKNOWN"),
    )


def test_a_scheduler_of_another_kind_is_judged_too(judge: Judge) -> None:
    machine = broken(
        scheduler=Scheduler(kind="flux", job="f23"),
        environment=variables(CUDA_VISIBLE_DEVICES="-1"),
        cuda_driver=NOTHING,
        runtime=None,
    )
    assert judge.finding(job_was_granted_gpu, machine).cause == "scheduler_did_not_grant_gpu"


def test_healthy_machines_have_their_gpus(judge: Judge) -> None:
    machine = broken(**several(8), container=Container(kind="kubernetes", shm_bytes=64 * GIB), scheduler=GRANTED)
    for check in (container_has_gpu, container_has_compute_libraries, shared_memory_suffices, job_was_granted_gpu):
        assert judge.passes(check, machine)
