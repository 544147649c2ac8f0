"""Values in units that a profile learns: what has no share of a peak or of another hardware limit."""

from __future__ import annotations

from collections.abc import Mapping

from tfgpu_doctor.accept.quantities import QUANTITIES
from tfgpu_doctor.accept.rules_stress import peak_shares
from tfgpu_doctor.accept.rules_units import largest_all_reduce, metrics_named_so
from tfgpu_doctor.accept.terms import PRECISIONS, Precision
from tfgpu_doctor.accept.vocabulary import ALL_REDUCE, suite_metric, suite_units
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.facts.stress import StressTest

_OF_STRESS = (*PRECISIONS, "host-to-device", "device-to-host", "device-to-device")
_OF_SUITES = (ALL_REDUCE, "training/training cnn", "training/training transformer")
UNITS: Mapping[str, str] = {
    **{name: QUANTITIES[name].unit for name in _OF_STRESS},
    **{name: suite_units()[name] for name in _OF_SUITES},
}


def in_units(facts: Facts) -> dict[str, float]:
    """Return the value of the slowest GPU, or of the slowest pair, of each."""
    found = _of_stress(facts.stress) if facts.stress else {}
    for name in _OF_SUITES if facts.bench else ():
        if values := _of_suite(facts.bench or Bench(), name):
            found[name] = min(values)
    return found


def _of_stress(stress: StressTest) -> dict[str, float]:
    found = {}
    for name in _OF_STRESS:
        values = QUANTITIES[name].values(stress)
        if not isinstance(values, str) and not _has_peak(stress, name):
            found[name] = min(values.values())
    return found


def _has_peak(stress: StressTest, name: str) -> bool:
    """Return whether the share of the peak says the same of every GPU."""
    precision: Precision | None = next((each for each in PRECISIONS if each == name), None)
    return precision is not None and all(isinstance(each, float) for each in peak_shares(stress, precision).values())


def _of_suite(bench: Bench, name: str) -> list[float]:
    found = largest_all_reduce(bench) if name == ALL_REDUCE else metrics_named_so(bench, *suite_metric(name))
    return [each.value for each in found if "GPU" in each.device and each.unit == UNITS[name]]
