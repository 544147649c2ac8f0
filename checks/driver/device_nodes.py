"""DEV: do the driver's device nodes under /dev exist, and may this user open them?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.container.access import confinement
from tfgpu_doctor.checks.driver.restart import modules_gone, start_installed_kernel
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.kernel import ModuleFiles
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNode, DeviceNodes, Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST

_OCTAL = re.compile(r"[0-7]{3,6}")
_UNKNOWN = 999  # CUDA_ERROR_UNKNOWN, the result if nvidia-uvm is missing
# A problem of the doctor or of the target's Python. libcuda, if it is opened, runs nvidia-modprobe, which loads the modules
# and creates the nodes that are missing.
_NEVER_ASKED = ("failed", "unparsable", "not_started")
_ASK_KERNEL = "Check `sudo dmesg | grep -i -e NVRM -e Xid`, then reset the GPU or reboot."
_UVM = "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/index.html#device-node-verification"


def _is_tegra(system: System, device_nodes: DeviceNodes) -> bool:
    """Whether this is a Jetson or a similar board, whose GPU uses other device nodes; other vendors make such boards too."""
    return system.board.startswith("NVIDIA") or device_nodes.find("/dev/nvmap") is not None


@check(
    "DEV001",
    "the GPU's device nodes exist",
    family="Device nodes",
    tags=(GPU_LOST,),
    stage=Stage.DRIVER,
    after=("DRV001", "DRV009", "CNT001"),
    causes=("no_nvidia_driver",),
    sources=(_UVM,),
)
def device_nodes_exist(device_nodes: DeviceNodes, system: System, cuda_driver: CudaDriver | None = None) -> Yielded:
    """Programs reach the driver through /dev/nvidiactl and /dev/nvidia0; udev or nvidia-modprobe creates them.

    Fix: install nvidia-modprobe (setuid root), or run `nvidia-modprobe -c 0` as root once after each boot.
    """
    if system.os != "Linux" or system.wsl or _is_tegra(system, device_nodes):
        raise Skip("the driver uses other device nodes on this system")
    missing = [path for path in ("/dev/nvidiactl",) if not device_nodes.find(path)]
    missing += [] if device_nodes.gpus else ["/dev/nvidia0"]
    if not missing:
        yield Evidence(", ".join(node.path for node in device_nodes.nodes))
    elif cuda_driver and cuda_driver.works:
        yield Evidence("cuInit succeeds without them")
    elif cuda_driver and cuda_driver.attempt.outcome in _NEVER_ASKED:
        raise NotMeasured(
            f"the process that queries the CUDA driver, which may create them, {cuda_driver.attempt.ending}"
        )
    else:
        yield Finding(
            f"the driver is loaded, but there is no {' or '.join(missing)}",
            cause="no_nvidia_driver",
            confidence="medium",
            evidence=(f"nodes that exist: {', '.join(node.path for node in device_nodes.nodes) or 'none'}",),
            fix=Fix("As root, run `nvidia-modprobe -c 0 -u`. To automate this, install the package nvidia-modprobe."),
        )


@check(
    "DEV002",
    "the driver's unified memory module, nvidia-uvm, is available",
    family="Device nodes",
    stage=Stage.DRIVER,
    after=("DRV001", "CNT001"),
    causes=("nvidia_uvm_missing", "reboot_pending"),
    sources=(_UVM, "https://github.com/saber-nyan/kernel-modules-hook"),
)
def uvm_is_there(
    device_nodes: DeviceNodes,
    driver: Driver,
    system: System,
    cuda_driver: CudaDriver | None = None,
    module_files: ModuleFiles | None = None,
    container: Container | None = None,
) -> Yielded:
    """nvidia-smi works without nvidia-uvm, but CUDA does not: cuInit returns CUDA_ERROR_UNKNOWN (999).

    Fix: as root, run `nvidia-modprobe -u -c=0`, which loads the module and creates /dev/nvidia-uvm. Restart the machine
    instead if an upgrade removed the modules of the running kernel.
    """
    if system.os != "Linux" or system.wsl or _is_tegra(system, device_nodes):
        raise Skip("nvidia-uvm is not used on this system")
    node, loaded = device_nodes.find("/dev/nvidia-uvm"), "nvidia_uvm" in driver.modules
    failed = bool(cuda_driver and cuda_driver.attempt.answered and not cuda_driver.works)
    if cuda_driver and cuda_driver.works:
        yield Evidence("cuInit succeeds")
    elif node and (loaded or not driver.modules):
        yield Evidence(f"{node.path} exists" + (" and the module is loaded" if loaded else ""))
    elif cuda_driver and cuda_driver.attempt.outcome in _NEVER_ASKED:
        raise NotMeasured(
            f"the process that queries the CUDA driver, which may load the module, {cuda_driver.attempt.ending}"
        )
    elif failed and cuda_driver and cuda_driver.init_code != _UNKNOWN:
        # libcuda loads the module if nothing else did; other checks judge what prevented that.
        raise Skip("cuInit failed for another reason, or was not reached")
    else:
        in_container = bool(container and container.kind)
        gone = "" if loaded or in_container else modules_gone(driver, module_files)
        on_host = Fix(
            "As root, run `nvidia-modprobe -u -c=0` on the host. For a container, do so before it starts, so that the "
            "node exists and can be passed in."
        )
        yield Finding(
            "nvidia-uvm is missing: " + ("its module is not loaded" if node else "there is no /dev/nvidia-uvm"),
            cause="reboot_pending" if gone else "nvidia_uvm_missing",
            evidence=(
                *([gone] if gone else ()),
                f"/dev/nvidia-uvm {'exists' if node else 'does not exist'}",
                f"the module nvidia_uvm is {'loaded' if loaded else 'not loaded'}",
                *([f"cuInit returned {cuda_driver.init_code}"] if cuda_driver and cuda_driver.init_code else ()),
            ),
            fix=start_installed_kernel(driver.running_kernel) if gone else on_host,
        )


@check(
    "DEV003",
    "this user may open the GPU's device nodes", family="Device nodes", tags=(GPU_LOST,), stage=Stage.GPU,
    after=("DEV001", "DEV002", "CNT001", "XID001"),
    causes=(
        "device_node_permission_denied", "container_lost_gpu_cgroup", "selinux_blocks_container_gpu",
        "scheduler_did_not_grant_gpu",
    ),
    sources=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",),
)  # fmt: skip
def user_may_open_nodes(
    device_nodes: DeviceNodes,
    container: Container,
    scheduler: Scheduler,
    cuda_driver: CudaDriver | None = None,
    limits: Limits | None = None,
    nvml: Nvml | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """Opening an existing node can still fail: its mode and group, a container's device rules, or SELinux forbid it.

    Fix: join the node's group (often video), restart the container, or label it for the GPU, as the finding says.
    """
    if not device_nodes.nodes:
        raise Skip("there is no node to open")
    refused = [node for node in device_nodes.nodes if node.error]
    needed = _needed(device_nodes)
    if cuda_driver and cuda_driver.works:
        yield Evidence(
            "cuInit succeeds"
            + (f", although opening {refused[0].path} fails with {refused[0].error}" if refused else "")
        )
    elif not needed:
        opened = [node.path for node in device_nodes.nodes if not node.error]
        closed = "".join(f"; {node.path}: {node.error}" for node in refused)
        yield Evidence(f"opened {', '.join(opened)}{closed}")
    elif device_nodes.opening and not device_nodes.opening.answered:
        if device_nodes.opening.outcome in _NEVER_ASKED:
            raise NotMeasured(f"the process that opens the device nodes {device_nodes.opening.ending}")
        computes = bool(runtime and runtime.computes)
        yield (
            Evidence("TensorFlow computes on the GPU") if computes else _no_answer(device_nodes.opening, refused, nvml)
        )
    else:
        cause, why, fix = _judge(needed[0], device_nodes, container, scheduler)
        proof = _proof(needed[0], container, limits)
        yield Finding(
            f"this user may not open {needed[0].path}: {why}",
            cause=cause,
            confidence="high" if cause == "device_node_permission_denied" or proof else "medium",
            evidence=(
                *(f"{each.path} (mode {each.mode}, group {each.gid}): {each.error}" for each in needed),
                *proof,
                *confinement(container),
            ),
            fix=Fix(fix),
        )


def _no_answer(opening: Attempt, refused: list[DeviceNode], nvml: Nvml | None) -> Finding:
    """Return the finding that opening the nodes hung or crashed; the former may be slow where NVML reads the GPUs."""
    slow = opening.outcome == "timed_out" and _reads_every_gpu(nvml)
    again = (
        "Run the doctor again with a longer time limit (`--deadline 600`): without persistence mode, GPUs start slowly."
    )
    return Finding(
        f"the process that opens the device nodes {opening.ending}",
        severity="warning" if slow else "error",
        blocks=not slow,
        evidence=(
            *(f"{node.path}: {node.error}" for node in refused),
            *(["NVML read every GPU in the same examination"] if slow else ()),
        ),
        fix=Fix(again if slow else f"The driver does not respond. {_ASK_KERNEL}"),
    )


def _reads_every_gpu(nvml: Nvml | None) -> bool:
    """Return whether NVML, which opens the same nodes, read every GPU that this process may use."""
    return bool(nvml and nvml.works and nvml.gpus) and all(each.is_refused for each in (nvml.troubles if nvml else ()))


def _proof(node: DeviceNode, container: Container, limits: Limits | None) -> tuple[str, ...]:
    """Return what denies access, if it is readable: the device rules of cgroup v1, or the label of a security module."""
    rules = limits.device_rules if limits else ()
    allowed = [rule for rule in rules if rule.startswith(("a ", f"c {node.major}:", "c *:"))]
    if node.error == "EPERM" and rules and not allowed:
        return (
            f"none of the {len(rules)} device rules of its control group names a device with the major number {node.major}",
        )
    if node.error == "EACCES" and ":container_t:" in container.security_label:
        return (f"its SELinux label is {container.security_label}",)
    return ()


def _needed(nodes: DeviceNodes) -> list[DeviceNode]:
    """Return the denied nodes that CUDA requires: the shared ones, and the GPUs' nodes if none of them opens."""
    refused = [node for node in nodes.nodes if node.error]
    needed = [node for node in refused if node.path in ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg", "/dev/nvmap")]
    no_gpu = bool(nodes.gpus) and all(node.error for node in nodes.gpus)
    return sorted([*needed, *(nodes.gpus if no_gpu else ())], key=lambda node: node.path)


def _judge(node: DeviceNode, nodes: DeviceNodes, container: Container, scheduler: Scheduler) -> tuple[str, str, str]:
    """Return the label, reason and fix for the first node that could not be opened."""
    if not _OCTAL.fullmatch(node.mode):
        return "undetermined", "its mode is not known", f"Look at it: `ls -l {node.path}`."
    mode = int(node.mode, 8)
    by_group = mode & 0o060 == 0o060
    allowed = mode & 0o006 == 0o006 or (by_group and node.gid in nodes.groups) or nodes.uid in (0, node.uid)
    if node.error == "EPERM" and scheduler.kind:
        ask = "Request a GPU from the batch system (Slurm: `--gres=gpu:1`, for the step too)."
        return "scheduler_did_not_grant_gpu", "the job's device rules forbid it", ask
    if node.error == "EPERM" and container.kind:
        fix = (
            "Restart the container. If the error returns, `systemctl daemon-reload` on the host removes the devices: use the "
            "toolkit's CDI mode or the cgroupfs driver, and make sure that no-cgroups is false in the toolkit's config.toml."
        )
        return "container_lost_gpu_cgroup", "the container's device rules forbid it", fix
    if node.error == "EACCES" and allowed and container.security_label.endswith(")"):
        fix = "Start the container with `--security-opt apparmor=unconfined` to see whether the profile forbids it."
        return "undetermined", f"the AppArmor profile {container.security_label} may forbid it", fix
    if node.error == "EACCES" and allowed and container.kind:
        fix = (
            "On the host, run `sudo setsebool -P container_use_devices=true`, or start the container with "
            "`--security-opt label=disable`."
        )
        return "selinux_blocks_container_gpu", "its mode allows it, so a security module forbids it", fix
    if node.error == "EACCES" and by_group and not allowed:
        fix = f"Have an administrator add you to the group {node.gid} that owns {node.path} (often video), then log in again."
        return "device_node_permission_denied", f"mode {node.mode}, group {node.gid}, and you are not in it", fix
    if node.error == "EACCES" and not allowed:
        fix = "Have an administrator set the module option NVreg_DeviceFileMode=0666, or mode 0660 and a group that you are in."
        return "device_node_permission_denied", f"its mode {node.mode} allows only its owner", fix
    if node.error in ("EACCES", "EPERM"):
        fix = "Check the security module's log (`sudo ausearch -m avc`, `sudo journalctl -k | grep -i denied`)."
        return "undetermined", f"{node.error}, though its mode {node.mode} allows it", fix
    return "undetermined", node.error, f"The driver denies access. {_ASK_KERNEL}"
