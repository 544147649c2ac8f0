"""Requirements of the checks: no findings except allowed ones, and the required checks pass."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from tfgpu_doctor._project import report_it
from tfgpu_doctor.accept.requirement import Case, Requirement
from tfgpu_doctor.accept.rules_machine import how_to_unblock
from tfgpu_doctor.accept.terms import Allowed, Profile
from tfgpu_doctor.model import SEVERITIES, Finding
from tfgpu_doctor.model.report import NOT_EXAMINED, Result
from tfgpu_doctor.model.tags import plugin_of

CRASH = "crash"  # the first part of the key of a row about a check that crashed
_PASSING = ("pass", "warn")
_PAST, _VALID = "was allowed until {0.expires}", "{0.reason} (until {0.expires})"
_NO_GPU = "no_gpu_in_machine"  # not a fault if the profile requires no GPU

_Allowances = dict[Finding, list[Allowed]]


def check_requirements(case: Case) -> Iterator[Requirement]:
    """Yield a row for each check with findings, or one for all checks; and one for each check that crashed."""
    counting = [(result, found) for result in case.counted if (found := _counting(result, case))]
    rows = [row for result, found in counting for row in _found(result, found, case)]
    yield from rows
    if not any(row.outcome == "missed" for row in rows):
        yield _nothing_found(case)
    for result in case.counted:
        if result.outcome == "crash":
            asked = case.ask(f"{CRASH}.{result.id}", f"{result.id} runs", "it completes")
            what = "the record that --record saves"
            plugin = plugin_of(result.tags)
            yield asked.unmeasured(
                f"the check itself crashed: {result.reason}",
                f"report it to whoever made the plugin {plugin}, and include {what}" if plugin else report_it(what),
            )


def required_checks(case: Case) -> Iterator[Requirement]:
    """Yield a row for each check that must pass, except those that already have one for these findings."""
    found: dict[str, set[str]] = {}
    for row in check_requirements(case):
        found.setdefault(row.check, set()).add(row.outcome)
    for id in case.profile.checks.require:
        row = _required(id, case)
        if id not in found or (row.outcome == "missed" and found[id] == {"allowed"}):
            yield row


def _counting(result: Result, case: Case) -> list[Finding]:
    """Return the findings at or above the level; those of the goal have a separate row."""
    least = SEVERITIES.index(case.profile.fail_level)
    if result.id == case.goal and result.outcome == "fail":
        return []
    found = [finding for finding in result.findings if SEVERITIES.index(finding.severity) >= least]
    return [finding for finding in found if not is_as_asked(finding.cause, case.profile)]


def is_as_asked(label: str, profile: Profile) -> bool:
    """Return whether a cause is not a fault because the profile requires that state."""
    return profile.without_gpu and label == _NO_GPU


def _found(result: Result, findings: Sequence[Finding], case: Case) -> Iterator[Requirement]:
    title, nothing = f"{result.id} {result.title}", _nothing(case)
    counting, waived = _sorted_by_allowance(result.id, findings, case)
    if counting:
        asked = case.ask(f"checks.{result.id}", title, nothing, by="fail-level")
        yield asked.missed(*_told(counting, _PAST, ", "))
    if waived:
        asked = case.ask(f"allowed.{result.id}", title, nothing, by="allowed")
        yield asked.allowed(*_told(waived, _VALID, "; "))


def _sorted_by_allowance(id: str, findings: Sequence[Finding], case: Case) -> tuple[_Allowances, _Allowances]:
    """Return the findings that count, with their allowances of the past, and those that are allowed, with the valid ones."""
    rows = {finding: _allowing(id, finding, case.profile) for finding in findings}
    valid = {finding: [each for each in found if each.expires >= case.today] for finding, found in rows.items()}
    counting = {finding: found for finding, found in rows.items() if not valid[finding]}
    return counting, {finding: found for finding, found in valid.items() if found}


def _told(findings: _Allowances, form: str, between: str) -> tuple[str, str]:
    """Return what was found, and what the allowances say of it."""
    said = dict.fromkeys(form.format(each) for rows in findings.values() for each in rows)
    return "; ".join(finding.message for finding in findings), between.join(said)


def allowed_findings(profile: Profile, today: dt.date) -> Callable[[str, Finding], bool]:
    """Return the function that tells whether the profile allows a finding of a check on that day: then it blocks no other."""

    def is_allowed(id: str, finding: Finding) -> bool:
        return any(each.expires >= today for each in _allowing(id, finding, profile))

    return is_allowed


def _allowing(id: str, finding: Finding, profile: Profile) -> list[Allowed]:
    return [each for each in profile.allowed if each.check == id and each.cause in ("", finding.cause)]


def _nothing(case: Case) -> str:
    level = case.profile.fail_level
    return "no finding" if level == "info" else "no error" if level == "error" else "no warning and no error"


def _nothing_found(case: Case) -> Requirement:
    asked = case.ask("checks", "all counted checks", _nothing(case), by="fail-level")
    passed = sum(result.outcome in _PASSING for result in case.counted)
    if not passed:
        return asked.unmeasured("no check could be judged", "under `checks`, select checks that apply to this machine")
    blocked = [result for result in case.counted if result.outcome == "blocked" and not _is_out_of_place(result, case)]
    if silent := [result for result in blocked if not _is_told(result, case)]:
        blockers = dict.fromkeys(id for result in silent for id in result.blocked_by)
        told = f"{', '.join(result.id for result in silent)} could not be judged: blocked by {', '.join(blockers)}"
        return asked.unmeasured(told, how_to_unblock(blockers))
    return asked.met(f"{passed} passed, {_not_judged(case, blocked)}")


def _is_out_of_place(blocked: Result, case: Case) -> bool:
    """Return whether a blocked check judges what the profile does not require: a GPU."""
    before = [case.report.find(id) for id in blocked.blocked_by]
    return any(each and all(is_as_asked(one.cause, case.profile) for one in each.findings) for each in before)


def _is_told(blocked: Result, case: Case) -> bool:
    """Return whether another row fails that names what blocks a check: that of the goal, or its own."""
    goal = case.report.find(case.goal)
    named = {case.goal, *(goal.blocked_by if goal else ())}
    return blocked.id in case.profile.checks.require or not named.isdisjoint(blocked.blocked_by)


def _not_judged(case: Case, blocked: Sequence[Result]) -> str:
    """Return how many checks did not apply, or were not asked for at this level, and which could not be measured."""
    skipped = [result for result in case.counted if result.outcome == "skip"]
    absent = sum(result.outcome == "blocked" for result in case.counted) - len(blocked)
    unmeasured = [result.id for result in skipped if result.unmeasured]
    unasked = sum(result.reason.startswith(NOT_EXAMINED) for result in skipped)
    said = [f"{len(skipped) + absent - len(unmeasured) - unasked} did not apply"]
    said += [f"{unasked} were not examined"] if unasked else []
    said += [f"{len(unmeasured)} could not be measured: {', '.join(unmeasured)}"] if unmeasured else []
    said += [f"{len(blocked)} were blocked: {', '.join(result.id for result in blocked)}"] if blocked else []
    return ", ".join(said)


def _required(id: str, case: Case) -> Requirement:
    result = case.report.find(id)
    title = f"{id} {result.title}" if result else id
    asked = case.ask(f"require.{id}", title, "passes", by="checks.require")
    if result is None:
        return asked.unmeasured("there is no such check", "install the plugin that provides it")
    if result.outcome == "pass":
        return asked.met("; ".join(result.evidence) or "its outcome is 'pass'")
    if result.outcome in ("warn", "fail"):
        counting, waived = _sorted_by_allowance(id, [each for each in result.findings if each.severity != "info"], case)
        if counting:
            return asked.missed(*_told(counting, _PAST, ", "))
        return asked.allowed(*_told(waived, _VALID, "; "))
    why = result.reason or f"blocked by {', '.join(result.blocked_by)}"
    return asked.unmeasured(why, f"`tfgpu-doctor explain {id}` lists what the check needs")


def allowance_notes(case: Case) -> list[str]:
    """Return notes on allowances that are not needed, and on those that have expired."""
    found = {(result.id, finding.cause) for result in case.report.results for finding in result.findings}
    notes = []
    for each in case.profile.allowed:
        needed = any(id == each.check and each.cause in ("", cause) for id, cause in found)
        what = f"{each.check} ({each.reason})"
        if each.expires < case.today:
            notes.append(
                f"the allowance of {what} expired on {each.expires}" + ("" if needed else ", and it is not needed")
            )
        elif not needed:
            notes.append(f"the allowance of {what} is not needed: the check has no such finding")
    return notes
