"""How long the driver may take to respond: without persistence mode, its first user waits until every GPU is initialized."""

from __future__ import annotations

import re

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import NVIDIA

_EACH_S = 3.0  # the driver takes 1 to 3 s per GPU: https://docs.nvidia.com/deploy/driver-persistence/index.html
_MOST_GPUS = 16  # of one machine; the virtual functions of SR-IOV on its bus are more, and not initialized here
_BUS = "/sys/bus/pci/devices"
_NODE = re.compile(r"nvidia\d+")


def limit_s(host: Host, request: Request, warm_s: float) -> float:
    """The time limit of a query to the driver (seconds); `warm_s` is that of one whose GPUs are initialized.

    A deadline above the default raises it in proportion, and a shorter one bounds it.
    """
    patience = max(1.0, request.deadline_s / Request.deadline_s)
    return min((warm_s + _EACH_S * min(gpu_count(host), _MOST_GPUS)) * patience, request.deadline_s)


def gpu_count(host: Host) -> int:
    """The number of NVIDIA's GPUs on the PCI bus, or of their device nodes if those are more; both need no driver."""
    nodes = sum(bool(_NODE.fullmatch(name)) for name in host.files.names_if_any("/dev"))
    return max(nodes, sum(_is_gpu(host, address) for address in host.files.names_if_any(_BUS)))


def _is_gpu(host: Host, address: str) -> bool:
    folder = f"{_BUS}/{address}"
    return host.files.text_if_any(f"{folder}/vendor").strip() == f"0x{NVIDIA}" and host.files.text_if_any(
        f"{folder}/class"
    ).startswith("0x03")
