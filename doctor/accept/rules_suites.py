"""Requirements of the perf suites: that they measure something, speed-ups, and the shares of limits that metrics reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from tfgpu_doctor.accept.power_caps import missed
from tfgpu_doctor.accept.requirement import Asked, Case, Requirement
from tfgpu_doctor.accept.rules_checks import allowed_findings
from tfgpu_doctor.accept.rules_machine import listed_gpus
from tfgpu_doctor.accept.rules_stress import ALONE
from tfgpu_doctor.accept.suite_extent import (
    CUT_OFF,
    ON_GPUS,
    among,
    gpus_behind,
    is_busy,
    left_out,
    on_devices,
    ran_on,
    ran_on_a_gpu,
    where,
    words_of,
    works_on_gpus,
)
from tfgpu_doctor.accept.terms import Profile
from tfgpu_doctor.accept.vocabulary import comparisons_named, metrics_named
from tfgpu_doctor.bench import NOISE_LIMIT, SUITE_VERSION, suite_of
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.model.tags import SUITES_STOPPED

_NOTHING, _NOT_ON_GPU = "it measured nothing", "nothing of it ran on a GPU"
_ALL = "all tests"  # the name under which a run is recorded that had no time for any
_FAILED_BEFORE = "it was not run: the examination of the node found an error before; fix that first"
LONGER = "find out why with `tfgpu-doctor bench`, or give the suites more time with `budget`"


def suite_requirements(case: Case) -> Iterator[Requirement]:
    """Yield whether the suites ran at all, then each suite, the comparisons, the metrics."""
    profile, suites = case.profile, suites_due(case.profile, case.facts)
    if why := _why_none(case) if suites else "":
        yield case.ask("suites", "perf suites", "they complete").unmeasured(why, case.anew)
    bench, listed = counted_bench(case), len(listed_gpus(case.facts))
    for suite, by in suites.items():
        name = suite_of(suite)
        due = f"measures something{' on a GPU' if listed and name in ON_GPUS else ''}, and no test fails"
        yield _suite(case.ask(f"suites.{name}", f"suite {name}", due, by=by), name, bench, listed)
    for (suite, name), (key, least) in _asked_for(profile.speed_ups, comparisons_named).items():
        row, by = f"speed-ups.{suite}/{name}", f"speed-ups.{key}"
        asked = case.ask(row, f"{suite}/{name}", f"{least:g} times as fast", by=by)
        yield _speed_up(asked, bench, (suite, name), least, listed)
    for (suite, name), (key, least) in _asked_for(profile.metric_fractions, metrics_named).items():
        row, by = f"metric-fractions.{suite}/{name}", f"metric-fractions.{key}"
        asked = case.ask(row, f"{suite}/{name}", f"{least:.0%} of the hardware limit", by=by)
        yield _fraction(asked, case, (suite, name), least)


def suites_due(profile: Profile, facts: Facts, *, several_nodes: bool = False) -> dict[str, str]:
    """Return the suites that the machine has to run, and the key of the profile that asks for each.

    `several_nodes`: it is examined in a job across nodes; a record of such a job names the suites that were ordered.
    """
    found = dict.fromkeys(profile.suites, "suites")
    if len(listed_gpus(facts)) > 1:
        found |= dict.fromkeys(profile.suites_of_several_gpus, "suites-of-several-gpus")
    for suite in profile.suites_of_several_nodes:
        if several_nodes or (facts.bench and _took_part(facts.bench, suite_of(suite))):
            found[suite] = "suites-of-several-nodes"
    return found


def _took_part(bench: Bench, suite: str) -> bool:
    """Return whether a suite was ordered; an earlier doctor recorded only what the suites did."""
    measured = {*(each.suite for each in bench.comparisons), *(each.suite for each in bench.metrics)}
    told = (*bench.problems, *bench.failed, *bench.skipped)
    return suite in bench.suites or suite in measured or any(f"test_{suite}.py::" in each for each in told)


def counted_bench(case: Case) -> Bench:
    """Return what the suites measured; an empty run if it does not count."""
    bench = case.facts.bench
    return Bench() if bench is None or _why_none(case) else bench


def _why_none(case: Case) -> str:
    """Return why the results of the suites do not count; empty if they do."""
    bench = case.facts.bench
    if bench is None:
        return case.why_unknown("bench", "the suites were not run")
    if bench.interrupted:
        return "the suites were interrupted"
    if bench.gpu_lost and not _is_allowed_loss(case):
        return f"a GPU was lost before they ended: {bench.gpu_lost}"
    if bench.suite_version != SUITE_VERSION:
        return f"version {bench.suite_version or '?'} of the suites measured it, the current version is {SUITE_VERSION}"
    return ""


def _is_allowed_loss(case: Case) -> bool:
    is_allowed = allowed_findings(case.profile, case.today)
    return any(is_allowed(each.id, finding) for each in case.report.tagged(SUITES_STOPPED) for finding in each.findings)


def _asked_for(
    table: Mapping[str, float], find: Callable[[str], tuple[tuple[str, str], ...]]
) -> dict[tuple[str, str], tuple[str, float]]:
    """Return the key and the bound for each comparison or metric: "suite/name" overrides "suite"."""
    ordered = sorted(table.items(), key=lambda row: "/" in row[0])
    return {each: (key, least) for key, least in ordered for each in find(key)}


def _suite(asked: Asked, suite: str, bench: Bench, listed: int) -> Requirement:
    if broken := _broken(bench, suite):
        return asked.missed("; ".join(broken))
    left = left_out(bench, suite)
    if why := _why_not_measured(bench, suite, listed):
        return asked.unmeasured(why, ALONE if any(map(is_busy, left.values())) else LONGER)
    comparisons, metrics = _measured(bench, suite)
    place = where(bench, suite, listed)
    told = f"{amount(comparisons, 'comparison')}, {amount(metrics, 'metric')}" + (f", on {place}" if place else "")
    return asked.met("; ".join([told, *words_of(left)]))


def _why_not_measured(bench: Bench, suite: str, gpus: int) -> str:
    """Return why a suite does not count as measured on a machine with that many GPUs; empty if it does."""
    if not any(_measured(bench, suite)):
        return why_skipped(bench, suite, "") or _NOTHING
    if gpus and works_on_gpus(bench, suite) and not ran_on_a_gpu(bench, suite):
        return "; ".join([_NOT_ON_GPU, *words_of(left_out(bench, suite))])
    return ""


def not_measured(bench: Bench | None, suites: Iterable[str]) -> dict[str, str]:
    """Return the suites that were asked for and measured nothing, or found something wrong, and why; None: none was run.

    Where TensorFlow lists GPUs, a suite of GPUs must have measured something on one.
    """
    if bench is None:
        return dict.fromkeys(map(suite_of, suites), _FAILED_BEFORE)
    found = {}
    for suite in map(suite_of, suites):
        if why := "; ".join(_broken(bench, suite)) or _why_not_measured(bench, suite, bench.gpus_listed):
            found[suite] = why
    return found


def _broken(bench: Bench, suite: str) -> list[str]:
    broken = [each for each in bench.problems if _is_of(each, suite) and not each.endswith(CUT_OFF)]
    return broken + [f"{test}: {why}" for test, why in bench.failed.items() if _is_of(test, suite)]


def _measured(bench: Bench, suite: str) -> tuple[int, int]:
    """Return how many comparisons and metrics of a suite have a value."""
    comparisons = sum(each.suite == suite and bool(each.ratio) for each in bench.comparisons)
    return comparisons, sum(each.suite == suite for each in bench.metrics)


def _is_of(problem: str, suite: str) -> bool:
    """Return whether a problem belongs to a suite; one that names no test belongs to all suites."""
    return f"test_{suite}.py::" in problem or ".py::" not in problem


def why_skipped(bench: Bench, suite: str, name: str) -> str:
    """Return why a test of the suite measured nothing: the test of one comparison, or the first of all tests."""
    end = f"test_{suite}.py::test_{name}" if name else f"test_{suite}.py::"
    told = {**bench.skipped, **dict(each.split(": ", 1) for each in bench.problems if ".py::" in each and ": " in each)}
    found = (why for test, why in told.items() if (test.endswith(end) if name else end in test))
    return next(found, bench.skipped.get(_ALL, ""))


def shown(comparison: Comparison) -> float | None:
    """Return the ratio that a comparison proves: the lower end of the 95 % interval, widened if noisy; None if not measured.

    The margin is the same as for the verdict of a comparison: noise that widens an interval may be on one side by chance.
    """
    if not (comparison.ratio and comparison.interval and min(comparison.interval) > 0):
        return None
    low, high = comparison.interval
    noisy = (high - low) / (2 * comparison.ratio) > NOISE_LIMIT
    return low * math.sqrt(low / high) if noisy else low


def _speed_up(asked: Asked, bench: Bench, key: tuple[str, str], least: float, listed: int) -> Requirement:
    comparison = next(
        (comparison for comparison in bench.comparisons if (comparison.suite, comparison.name) == key), None
    )
    least_shown = shown(comparison) if comparison else None
    if comparison is None or comparison.ratio is None or comparison.interval is None or least_shown is None:
        told = comparison.reason if comparison else why_skipped(bench, *key)
        return asked.unmeasured(told or "the comparison was not run", LONGER)
    told = f"{comparison.ratio:.3g} (95 %: {comparison.interval[0]:.3g} to {comparison.interval[1]:.3g})"
    place = among(ran_on(comparison), listed)
    return asked.judged(
        least_shown >= least,
        told + (f" on {place}" if place else ""),
        "" if comparison.interval[1] < least else "the measurement does not prove this speed-up",
    )


def _fraction(asked: Asked, case: Case, key: tuple[str, str], least: float) -> Requirement:
    bench = counted_bench(case)
    found = [metric for metric in bench.metrics if (metric.suite, metric.name) == key]
    if not found:
        return asked.unmeasured(why_skipped(bench, key[0], "") or "it was not measured", LONGER)
    shares = [share for each in found if (share := share_of(each)) is not None]
    if len(shares) != len(found):
        why = f"the hardware limit is unknown for {found[0].device or 'this device'}"
        return asked.unmeasured(why, "remove the requirement from the profile, and require speed-ups instead")
    values, listed = [f"{each.value:,.4g} {each.unit}" for each in found], len(listed_gpus(case.facts))
    told = on_devices(found, values, listed, [f"{share:.0%}" for share in shares])
    slow = [each for each, share in zip(found, shares, strict=True) if share < least]
    return missed(asked, case.facts, gpus_behind(slow), told) if slow else asked.met(told)


def share_of(metric: Metric) -> float | None:
    """Return a metric's share of its limit; None if the limit is unknown."""
    return metric.value / metric.limit if metric.limit else None
