"""The simulated machine of a record: NVML answers what it answered on the recorded machine; what it did not is not supported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import Ecc, GpuHealth, GpuTrouble, MigDevice, NvLink, RemappedRows
from tfgpu_doctor.model.facts.nvidia import GpuProcess, Nvml, NvmlGpu
from tfgpu_doctor.rehearse.gpu import MOST_GPUS, MachineError
from tfgpu_doctor.rehearse.machine import SimulatedMachine, cuda_of_driver, known_calls, newest_driver

_DRIVER = re.compile(r"\d{3,4}\.\d{1,3}(?:\.\d{1,3})?")
_HANDLE = "nvmlDeviceGetHandleByIndex"
_NO_PERMISSION = 4  # NVML_ERROR_NO_PERMISSION: the answer for GPUs that the record counts, but does not show
_NO_CUDA = "0.0"  # of a driver that is older than the tables: it supports no CUDA of theirs
_NOTHING = NvmlGpu(index=0)


def is_record(content: bytes) -> bool:
    """Whether a file is the record of a machine and not the description of a simulated one: it names its schema."""
    try:
        return isinstance(decode_json(content, dict[str, msgspec.Raw]).get("schema"), msgspec.Raw)
    except msgspec.DecodeError:
        return False


def machine_of(facts: Facts, knowledge: Knowledge) -> SimulatedMachine:
    """Return the machine that answers as the record says. Raises MachineError."""
    nvml = facts.nvml
    if nvml is None or not (nvml.gpus or nvml.troubles or nvml.library_error or nvml.error_code):
        raise MachineError("the record has no answer of NVML that could be simulated")
    driver = next((each for each in (nvml.driver_version, *_loaded(facts)) if _DRIVER.fullmatch(each)), "")
    gpus = list(_gpus(nvml, facts, knowledge))
    driver = driver or newest_driver(knowledge, [gpu["compute_capability"] for gpu in gpus])
    cuda = facts.cuda_driver.cuda_version if facts.cuda_driver else ""
    document = {
        "driver": driver,
        "cuda": cuda or _cuda_of(driver, knowledge),
        "gpus": gpus,
        "missing": ["libnvidia-ml.so.1"] if nvml.library_error else [],
        "excluded_gpus": nvml.excluded,
        "faults": {"nvmlInit": nvml.error_code} if nvml.error_code else {},
    }
    try:
        return msgspec.convert(document, SimulatedMachine)
    except msgspec.ValidationError as error:
        raise MachineError(f"the record cannot be simulated: {error}") from error


def _cuda_of(driver: str, knowledge: Knowledge) -> str:
    try:
        return cuda_of_driver(driver, knowledge)
    except MachineError:
        return _NO_CUDA


def _loaded(facts: Facts) -> tuple[str, ...]:
    return (facts.driver.version,) if facts.driver else ()


def _gpus(nvml: Nvml, facts: Facts, knowledge: Knowledge) -> Iterator[dict[str, Any]]:
    """Each GPU in NVML's order. One that the record does not show may not be used by this process."""
    shown, troubles = {gpu.index: gpu for gpu in nvml.gpus}, {each.index: each for each in nvml.troubles}
    count = max([nvml.count or 0, *(index + 1 for index in (*shown, *troubles))])
    if count > MOST_GPUS:
        raise MachineError(f"the record has {count} GPUs, and at most {MOST_GPUS} can be simulated")
    for index in range(count):
        trouble = troubles.get(index)
        gpu = shown.get(index) or _NOTHING
        if trouble and not gpu.name:
            gpu = NvmlGpu(index=index, name=trouble.name, uuid=trouble.uuid, pci_address=trouble.pci_address)
        faults = _faults(trouble) if trouble else {} if index in shown else {_HANDLE: _NO_PERMISSION}
        yield {
            **_gpu(gpu),
            **_figures(gpu, facts, knowledge),
            "pci_address": gpu.pci_address or f"0000:{index + 1:02x}:00.0",
            "faults": faults,
        }


def _faults(trouble: GpuTrouble) -> dict[str, Any]:
    call = trouble.call.partition("_v")[0]
    known = any(each.partition("_v")[0] == call for each in known_calls())
    return {call if known else _HANDLE: trouble.error_code or "hang"}


def _figures(gpu: NvmlGpu, facts: Facts, knowledge: Knowledge) -> dict[str, Any]:
    """What CUDA needs of a GPU beyond NVML's answers: of the record's own answer of CUDA, otherwise of the table."""
    own = (
        next((each for each in facts.cuda_driver.gpus if each.index == gpu.index), None) if facts.cuda_driver else None
    )
    model = knowledge.gpu_named(gpu.name) if gpu.name else None
    capability = gpu.compute_capability or (model.compute_capability if model else "")
    processors = own.multiprocessors if own else model.multiprocessors if model else None
    return {"compute_capability": capability or None, "multiprocessors": processors}


def _gpu(gpu: NvmlGpu) -> dict[str, Any]:
    health, total, free = gpu.health, gpu.memory_total_bytes, gpu.memory_free_bytes
    return {
        "name": gpu.name,
        "uuid": gpu.uuid,
        "serial": gpu.serial or None,
        "part_number": gpu.part_number or None,
        "vbios": gpu.vbios or None,
        "memory_bytes": total,
        "memory_used_bytes": max(0, total - free) if total is not None and free is not None else 0,
        "compute_mode": gpu.compute_mode or None,
        "mig_mode": gpu.mig,
        "mig_pending": health.mig_pending,
        "mig_devices": [_slice(each) for each in health.mig_devices],
        "processes": [_process(each) for each in gpu.processes],
        "memory_utilization_percent": None,
        "licence": {True: "licensed", False: "unlicensed"}.get(health.licensed)
        if health.licensed is not None
        else None,
        **_state(health),
    }


def _state(health: GpuHealth) -> dict[str, Any]:
    facts = msgspec.to_builtins(health)
    words = ("recovery_action", "gsp_firmware", "virtualization")
    numbers = ("performance_state", "utilization_percent", "persistence_mode", "chip_to_chip", "throttle_reasons")
    return {
        **{name: facts.get(name) or None for name in words},
        **{name: facts.get(name) for name in numbers},
        "ecc": _ecc(health.ecc) if health.ecc else None,
        "remapped_rows": _rows(health.remapped_rows) if health.remapped_rows else None,
        "retired_pages": facts.get("retired_pages"),
        "fabric": facts.get("fabric"),
        "temperature_c": _without_units(health.temperature, max="gpu_max"),
        "power_w": _without_units(health.power),
        "clocks_mhz": {
            **dict.fromkeys(("graphics", "video", "max_graphics", "max_video")),
            **_without_units(health.clocks),
        },
        "pcie": {**_without_units(health.pcie), "bus": health.pcie.bus or None},
        "nvlinks": [_link(each) for each in health.nvlinks],
    }


def _without_units(fact: msgspec.Struct, **renamed: str) -> dict[str, Any]:
    """The fields of a fact under the names of the simulated GPU, which has the unit in the name of the whole part."""
    names = {name: re.sub(r"_(?:c|w|mhz)$", "", name) for name in fact.__struct_fields__}
    return {renamed.get(short, short): getattr(fact, name) for name, short in names.items()}


def _ecc(ecc: Ecc) -> dict[str, Any]:
    values = {name: getattr(ecc, name) for name in ecc.__struct_fields__}
    return {"mode": values.pop("enabled"), "pending_mode": values.pop("pending"), **values}


def _rows(rows: RemappedRows) -> dict[str, Any]:
    banks = {f"banks_{word}_spare": rows.banks.get(word) for word in ("all", "most", "some", "few", "none")}
    return {
        "corrected": rows.corrected,
        "uncorrected": rows.uncorrected,
        "pending": rows.pending,
        "failed": rows.failed,
        **banks,
    }


def _slice(device: MigDevice) -> dict[str, Any]:
    total, free = device.memory_total_bytes, device.memory_free_bytes
    return {
        "profile": device.profile,
        "uuid": device.uuid,
        "memory_bytes": total,
        "memory_used_bytes": max(0, total - free) if total is not None and free is not None else 0,
        "multiprocessors": device.multiprocessors,
        "gpu_instance": device.gpu_instance,
        "compute_instance": device.compute_instance,
    }


def _process(process: GpuProcess) -> dict[str, Any]:
    kind = "compute" if process.computes else "graphics"
    return {"pid": process.pid, "name": process.name, "kind": kind, "memory_bytes": process.memory_bytes}


def _link(link: NvLink) -> dict[str, Any]:
    return {"active": link.active, "version": link.version, "remote": link.remote or None, **link.errors}
