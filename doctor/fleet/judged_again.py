"""Whether a node's newest examination judged what the node left service for: without that, nobody knows that it is mended."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.fleet.draining import OURS, drain_line
from tfgpu_doctor.fleet.partly import JUDGED
from tfgpu_doctor.fleet.reports_read import Heard, decode, decode_checks
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.tags import STRESS

Series = tuple[str, str]  # a measurement, and the model of its device
_CHECKS = re.compile(rf"(?:^{OURS}|;) (?:(\w+) )?\(([A-Z]{{3,8}}\d{{3}})\)")
_SLOW = re.compile(rf"{OURS} (.+) [+-]\d+% in test and retest")
_PROFILE = re.compile(rf"{OURS} profile (.+?): .*")


@dataclass(frozen=True)
class Look:
    """What the newest report of a node says of its examination. `checks`: the outcome of each; `why`: of those not judged.

    `partly`: why a check judged only a part of the GPUs. `on_gpus`: what was measured on a GPU.
    """

    began: dt.datetime
    checks: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    partly: Mapping[str, str] = field(default_factory=dict)
    measured: frozenset[Series] = frozenset()
    on_gpus: frozenset[Series] = frozenset()
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
    on_gpus = frozenset((each.name, each.model) for each in heard.measurements if each.device)
    return Look(began, checks, _why(content), heard.partly, measured, on_gpus, heard.profile)


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
    if labels := {id: label for label, id in _CHECKS.findall(reason)}:
        lacking = [id for id in labels if look.checks.get(id) not in JUDGED]
        of_a_gpu = {id: look.partly.get(id, "") for id, label in labels.items() if _may_be_of_one_gpu(label, id)}
        return _checks(lacking, look) if lacking else _other_gpus(of_a_gpu)
    if slow := _SLOW.fullmatch(reason):
        return _measurement(slow[1], look, compared)
    if asked := _PROFILE.fullmatch(reason):
        same = look.profile and drain_line(profile_words(look.profile)) == f"{OURS} profile {asked[1]}:"
        return "" if same else f"not by the profile {asked[1]}: examine them with `fleet node --profile {asked[1]}`"
    return "their reason names no check that could tell: return them by hand"


def _may_be_of_one_gpu(label: str, id: str) -> bool:
    """Return whether another GPU may be sound: not with a cause of the driver or of TensorFlow, which a look at any GPU shows."""
    row = read_knowledge().causes.get(label)
    return row is None or row.returns or any(each.id == id and STRESS in each.tags for each in load_checks()[0])


def _other_gpus(partly: Mapping[str, str]) -> str:
    """Return which checks judged only a part of the GPUs: the reason does not name the GPU, which may be one of the others."""
    told = [f"{name} ({why})" for name, why in partly.items() if why]
    if not told:
        return ""
    return (
        f"not on every GPU by {', '.join(told)}: examine them while the doctor may use all of their GPUs, or return them by "
        "hand"
    )


def _checks(lacking: list[str], look: Look) -> str:
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
    part = next(iter(look.partly.values()), "") if measured <= look.on_gpus else ""
    return _other_gpus({name: part})
