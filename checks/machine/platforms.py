"""PLT: what is not available on this platform, whatever is installed?"""

from __future__ import annotations

from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime


@check(
    "PLT001",
    "several GPUs can be used together on this system",
    family="Platform",
    stage=Stage.SPEED,
    after=("GPU001", "TFW002"),
    causes=("nccl_not_available_on_windows",),
    sources=("https://www.tensorflow.org/api_docs/python/tf/distribute/MirroredStrategy",),
)
def gpus_work_together(
    system: System, cuda_driver: CudaDriver | None = None, runtime: Runtime | None = None
) -> Yielded:
    """MirroredStrategy sums gradients with NCCL, which does not exist on Windows: it fails with "No OpKernel was
    registered to support Op 'NcclAllReduce'".

    Fix: `tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())`, or WSL 2.
    """
    count = len(runtime.gpus) if runtime else len(cuda_driver.gpus) if cuda_driver else 0
    if system.os != "Windows" or count <= 1:
        raise Skip(
            "NCCL is available on this system" if system.os != "Windows" else "this applies only to several GPUs"
        )
    yield Finding(
        f"Windows has no NCCL: MirroredStrategy over {count} GPUs needs another way to sum gradients",
        cause="nccl_not_available_on_windows",
        severity="info",
        evidence=(f"the system is {system.distribution or system.os}", f"{count} GPUs are listed"),
        fix=Fix(
            "Use `tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())`, or use WSL 2."
        ),
    )
    yield Evidence(f"{count} GPUs, each usable individually")
