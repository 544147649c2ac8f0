"""Requirements in units: what the stress test and the suites measure, and how much the GPUs of a machine differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfgpu_doctor.accept.amounts import Amount, amount_of
from tfgpu_doctor.accept.power_caps import missed
from tfgpu_doctor.accept.quantities import QUANTITIES, Quantity, Values, said
from tfgpu_doctor.accept.requirement import Asked, Case, Requirement
from tfgpu_doctor.accept.rules_machine import listed_gpus
from tfgpu_doctor.accept.rules_stress import how_to_load, why_not_loaded
from tfgpu_doctor.accept.rules_suites import LONGER, counted_bench, why_skipped
from tfgpu_doctor.accept.suite_extent import gpus_behind, on_devices
from tfgpu_doctor.accept.vocabulary import ALL_REDUCE, all_reduces, suite_metric
from tfgpu_doctor.knowledge.references import number
from tfgpu_doctor.model.facts.bench import Bench, Metric

_AGAIN = "remove the requirement from the profile, or measure again"
_TWO = "there is only one GPU: a spread needs two"


def unit_requirements(case: Case) -> Iterator[Requirement]:
    """Yield the amounts first, then the spreads."""
    for name, text in case.profile.metrics.items():
        amount = amount_of(text)
        assert amount is not None, "profiles are validated"
        yield _of_stress(case, name, amount) if name in QUANTITIES else _of_suite(case, name, amount)
    for name, text in case.profile.spreads.items():
        most = amount_of(text)
        assert most is not None, "profiles are validated"
        yield _spread(case, name, most)


def stress_values(case: Case, quantity: Quantity, *, highest: bool = False) -> tuple[Values, str, str]:
    """Return the values of all GPUs and how to say them; without them, why there are none and how to measure them."""
    stress = case.facts.stress
    why = why_not_loaded(
        case.facts, case.why_unknown("stress", f"it requires level deep; the level is {case.report.level}")
    )
    if why or stress is None:
        return {}, why, how_to_load(case)
    values = quantity.values(stress, highest=highest)
    if isinstance(values, str):
        return {}, values, _AGAIN
    return values, said(values, quantity.unit, quantity.extent(stress, highest=highest)), ""


def _of_stress(case: Case, name: str, amount: Amount) -> Requirement:
    quantity = QUANTITIES[name]
    where = "on every route between GPUs that was copied over" if quantity.of_pairs else "on every GPU"
    asked = case.ask(f"metrics.{name}", quantity.title, f"{amount} {where}")
    values, told, remedy = stress_values(case, quantity, highest=amount.most)
    if not values:
        return asked.unmeasured(told, remedy)
    slow = [place for place, value in values.items() if not amount.holds([value])]
    if amount.most or not slow:
        return asked.judged(not slow, told)
    return missed_by(asked, case, quantity, slow, told)


def missed_by(
    asked: Asked, case: Case, quantity: Quantity, places: Iterable[str], told: str, reason: str = ""
) -> Requirement:
    """Return the row that these GPUs do not meet, with a lowered power limit if it lowers that quantity."""
    limited = places if quantity.rounds else ()
    return missed(asked, case.facts, [int(place.removeprefix("GPU ")) for place in limited], told, reason)


def _of_suite(case: Case, name: str, amount: Amount) -> Requirement:
    suite, metric = suite_metric(name)
    key = f"{suite}/{metric}".rstrip("/")  # as the rows of its suite, so that these explain it
    asked = case.ask(f"metrics.{key}", f"{suite} {metric}".strip(), str(amount), by=f"metrics.{name}")
    bench = counted_bench(case)
    found = largest_all_reduce(bench) if name == ALL_REDUCE else metrics_named_so(bench, suite, metric)
    if not found:
        return asked.unmeasured(why_skipped(bench, suite, "") or "it was not measured", LONGER)
    other = [each.unit for each in found if each.unit != amount.unit]
    if other:
        return asked.unmeasured(f"it was measured in {other[0] or 'no unit'}", "write the requirement in that unit")
    told = on_devices(found, [f"{number(each.value)} {each.unit}" for each in found], len(listed_gpus(case.facts)))
    told += f" ({found[0].name})" if name == ALL_REDUCE else ""
    slow = [each for each in found if not amount.holds([each.value])]
    if amount.most or not slow:
        return asked.judged(not slow, told)
    return missed(asked, case.facts, gpus_behind(slow), told)


def metrics_named_so(bench: Bench, suite: str, name: str) -> list[Metric]:
    """Return the metrics of that name; where GPUs were measured, those of the CPU are only the baseline."""
    found = [each for each in bench.metrics if (each.suite, each.name) == (suite, name)]
    return [each for each in found if "GPU" in each.device] or found


def largest_all_reduce(bench: Bench) -> list[Metric]:
    """Return the metric of the largest message between GPUs; replicas on a CPU use no link."""
    for name in reversed(all_reduces()):
        if found := [each for each in metrics_named_so(bench, "mirrored_strategy", name) if "GPU" in each.device]:
            return found
    return []


def _spread(case: Case, name: str, most: Amount) -> Requirement:
    quantity = QUANTITIES[name]
    asked = case.ask(f"spreads.{name}", f"spread of {quantity.title}", f"{most} of the fastest, among the GPUs")
    values, told, remedy = stress_values(case, quantity)
    if not values:
        return asked.unmeasured(told, remedy)
    if len(values) < 2:
        return asked.unjudged(told, _TWO)
    spread = 100 * (1 - min(values.values()) / max(values.values()))
    return asked.judged(most.holds([spread]), f"{spread:.1f} %: {told}")
