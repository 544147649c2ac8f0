"""Machines with nothing wrong: what looks odd on them must raise no alarm."""

from __future__ import annotations

from lab import roots
from lab.damage import activated_with_cusolver
from lab.machine import A100, CUSOLVER, H100, RTX_3090, Machine, driver, gpu

_MIG = [{"profile": "1g.5gb", "memory_bytes": 5 << 30, "multiprocessors": 14}]

HEALTHY = (
    Machine("healthy"),
    Machine("healthy-2.18.1", target="2.18.1", library_path=()),
    Machine("healthy-dgx", driver=driver(*[H100] * 8), done=(roots.with_nvswitch,)),
    Machine("healthy-docker", driver=driver(H100), done=(roots.in_docker,),
            variables={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}),
    Machine("healthy-slurm-job", driver=driver(A100),
            variables={"SLURM_JOB_ID": "4711", "SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}),
    Machine("healthy-mig", driver=driver(gpu(A100["name"], mig_mode=True, mig_devices=_MIG * 2))),
    Machine("healthy-one-of-two-visible", driver=driver(RTX_3090, RTX_3090), variables={"CUDA_VISIBLE_DEVICES": "1"}),
    Machine("healthy-beside-intel", done=(roots.with_intel_gpu, roots.having("etc/prime-discrete", "on-demand\n"))),
    Machine("healthy-newer-driver", driver=driver(version="999.12.34"), done=(roots.of_driver("999.12.34"),)),
    Machine("healthy-activated", done=(activated_with_cusolver,)),
    Machine("healthy-cudnn-8-on-path",
            library_path=("{site of 2.16.1}/nvidia/cudnn/lib", CUSOLVER)),
)  # fmt: skip
