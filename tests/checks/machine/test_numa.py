"""NUM001: the program and its GPU on one side of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_ground import limits
from built_machines import several
from healthy import broken, cuda_gpu

from tfgpu_doctor.checks.machine.numa import program_is_near_its_gpu
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import NumaNode

if TYPE_CHECKING:
    from checks.conftest import Judge

NODES = (NumaNode(number=0, cpu_list="0-15,32-47"), NumaNode(number=1, cpu_list="16-31,48-63"))


def sockets(*gpu_nodes: int | None, cpus: str = "0-63", nodes: tuple[NumaNode, ...] = NODES) -> Facts:
    """A machine of two sockets with GPUs at these, and a program bound to these processors."""
    sections: dict[str, Any] = several(len(gpu_nodes))
    sections["pci"]["devices"] = tuple(
        msgspec.structs.replace(device, numa_node=node)
        for device, node in zip(sections["pci"]["devices"], gpu_nodes, strict=True)
    )
    return broken(**sections, limits=limits(64, cpu_list=cpus), system={"numa_nodes": nodes})


@pytest.mark.parametrize("cpus", ["0-63", "16-31", "31,48", "15-16"])
def test_a_program_that_may_run_near_its_gpu(judge: Judge, cpus: str) -> None:
    assert "GPU 0 is on NUMA node 1" in judge.passes(program_is_near_its_gpu, sockets(1, cpus=cpus))


def test_of_two_gpus_one_that_is_near_is_enough(judge: Judge) -> None:
    assert judge.passes(program_is_near_its_gpu, sockets(0, 1, cpus="0-15"))


@pytest.mark.parametrize("cpus", ["0-15", "3", "32-47"])
def test_a_program_that_is_bound_to_the_other_side(judge: Judge, cpus: str) -> None:
    finding = judge.findings(program_is_near_its_gpu, sockets(1, 1, cpus=cpus))[0]
    assert finding.severity == "info"
    assert f"bound to CPUs {cpus}" in finding.message
    assert finding.fix and "numactl --cpunodebind=1 --membind=1" in finding.fix.text
    assert "taskset -c 16-31,48-63" in finding.fix.text


def test_the_gpus_that_are_hidden_do_not_count(judge: Judge) -> None:
    machine = broken(sockets(0, 1, cpus="0-15"), cuda_driver={"gpus": (cuda_gpu(0, pci_address="00000000:02:00.0"),)})
    assert judge.findings(program_is_near_its_gpu, machine)


@pytest.mark.parametrize("node", [None, -1, 7])
def test_a_firmware_that_does_not_say_is_not_believed(judge: Judge, node: int | None) -> None:
    assert judge.skips(program_is_near_its_gpu, sockets(node, cpus="0-15")) == "GPU NUMA affinity is unknown"


def test_one_socket_has_no_sides(judge: Judge) -> None:
    """The memory of a GPU may be a node of its own, without processors: Grace Hopper."""
    memory = NumaNode(number=1, memory_bytes=95 << 30)
    assert judge.skips(program_is_near_its_gpu, sockets(0, nodes=(NODES[0], memory)))
    assert judge.skips(program_is_near_its_gpu, sockets(0, nodes=()))


def test_a_binding_that_is_not_known_is_not_judged(judge: Judge) -> None:
    assert judge.skips(program_is_near_its_gpu, sockets(1, cpus=""))
