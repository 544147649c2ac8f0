"""The probes: each answers "what is so?" with one fact, and never "is it good?"."""

from __future__ import annotations

from tfgpu_doctor.collect.probe import Probe
from tfgpu_doctor.collect.probes.container import container
from tfgpu_doctor.collect.probes.cuda_driver import cuda_driver
from tfgpu_doctor.collect.probes.cuda_libraries import cuda_libraries
from tfgpu_doctor.collect.probes.device_nodes import device_nodes
from tfgpu_doctor.collect.probes.driver import driver
from tfgpu_doctor.collect.probes.driver_libraries import driver_libraries
from tfgpu_doctor.collect.probes.engines import engines
from tfgpu_doctor.collect.probes.environment import environment
from tfgpu_doctor.collect.probes.hosting import hosting
from tfgpu_doctor.collect.probes.kernel_log import kernel_log
from tfgpu_doctor.collect.probes.limits import limits
from tfgpu_doctor.collect.probes.module_files import module_files
from tfgpu_doctor.collect.probes.notebooks import notebooks
from tfgpu_doctor.collect.probes.nvml import nvml
from tfgpu_doctor.collect.probes.pci import pci
from tfgpu_doctor.collect.probes.project import project
from tfgpu_doctor.collect.probes.resolution import resolution
from tfgpu_doctor.collect.probes.runtime import runtime
from tfgpu_doctor.collect.probes.scheduler import scheduler
from tfgpu_doctor.collect.probes.services import services
from tfgpu_doctor.collect.probes.stress import stress
from tfgpu_doctor.collect.probes.system import system
from tfgpu_doctor.collect.probes.target import target
from tfgpu_doctor.collect.probes.tensorflow_wheel import tensorflow
from tfgpu_doctor.collect.probes.xla_tools import xla_tools

# The slow ones first: they run in children of their own while the rest reads files.
ALL_PROBES: tuple[Probe, ...] = (
    runtime,
    target,
    cuda_driver,
    nvml,
    kernel_log,
    system,
    environment,
    pci,
    container,
    scheduler,
    limits,
    hosting,
    engines,
    driver,
    module_files,
    services,
    device_nodes,
    driver_libraries,
    tensorflow,
    cuda_libraries,
    resolution,
    xla_tools,
    notebooks,
    project,
    stress,
)
