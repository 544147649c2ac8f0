"""CNT: can containers that this machine starts use the GPU?"""

from __future__ import annotations

from tfgpu_doctor.model import Evidence, Finding, Fix, Severity, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.engines import Engines
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, System
from tfgpu_doctor.model.facts.nvidia import Nvml
from tfgpu_doctor.model.facts.project import Project
from tfgpu_doctor.model.facts.python import Target

_INSTALL = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"

_NO_ENGINE = "this machine does not start containers with a GPU"
_NOT_HERE = "TensorFlow was examined outside of containers"


def _wanted(engines: Engines, project: Project | None) -> tuple[str, ...]:
    """Return the evidence that containers with a GPU are meant to run here."""
    named = [f"{path} names nvidia-container-runtime" for path in engines.runtime_named_in]
    named += [f"{each.file}: {each.words}" for each in (project.gpu_containers if project else ())]
    return tuple(named[:3])


def _starts_containers(engines: Engines, container: Container | None, pci: Pci | None, nvml: Nvml | None) -> bool:
    """Return whether this machine has a GPU and starts containers itself."""
    has_gpu = bool((pci and pci.nvidia_gpus) or (nvml and nvml.gpus))
    return has_gpu and bool(engines.docker or engines.docker_of_snap) and not (container and container.kind)


def _severity(
    engines: Engines, project: Project | None, target: Target | None, environment: Environment | None
) -> Severity:
    """Return "error" only if the working folder is set up for containers with a GPU and TensorFlow is not available
    without them (no active environment, not installed in this Python). Otherwise Docker may serve other purposes."""
    active = environment and (environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX"))
    bare = target is not None and target.attempt.answered and not target.tensorflow_file
    if project and project.gpu_containers and bare and not active:
        return "error"
    return "warning" if _wanted(engines, project) else "info"


@check(
    "CNT005",
    "Docker is not a snap",
    family="Container",
    stage=Stage.CONTAINER,
    causes=("docker_installed_as_snap",),
    sources=(
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/522",
        "https://github.com/canonical/docker-snap/issues/148",
        "https://github.com/canonical/docker-snap#nvidia-support",
    ),
)
def docker_is_no_snap(
    engines: Engines,
    container: Container | None = None,
    project: Project | None = None,
    target: Target | None = None,
    environment: Environment | None = None,
    pci: Pci | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """Docker from the snap store is confined: it can read neither the toolkit's configuration nor the driver's libraries
    in their usual folders, and `--gpus` fails with "could not select device driver". Recent snaps bring the runtime.

    Fix: try `docker run --runtime=nvidia --gpus all`; else save the volumes, remove the snap, and install Docker from
    Docker's packages: https://docs.docker.com/engine/install/.
    """
    if not engines.docker_of_snap or not _starts_containers(engines, container, pci, nvml):
        raise Skip(_NO_ENGINE)
    if engines.docker:
        yield Evidence(f"{engines.docker} is installed in addition to the snap")
        return
    wanted = _wanted(engines, project)
    yield Finding(
        "the only Docker on this machine is a snap, which gives containers no GPU with `--gpus` alone",
        cause="docker_installed_as_snap",
        severity=_severity(engines, project, target, environment),
        confidence="medium",
        evidence=(f"{engines.docker_of_snap} exists, and no dockerd from a package was found", *wanted),
        fix=Fix(
            "Recent snaps bring NVIDIA's runtime: try `docker run --rm --runtime=nvidia --gpus all ubuntu nvidia-smi`. If it "
            "fails, save the volumes (removing the snap deletes its images, containers and volumes), `sudo snap remove docker`, "
            "install Docker from Docker's packages (https://docs.docker.com/engine/install/), then install the toolkit: "
            f"{_INSTALL}"
        ),
    )
    yield Evidence(_NOT_HERE)


@check(
    "CNT006",
    "the NVIDIA Container Toolkit is installed in addition to Docker",
    family="Container",
    stage=Stage.CONTAINER,
    after=("CNT005",),
    causes=("container_toolkit_missing",),
    sources=(_INSTALL,),
)
def toolkit_is_installed(
    engines: Engines,
    system: System,
    container: Container | None = None,
    project: Project | None = None,
    target: Target | None = None,
    environment: Environment | None = None,
    pci: Pci | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """Docker has no GPU support of its own: `--gpus` calls the NVIDIA Container Toolkit, and fails without it with "could
    not select device driver".

    Fix: install nvidia-container-toolkit, run `nvidia-ctk runtime configure --runtime=docker`, and restart Docker.
    """
    if not engines.docker or not _starts_containers(engines, container, pci, nvml):
        raise Skip(_NO_ENGINE)
    if engines.toolkit:
        yield Evidence(", ".join(engines.toolkit))
        return
    wanted = _wanted(engines, project)
    yield Finding(
        "Docker is installed, but the NVIDIA Container Toolkit is not: containers cannot use the GPU",
        cause="container_toolkit_missing",
        severity=_severity(engines, project, target, environment),
        evidence=(f"{engines.docker} exists, nvidia-ctk and nvidia-container-runtime do not", *wanted),
        fix=Fix(
            "As root, install the package nvidia-container-toolkit, run `nvidia-ctk runtime configure --runtime=docker`, and "
            f"restart Docker: {_INSTALL}"
            + (" In WSL, do this in the distribution that runs dockerd." if system.wsl else "")
        ),
    )
    yield Evidence(_NOT_HERE)


@check(
    "CNT007",
    "the NVIDIA Container Toolkit lets Docker containers open the GPU",
    family="Container",
    stage=Stage.CONTAINER,
    after=("CNT005", "CNT006"),
    causes=("container_toolkit_misconfigured",),
    sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",),
)
def toolkit_sets_device_rules(
    engines: Engines,
    container: Container | None = None,
    project: Project | None = None,
    target: Target | None = None,
    environment: Environment | None = None,
    pci: Pci | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """`no-cgroups = true` is meant for rootless Docker. If Docker runs as root, the toolkit then adds the device nodes to
    the container but does not change the device rules: "Failed to initialize NVML: Unknown Error".

    Fix: `no-cgroups = false` in /etc/nvidia-container-runtime/config.toml.
    """
    if engines.no_cgroups is None or not _starts_containers(engines, container, pci, nvml):
        raise Skip("no toolkit configuration was found" if engines.no_cgroups is None else _NO_ENGINE)
    if not engines.no_cgroups:
        yield Evidence("no-cgroups is false")
    elif engines.docker_runs_rootless or not engines.docker_runs_as_root:
        yield Evidence("no-cgroups is true, as rootless Docker requires")
    else:
        wanted = _wanted(engines, project)
        yield Finding(
            "no-cgroups is true, and Docker runs as root: containers are not allowed to open the GPU's device nodes",
            cause="container_toolkit_misconfigured",
            severity=_severity(engines, project, target, environment),
            evidence=("/etc/nvidia-container-runtime/config.toml: no-cgroups = true", *wanted),
            fix=Fix(
                "As root, set `no-cgroups = false` in /etc/nvidia-container-runtime/config.toml, and restart Docker. "
                "Rootless containers need true: keep a separate configuration file for them under XDG_CONFIG_HOME."
            ),
        )
        yield Evidence(_NOT_HERE)
