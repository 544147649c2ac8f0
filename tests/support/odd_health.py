"""Odd readings of NVML for the test that no check breaks: nothing, nought, and far too much, in any mixture."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tfgpu_doctor.model.facts.health import (
    Clocks,
    Ecc,
    Fabric,
    GpuHealth,
    GpuTrouble,
    MigDevice,
    NvLink,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
    Temperature,
)

NUMBERS = st.sampled_from([None, 0, 1, 4, 16, 90, 802, 1 << 40])
WATTS = st.sampled_from([None, 0.0, 70.5, 700.0])
MAYBE = st.none() | st.booleans()
WORDS = st.sampled_from(
    ["", "none", "odd", "gpu_reset", "node_reboot", "completed", "in_progress", "vgpu", "switch", "9"]
)
REASONS = st.sampled_from(["gpu_idle", "hw_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown", "odd"])


def filled(kind: Any, values: Any, **fields: Any) -> Any:
    """Facts of that kind with any values, but for those fields that have their own."""
    return st.builds(kind, **{**dict.fromkeys(kind.__struct_fields__, values), **fields})


LINKS = st.builds(
    NvLink, index=st.integers(0, 17), active=st.booleans(), version=NUMBERS, remote=WORDS,
    errors=st.dictionaries(WORDS, st.integers(0, 9), max_size=2),
)  # fmt: skip
ODD_HEALTH = st.builds(
    GpuHealth,
    ecc=st.none() | filled(Ecc, NUMBERS, enabled=st.booleans(), pending=MAYBE, sram_threshold_exceeded=MAYBE),
    remapped_rows=st.none() | filled(
        RemappedRows, st.integers(0, 9), pending=st.booleans(), failed=st.booleans(),
        banks=st.dictionaries(st.sampled_from(["all", "none"]), st.integers(0, 9), max_size=2),
    ),
    retired_pages=st.none() | filled(RetiredPages, st.integers(0, 9), pending=st.booleans()),
    recovery_action=WORDS,
    temperature=filled(Temperature, NUMBERS, margin_c=st.sampled_from([None, -5, 0, 40])),
    power=filled(Power, WATTS),
    clocks=filled(Clocks, NUMBERS),
    throttle_reasons=st.none() | st.lists(REASONS, max_size=3).map(tuple),
    performance_state=NUMBERS,
    utilization_percent=NUMBERS,
    pcie=filled(Pcie, NUMBERS),
    nvlinks=st.lists(LINKS, max_size=3).map(tuple),
    fabric=st.none() | st.builds(Fabric, state=WORDS, status=st.sampled_from([0, 3, 999, 4711])),
    mig_devices=st.lists(filled(MigDevice, NUMBERS, uuid=WORDS, profile=WORDS), max_size=2).map(tuple),
    mig_pending=MAYBE,
    persistence_mode=MAYBE,
    gsp_firmware=WORDS,
    virtualization=WORDS,
    licensed=MAYBE,
)  # fmt: skip
ODD_TROUBLES = st.lists(
    st.builds(
        GpuTrouble, index=st.integers(0, 3), name=WORDS, uuid=WORDS, call=WORDS, error_text=WORDS,
        pci_address=st.sampled_from(["", "00000000:01:00.0", "odd"]), seconds=st.sampled_from([0.0, 8.0]),
        error_code=st.sampled_from([0, 4, 8, 15, 16, 17, 999, 4711]),
    ),
    max_size=2,
).map(tuple)  # fmt: skip
