"""Facts without what tells of their owner, diagnosed as before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.model.facts import Facts, writable
from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.redaction import Redaction, Rule, redactions_of
from tfgpu_doctor.ticket.identity import FIRST_UID, Identity, strings_in, told_by_facts
from tfgpu_doctor.ticket.patterns import find_blocks
from tfgpu_doctor.ticket.placeholders import KNOWN, PLACEHOLDER
from tfgpu_doctor.ticket.scrubber import Scrubber
from tfgpu_doctor.ticket.shorten import shortened
from tfgpu_doctor.ticket.vocabulary import read_vocabulary

FactType = TypeVar("FactType", bound=Fact)
_CODE = re.compile(r"[0-9a-f]{4}(?:[0-9a-f]{2})?", re.IGNORECASE)
_NOBODY = 65534
_FIRST: tuple[Rule, ...] = ("user", "process", "package", "job", "digest", "path")  # they know best what a value is


@dataclass(frozen=True)
class Replaced:
    """How many values of one kind were replaced, and how often."""

    kind: str
    values: int
    times: int


class Scrub:
    """Makes facts, logs and texts of one machine fit to be shared, with the same placeholders in all of them."""

    def __init__(self, facts: Facts, identity: Identity | None = None) -> None:
        self.left_out: Counter[str] = Counter()  # what was not replaced but dropped, in words
        facts = shortened(writable(facts), self.left_out)
        uuids = _uuids_of(facts)
        told = told_by_facts(facts).joined_with(identity or Identity())
        self._accounts: dict[int, int] = {}
        self._scrubber = Scrubber(read_vocabulary(), told, uuids)
        self._rules = _functions(self._scrubber)
        for text in strings_in(msgspec.to_builtins(facts)):
            self._scrubber.placeholders.reserve(text)
        self._walk(facts, _FIRST)  # names get their kind before they are met in a text
        self._scrubber.placeholders.uses.clear()
        self.facts = self.fact(facts)

    def fact(self, fact: FactType) -> FactType:
        """The same fact, scrubbed."""
        return msgspec.convert(self._walk(writable(fact), None), type(fact))

    def text(self, text: str) -> str:
        """A text of many lines."""
        return "\n".join(self._lines(text.split("\n")))

    @property
    def replaced(self) -> list[Replaced]:
        """What was replaced, kind by kind."""
        uses, different = self._scrubber.placeholders.uses, self._scrubber.placeholders.different
        return [Replaced(kind, different[kind], uses[kind]) for kind in KNOWN if uses[kind]]

    def _walk(self, fact: Any, only: tuple[Rule, ...] | None) -> dict[str, Any]:
        """The fact as a document. With `only`, for what it makes the scrubber remember."""
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
        """The number of an account or group; of people, those from 1000 on, in the order in which they are met."""
        if number < FIRST_UID or number == _NOBODY:
            return number
        return self._accounts.setdefault(number, FIRST_UID + len(self._accounts))

    def _string(self, rule: Rule | None, value: str, only: tuple[Rule, ...] | None) -> str:
        if rule is None or not value or (only and rule not in only):
            return value
        return self._rules[rule](value)

    def _lines(self, lines: Any) -> list[str]:
        """Lines of one output. A key of many of them becomes one."""
        joined = "\n".join(lines)
        done, last = "", 0
        for start, end in find_blocks(joined):
            if start >= last:
                done += joined[last:start] + self._scrubber.always("key")(joined[start:end])
                last = end
        whole = (done + joined[last:]).split("\n") if last else lines
        return [self._scrubber.text(line) for line in whole]

    def _by_name(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables of the list; a record of another origin may hold more."""
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
    """Of GPUs and their slices, whole."""
    gpus = facts.nvml.gpus if facts.nvml else ()
    found = {gpu.uuid for gpu in gpus} | {uuid for gpu in gpus for uuid in gpu.mig_devices}
    found |= {device.uuid for gpu in gpus for device in gpu.health.mig_devices}
    return {uuid for uuid in found if re.match("(?:GPU|MIG)-", uuid) and not PLACEHOLDER.search(uuid)}
