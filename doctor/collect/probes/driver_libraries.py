"""The copies of the driver's own libraries, in the loader's order."""

from __future__ import annotations

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.collect.probes.library_search import Search
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries

_NAMES = ("libcuda.so.1", "libnvidia-ml.so.1")
# Locations of a driver's libraries outside of the loader's path: WSL, NixOS, Kubernetes and GKE mounts, CUDA's
# forward-compatibility packages and the toolkit's stubs.
_KNOWN_PLACES = (
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/usr/local/nvidia/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
    "/usr/local/cuda/compat",
    "/usr/local/cuda/lib64/stubs",
)


@probe(waits_for="the driver's libraries")
def driver_libraries(host: Host, system: System) -> Libraries:
    """Search the files; the child that opens the library reports what the loader really takes (see `cuda_driver`)."""
    search = Search(host, system.architecture)
    return Libraries(copies=tuple(copy for name in _NAMES for copy in search.copies(name, _KNOWN_PLACES)))
