"""The health of one GPU as NVML reports it, one query at a time; part of open_nvml.py.

`ask` queries nvidia-ml-py by the name of a call, and returns None if NVML does not support it on this GPU.
"""

from __future__ import annotations

import ctypes
import time

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any

# All of these are numbered as in nvml.h: https://docs.nvidia.com/deploy/nvml-api/ (read 2026-11-21).
REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting", "board_limit", "reliability",
)  # fmt: skip
VIRTUALIZATION = ("none", "passthrough", "vgpu", "host_vgpu", "host_vsga")
RECOVERY_ACTIONS = (
    "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset", "system_reboot",
)  # fmt: skip
BUSES = ("", "pci", "pcie", "fpci", "agp")
FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
LINK_ERRORS = ("replays", "recoveries", "crc_flit_errors", "crc_data_errors", "ecc_errors")
BANKS = (("max", "all"), ("high", "most"), ("partial", "some"), ("low", "few"), ("none", "none"))
SHUTDOWN, SLOWDOWN, MEMORY_MAX, GPU_MAX = range(4)  # temperature thresholds
SM, MEMORY = 1, 2  # clocks
MEMORY_TEMPERATURE, RECOVERY_ACTION = 82, 230  # field values
VGPU = 2
INTEGERS = {1: "uiVal", 2: "ulVal", 3: "ullVal"}  # of the types of a field value
MOST_LINKS = 36

SLOWING = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7  # heat, power brake, and their combination
LOOKS, BETWEEN_LOOKS_S = 3, 0.02


def named(number: Any, names: tuple[str, ...]) -> str:
    """The word for a number; the number itself if it is newer than the list."""
    if number is None:
        return ""
    return names[number] if 0 <= number < len(names) else str(number)


def true(number: Any) -> bool | None:
    return None if number is None else bool(number)


def watts(milliwatts: Any) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def filled(ask: Any, call: str, kind: str, handle: Any) -> Any:
    """A structure of nvidia-ml-py that a call has filled in, None if either does not know the other's version."""
    structure = getattr(ask.nvml, kind, None)
    if structure is None:
        return None
    answer = structure()
    return answer if ask(call, handle, ctypes.byref(answer)) == 0 else None


def fields(ask: Any, handle: Any, *numbers: int) -> list[int | None]:
    """The field values of those numbers; all are integers."""
    values = ask("nvmlDeviceGetFieldValues", handle, list(numbers)) or ()
    found = [
        getattr(each.value, INTEGERS.get(each.valueType, ""), None) if not each.nvmlReturn else None for each in values
    ]
    return found or [None] * len(numbers)


def ecc(ask: Any, handle: Any) -> dict[str, object] | None:
    mode = ask("nvmlDeviceGetEccMode", handle)
    if not mode:
        return None
    row = {"enabled": bool(mode[0]), "pending": bool(mode[1])}  # type: dict[str, object]
    for counter, since in enumerate(("volatile", "aggregate") if mode[0] else ()):
        for kind, what in enumerate(("corrected", "uncorrected")):
            row["%s_%s" % (since, what)] = ask("nvmlDeviceGetTotalEccErrors", handle, kind, counter)
    sram = filled(ask, "nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t", handle) if mode[0] else None
    row["sram_threshold_exceeded"] = bool(sram.bThresholdExceeded) if sram else None
    return row


def remapped_rows(ask: Any, handle: Any) -> dict[str, object] | None:
    answer = ask("nvmlDeviceGetRemappedRows", handle)
    if not answer:
        return None
    histogram = ask("nvmlDeviceGetRowRemapperHistogram", handle)
    return {
        "corrected": answer[0],
        "uncorrected": answer[1],
        "pending": bool(answer[2]),
        "failed": bool(answer[3]),
        "banks": {word: getattr(histogram, name) for name, word in BANKS} if histogram else {},
    }


def retired_pages(ask: Any, handle: Any) -> dict[str, object] | None:
    corrected, uncorrected = (ask("nvmlDeviceGetRetiredPages", handle, cause) for cause in (0, 1))
    if corrected is None or uncorrected is None:
        return None
    pending = bool(ask("nvmlDeviceGetRetiredPagesPendingStatus", handle))
    return {"corrected": len(corrected), "uncorrected": len(uncorrected), "pending": pending}


def temperature(ask: Any, handle: Any, memory_c: int | None) -> dict[str, object]:
    now = ask("nvmlDeviceGetTemperatureV", handle, 0)
    if now is None:  # drivers before 555
        now = ask("nvmlDeviceGetTemperature", handle, 0)
    kinds = {"max_c": GPU_MAX, "slowdown_c": SLOWDOWN, "shutdown_c": SHUTDOWN, "memory_max_c": MEMORY_MAX}
    row = {name: ask("nvmlDeviceGetTemperatureThreshold", handle, kind) for name, kind in kinds.items()}
    margin = ask("nvmlDeviceGetMarginTemperature", handle)
    return dict(row, gpu_c=now, memory_c=memory_c or None, margin_c=margin)


def power(ask: Any, handle: Any) -> dict[str, object]:
    bounds = ask("nvmlDeviceGetPowerManagementLimitConstraints", handle) or (None, None)
    return {
        "draw_w": watts(ask("nvmlDeviceGetPowerUsage", handle)),
        "limit_w": watts(ask("nvmlDeviceGetPowerManagementLimit", handle)),
        "enforced_limit_w": watts(ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
        "default_limit_w": watts(ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        "min_limit_w": watts(bounds[0]),
        "max_limit_w": watts(bounds[1]),
    }


def clocks(ask: Any, handle: Any) -> dict[str, object]:
    return {
        "sm_mhz": ask("nvmlDeviceGetClockInfo", handle, SM),
        "memory_mhz": ask("nvmlDeviceGetClockInfo", handle, MEMORY),
        "max_sm_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, SM),
        "max_memory_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, MEMORY),
    }


def throttle_bits(ask: Any, handle: Any) -> int | None:
    bits = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:  # drivers before 535
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if bits is None else int(bits)


def throttle_reasons(ask: Any, handle: Any) -> list[str] | None:
    """The persistent reasons for lower clocks: a clock change itself may show as a slowdown for a moment."""
    bits = throttle_bits(ask, handle)
    if bits is None:
        return None
    for _ in range(LOOKS - 1):
        if not bits & SLOWING:
            break
        time.sleep(BETWEEN_LOOKS_S)
        again = throttle_bits(ask, handle)
        bits &= ~SLOWING | (bits if again is None else again)
    return [name for place, name in enumerate(REASONS) if bits >> place & 1]


def pcie(ask: Any, handle: Any) -> dict[str, object]:
    return {
        "generation": ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "width": ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "max_generation": ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "max_width": ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "gpu_max_generation": ask("nvmlDeviceGetGpuMaxPcieLinkGeneration", handle),
        "replays": ask("nvmlDeviceGetPcieReplayCounter", handle),
        "bus": named(ask("nvmlDeviceGetBusType", handle), BUSES),
    }


def nvlinks(ask: Any, handle: Any) -> list[dict[str, object]]:
    """Every link that the GPU has; for those that are up also the remote end and the errors."""
    rows = []
    for link in range(MOST_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            break
        row = {"index": link, "active": bool(state)}  # type: dict[str, object]  # 2 is a sleeping link that wakes up when needed
        if state:
            remote = ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
            counts = {
                name: ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, kind)
                for kind, name in enumerate(LINK_ERRORS)
            }
            row["version"] = ask("nvmlDeviceGetNvLinkVersion", handle, link)
            row["remote"] = {0: "gpu", 1: "npu", 2: "switch"}.get(remote, "")
            row["errors"] = {name: count for name, count in counts.items() if count}
        rows.append(row)
    return rows


def fabric(ask: Any, handle: Any) -> dict[str, object] | None:
    answer = filled(ask, "nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t", handle)
    if answer is None:  # drivers before 545
        answer = filled(ask, "nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t", handle)
    return {"state": named(answer.state, FABRIC_STATES), "status": answer.status} if answer else None


def mig_devices(ask: Any, handle: Any) -> list[dict[str, object]]:
    """The slices of a GPU that is partitioned by MIG: those that are visible to this process."""
    rows = []
    for index in range(ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        device = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if device is None:
            continue
        memory = ask("nvmlDeviceGetMemoryInfo", device)
        attributes = ask("nvmlDeviceGetAttributes", device)
        rows.append(
            {
                "uuid": ask("nvmlDeviceGetUUID", device) or "",
                "profile": (ask("nvmlDeviceGetName", device) or "").partition(" MIG ")[2],
                "memory_total_bytes": memory.total if memory else None,
                "memory_free_bytes": memory.free if memory else None,
                "multiprocessors": attributes.multiprocessorCount if attributes else None,
                "gpu_instance": ask("nvmlDeviceGetGpuInstanceId", device),
                "compute_instance": ask("nvmlDeviceGetComputeInstanceId", device),
            }
        )
    return rows


def licensed(ask: Any, handle: Any) -> bool | None:
    """Whether a vGPU has its license, None if NVML does not report it."""
    answer = ask("nvmlDeviceGetGridLicensableFeatures", handle)
    if not answer or not answer.isGridLicenseSupported:
        return None
    features = [answer.gridLicensableFeatures[place] for place in range(answer.licensableFeaturesCount)]
    states = [bool(each.featureState) for each in features if each.featureEnabled]
    return any(states) if states else None


def read_health(ask: Any, handle: Any, mig: Any) -> dict[str, Any]:
    """All health values; `mig` is the answer to nvmlDeviceGetMigMode."""
    memory_c, action = fields(ask, handle, MEMORY_TEMPERATURE, RECOVERY_ACTION)
    utilization = ask("nvmlDeviceGetUtilizationRates", handle)
    virtualization = ask("nvmlDeviceGetVirtualizationMode", handle)
    chip_to_chip = ask("nvmlDeviceGetC2cModeInfoV", handle)
    return {
        "ecc": ecc(ask, handle),
        "remapped_rows": remapped_rows(ask, handle),
        "retired_pages": retired_pages(ask, handle),
        "recovery_action": named(action, RECOVERY_ACTIONS),
        "temperature": temperature(ask, handle, memory_c),
        "power": power(ask, handle),
        "clocks": clocks(ask, handle),
        "throttle_reasons": throttle_reasons(ask, handle),
        "performance_state": ask("nvmlDeviceGetPerformanceState", handle),
        "utilization_percent": utilization.gpu if utilization else None,
        "pcie": pcie(ask, handle),
        "chip_to_chip": bool(chip_to_chip.isC2cEnabled) if chip_to_chip else None,
        "nvlinks": nvlinks(ask, handle),
        "fabric": fabric(ask, handle),
        "mig_devices": mig_devices(ask, handle) if mig and mig[0] else [],
        "mig_pending": true(mig[1]) if mig else None,
        "persistence_mode": true(ask("nvmlDeviceGetPersistenceMode", handle)),
        "gsp_firmware": ask("nvmlDeviceGetGspFirmwareVersion", handle) or "",
        "virtualization": named(virtualization, VIRTUALIZATION),
        "licensed": licensed(ask, handle) if virtualization == VGPU else None,
    }
