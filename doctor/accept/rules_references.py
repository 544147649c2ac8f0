"""Requirements relative to what healthy GPUs of the same model reach; without a reference, nothing is required."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfgpu_doctor.accept.quantities import PEAKS, QUANTITIES, Quantity
from tfgpu_doctor.accept.requirement import Asked, Case, Requirement
from tfgpu_doctor.accept.rules_units import missed_by, stress_values
from tfgpu_doctor.knowledge import Knowledge, read_knowledge
from tfgpu_doctor.knowledge.references import MATMUL, Conditions, nearest, number, sustained_speed, target
from tfgpu_doctor.model.facts.stress import StressedGpu

_SMALL_BOARD_W = 75.0  # from the slot alone; such a board's power limit holds back large products


@dataclass(frozen=True)
class _Due:
    """The least that a GPU has to reach, and where that comes from; None: there is no reference, and `basis` says so."""

    least: float | None
    basis: str


def reference_requirements(case: Case) -> Iterator[Requirement]:
    """Yield a row for each quantity that is compared with the references of the GPU's model."""
    for name, share in case.profile.reference_fractions.items():
        quantity = QUANTITIES[name]
        required = f"{share:.0%} of what healthy GPUs of the model reach"
        yield _row(case, case.ask(f"reference-fractions.{name}", quantity.title, required), quantity, share)


def _row(case: Case, asked: Asked, quantity: Quantity, share: float) -> Requirement:
    values, told, remedy = stress_values(case, quantity)
    if not values or case.facts.stress is None:
        return asked.unmeasured(told, remedy)
    knowledge = read_knowledge()
    due = {f"GPU {gpu.index}": _due(gpu, quantity, share, knowledge) for gpu in case.facts.stress.tested}
    slow = [place for place, each in due.items() if each.least is not None and values[place] < each.least]
    if slow:
        by_basis: dict[str, list[str]] = {}
        for place in slow:
            by_basis.setdefault(due[place].basis, []).append(place)
        reason = "; ".join(f"{', '.join(places)}: {basis}" for basis, places in by_basis.items())
        return missed_by(asked, case, quantity, slow, told, reason)
    unknown = dict.fromkeys(each.basis for each in due.values() if each.least is None)
    if unknown:
        return asked.unjudged(told, "; ".join(unknown))
    return asked.met(f"{told}; {'; '.join(dict.fromkeys(each.basis for each in due.values()))}")


def _due(gpu: StressedGpu, quantity: Quantity, share: float, knowledge: Knowledge) -> _Due:
    """Return what is required of a GPU: a share of a measured or asked speed, else the lower share of its peak."""
    row = knowledge.gpu_called(gpu.name)
    # A MIG slice has its share of the multiprocessors.
    part = min(1.0, gpu.multiprocessors / row.multiprocessors) if row and gpu.multiprocessors else 1.0
    name, precision = quantity.reference, quantity.precision
    found = sustained_speed(knowledge, gpu.name, name, precision) or target(knowledge, gpu.name, name)
    if found:
        least = share * found.value * part
        return _Due(least, f"at least {number(least)} {quantity.unit}, {share:.0%} of {found.said}")
    peak = row.peak_teraflops.get(PEAKS[precision]) if row and name == MATMUL else None
    if row and peak:
        small = gpu.default_power_limit_w is not None and gpu.default_power_limit_w <= _SMALL_BOARD_W
        of_peak = float(knowledge.boundaries["reached_peak_fraction" if small else "asked_peak_fraction"].value)
        least = of_peak * peak * part
        basis = f"{of_peak:.0%} of the peak of {peak:g}, as nobody is known to have measured it ({row.source})"
        return _Due(least, f"at least {number(least)} {quantity.unit}, {basis}")
    return _Due(None, _no_reference(gpu.name, quantity, knowledge))


def _no_reference(model: str, quantity: Quantity, knowledge: Knowledge) -> str:
    what = f" in {quantity.precision}" if quantity.precision else f" for {quantity.title}"
    told = f"no reference for {model or 'this model'}{what}"
    near = nearest(knowledge, model, quantity.reference, Conditions(precision=quantity.precision))
    return f"{told}; the nearest row is {near.said}, which is not the same" if near else told
