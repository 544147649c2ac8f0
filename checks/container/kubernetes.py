"""CNT: has this pod the GPUs that it asked for?"""

from __future__ import annotations

from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Container, Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml

_NAMES = ("GPU-", "MIG-")


@check(
    "CNT008",
    "the pod has the GPUs that Kubernetes gave it, and no others",
    stage=Stage.CONTAINER,
    after=("GPU001", "CNT001"),
    sources=(
        "https://github.com/NVIDIA/k8s-device-plugin",
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
    ),
)
def pod_has_its_own_gpus(
    container: Container, environment: Environment, cuda_driver: CudaDriver, nvml: Nvml | None = None
) -> Yielded:
    """NVIDIA's images say NVIDIA_VISIBLE_DEVICES=all. Where NVIDIA's runtime is the default of a node, a pod that asks for
    no GPU gets all of them by that, unknown to Kubernetes, which gives the same GPUs to others.

    Fix: ask for them: resources.limits `nvidia.com/gpu: 1`; without, NVIDIA_VISIBLE_DEVICES=void.
    """
    if container.kind != "kubernetes":
        raise Skip("this is no pod of Kubernetes")
    visible = environment.get("NVIDIA_VISIBLE_DEVICES") or ""
    given = _given(visible, container)
    seen = len(cuda_driver.gpus) or len(nvml.gpus if nvml else ())
    if given:
        yield Evidence(f"Kubernetes handed in {', '.join(given)}; CUDA lists {seen}")
    elif visible == "all" and seen > 1:
        yield Finding(
            f"no variable names the {seen} GPUs that this pod sees: it may have all of the node's without having asked",
            severity="info",
            confidence="medium",
            evidence=(
                "NVIDIA_VISIBLE_DEVICES=all, as NVIDIA's images have it; the device plugin names the GPUs that it gives",
            ),
            fix=Fix(
                "Ask for them in the pod: resources.limits `nvidia.com/gpu`. Other pods may be at work on the same GPUs."
            ),
        )
        yield Evidence(f"CUDA lists {seen} GPUs")
    else:
        yield Evidence(f"NVIDIA_VISIBLE_DEVICES is {visible or 'not set'}; CUDA lists {seen}")


def _given(visible: str, container: Container) -> tuple[str, ...]:
    """The GPUs as the device plugin names them: in the variable, or by mounts in place of it."""
    named = tuple(name for name in visible.split(",") if name.startswith(_NAMES) or "nvidia.com/" in name)
    return named or container.device_mounts
