"""A GPU from the values that `nvidia-smi -q` shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfgpu_doctor.log.readers.nvidia_smi_values import LOST, Values, normal
from tfgpu_doctor.log.readers.smi import compute_mode, error_code
from tfgpu_doctor.log.readers.text import whole
from tfgpu_doctor.model.facts.health import (
    Clocks,
    Ecc,
    Fabric,
    GpuHealth,
    GpuTrouble,
    MigDevice,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
    Temperature,
)
from tfgpu_doctor.model.facts.nvidia import GpuProcess, NvmlGpu

# The name of each reason in both formats, to that of the facts.
_REASONS = {
    "idle": "gpu_idle", "gpu_idle": "gpu_idle", "applications_clocks_setting": "applications_clocks_setting",
    "user_defined_clocks": "applications_clocks_setting",
    "sw_power_cap": "sw_power_cap", "hw_slowdown": "hw_slowdown", "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal_slowdown", "hw_thermal_slowdown": "hw_thermal_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake_slowdown", "display_clock_setting": "display_clock_setting",
    "display_clocks_setting": "display_clock_setting",
}  # fmt: skip
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons/(?:.*/)?(?:clocks_(?:event|throttle)_reasons?_)?(\w+)")
_RECOVERY = {
    "none": "none", "reset": "gpu_reset", "gpu_reset": "gpu_reset", "reboot": "node_reboot", "node_reboot": "node_reboot",
    "drain_p2p": "drain_p2p", "drain_and_reset": "drain_and_reset", "recover_imex_domain": "recover_imex_domain",
    "bus_reset": "bus_reset", "system_reboot": "system_reboot",
}  # fmt: skip
_VIRTUALIZATION = {
    "none": "none", "pass_through": "passthrough", "passthrough": "passthrough", "vgpu": "vgpu", "host_vgpu": "host_vgpu",
    "vsga": "host_vsga", "host_vsga": "host_vsga",
}  # fmt: skip
_FABRIC = ("not_supported", "not_started", "in_progress", "completed")
_BANKS = (("max", "all"), ("high", "most"), ("partial", "some"), ("low", "few"), ("none", "none"))
_POWER = ("gpu_power_readings", "gpu_power_readings/gpu_ceiling_power_limit", "power_readings")
_LICENCES = ("vgpu_software_licensed_product", "grid_licensed_product")


def indices_of(gpus: Sequence[Values], attached: int | None) -> list[int]:
    """The index of each GPU: its place, or the minor number if only some GPUs are shown (`-i`)."""
    minors = [values.whole("minor_number") for values in gpus]
    known = [minor for minor in minors if minor is not None and minor >= 0]
    if attached and len(gpus) < attached and len(set(known)) == len(gpus):
        return known
    return list(range(len(gpus)))


def trouble_of(values: Values, index: int) -> GpuTrouble | None:
    """The problem of a GPU whose values are replaced by the words that it is lost, or must be reset."""
    said = next((text for text in values.texts.values() if text.strip("[]").lower() in LOST), "").strip("[]")
    if not said:
        return None
    return GpuTrouble(
        index=index,
        name=values.text("product_name"),
        uuid=values.text("gpu_uuid", "uuid"),
        pci_address=values.address,
        error_code=error_code(said),
        error_text=said,
    )


def gpu_of(values: Values, index: int) -> NvmlGpu:
    """The GPU; values that the text does not show are missing."""
    slices = tuple(_slices(values))
    return NvmlGpu(
        index=index,
        name=values.text("product_name"),
        uuid=values.text("gpu_uuid", "uuid"),
        pci_address=values.address,
        memory_total_bytes=values.size("fb_memory_usage/total", "memory_usage/total"),
        memory_free_bytes=values.size("fb_memory_usage/free", "memory_usage/free"),
        compute_mode=compute_mode(values.text("compute_mode")),
        mig=values.flag("mig_mode/current", "mig_mode/current_mig"),
        mig_devices=tuple(each.uuid for each in slices),
        processes=tuple(_processes(values)),
        health=_health(values, slices),
        serial=values.text("serial_number", "serial"),
        part_number=values.text("gpu_part_number", "board_part_number"),
        vbios=values.text("vbios_version"),
    )


def _health(values: Values, slices: tuple[MigDevice, ...]) -> GpuHealth:
    virtualization = _VIRTUALIZATION.get(normal(values.text("gpu_virtualization_mode/virtualization_mode")), "")
    return GpuHealth(
        ecc=_ecc(values),
        remapped_rows=_remapped_rows(values),
        retired_pages=_retired_pages(values),
        recovery_action=_recovery_action(values),
        temperature=_temperature(values),
        power=_power(values),
        clocks=_clocks(values),
        throttle_reasons=_throttle_reasons(values),
        performance_state=whole(values.text("performance_state").removeprefix("P")),
        utilization_percent=values.whole("utilization/gpu", "utilization/gpu_util"),
        pcie=_pcie(values),
        chip_to_chip=values.flag("gpu_c2c_mode", "c2c_mode"),
        fabric=_fabric(values),
        mig_devices=slices,
        mig_pending=values.flag("mig_mode/pending", "mig_mode/pending_mig"),
        persistence_mode=values.flag("persistence_mode"),
        gsp_firmware=values.text("gsp_firmware_version"),
        virtualization=virtualization,
        licensed=_licensed(values) if virtualization == "vgpu" else None,
    )


def _processes(values: Values) -> Iterator[GpuProcess]:
    for path in values.groups("processes/process_id", "processes/process_info", "compute_processes/process_id"):
        pid = values.whole(path, f"{path}/pid")
        if pid is None or pid < 0:
            continue
        yield GpuProcess(
            pid=pid,
            name=values.text(f"{path}/name", f"{path}/process_name"),
            computes="C" in (values.text(f"{path}/type") or "C"),
            memory_bytes=values.size(f"{path}/used_gpu_memory", f"{path}/used_memory"),
        )


def _slices(values: Values) -> Iterator[MigDevice]:
    for path in values.groups("mig_device", "mig_devices/mig_device"):
        memory = (f"{path}/fb_memory_usage", f"{path}/shared_fb_memory_usage")
        yield MigDevice(
            memory_total_bytes=values.size(*(f"{each}/total" for each in memory)),
            memory_free_bytes=values.size(*(f"{each}/free" for each in memory)),
            multiprocessors=values.whole(f"{path}/device_attributes/shared/multiprocessor_count"),
            gpu_instance=values.whole(f"{path}/gpu_instance_id"),
            compute_instance=values.whole(f"{path}/compute_instance_id"),
        )


def _ecc(values: Values) -> Ecc | None:
    enabled = values.flag("ecc_mode/current", "ecc_mode/current_ecc")
    if enabled is None:
        return None
    exceeded = values.flag("ecc_errors/aggregate/sram_threshold_exceeded")
    return Ecc(
        enabled=enabled,
        pending=values.flag("ecc_mode/pending", "ecc_mode/pending_ecc"),
        volatile_corrected=_errors(values, "volatile", "single_bit", "correctable"),
        volatile_uncorrected=_errors(values, "volatile", "double_bit", "uncorrectable"),
        aggregate_corrected=_errors(values, "aggregate", "single_bit", "correctable"),
        aggregate_uncorrected=_errors(values, "aggregate", "double_bit", "uncorrectable"),
        sram_threshold_exceeded=exceeded if enabled else None,
    )


def _errors(values: Values, since: str, old: str, new: str) -> int | None:
    """The total of one kind of errors: drivers show it before Turing; since then, those of each kind of memory."""
    total = values.whole(f"ecc_errors/{since}/{old}/total")
    if total is not None:
        return total
    names = (f"sram_{new}", f"sram_{new}_parity", f"sram_{new}_sec_ded", f"sram_{new}_secded", f"dram_{new}")
    counts = [values.whole(f"ecc_errors/{since}/{name}") for name in names]
    known = [count for count in counts if count is not None]
    is_whole = f"ecc_errors/{since}/dram_{new}" in values.texts  # it comes last
    return sum(known) if known and is_whole else None


def _remapped_rows(values: Values) -> RemappedRows | None:
    base = "remapped_rows"
    uncorrected = values.whole(f"{base}/uncorrectable_error", f"{base}/remapped_row_unc")
    pending = values.flag(f"{base}/pending", f"{base}/remapped_row_pending")
    failed = values.flag(f"{base}/remapping_failure_occurred", f"{base}/remapped_row_failure")
    if uncorrected is None or pending is None or failed is None:
        return None
    banks = {
        word: count
        for name, word in _BANKS
        for count in [
            values.whole(
                f"{base}/bank_remap_availability_histogram/{name}",
                f"{base}/row_remapper_histogram/row_remapper_histogram_{name}",
            )
        ]
        if count is not None
    }
    return RemappedRows(
        corrected=values.whole(f"{base}/correctable_error", f"{base}/remapped_row_corr") or 0,
        uncorrected=uncorrected,
        pending=pending,
        failed=failed,
        banks=banks,
    )


def _retired_pages(values: Values) -> RetiredPages | None:
    base = "retired_pages"
    corrected = values.whole(f"{base}/single_bit_ecc", f"{base}/multiple_single_bit_retirement/retired_count")
    uncorrected = values.whole(f"{base}/double_bit_ecc", f"{base}/double_bit_retirement/retired_count")
    names = ("pending_page_blacklist", "pending_blacklist", "pending_retirement", "pending")
    pending = values.flag(*(f"{base}/{name}" for name in names))
    if corrected is None or uncorrected is None or pending is None:
        return None
    return RetiredPages(corrected=corrected, uncorrected=uncorrected, pending=pending)


def _recovery_action(values: Values) -> str:
    """What the driver requests. Before 555, it only says whether it requests a reset."""
    action = normal(values.text("gpu_recovery_action"))
    if action:
        return _RECOVERY.get(action, action)
    bases = ("gpu_reset_status", "gpu_virtualization_mode/gpu_reset_status")
    if any(values.flag(f"{base}/reset_required") for base in bases):
        return "gpu_reset"
    return "drain_and_reset" if any(values.flag(f"{base}/drain_and_reset_recommended") for base in bases) else ""


def _temperature(values: Values) -> Temperature:
    """Degrees; newer GPUs show their thresholds as margins (`T.Limit`), which are none."""
    base = "temperature"
    return Temperature(
        gpu_c=values.whole(f"{base}/gpu_current_temp", f"{base}/gpu_temp", f"{base}/gpu"),
        memory_c=values.whole(f"{base}/memory_current_temp", f"{base}/memory_temp") or None,
        max_c=values.whole(f"{base}/gpu_max_operating_temp", f"{base}/gpu_temp_max_gpu_threshold"),
        slowdown_c=values.whole(f"{base}/gpu_slowdown_temp", f"{base}/gpu_temp_slow_threshold"),
        shutdown_c=values.whole(f"{base}/gpu_shutdown_temp", f"{base}/gpu_temp_max_threshold"),
        memory_max_c=values.whole(f"{base}/memory_max_operating_temp", f"{base}/gpu_temp_max_mem_threshold"),
        margin_c=values.whole(
            f"{base}/gpu_t_limit_temp", f"{base}/gpu_current_t_limit_temp", f"{base}/gpu_temp_tlimit"
        ),
    )


def _power(values: Values) -> Power:
    def watts(*names: str) -> float | None:
        return values.number(*(f"{base}/{name}" for name in names for base in _POWER))

    return Power(
        draw_w=watts("power_draw", "average_power_draw", "instantaneous_power_draw", "instant_power_draw"),
        limit_w=watts("requested_power_limit", "power_limit"),
        enforced_limit_w=watts("enforced_power_limit", "current_power_limit"),
        default_limit_w=watts("default_power_limit"),
        min_limit_w=watts("min_power_limit"),
        max_limit_w=watts("max_power_limit"),
    )


def _clocks(values: Values) -> Clocks:
    return Clocks(
        sm_mhz=values.whole("clocks/sm", "clocks/sm_clock"),
        memory_mhz=values.whole("clocks/memory", "clocks/mem_clock"),
        max_sm_mhz=values.whole("max_clocks/sm", "max_clocks/sm_clock"),
        max_memory_mhz=values.whole("max_clocks/memory", "max_clocks/mem_clock"),
    )


def _throttle_reasons(values: Values) -> tuple[str, ...] | None:
    """Those that are active; None if there is none so far where the text is cut."""
    active = {}
    for path in values.texts:
        found = _REASON.fullmatch(path)
        state = values.flag(path) if found else None
        if found and state is not None and found[1] in _REASONS:
            active[_REASONS[found[1]]] = state
    is_cut = bool(values.texts) and bool(_REASON.fullmatch(next(reversed(values.texts))))
    reasons = tuple(name for name, state in active.items() if state)
    return reasons if reasons or (active and not is_cut) else None


def _pcie(values: Values) -> Pcie:
    new, old = "pci/gpu_link_info/pcie_generation", "pci/pci_gpu_link_info/pcie_gen"
    widths = ("pci/gpu_link_info/link_width", "pci/pci_gpu_link_info/link_widths")
    return Pcie(
        generation=values.whole(f"{new}/current", f"{old}/current_link_gen"),
        width=values.whole(f"{widths[0]}/current", f"{widths[1]}/current_link_width"),
        max_generation=values.whole(f"{new}/max", f"{old}/max_link_gen"),
        max_width=values.whole(f"{widths[0]}/max", f"{widths[1]}/max_link_width"),
        gpu_max_generation=values.whole(f"{new}/device_max", f"{old}/max_device_link_gen"),
        replays=values.whole("pci/replays_since_reset", "pci/replay_counter"),
    )


def _fabric(values: Values) -> Fabric | None:
    state = normal(values.text("fabric/state"))
    if state not in _FABRIC:
        return None
    status = values.text("fabric/status")
    return Fabric(state=state, status=error_code(status) if status else 0)


def _licensed(values: Values) -> bool | None:
    status = values.text(*(f"{base}/license_status" for base in _LICENCES)).lower()
    return None if not status else status.startswith("licensed")
