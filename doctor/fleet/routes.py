"""Routes between GPUs that cannot be as fast as others of the same machine: they are compared with their like."""

from __future__ import annotations

from tfgpu_doctor.diagnose.device_names import canonical
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import NvmlGpu

ACROSS = "copy GPU to GPU"  # the name of such a copy
FAR = " between NUMA nodes"  # follows it


def numa_nodes_of(facts: Facts) -> dict[str, int]:
    """Return the NUMA node of each GPU by TensorFlow's device, where it limits the copies between GPUs.

    NVSwitches connect all GPUs alike, on whichever NUMA node they are. Without them, a copy to a GPU of another NUMA node takes
    the link between the processors. A GPU whose node is unknown is left out.
    """
    if not facts.stress or not facts.nvml or not facts.pci:
        return {}
    node_at = {canonical(each.address): each.numa_node for each in facts.pci.devices}
    board = {gpu.uuid: gpu for gpu in facts.nvml.gpus if gpu.uuid and not _is_on_a_switch(gpu)}
    found = {
        f"GPU:{gpu.index}": node_at.get(canonical(board[gpu.uuid].pci_address))
        for gpu in facts.stress.gpus if gpu.uuid in board
    }  # fmt: skip
    return {device: node for device, node in found.items() if node is not None}


def _is_on_a_switch(gpu: NvmlGpu) -> bool:
    return any(link.active and link.remote == "switch" for link in gpu.health.nvlinks)


def is_far(ends: tuple[str, ...], nodes: dict[str, int]) -> bool:
    """Return whether the GPUs at the ends are known to be on different NUMA nodes."""
    return len({nodes[end] for end in ends if end in nodes}) > 1
