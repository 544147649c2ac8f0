"""The signs that a GPU or its driver does not work now, beside what the kernel log reports."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.checks.tensorflow.runs import had_no_time
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Nvml
from tfgpu_doctor.model.facts.python import Runtime

# Errors of a computation on a faulty GPU; other computations fail for lack of memory, kernels or libraries.
_SIGNS = (
    "ECC",
    "LAUNCH_FAILED",
    "LAUNCH_TIMEOUT",
    "ILLEGAL_",
    "HARDWARE_",
    "MISALIGNED",
    "CUDA_ERROR_UNKNOWN",
    "launch failure",
)
_REFUSED = ("EACCES", "EPERM")
_TOLD = ("answered", "timed_out", "killed_by_signal")  # the other outcomes are problems of the doctor


def nothing_is_known(*facts: CudaDriver | Nvml | Runtime | None) -> bool:
    """Whether the log alone is known: then what it reports counts as it stands, and nothing shows that a GPU works."""
    return not any(facts)


def _is_kept_out(nodes: DeviceNodes) -> bool:
    """Whether this user may not open the nodes that every program needs, or may open no GPU."""
    refused = [node for node in nodes.nodes if node.error in _REFUSED]
    shared = [node for node in refused if node.path in ("/dev/nvidiactl", "/dev/nvidia-uvm")]
    return bool(shared) or (bool(nodes.gpus) and all(gpu in refused for gpu in nodes.gpus))


def signs_of_trouble(
    nvml: Nvml | None, cuda_driver: CudaDriver | None, runtime: Runtime | None, device_nodes: DeviceNodes | None
) -> Iterator[str]:
    """Yield the signs that a GPU or its driver does not work now; none if this user only lacks access."""
    if device_nodes and _is_kept_out(device_nodes):
        return
    if nvml and not nvml.works and not nvml.library_error and nvml.attempt.outcome in _TOLD:
        yield f"NVML {nvml.attempt.ending if not nvml.attempt.answered else f'fails: {nvml.error_text}'}"
    if cuda_driver and not cuda_driver.works and not cuda_driver.library_error and cuda_driver.attempt.outcome in _TOLD:
        failed = f"cuInit returned {cuda_driver.init_code}, {cuda_driver.init_name}"
        yield failed if cuda_driver.attempt.answered else f"the CUDA driver {cuda_driver.attempt.ending}"
    for trouble in nvml.troubles if nvml else ():
        yield f"NVML cannot read GPU {trouble.index}: {trouble.error_text or 'no response'}"
    for each in runtime.computations if runtime else ():
        if any(sign in each.error for sign in _SIGNS):
            yield f"TensorFlow's {each.operation} on {each.device}: {each.error}"
    if runtime and runtime.gpus and _was_cut_short(runtime):
        yield f"TensorFlow {runtime.attempt.ending}"


def _was_cut_short(runtime: Runtime) -> bool:
    """Whether TensorFlow hung or crashed, and neither lacked time nor was ended by somebody else."""
    bad = runtime.attempt.outcome in ("timed_out", "killed_by_signal")
    return bad and not runtime.attempt.ended_from_outside and not had_no_time(runtime)
