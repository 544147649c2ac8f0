"""What a vendor asks of a node: its GPUs by serial number, and the codes that the driver wrote to the kernel log."""

from __future__ import annotations

from tfgpu_doctor.diagnose.device_names import DeviceNames
from tfgpu_doctor.fleet.node import Board, DriverCode
from tfgpu_doctor.model.facts import Facts

_CODES = ("xid", "sxid")


def boards_of(facts: Facts) -> tuple[Board, ...]:
    """Return the GPUs that NVML reads."""
    if facts.nvml is None:
        return ()
    names = DeviceNames(facts)
    return tuple(
        Board(
            device=names.name(f"GPU {gpu.index}"), index=gpu.index, name=gpu.name, serial=gpu.serial,
            part_number=gpu.part_number, uuid=gpu.uuid, vbios=gpu.vbios, pci_address=gpu.pci_address,
        )
        for gpu in facts.nvml.gpus
    )  # fmt: skip


def driver_codes_of(facts: Facts) -> tuple[DriverCode, ...]:
    """Return the codes since the last boot."""
    found = facts.kernel_log.of_kind(*_CODES) if facts.kernel_log else ()
    return tuple(
        DriverCode(
            kind=each.kind, code=each.code, count=each.count, pci_address=each.pci_address, text=each.text,
            age_s=each.last_age_s,
        )
        for each in found if each.code is not None
    )  # fmt: skip
