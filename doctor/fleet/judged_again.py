"""Whether a node's newest examination judged what the node left service for: without that, nobody knows that it is mended."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.fleet.draining import OURS, drain_line
from tfgpu_doctor.fleet.reports_read import Heard, decode, decode_checks
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.model.tags import STRESS

Series = tuple[str, str]  # a measurement, and the model of its device
_JUDGED = ("pass", "warn", "fail")  # the outcomes by which `fleet history`, too, calls a cause gone
_CHECKS = re.compile(rf"(?:^{OURS}|;) (?:\w+ )?\(([A-Z]{{3,8}}\d{{3}})\)")
_SLOW = re.compile(rf"{OURS} (.+) [+-]\d+% in test and retest")
_PROFILE = re.compile(rf"{OURS} profile (.+?): .*")


@dataclass(frozen=True)
class Look:
    """What the newest report of a node says of its examination. `checks`: the outcome of each; `why`: of those not judged."""

    began: dt.datetime
    checks: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    measured: frozenset[Series] = frozenset()
    profile: str = ""


class _Result(msgspec.Struct):
    id: str = ""
    reason: str = ""


class _Results(msgspec.Struct):
    results: list[_Result] = []


class _Whole(msgspec.Struct):
    report: _Results | None = None


def look_of(content: bytes) -> Look | None:
    """Return what the file of a node says; None if it is no report, or does not say when the examination began."""
    heard = decode(content)
    if not isinstance(heard, Heard):
        return None
    try:
        began = dt.datetime.fromisoformat(heard.began.replace("Z", "+00:00")).astimezone()
        checks = decode_checks(bytes(heard.checks))
    except (ValueError, msgspec.DecodeError):
        return None
    measured = frozenset((each.name, each.model) for each in heard.measurements)
    return Look(began, checks, _why(content), measured, heard.profile)


def _why(content: bytes) -> dict[str, str]:
    """Return the reasons of the report that the file contains; a doctor of another version may write another report."""
    try:
        report = decode_json(content, _Whole).report
    except msgspec.DecodeError:
        return {}
    return {each.id: each.reason for each in report.results if each.reason} if report else {}


def profile_words(profile: str) -> str:
    """Return the words that begin the reason of a node that missed a requirement of this profile."""
    return f"profile {profile}: " if profile else ""


def not_judged(reason: str, look: Look, compared: Collection[Series]) -> str:
    """Return what of a doctor's reason nobody has looked at again, and how to; empty if all of it was judged.

    `compared`: the measurements for which the comparison has a limit.
    """
    if ids := dict.fromkeys(_CHECKS.findall(reason)):
        return _checks([id for id in ids if look.checks.get(id) not in _JUDGED], look)
    if slow := _SLOW.fullmatch(reason):
        return _measurement(slow[1], look, compared)
    if asked := _PROFILE.fullmatch(reason):
        same = look.profile and drain_line(profile_words(look.profile)) == f"{OURS} profile {asked[1]}:"
        return "" if same else f"not by the profile {asked[1]}: examine them with `fleet node --profile {asked[1]}`"
    return "their reason names no check that could tell: return them by hand"


def _checks(lacking: list[str], look: Look) -> str:
    if not lacking:
        return ""
    said = (f"{id} ({look.why.get(id) or look.checks.get(id) or 'not selected'})" for id in lacking)
    checks = [each for each in load_checks()[0] if each.id in lacking]
    options = ["--level deep" if any(STRESS in each.tags for each in checks) else "--level standard"]
    options += ["--suite SUITE"] if any("bench" in each.needs for each in checks) else []
    return f"not judged by {', '.join(said)}: examine them with `fleet node {' '.join(options)}`"


def _measurement(name: str, look: Look, compared: Collection[Series]) -> str:
    measured = {each for each in look.measured if drain_line(each[0]) == f"{OURS} {name}"}
    if not measured:
        return f"not in {name}: examine them with the options that measured it"
    if not measured & set(compared):
        return f"{name} has no peers here to compare it with: examine them together with their peers"
    return ""
