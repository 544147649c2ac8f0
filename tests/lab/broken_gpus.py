"""GPUs that do not fit this TensorFlow, or whose memory is gone; and variables that slow down or are misspelt."""

from __future__ import annotations

from lab.damage import with_growth_on_first_gpu
from lab.machine import RTX_3090, Machine, driver, gpu

_GTX_980, _GT_1030 = gpu("NVIDIA GeForce GTX 980"), gpu("NVIDIA GeForce GT 1030")
_RTX_5090 = driver(gpu("NVIDIA GeForce RTX 5090"), version="570.86.10")
_NOTEBOOK = {"pid": 4194242, "name": "/home/user/venv/bin/jupyter", "memory_bytes": 23 << 30}

GPUS = (
    Machine("maxwell", "gpu_compute_capability_too_old", "5.2", driver=driver(_GTX_980)),
    Machine("maxwell-2.18.1", "gpu_compute_capability_too_old", "5.2", target="2.18.1", driver=driver(_GTX_980),
            library_path=()),
    Machine("blackwell", "gpu_compute_capability_too_new", "12.0", driver=_RTX_5090),
    Machine("blackwell-2.18.1", "gpu_compute_capability_too_new", "12.0", target="2.18.1", driver=_RTX_5090,
            library_path=()),
    Machine("small-gpu-beside-large", "gpu_below_min_multiprocessor_count", "GT 1030", driver=driver(RTX_3090, _GT_1030)),
    Machine("kernel-cache-off", "ptx_jit_startup_delay", "CUDA_CACHE_DISABLE", variables={"CUDA_CACHE_DISABLE": "1"}),
    Machine("notebook-holds-memory", "gpu_memory_held_by_other_process", "jupyter",
            driver=driver(gpu(RTX_3090["name"], memory_used_bytes=int(23.7 * (1 << 30)), processes=[_NOTEBOOK]))),
    Machine("growth-on-one-of-two", "memory_growth_differs_between_gpus", "GPU:0", done=(with_growth_on_first_gpu,),
            driver=driver(RTX_3090, RTX_3090)),
    Machine("growth-misspelt", "cudnn_init_failed_memory", "'True'", variables={"TF_FORCE_GPU_ALLOW_GROWTH": "True"}),
    Machine("allocator-misspelt", "cudnn_init_failed_memory", "malloc_async", variables={"TF_GPU_ALLOCATOR": "malloc_async"}),
)  # fmt: skip
