"""NUM: do the program and its GPU lie on the same side of the machine?"""

from __future__ import annotations

from tfgpu_doctor.checks.gpu.in_use import place
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.limits import Limits, numbers_in
from tfgpu_doctor.model.facts.machine import NumaNode, Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver


@check(
    "NUM001",
    "the program may run on processors near its GPU",
    stage=Stage.SPEED,
    after=("GPU001", "DRV008"),
    sources=("https://docs.kernel.org/admin-guide/mm/numaperf.html",),
)
def program_is_near_its_gpu(limits: Limits, system: System, pci: Pci, cuda_driver: CudaDriver) -> Yielded:
    """On a machine with several sockets each GPU hangs on one of them. A program that is bound to the other sends all
    its data over the link between them, with less bandwidth and more delay.

    Fix: bind it to the GPU's side (`numactl --cpunodebind`, `taskset`), or take the binding off.
    """
    nodes = {node.number: node for node in system.numa_nodes if node.cpu_list}
    if len(nodes) <= 1:
        raise Skip("all processors are equally near" if nodes else "where memory lies is not known")
    own = limits.cpus
    if not own:
        raise Skip("which processors it may run on is not known")
    places = _places(pci, cuda_driver, nodes)
    if not places:
        raise Skip("where the GPUs hang is not known")
    far = {gpu: node for gpu, node in places.items() if not own & numbers_in(node.cpu_list)}
    if len(far) < len(places):
        yield Evidence(f"it may run on processors {limits.cpu_list}; {_said(places)}")
        return
    yield Evidence(_said(places))
    near = next(iter(far.values()))
    yield Finding(
        f"the program is bound to processors {limits.cpu_list}, and every GPU that it sees hangs on others",
        severity="info",
        evidence=(_said(places), f"it may run on processors {limits.cpu_list} alone"),
        fix=Fix(
            f"Bind it to the GPU's side: `numactl --cpunodebind={near.number} --membind={near.number} python ...`, or "
            f"`taskset -c {near.cpu_list} python ...`. In Slurm `--gres-flags=enforce-binding` does it, in Kubernetes the "
            "topology manager's policy single-numa-node, in Docker `--cpuset-cpus`."
        ),
    )


def _places(pci: Pci, cuda_driver: CudaDriver, nodes: dict[int, NumaNode]) -> dict[str, NumaNode]:
    """The node of each GPU that CUDA lists, where the firmware tells it."""
    by_address = {place(device.address): device.numa_node for device in pci.devices}
    found: dict[str, NumaNode] = {}
    for gpu in cuda_driver.gpus:
        number = by_address.get(place(gpu.pci_address))
        if number is not None and number in nodes:
            found[f"GPU {gpu.index}"] = nodes[number]
    return found


def _said(places: dict[str, NumaNode]) -> str:
    return ", ".join(f"{gpu} hangs on node {node.number} (processors {node.cpu_list})" for gpu, node in places.items())
