"""The copies of CUDA's libraries: from pip or conda, on the loader's path, or in a separate toolkit."""

from __future__ import annotations

import os
import re

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.collect.probes.library_search import Search, describe, unique
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries
from tfgpu_doctor.model.facts.python import Target

# The libraries that TensorFlow opens by name at run time (xla/tsl/platform/default/dso_loader.cc), by their sonames.
_OURS = re.compile(
    r"lib(?:cudart|cublas|cublasLt|cufft|cusolver|cusparse|cudnn(?:_\w+)?|nccl|cupti|nvrtc|nvJitLink)\.so\.\d+(?:\.\d+)?"
)


@probe(waits_for="the CUDA libraries")
def cuda_libraries(host: Host, system: System, target: Target) -> Libraries:
    """List the copies that exist; TensorFlow itself reports whether it finds them (see `runtime`)."""
    brought = [path for path in target.nvidia_libraries if _OURS.fullmatch(os.path.basename(path))]
    copies = [describe(host.target_files, os.path.basename(path), path, "pip") for path in brought]
    conda = (
        f"{target.prefix}/lib"
        if target.conda_packages or host.target_files.exists(f"{target.prefix}/conda-meta")
        else ""
    )
    if conda:
        names = [name for name in host.target_files.names_if_any(conda) if _OURS.fullmatch(name)]
        copies += [describe(host.target_files, name, f"{conda}/{name}", "conda") for name in names]
    toolkits = [f"/usr/local/{name}/lib64" for name in host.files.names_if_any("/usr/local") if name.startswith("cuda")]
    search = Search(host, system.architecture)
    for name in search.names_matching(_OURS, toolkits):
        copies += search.copies(name, toolkits)
    return Libraries(copies=tuple(unique(copies)))
