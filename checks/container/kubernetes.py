"""CNT: does this pod have the GPUs that it requested?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Container, Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.tags import GPU_LOST

_NAMES = ("GPU-", "MIG-")


@check(
    "CNT008",
    "the pod has only the GPUs that Kubernetes allocated to it",
    family="Container",
    tags=(GPU_LOST,),
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
    """NVIDIA's images set NVIDIA_VISIBLE_DEVICES=all. If NVIDIA's runtime is the node's default, a pod that requests no
    GPU therefore gets all of them. Kubernetes does not know this and allocates the same GPUs to other pods.

    Fix: request GPUs with resources.limits `nvidia.com/gpu: 1`; otherwise set NVIDIA_VISIBLE_DEVICES=void.
    """
    if container.kind != "kubernetes":
        raise Skip("this is not a Kubernetes pod")
    visible = environment.get("NVIDIA_VISIBLE_DEVICES") or ""
    given = _given(visible, container)
    seen = len(cuda_driver.gpus) or len(nvml.gpus if nvml else ())
    if given:
        yield Evidence(f"Kubernetes allocated {', '.join(given)}; CUDA lists {seen}")
    elif visible == "all" and seen > 1:
        yield Finding(
            f"no variable names the {seen} GPUs that this pod sees: it may have all GPUs of the node without a request",
            severity="info",
            confidence="medium",
            evidence=(
                "NVIDIA_VISIBLE_DEVICES=all, as NVIDIA's images set it; the device plugin names the GPUs that it allocates",
            ),
            fix=Fix(
                "Request the GPUs in the pod: resources.limits `nvidia.com/gpu`. Other pods may be using the same GPUs."
            ),
            figures=figures_of("", [("GPUs of the pod", seen, "")]),
        )
        yield Evidence(f"CUDA lists {seen} GPUs")
    else:
        yield Evidence(f"NVIDIA_VISIBLE_DEVICES is {visible or 'not set'}; CUDA lists {seen}")


def _given(visible: str, container: Container) -> tuple[str, ...]:
    """Return the GPUs that the device plugin names: in the variable, or by mounts instead."""
    named = tuple(name for name in visible.split(",") if name.startswith(_NAMES) or "nvidia.com/" in name)
    return named or container.device_mounts
