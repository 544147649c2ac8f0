"""One GPU of eight of which NVML does not report what it reports of the others: nobody knows whether it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_health import GEFORCE, NOTEBOOK, SERVER, changed, server, workstation
from every import every
from healthy import broken, nvml_gpu

from tfgpu_doctor.checks.gpu.compute_mode import compute_mode_lets_in
from tfgpu_doctor.checks.gpu.health import every_gpu_answers, memory_is_sound, no_reset_is_asked_for
from tfgpu_doctor.checks.gpu.links import fabric_is_set_up, nvlinks_are_up, pcie_link_is_full
from tfgpu_doctor.checks.gpu.sharing import gpu_stays_initialised, memory_is_not_shared, vgpu_is_licensed
from tfgpu_doctor.checks.gpu.throttling import nothing_slows_gpu_down, power_is_not_limited
from tfgpu_doctor.checks.tensorflow.memory import growth_is_on_where_shared, memory_is_left
from tfgpu_doctor.model import Check, Evidence, Finding
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import Ecc, GpuHealth, GpuTrouble, Pcie, Power, RetiredPages, Temperature
from tfgpu_doctor.model.facts.nvidia import GpuProcess

if TYPE_CHECKING:
    from checks.conftest import Judge

OLDER = changed(SERVER, remapped_rows=None, retired_pages=RetiredPages())
SILENT: dict[str, tuple[Check, GpuHealth, dict[str, Any]]] = {
    "ECC": (memory_is_sound, SERVER, {"ecc": None}),
    "the number of errors": (memory_is_sound, SERVER, {"ecc": Ecc(enabled=True)}),
    "remapped rows": (memory_is_sound, SERVER, {"remapped_rows": None}),
    "retired pages": (memory_is_sound, OLDER, {"retired_pages": None}),
    "a reset": (no_reset_is_asked_for, SERVER, {"recovery_action": ""}),
    "what limits the clocks": (nothing_slows_gpu_down, SERVER, {"throttle_reasons": None}),
    "the temperature": (nothing_slows_gpu_down, SERVER, {"temperature": Temperature()}),
    "the temperature's limit": (nothing_slows_gpu_down, SERVER, {"temperature": Temperature(gpu_c=61)}),
    "the power": (power_is_not_limited, SERVER, {"power": Power()}),
    "the default limit": (power_is_not_limited, SERVER, {"power": {"default_limit_w": None}}),
    "the limit": (power_is_not_limited, SERVER, {"power": {"limit_w": None, "enforced_limit_w": None}}),
    "the enforced limit": (power_is_not_limited, SERVER, {"power": {"enforced_limit_w": None}}),
    "the link": (pcie_link_is_full, SERVER, {"pcie": Pcie()}),
    "its lanes": (pcie_link_is_full, SERVER, {"pcie": {"width": None}}),
    "NVLinks": (nvlinks_are_up, SERVER, {"nvlinks": ()}),
    "the fabric": (fabric_is_set_up, SERVER, {"fabric": None}),
    "a licence": (vgpu_is_licensed, changed(SERVER, licensed=True), {"licensed": None}),
    "persistence mode": (gpu_stays_initialised, SERVER, {"persistence_mode": None}),
}
OF_THE_GPU: dict[str, tuple[Check, dict[str, Any]]] = {
    "free memory": (memory_is_left, {"memory_free_bytes": None}),
    "memory": (memory_is_not_shared, {"memory_total_bytes": None}),
    "compute mode": (compute_mode_lets_in, {"compute_mode": ""}),
}


def one_silent(health: GpuHealth, changes: dict[str, Any]) -> Facts:
    return server(*(health,) * 7, changed(health, **changes))


@every("what", SILENT)
def test_a_value_that_only_one_lacks_is_no_pass(judge: Judge, what: str) -> None:
    check, health, changes = SILENT[what]
    assert "GPU 7 " in judge.skips(check, one_silent(health, changes))
    assert judge.passes(check, server(*(health,) * 8)) if check is not gpu_stays_initialised else True


@every("what", OF_THE_GPU)
def test_a_value_of_the_gpu_itself_that_only_one_lacks_is_no_pass(judge: Judge, what: str) -> None:
    check, changes = OF_THE_GPU[what]
    machine = server(runtime=None)
    assert machine.nvml
    gpus = (*machine.nvml.gpus[:7], msgspec.structs.replace(machine.nvml.gpus[7], **changes))
    assert "GPU 7 " in judge.skips(check, broken(machine, nvml={"gpus": gpus}))
    assert judge.passes(check, machine)


@pytest.mark.parametrize(
    ("check", "bad", "silent"),
    [
        (power_is_not_limited, {"power": {"enforced_limit_w": 300.0}}, {"power": Power()}),
        (pcie_link_is_full, {"pcie": {"width": 4}}, {"pcie": Pcie()}),
        (memory_is_sound, {"ecc": {"volatile_uncorrected": 2}}, {"remapped_rows": None}),
        (nothing_slows_gpu_down, {"throttle_reasons": ("hw_slowdown",)}, {"temperature": Temperature()}),
    ],
)
def test_a_finding_stands_next_to_a_silent_gpu(
    judge: Judge, check: Check, bad: dict[str, Any], silent: dict[str, Any]
) -> None:
    machine = server(changed(SERVER, **bad), *(SERVER,) * 6, changed(SERVER, **silent))
    yielded = judge(check, machine)
    assert [each.message[:6] for each in yielded if isinstance(each, Finding)] == ["GPU 0 "]
    assert [1 for each in yielded if isinstance(each, Evidence) and "NVML does not report" in each.text] == [1]


def test_ecc_that_counts_nothing_shows_no_errors(judge: Judge) -> None:
    on = changed(SERVER, ecc=Ecc(enabled=True))
    assert "no number of uncorrectable errors" in judge.skips(memory_is_sound, server(on, on))


def test_ecc_that_is_off_on_purpose_is_not_silent(judge: Judge) -> None:
    assert judge.passes(memory_is_sound, one_silent(SERVER, {"ecc": Ecc(enabled=False)}))


def test_a_limit_that_is_not_known_is_not_the_default(judge: Judge) -> None:
    unknown = changed(GEFORCE, power={"limit_w": None, "enforced_limit_w": None})
    assert "no power limit" in judge.skips(power_is_not_limited, workstation(unknown))


@pytest.mark.parametrize(
    "health",
    [
        GpuHealth(temperature=Temperature(gpu_c=45)),
        GpuHealth(temperature=Temperature(gpu_c=45, slowdown_c=95)),
        GpuHealth(temperature=Temperature(slowdown_c=95)),
    ],
    ids=["a temperature without its limit", "heat alone", "a limit alone"],
)
def test_what_limits_the_clocks_has_to_be_known(judge: Judge, health: GpuHealth) -> None:
    assert judge.skips(nothing_slows_gpu_down, workstation(health))


def test_heat_is_told_although_what_limits_the_clocks_is_unknown(judge: Judge) -> None:
    hot = GpuHealth(temperature=Temperature(gpu_c=96, slowdown_c=95))
    assert "hotter than its limit" in judge.finding(nothing_slows_gpu_down, workstation(hot)).message


def test_few_lanes_of_an_unknown_number_are_not_judged(judge: Judge) -> None:
    few = changed(GEFORCE, pcie={"width": 4, "max_width": None})
    assert "x4" in judge.skips(pcie_link_is_full, workstation(few))
    assert judge.passes(pcie_link_is_full, workstation(changed(GEFORCE, pcie={"width": 8, "max_width": None})))


def test_compute_modes_that_nobody_tells_are_no_pass(judge: Judge) -> None:
    silent = workstation(nvml={"gpus": (nvml_gpu(compute_mode=""),)}, runtime=None)
    assert "compute mode" in judge.skips(compute_mode_lets_in, silent)


def test_a_gpu_that_nvml_counts_and_neither_reads_nor_misses_is_no_pass(judge: Judge) -> None:
    machine = server()
    assert machine.nvml
    cut = broken(machine, nvml={"gpus": machine.nvml.gpus[:7], "count": 8})
    assert "7 of 8 GPUs" in judge.skips(every_gpu_answers, cut)


def test_a_gpu_that_this_process_may_not_use_is_accounted_for(judge: Judge) -> None:
    machine = server()
    assert machine.nvml
    refused = GpuTrouble(index=7, error_code=4, error_text="Insufficient Permissions")
    withheld = broken(machine, nvml={"gpus": machine.nvml.gpus[:7], "count": 8, "troubles": (refused,)})
    assert "7 of 8 GPUs" in judge.passes(every_gpu_answers, withheld)
    alone = broken(machine, nvml={"gpus": (), "count": 1, "troubles": (refused,)})
    assert judge.skips(every_gpu_answers, alone)


def test_a_vgpu_whose_licence_is_unknown_is_no_machine_without_one(judge: Judge) -> None:
    guest = workstation(GpuHealth(virtualization="vgpu"))
    assert "licen" in judge.skips(vgpu_is_licensed, guest)
    assert "no GPU needs a licence" not in judge.skips(vgpu_is_licensed, guest)


# Memory that nobody shows: of another user's or another container's processes.


def shared(*processes: GpuProcess, free_gib: int | None) -> Facts:
    free = None if free_gib is None else free_gib << 30
    return workstation(nvml={"gpus": (nvml_gpu(processes=processes, memory_free_bytes=free),)})


HIDDEN = msgspec.structs.replace(NOTEBOOK, memory_bytes=None)


@pytest.mark.parametrize(
    "machine", [shared(free_gib=6), shared(HIDDEN, free_gib=6), shared(HIDDEN, free_gib=None)],
    ids=["nobody is named", "its memory is not told", "nor is the free memory"],
)  # fmt: skip
def test_memory_in_use_that_no_process_explains_is_no_pass(judge: Judge, machine: Facts) -> None:
    assert "GPU 0 " in judge.skips(memory_is_not_shared, machine)


def test_a_process_whose_memory_is_unknown_holds_at_most_what_is_in_use(judge: Judge) -> None:
    told = judge.passes(memory_is_not_shared, shared(HIDDEN, free_gib=20))
    assert "at most 4.0 GiB of 24.0 GiB" in told


@pytest.mark.parametrize("processes", [(), (NOTEBOOK,)])
def test_processes_that_are_known_explain_the_memory(judge: Judge, processes: tuple[GpuProcess, ...]) -> None:
    small = tuple(msgspec.structs.replace(each, memory_bytes=2 << 30) for each in processes)
    drawing = GpuProcess(pid=3, name="/usr/lib/xorg/Xorg", computes=False, memory_bytes=11 << 30)
    assert judge.passes(memory_is_not_shared, shared(*small, drawing, free_gib=10))
    assert judge.passes(memory_is_not_shared, shared(*small, free_gib=None))


def test_growth_is_not_called_needless_where_somebody_unseen_holds_memory(judge: Judge) -> None:
    assert "names no process" in judge.skips(growth_is_on_where_shared, shared(free_gib=12))
    on = broken(shared(free_gib=12), environment={"variables": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}})
    assert judge.passes(growth_is_on_where_shared, on)
    assert judge.passes(growth_is_on_where_shared, shared(free_gib=23))
