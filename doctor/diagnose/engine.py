"""Run the checks on the facts of a machine, and build the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from tfgpu_doctor.diagnose.device_names import DeviceNames
from tfgpu_doctor.diagnose.report_builder import build_report
from tfgpu_doctor.diagnose.selection import Selection
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import CannotTell, Check, Evidence, Finding, NotMeasured, PluginError, Skip
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.lengths import shorten
from tfgpu_doctor.model.facts.stress import STRESS_LEVELS
from tfgpu_doctor.model.report import NOT_EXAMINED, Outcome, Report, Result
from tfgpu_doctor.model.tags import UNFIT, of_plugin, plugin_of

NOTHING_YIELDED = "it yielded neither evidence nor a finding"  # the reason of a check that has nothing to show
_INTERRUPTED = "interrupted"  # the reason of a fact that an interruption left unknown


Allowing = Callable[[str, Finding], bool]  # whether a finding of the check with this id is allowed


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point whose checks could not be loaded."""

    name: str
    error: str


def _nothing(_id: str, _finding: Finding) -> bool:
    """Allow no finding."""
    return False


def diagnose(
    facts: Facts,
    *,
    checks: Sequence[Check] | None = None,
    selection: Selection | None = None,
    broken: Sequence[BrokenPlugin] = (),
    interrupted: bool = False,
    seconds: float = 0.0,
    allowed: Allowing = _nothing,
) -> Report:
    """Return the report on a machine. Every check runs; the selection decides which are shown and counted.

    An error that is `allowed` is found, but blocks no check: those that come after are judged by what they find themselves.
    """
    from tfgpu_doctor.checks import ALL_CHECKS

    facts = shorten(facts)
    checks = ALL_CHECKS if checks is None else checks
    results = run_checks(facts, checks, allowed)
    shown = (selection or Selection()).apply([results[check.id] for check in checks], _prerequisites(checks))
    shown += [_broken_result(plugin) for plugin in broken]
    return build_report(facts, shown, checks, interrupted=interrupted, seconds=seconds)


def run_checks(facts: Facts, checks: Sequence[Check], allowed: Allowing = _nothing) -> dict[str, Result]:
    """Return the result of every check. A failed check blocks those that come after it: they do not run."""
    by_id = {check.id: check for check in checks}
    given = {name: getattr(facts, name) for name in Facts.__struct_fields__}
    given["knowledge"] = read_knowledge()
    device_names = DeviceNames(facts)
    unasked = _unasked(facts)
    results: dict[str, Result] = {}
    unknown: set[str] = set()
    for id in TopologicalSorter({check.id: _known(check.after, by_id) for check in checks}).static_order():
        check = by_id[id]
        blockers = _blockers(check, results, allowed)
        if blockers:
            results[id] = _result(check, "blocked", blocked_by=blockers)
        elif lacking := next((each for each in check.after if each in unknown), None):
            unknown.add(id)
            results[id] = _result(check, "skip", reason=f"{lacking} could not be determined", unmeasured=True)
        elif lost := next((name for name in check.needs if given.get(name) is None), None):
            results[id] = _without(lost, check, facts.unknown, unasked)
        else:
            results[id], known = _run(check, given, device_names)
            unknown |= set() if known else {id}
    return results


def _known(ids: Iterable[str], by_id: Mapping[str, Check]) -> list[str]:
    """Return the ids that exist as checks; a plugin may name a check that a later release removed."""
    return [id for id in ids if id in by_id]


def _blockers(check: Check, results: Mapping[str, Result], allowed: Allowing) -> tuple[str, ...]:
    """Return the failed checks that block a check, directly or through other blocked checks."""
    found: dict[str, None] = {}
    for id in check.after:
        result = results.get(id)
        if result and result.outcome in ("fail", "blocked"):
            failed = result.blocked_by or (id,)
            found.update(dict.fromkeys(each for each in failed if _blocks(results[each], check, allowed)))
    return tuple(found)


def _blocks(failed: Result, check: Check, allowed: Allowing) -> bool:
    """Whether a failed check blocks another. One faulty GPU of several blocks only what else is judged of the GPUs' fitness."""
    errors = [each for each in failed.findings if each.severity == "error" and not allowed(failed.id, each)]
    return any(UNFIT in check.tags or finding.blocks for finding in errors)


def _unasked(facts: Facts) -> set[str]:
    """Return the reasons for which facts are missing that the level of the examination leaves out."""
    left_out = [*(["stress"] if facts.level not in STRESS_LEVELS else []), *(["runtime"] if facts.quick else [])]
    return {_INTERRUPTED, *(facts.unknown[name] for name in left_out if name in facts.unknown)}


def _without(lost: str, check: Check, unknown: Mapping[str, str], unasked: Collection[str]) -> Result:
    """Return the result of a check whose fact is missing: not measured, if the examination looked for that fact."""
    why = unknown.get(lost, _INTERRUPTED)
    reason = NOT_EXAMINED + lost.replace("_", " ") if why == _INTERRUPTED else why
    return _result(check, "skip", reason=reason, unmeasured=why not in unasked)


def _run(check: Check, given: Mapping[str, Any], device_names: DeviceNames) -> tuple[Result, bool]:
    """Return the result of one check, and whether the checks after it may be judged."""
    names = [*check.needs, *(name for name in check.optional if given.get(name) is not None)]
    started = time.perf_counter()
    yielded: list[Finding | Evidence] = []
    try:
        yielded.extend(check.function(**{name: given[name] for name in names}))
        findings = tuple(device_names.in_finding(each) for each in yielded if isinstance(each, Finding))
    except Skip as skip:
        missing = isinstance(skip, NotMeasured)
        return _result(check, "skip", reason=str(skip), unmeasured=missing), not isinstance(skip, CannotTell)
    except PluginError as error:
        return _result(check, "crash", reason=f"the plugin {plugin_of(check.tags)}: {error}"), True
    except Exception as error:  # noqa: BLE001 - a check that crashes is reported as such; the others continue
        reason = f"{type(error).__name__}: {error}"
        return _result(check, "crash", reason=reason), True
    evidence = tuple(each.text for each in yielded if isinstance(each, Evidence) and each.text.strip())
    if not evidence and not findings:
        return _result(check, "skip", reason=NOTHING_YIELDED), True
    severities = {finding.severity for finding in findings}
    result = _result(
        check,
        "fail" if "error" in severities else "warn" if "warning" in severities else "pass",
        evidence=evidence,
        findings=findings,
        seconds=round(time.perf_counter() - started, 6),
    )
    return result, True


def _result(check: Check, outcome: Outcome, **more: Any) -> Result:
    return Result(
        id=check.id, title=check.title, family=check.family, tags=check.tags, goal=check.goal or "", outcome=outcome, **more
    )  # fmt: skip


def _prerequisites(checks: Sequence[Check]) -> dict[str, frozenset[str]]:
    """Return for each id the ids of all checks that come before it, directly or indirectly."""
    after = {check.id: check.after for check in checks}
    found: dict[str, frozenset[str]] = {}
    for id in TopologicalSorter(
        {id: [each for each in before if each in after] for id, before in after.items()}
    ).static_order():
        found[id] = frozenset(after[id]).union(*(found.get(each, frozenset()) for each in after[id]))
    return found


def _broken_result(plugin: BrokenPlugin) -> Result:
    return Result(
        id=f"plugin:{plugin.name}",
        family="Plugins",
        title=f"the checks of the plugin {plugin.name!r} load",
        tags=(of_plugin(plugin.name),),
        outcome="crash",
        reason=plugin.error,
    )
