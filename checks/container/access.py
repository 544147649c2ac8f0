"""CNT: does this container or batch job have access to the GPU?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Libraries, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.tags import GPU_LOST

_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html"
_HOW = {
    "docker": "Start it with `docker run --gpus all ...`; in Compose, reserve the device under deploy.resources.",
    "podman": "Start it with `podman run --device nvidia.com/gpu=all ...`, after "
    "`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` on the host.",
    "kubernetes": "Request the GPU in the pod: resources.limits `nvidia.com/gpu: 1`; and `runtimeClassName: nvidia` where "
    "`kubectl get runtimeclass` lists it.",
    "apptainer": "Start it with `apptainer exec --nv ...`.",
    "enroot": "Start it with NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=compute,utility in the environment of "
    "`enroot start ...` or, with pyxis, of `srun --container-image=...`: an image that sets neither gets no GPU. If both were "
    "set at the start, ask the host's administrator whether enroot's hook 98-nvidia.sh is installed.",
    "charliecloud": "On the host, copy the driver's libraries into the image with `ch-fromhost --nvidia IMAGE`, then start it "
    "again.",
    "containerd": "Start it with `nerdctl run --gpus all ...`.",
    "lxc": "Add the GPU to the container: `lxc config device add NAME gpu gpu`, `lxc config set NAME nvidia.runtime true` (or "
    "`incus config`); restart it. In Proxmox: `pct set ID -dev0 /dev/nvidia0 -dev1 /dev/nvidiactl -dev2 /dev/nvidia-uvm`, and "
    "the driver's libraries in the container.",
    "systemd-nspawn": "Bind the device nodes into the container (`--bind=/dev/nvidia0 --bind=/dev/nvidiactl "
    "--bind=/dev/nvidia-uvm`), allow them (DeviceAllow= of its service), and bind the driver's libraries.",
}
# Engines that mount the driver's libraries when the GPU is requested. The others run a whole system with libraries of its own.
_MOUNTS_LIBRARIES = ("docker", "podman", "kubernetes", "apptainer", "containerd", "enroot", "charliecloud")
_MORE_SHM = {
    "kubernetes": "Mount an `emptyDir: {medium: Memory}` volume at /dev/shm in the pod.",
    "podman": "Start the container with `--shm-size=1g --ulimit memlock=-1`, or with `--ipc=host`.",
}
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_WITH_CAPABILITIES = {
    "docker": f"Start the container with `-e {_CAPABILITIES}=compute,utility`.",
    "enroot": f"Set {_CAPABILITIES}=compute,utility in the environment of `enroot start` or `srun --container-image=...`.",
}
# What a container gets where it is not set: https://github.com/NVIDIA/enroot/blob/main/conf/hooks/98-nvidia.sh (read 2026-11-29)
_CAPABILITIES_BY_DEFAULT = {"enroot": "utility"}
_NOTHING = ("void", "none")  # values of NVIDIA_VISIBLE_DEVICES: no GPU; no GPU, but the driver's libraries
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


@check(
    "CNT001",
    "the container was started with the GPU",
    family="Container",
    tags=(GPU_LOST,),
    stage=Stage.CONTAINER,
    after=("GPU001",),
    causes=("container_started_without_gpu",),
    sources=(
        _TOOLKIT,
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        "https://apptainer.org/docs/user/latest/bind_paths_and_mounts.html",
        "https://github.com/NVIDIA/enroot/blob/main/doc/standard-hooks.md",
    ),
)
def container_has_gpu(
    container: Container,
    device_nodes: DeviceNodes,
    environment: Environment,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
    driver_libraries: Libraries | None = None,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """A container sees the host's GPU only if the GPU was requested at start; an image never contains the driver.
    Device nodes alone are not enough: Apptainer, enroot and Charliecloud bind the host's /dev, and a privileged container sees
    every device.

    Fix: `docker run --gpus all`, `podman run --device nvidia.com/gpu=all`, `apptainer exec --nv`, a pod that requests
    `nvidia.com/gpu`, or NVIDIA_VISIBLE_DEVICES=all for enroot and pyxis.
    """
    if not container.kind:
        raise Skip("this is not a container")
    nodes = [
        node.path
        for node in (*device_nodes.gpus, device_nodes.find("/dev/dxg"), device_nodes.find("/dev/nvmap"))
        if node
    ]
    only_nodes = (
        container.kind in _MOUNTS_LIBRARIES
        and nodes == [node.path for node in device_nodes.gpus]
        and not _left_out_words(environment.get(_CAPABILITIES) or "")
        and not (runtime and runtime.gpus)
        and _driver_has_no_library(cuda_driver, nvml, driver_libraries, resolution)
    )
    lacks: tuple[str, ...] = ()
    if not nodes and not (cuda_driver and cuda_driver.gpus) and not (nvml and nvml.gpus):
        lacks = ("the machine has an NVIDIA GPU, but /dev/nvidia0 does not exist in the container",)
    elif nodes and only_nodes:
        errors = [each.library_error for each in (cuda_driver, nvml) if each]
        lacks = (f"the container has {', '.join(nodes)}, but no library of the driver", *errors)
    if lacks:
        yield _started_without_gpu(container, environment, lacks)
        return
    yield Evidence(
        f"{', '.join(nodes)} in a {container.kind} container"
        if nodes
        else "the driver lists a GPU inside the container"
    )
    for line in confinement(container):
        yield Evidence(line)


def _driver_has_no_library(
    cuda_driver: CudaDriver | None, nvml: Nvml | None, libraries: Libraries | None, resolution: Resolution | None
) -> bool:
    """Whether neither library of the driver opens, and no copy of either is in a known folder or found by TensorFlow."""
    if not (cuda_driver and cuda_driver.library_error and nvml and nvml.library_error and libraries):
        return False
    found = resolution.find("libcuda.so.1") if resolution else None
    return not any(copy.kind in ("driver", "wsl") for copy in libraries.copies) and not (found and found.found)


def _started_without_gpu(container: Container, environment: Environment, lacks: tuple[str, ...]) -> Finding:
    asked = environment.get("NVIDIA_VISIBLE_DEVICES")
    otherwise = "Start the container with the GPU, as described in the engine's documentation."
    return Finding(
        f"this {container.kind} container was started without the GPU",
        cause="container_started_without_gpu",
        evidence=(
            *lacks,
            f"container detected: {container.evidence[0] if container.evidence else container.kind}",
            f"NVIDIA_VISIBLE_DEVICES is {'not set' if asked is None else repr(asked)}",
            *(["this value requests no GPU"] if asked in _NOTHING else ()),
            *confinement(container),
        ),
        fix=Fix(_HOW.get(container.kind, otherwise)),
    )


def _left_out_words(asked: str) -> list[str]:
    """Return which words for the libraries that TensorFlow needs this value of NVIDIA_DRIVER_CAPABILITIES leaves out."""
    given = {word.strip() for word in asked.split(",") if word.strip()}
    return [word for word in ("compute", "utility") if given and not given & {word, "all"}]


def confinement(container: Container) -> list[str]:
    """Return the engine and the restrictions of the container, in one line."""
    known = [f"engine {container.engine}"] if container.engine not in ("", container.kind) else []
    known += ["in its own user namespace"] if container.user_namespace else []
    known += [f"seccomp mode {container.seccomp}"] if container.seccomp else []
    return [f"container: {', '.join(known)}"] if container.kind and known else []


@check(
    "CNT002",
    "the container has the driver's compute libraries",
    family="Container",
    stage=Stage.DRIVER,
    after=("CNT001",),
    causes=("nvidia_driver_capabilities_without_compute",),
    sources=(_TOOLKIT,),
)
def container_has_compute_libraries(
    container: Container, environment: Environment, cuda_driver: CudaDriver, nvml: Nvml, runtime: Runtime | None = None
) -> Yielded:
    """NVIDIA_DRIVER_CAPABILITIES selects the driver libraries that a container gets: libcuda comes with `compute`,
    libnvidia-ml with `utility`. TensorFlow needs both (without libnvidia-ml it silently registers no GPU).

    Fix: start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all).
    """
    if not container.kind:
        raise Skip("this is not a container")
    asked = environment.get(_CAPABILITIES) or ""
    default = "" if asked else _CAPABILITIES_BY_DEFAULT.get(container.kind, "")
    errors = {"compute": cuda_driver.library_error, "utility": nvml.library_error}
    lacks = [word for word in _left_out_words(asked or default) if errors[word]]
    if lacks and not (runtime and runtime.gpus):
        libraries = {"compute": "libcuda.so.1", "utility": "libnvidia-ml.so.1"}
        named = " and ".join(f"{libraries[word]} (part of {word!r})" for word in lacks)
        how = (
            f"with {_CAPABILITIES}={asked}"
            if asked
            else f"without {_CAPABILITIES}, which {container.kind} takes for {default},"
        )
        yield Finding(
            f"the container was started {how} and therefore lacks {named}",
            cause="nvidia_driver_capabilities_without_compute",
            evidence=tuple(error for error in errors.values() if error),
            fix=Fix(_WITH_CAPABILITIES.get(container.kind, _WITH_CAPABILITIES["docker"])),
        )
    elif any(errors.values()):
        raise Skip("a driver library cannot be opened, but NVIDIA_DRIVER_CAPABILITIES is not the reason")
    else:
        yield Evidence(f"libcuda and libnvidia-ml can be opened; NVIDIA_DRIVER_CAPABILITIES is {asked or 'not set'}")


@check(
    "CNT003",
    "/dev/shm is large enough for several GPUs",
    family="Container",
    stage=Stage.CONTAINER,
    after=("GPU001", "CNT001"),
    causes=("docker_shm_too_small",),
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory",),
)
def shared_memory_suffices(container: Container, cuda_driver: CudaDriver, knowledge: Knowledge) -> Yielded:
    """NCCL keeps segments in /dev/shm when one process uses several GPUs; Docker's default size is 64 MiB.

    Fix: `docker run --shm-size=1g --ulimit memlock=-1`, or `--ipc=host`.
    """
    row = knowledge.boundaries["shm_for_several_gpus_bytes"]
    if not container.kind or container.shm_bytes is None:
        raise Skip("this is not a container" if not container.kind else "the size of /dev/shm could not be read")
    if len(cuda_driver.gpus) < 2:
        raise Skip("relevant only with several GPUs")
    if container.shm_bytes < int(row.value):
        yield Finding(
            f"/dev/shm has {container.shm_bytes >> 20} MiB, too little for NCCL between {len(cuda_driver.gpus)} GPUs",
            cause="docker_shm_too_small",
            severity="warning",
            evidence=(f"{container.shm_bytes} bytes; NCCL's guide recommends {int(row.value) >> 30} GiB",),
            fix=Fix(_MORE_SHM.get(container.kind, _MORE_SHM["podman"])),
            figures=figures_of(
                "", [("shared memory", container.shm_bytes, "B"), ("GPUs by CUDA", len(cuda_driver.gpus), "")]
            ),
        )
        return
    free = "" if container.shm_free_bytes is None else f", of which {container.shm_free_bytes >> 20} MiB are free"
    yield Evidence(f"/dev/shm has {container.shm_bytes >> 20} MiB{free}")


@check(
    "CNT004",
    "the batch job was granted a GPU",
    family="Container",
    stage=Stage.CONTAINER,
    after=("GPU001",),
    causes=("scheduler_did_not_grant_gpu",),
    sources=("https://slurm.schedmd.com/gres.html",),
)
def job_was_granted_gpu(
    scheduler: Scheduler,
    environment: Environment,
    cuda_driver: CudaDriver,
    knowledge: Knowledge,
    driver: Driver | None = None,
    pci: Pci | None = None,
) -> Yielded:
    """A batch system gives a job only the GPUs that the job requested, and hides the others.

    Fix: request a GPU: Slurm `--gres=gpu:1` (on the step too), LSF `-gpu num=1`, PBS `-l select=1:ngpus=1`.
    """
    if not scheduler.kind:
        raise Skip("this is not a batch job")
    row = knowledge.batch_systems.get(scheduler.kind)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    hidden = hidden_otherwise(scheduler, environment, knowledge)
    denied = bool(scheduler.denied) or (not hidden and visible in _hiding_values(knowledge))
    grants = [f"{name}={value}" for name, value in scheduler.granted.items()]
    whole = len(pci.nvidia_gpus) if pci else 0
    if cuda_driver.gpus:
        count = amount(len(cuda_driver.gpus), "GPU") + (
            f" of the node's {whole}" if whole > len(cuda_driver.gpus) else ""
        )
        yield Evidence(f"CUDA lists {count} in {scheduler.kind} job {scheduler.job}")
    elif grants and not denied:
        yield Evidence("; ".join(grants))
    elif hidden and not denied:
        raise Skip(hidden)
    elif visible and not denied:
        yield Evidence(f"CUDA_VISIBLE_DEVICES={visible}; batch systems set it to the granted GPUs")
    elif not denied and cuda_driver.init_code != _NO_DEVICE:
        raise Skip("no variable names granted GPUs, and CUDA fails for a reason other than a missing GPU")
    else:
        yield Finding(
            f"{scheduler.kind} gave job {scheduler.job} no GPU, although the node has one",
            cause="scheduler_did_not_grant_gpu",
            evidence=(
                *(grants or ("no variable that names granted GPUs is set",)),
                *(f"{name}={value}, which means no GPU" for name, value in scheduler.denied.items()),
                f"CUDA_VISIBLE_DEVICES is {'not set' if visible is None else repr(visible)}",
                *([f"the node's driver version is {driver.version}"] if driver and driver.version else ()),
            ),
            fix=Fix(
                f"Request a GPU when you submit the job: {row.ask if row else 'see the batch system documentation'}."
            ),
        )


def hidden_otherwise(scheduler: Scheduler, environment: Environment, knowledge: Knowledge) -> str:
    """Return that CUDA_VISIBLE_DEVICES hides every GPU with a value that this batch system does not set; else nothing."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    row = knowledge.batch_systems.get(scheduler.kind)
    if row is None or visible in row.hides or visible not in _hiding_values(knowledge):
        return ""
    return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU, and {scheduler.kind} does not set that value"


def _hiding_values(knowledge: Knowledge) -> set[str]:
    """Return the values to which any batch system sets CUDA_VISIBLE_DEVICES in a job without GPUs."""
    return {value for row in knowledge.batch_systems.values() for value in row.hides}
