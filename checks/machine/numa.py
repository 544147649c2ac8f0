"""NUM: does the program run on the NUMA node of its GPU?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import devices_of
from tfgpu_doctor.checks.gpu.in_use import place
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.limits import Limits, numbers_in
from tfgpu_doctor.model.facts.machine import NumaNode, Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver


@check(
    "NUM001",
    "the program may run on CPUs near its GPU",
    family="NUMA",
    stage=Stage.SPEED,
    after=("GPU001", "DRV008"),
    sources=("https://docs.kernel.org/admin-guide/mm/numaperf.html",),
)
def program_is_near_its_gpu(limits: Limits, system: System, pci: Pci, cuda_driver: CudaDriver) -> Yielded:
    """On a machine with several sockets, each GPU is attached to one of them. A program that is bound to another socket
    sends all its data over the link between them, with less bandwidth and higher latency.

    Fix: bind it to the GPU's NUMA node (`numactl --cpunodebind`, `taskset`), or remove the binding.
    """
    nodes = {node.number: node for node in system.numa_nodes if node.cpu_list}
    if len(nodes) <= 1:
        raise Skip("all CPUs are in one NUMA node" if nodes else "the NUMA nodes are unknown")
    own = limits.cpus
    if not own:
        raise NotMeasured("the CPUs that this process may run on are unknown")
    places = _places(pci, cuda_driver, nodes)
    if not places:
        raise NotMeasured("GPU NUMA affinity is unknown")
    far = {gpu: node for gpu, node in places.items() if not own & numbers_in(node.cpu_list)}
    if len(far) < len(places):
        yield Evidence(f"this process may run on CPUs {limits.cpu_list}; {_said(places)}")
        return
    yield Evidence(_said(places))
    near = next(iter(far.values()))
    bound = [gpu for gpu in cuda_driver.gpus if f"GPU {gpu.index}" in far]
    yield Finding(
        f"the program is bound to CPUs {limits.cpu_list}, but every visible GPU is attached to other CPUs",
        severity="info",
        evidence=(_said(places), f"this process may run only on CPUs {limits.cpu_list}"),
        fix=Fix(
            f"Bind it to the GPU's NUMA node: `numactl --cpunodebind={near.number} --membind={near.number} python ...`, or "
            f"`taskset -c {near.cpu_list} python ...`. In Slurm, use `--gres-flags=enforce-binding`; in Kubernetes, the "
            "topology manager policy single-numa-node; in Docker, `--cpuset-cpus`."
        ),
        devices=devices_of(bound),
    )


def _places(pci: Pci, cuda_driver: CudaDriver, nodes: dict[int, NumaNode]) -> dict[str, NumaNode]:
    """Return the NUMA node of each GPU that CUDA lists, if the firmware reports it."""
    by_address = {place(device.address): device.numa_node for device in pci.devices}
    found: dict[str, NumaNode] = {}
    for gpu in cuda_driver.gpus:
        number = by_address.get(place(gpu.pci_address))
        if number is not None and number in nodes:
            found[f"GPU {gpu.index}"] = nodes[number]
    return found


def _said(places: dict[str, NumaNode]) -> str:
    return ", ".join(f"{gpu} is on NUMA node {node.number} (CPUs {node.cpu_list})" for gpu, node in places.items())
