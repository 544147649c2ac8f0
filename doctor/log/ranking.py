"""Which rules hold, and in which order: the best explains a log first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import LogRule
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import Hits

_CONFIDENCES = ("low", "medium", "high")
# TensorFlow prints a line of level F, and ends: with a date, or as absl does, with a file that may have no folder.
_FATAL = re.compile(r"(?:^|[\s:\])])F (?:[\w.-]+/)+[\w.-]+:\d+\]|(?:^|\s)F\d{4} \d\d:\d\d:\d[\d.]+ +\d+ \S+:\d+\]")


def ranked(hits: Hits, context: Context, knowledge: Knowledge) -> list[LogRule]:
    """Return the rules that hold, the best first."""
    return _features_last(_by_rank(knowledge.log_rules, hits, context), hits, knowledge)


def _by_rank(rules: Iterable[LogRule], hits: Hits, context: Context) -> list[LogRule]:
    """Return the rules that hold. What people say counts less than the line with which TensorFlow ended."""
    seen = set(hits)
    holding = [rule for rule in sorted(rules, key=lambda each: -each.rank) if _holds(rule, seen, context)]
    if any(_FATAL.search(hit.text) for rule in holding for name in shown_by(rule, hits) for hit in hits[name]):
        holding.sort(key=lambda rule: _is_said(rule, hits))
    return holding


def _features_last(rules: Sequence[LogRule], hits: Hits, knowledge: Knowledge) -> list[LogRule]:
    """Put the failure of one feature behind what ends a program, if another line of the program shows that as certainly."""
    ordered = list(rules)
    severities = {rule.label: knowledge.causes[rule.label].severity for rule in rules}
    for feature in (rule for rule in rules if severities[rule.label] == "feature" and not _is_said(rule, hits)):
        others = [rule for rule in ordered if rule is not feature]
        own = _lines(feature, hits)
        ends = [
            place
            for place, rule in enumerate(others, 1)
            if severities[rule.label] == "blocker"
            and _CONFIDENCES.index(rule.confidence) >= _CONFIDENCES.index(feature.confidence)
            and not _is_said(rule, hits)
            and not _lines(rule, hits) <= own
        ]
        if ends and ends[-1] > ordered.index(feature):
            ordered = [*others[: ends[-1]], feature, *others[ends[-1] :]]
    return ordered


def _lines(rule: LogRule, hits: Hits) -> set[int]:
    return {hit.line for name in shown_by(rule, hits) for hit in hits[name]}


def _is_said(rule: LogRule, hits: Hits) -> bool:
    return all(name.startswith("prose_") for name in shown_by(rule, hits))


def shown_by(rule: LogRule, hits: Hits) -> list[str]:
    """The signatures for which a rule holds."""
    return [name for name in (*rule.all, *rule.any) if name in hits]


def _holds(rule: LogRule, seen: set[str], context: Context) -> bool:
    return (
        any(name in seen for name in rule.any)
        and all(name in seen for name in rule.all)
        and not any(name in seen for name in rule.none)
        and all(context.knows(word) for word in rule.context)
    )
