"""The probe of the device nodes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.device_nodes import device_nodes
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts.nvidia import DeviceNode

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

NODES = ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidiactl")


def test_nodes_that_open_have_no_error(machine: Machine) -> None:
    for path in NODES:
        machine.file(path).chmod(0o666)
    found = machine.ask(device_nodes)
    assert found.opening.answered
    assert sorted(node.path for node in found.nodes) == sorted(NODES)
    assert {node.error for node in found.nodes} == {""}
    assert {node.mode for node in found.nodes} == {"0666"}
    assert [node.path for node in found.gpus] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert found.find("/dev/nvidia-uvm").path == "/dev/nvidia-uvm"
    assert found.find("/dev/nvidia7") is None
    assert (found.uid, found.groups) == (os.getuid(), tuple(os.getgroups()))


def test_other_devices_are_not_opened(machine: Machine) -> None:
    machine.file("/dev/nvidia0")
    machine.folder("/dev/nvidia-caps")
    for name in (
        "null",
        "dri",
        "nvidia-uvm-tools",
        "nvidia-caps-imex-channels",
        "nvme0n1",
        "nvidia",
        "nvidia0.old",
        "xnvidia0",
    ):
        machine.file(f"/dev/{name}")
    assert [node.path for node in machine.ask(device_nodes).nodes] == ["/dev/nvidia0"]


@pytest.mark.parametrize("name", ["dxg", "nvhost-gpu", "nvmap"])
def test_the_nodes_of_wsl_and_jetson_are_opened(machine: Machine, name: str) -> None:
    machine.file(f"/dev/{name}")
    (node,) = machine.ask(device_nodes).nodes
    assert (node.path, node.error) == (f"/dev/{name}", "")


def test_without_nodes_nothing_is_opened(machine: Machine) -> None:
    machine.file("/dev/null")
    found = machine.ask(device_nodes, done=Completed(b"", "", 0.0))
    assert (found.nodes, found.opening) == ((), None)
    assert found.uid == os.getuid()
    assert machine.asked == []


def test_a_machine_without_dev_has_no_answer(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="/dev cannot be read"):
        machine.ask(device_nodes)


@pytest.mark.usefixtures("closed_to_me")
def test_a_node_without_permission_says_so(machine: Machine) -> None:
    machine.file("/dev/nvidia0").chmod(0o444)
    machine.file("/dev/nvidiactl").chmod(0o666)
    found = machine.ask(device_nodes)
    assert {node.path: node.error for node in found.nodes} == {"/dev/nvidia0": "EACCES", "/dev/nvidiactl": ""}
    assert found.find("/dev/nvidia0").mode == "0444"


def test_a_node_that_is_something_else_says_how_opening_failed(machine: Machine) -> None:
    machine.folder("/dev/nvidia-uvm")
    (node,) = machine.ask(device_nodes).nodes
    assert node.error == "EISDIR"


def test_a_real_device_node_has_its_numbers(machine: Machine) -> None:
    place = machine.folder("/dev") / "nvidia0"
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # that of /dev/null
    except (OSError, AttributeError):
        pytest.skip("only root may make a device node")
    (node,) = machine.ask(device_nodes).nodes
    assert (node.major, node.minor) == (1, 3)
    assert node.error in ("", "EACCES")  # a file system may be mounted without devices


def test_a_node_of_no_driver_says_so(machine: Machine) -> None:
    place = machine.folder("/dev") / "nvidia0"
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(240, 77))  # 240 to 254 are for local use: no driver is there
    except (OSError, AttributeError):
        pytest.skip("only root may make a device node")
    (node,) = machine.ask(device_nodes).nodes
    assert node.error in ("ENXIO", "ENODEV", "EACCES")


def test_a_pipe_does_not_block(machine: Machine) -> None:
    os.mkfifo(machine.folder("/dev") / "nvidiactl")
    found = machine.ask(device_nodes)
    assert found.opening.answered
    assert found.nodes[0].error == ""


def test_a_link_that_leads_nowhere_is_no_node(machine: Machine) -> None:
    machine.link("/dev/nvidia0", "/host/dev/nvidia0")
    machine.file("/dev/nvidiactl")
    assert [node.path for node in machine.ask(device_nodes).nodes] == ["/dev/nvidiactl"]


def test_a_link_to_a_node_is_opened(machine: Machine) -> None:
    machine.file("/host/dev/nvidia0")
    machine.link("/dev/nvidia0", "/host/dev/nvidia0")
    (node,) = machine.ask(device_nodes).nodes
    assert (node.path, node.error) == ("/dev/nvidia0", "")


def test_two_names_of_one_node_are_both_opened(machine: Machine) -> None:
    machine.file("/dev/nvidia0")
    machine.link("/dev/nvidia1", "nvidia0")
    assert [node.error for node in machine.ask(device_nodes).nodes] == ["", ""]


def test_a_ring_of_links_is_no_node(machine: Machine) -> None:
    machine.link("/dev/nvidia0", "nvidia0")
    machine.file("/dev/nvidiactl")
    assert [node.path for node in machine.ask(device_nodes).nodes] == ["/dev/nvidiactl"]


def test_an_opening_that_never_returns_is_known_up_to_there(machine: Machine) -> None:
    for path in ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"):
        machine.file(path)
    first, second = machine.root / "dev/nvidia0", machine.root / "dev/nvidia1"
    output = f'{{"phase": "opening {first}"}}\n{{"opened": {{"{first}": ""}}}}\n{{"phase": "opening {second}"}}\n'
    found = machine.ask(device_nodes, done=Completed(output.encode(), "", 10.0, timed_out=True))
    assert found.opening.outcome == "timed_out"
    assert found.opening.phase == f"opening {second}"
    assert [node.error for node in found.nodes] == ["", "no response", "no response"]


@pytest.mark.parametrize(
    "done",
    [
        Completed(b"", "", 0.1, exit_code=-9, signal="SIGKILL"),
        Completed(b"junk\n", "", 0.1, exit_code=0),
        Completed(b"", "", 0.0, not_started="Cannot allocate memory"),
    ],
)
def test_an_opening_without_an_answer_is_no_success(machine: Machine, done: Completed) -> None:
    machine.file("/dev/nvidia0").chmod(0o600)
    found = machine.ask(device_nodes, done=done)
    assert not found.opening.answered
    status = (machine.root / "dev/nvidia0").stat()
    assert found.nodes == (
        DeviceNode(path="/dev/nvidia0", mode="0600", uid=status.st_uid, gid=status.st_gid, error="no response"),
    )
