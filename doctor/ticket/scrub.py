"""Scrub facts: remove what identifies their owner, without changing the diagnosis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.model.facts import Facts, writable
from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.redaction import Redaction, Rule, redactions_of
from tfgpu_doctor.ticket.identity import FIRST_UID, NOBODY, Identity, strings_in, told_by_facts
from tfgpu_doctor.ticket.patterns import ASKS, ITEM, LONGEST_ANSWER, NO_ANSWER, OPTION, find_blocks
from tfgpu_doctor.ticket.placeholders import KNOWN, PLACEHOLDER
from tfgpu_doctor.ticket.scrubber import Scrubber
from tfgpu_doctor.ticket.shorten import shortened
from tfgpu_doctor.ticket.vocabulary import read_vocabulary

FactType = TypeVar("FactType", bound=Fact)
_CODE = re.compile(r"[0-9a-f]{4}(?:[0-9a-f]{2})?", re.IGNORECASE)
_FIRST: tuple[Rule, ...] = (
    "user",
    "process",
    "package",
    "job",
    "digest",
    "path",
)  # the rules that identify the kind of a value most reliably


@dataclass(frozen=True)
class Replaced:
    """The number of replaced values of one kind, and of their replacements."""

    kind: str
    values: int
    times: int


class Scrub:
    """Make the facts, logs and texts of one machine safe to share, with the same placeholders in all of them."""

    def __init__(self, facts: Facts, identity: Identity | None = None) -> None:
        self.left_out: Counter[str] = Counter()  # description to count of what was dropped and not replaced
        facts = shortened(writable(facts), self.left_out)
        uuids = _uuids_of(facts)
        told = told_by_facts(facts).joined_with(identity or Identity())
        self._accounts: dict[int, int] = {}
        self._scrubber = Scrubber(read_vocabulary(), told, uuids)
        self._rules = _functions(self._scrubber)
        for text in strings_in(msgspec.to_builtins(facts)):
            self._scrubber.placeholders.reserve(text)
        self._walk(facts, _FIRST)  # assign kinds to names before they occur in a text
        self._scrubber.placeholders.uses.clear()
        self.facts = self.fact(facts)

    def fact(self, fact: FactType) -> FactType:
        """Return the fact, scrubbed."""
        return msgspec.convert(self._walk(writable(fact), None), type(fact))

    def text(self, text: str) -> str:
        """Return a multi-line text, scrubbed. A line before the one that reveals a name is read again."""
        lines = self._lines(text.split("\n"))
        return "\n".join(self._scrubber.text(line) if self._scrubber.tells(line) else line for line in lines)

    @property
    def replaced(self) -> list[Replaced]:
        """The replaced values, by kind."""
        uses, different = self._scrubber.placeholders.uses, self._scrubber.placeholders.different
        return [Replaced(kind, different[kind], uses[kind]) for kind in KNOWN if uses[kind]]

    def _walk(self, fact: Any, only: tuple[Rule, ...] | None) -> dict[str, Any]:
        """Return the fact as a document. With `only`, apply only these rules, to fill the scrubber's memory."""
        document = {}
        for field, rule in redactions_of(fact.__class__).items():
            value = getattr(fact, field)
            if rule.plain:
                raise KeyError(f"{type(fact).__name__}.{field} has no rule: see tfgpu_doctor/model/redaction.py")
            if isinstance(fact, Environment) and field == "variables":
                value = self._by_name(value)
            if rule.values == "version" and isinstance(value, str):
                document[field] = self._scrubber.version(value, of=getattr(fact, "soname", getattr(fact, "name", "")))
            else:
                document[field] = self._value(rule, value, only)
        return document

    def _value(self, rule: Redaction, value: Any, only: tuple[Rule, ...] | None) -> Any:
        if isinstance(value, str):
            return self._string(rule.values, value, only)
        if isinstance(value, msgspec.Struct):
            return self._walk(value, only)
        if isinstance(value, dict):
            return {self._string(rule.keys, key, only): self._value(rule, each, only) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            if rule.values == "lines" and only is None:
                return self._lines(value)
            return [self._value(rule, each, only) for each in value]
        if rule.values == "account" and isinstance(value, int):
            return self._account(value)
        return value

    def _account(self, number: int) -> int:
        """Return the number of an account or group; those of people (from 1000 on) are renumbered in order of occurrence."""
        if number < FIRST_UID or number == NOBODY:
            return number
        return self._accounts.setdefault(number, FIRST_UID + len(self._accounts))

    def _string(self, rule: Rule | None, value: str, only: tuple[Rule, ...] | None) -> str:
        if rule is None or not value or (only and rule not in only):
            return value
        return self._rules[rule](value)

    def _lines(self, lines: Any) -> list[str]:
        """Return the lines of one output, scrubbed. A multi-line key becomes one line."""
        joined = "\n".join(lines)
        done, last = "", 0
        for start, end in find_blocks(joined):
            if start >= last:
                done += joined[last:start] + self._scrubber.always("key")(joined[start:end])
                last = end
        whole = (done + joined[last:]).split("\n") if last else lines
        return list(self._with_answers(whole))

    def _with_answers(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines, scrubbed. The line after one that asks for a password is one, whatever its words are."""
        asked = in_list = False
        for line in lines:
            answer = line.strip()
            if in_list and (item := ITEM.match(line)):
                yield item[1] + self._scrubber.always("secret")(item[2])
                in_list = False
                continue
            in_list = bool(OPTION.match(line))
            if asked and answer and len(answer) <= LONGEST_ANSWER and not NO_ANSWER.match(line):
                yield self._scrubber.always("secret")(answer)
                asked = False
                continue
            asked = bool(ASKS.search(line)) or (asked and not answer)
            yield self._scrubber.text(line)

    def _by_name(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that are on the list; a record of another origin can contain more."""
        kept = {name: value for name, value in variables.items() if name in read_vocabulary().variables}
        if len(kept) < len(variables):
            self.left_out["environment variables that are on no list"] = len(variables) - len(kept)
        return kept


def _functions(scrubber: Scrubber) -> dict[Rule, Callable[[str], str]]:
    return {
        "text": scrubber.text,
        "lines": scrubber.text,
        "model": lambda value: scrubber.text(value, models=True),
        "path": scrubber.path,
        "version": scrubber.version,
        "release": scrubber.release,
        "process": scrubber.program,
        "package": scrubber.package,
        "user": scrubber.user,
        "variable": scrubber.variable,
        "job": scrubber.always("job"),
        "digest": scrubber.always("digest"),
        "code": lambda value: value if _CODE.fullmatch(value) else scrubber.text(value),
    }


def _uuids_of(facts: Facts) -> set[str]:
    """Return the full UUIDs of GPUs and MIG slices."""
    gpus = facts.nvml.gpus if facts.nvml else ()
    found = {gpu.uuid for gpu in gpus} | {uuid for gpu in gpus for uuid in gpu.mig_devices}
    found |= {device.uuid for gpu in gpus for device in gpu.health.mig_devices}
    return {uuid for uuid in found if re.match("(?:GPU|MIG)-", uuid) and not PLACEHOLDER.search(uuid)}
