"""The options of `fleet emit kubernetes` that describe the cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import refuse

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.emitting_kubernetes import Cloud

_Command = TypeVar("_Command", bound=Callable[..., int])
_MOST_NAMES_BYTES = 16 << 20
_OPTIONS = (
    click.option("--image", metavar="IMAGE", required=True, help="A container image with TensorFlow and the doctor."),
    click.option("--name", metavar="NAME", default="tfgpu-doctor", show_default=True, help="The name of the objects."),
    click.option("--claim", metavar="NAME", default="", help="The PersistentVolumeClaim that contains the folder --out."),
    click.option(
        "--node-selector", metavar="KEY=VALUE", multiple=True,
        help="A label of the nodes to examine; repeatable.  [default: nvidia.com/gpu.present=true]",
    ),
    click.option(
        "--node-names", metavar="FILE|NAMES",
        help="Examine these nodes, each with a Job of its own: a file with one name per line, or names separated by commas.",
    ),
    click.option(
        "--at-once", type=click.IntRange(1, 100_000), metavar="N", help="Examine N of the named nodes at once, idle ones first."
    ),
    click.option(
        "--schedule", metavar="CRON", default="", help="Repeat at these times (UTC), and compare the nodes after each round."
    ),
    click.option(
        "--patience", type=FiniteRange(0, 100_000), metavar="MINUTES", default=60, show_default=True,
        help="How long to wait for nodes that are in use.",
    ),
    click.option(
        "--runtime-class", metavar="NAME",
        help="The runtime class; '' for the cluster's default.  [default: nvidia if the pods request no GPU]",
    ),
    click.option("--priority-class", metavar="NAME", default="", help="The priority class of the pods."),
    click.option(
        "--shm-size", metavar="SIZE", default="1Gi", show_default=True, help="The size of /dev/shm, for NCCL and Keras."
    ),
    click.option(
        "--kernel-log", type=click.Choice(["capability", "privileged"]),
        help="Read the kernel log: as root with CAP_SYSLOG, or privileged with /dev/kmsg.",
    ),
    click.option(
        "--uid", type=click.IntRange(1, 2**31 - 1), metavar="N", default=1000, show_default=True,
        help="The user id of the pods.",
    ),
)  # fmt: skip


def cloud_options(command: _Command) -> _Command:
    """Add these options to a command; pass its arguments to `take_cloud`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_cloud(asked: dict[str, Any]) -> Cloud:
    """Remove these options from the arguments of a command, and return their values. Rejects unreadable names."""
    from tfgpu_doctor.fleet.emitting_kubernetes import Cloud

    taken = {name: asked.pop(name) for name in Cloud.__struct_fields__}
    names = taken.pop("node_names")
    if names is None:
        return Cloud(**taken)
    if asked["nodes"] is not None:
        refuse("--node-names names the nodes: it cannot be combined with --nodes")
    found = _names(names)
    asked["nodes"] = len(found)
    return Cloud(**taken, node_names=found)


def _names(text: str) -> tuple[str, ...]:
    """Return the names from a file, as `kubectl get nodes -o name` writes them, or from a list with commas."""
    from tfgpu_doctor.host.files import Files

    lines = text.split(",")
    if os.sep in text or Files().exists(text):
        try:
            lines = Files().read_bytes(text, _MOST_NAMES_BYTES).decode("utf-8", "replace").splitlines()
        except OSError as error:
            refuse(f"--node-names {text} cannot be read: {error.strerror or error}")
    found = tuple(line.strip().removeprefix("node/") for line in lines if line.strip())
    if not found:
        refuse(f"--node-names {text!r} names no node")
    return found
