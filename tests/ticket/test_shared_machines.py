"""Each recorded machine is diagnosed after scrubbing as before, and its evidence says the same."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from replayed import each_machine, facts_of, report_on

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.bundle import FACTS, pack, record_of
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.ticket.contents import Source, make_ticket
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.placeholders import PLACEHOLDER
from tfgpu_doctor.ticket.scrub import Scrub

# What the evidence of these machines holds of people and places; nothing else of it may be replaced.
PERSONAL = {"user", "name", "host", "uuid", "job"}


@dataclass(frozen=True)
class Shared:
    """A machine as it was recorded, and as it is shared."""

    facts: Facts
    scrubbed: Facts
    before: Report
    after: Report


@functools.cache
def share(machine: str) -> Shared:
    facts = facts_of(machine)
    scrubbed = Scrub(facts).facts
    return Shared(facts, scrubbed, report_on(machine), diagnose(scrubbed))


def told(report: Report) -> Iterator[str]:
    """All lines that a reader sees."""
    for cause in report.causes:
        yield from (cause.title, *cause.evidence, cause.fix.text, *cause.fix.commands)
    for result in report.results:
        yield from (result.reason, *result.evidence)
        for finding in result.findings:
            yield from (finding.message, *finding.evidence)


def says_the_same(before: str, after: str) -> bool:
    """Whether a line differs by placeholders alone, and by the quotes that a shell needs around them."""
    pattern = "".join(".+?" if place % 2 else re.escape(part) for place, part in enumerate(split(after)))
    return re.fullmatch(pattern, before.replace("'", ""), re.DOTALL) is not None


def split(text: str) -> list[str]:
    return re.split(f"({PLACEHOLDER.pattern})", text.replace("'", ""))


@each_machine
def test_the_diagnosis_is_the_same(machine: str) -> None:
    shared = share(machine)
    before, after = shared.before, shared.after
    assert [(cause.label, cause.id, cause.explains) for cause in after.causes] == [
        (cause.label, cause.id, cause.explains) for cause in before.causes
    ]
    assert [(each.id, each.outcome) for each in after.results] == [(each.id, each.outcome) for each in before.results]
    assert (after.healthy, after.exit_code()) == (before.healthy, before.exit_code())


@each_machine
def test_people_and_machines_with_ordinary_names_cost_no_diagnosis(machine: str) -> None:
    shared = share(machine)
    users = "gpu cuda tensorflow python memory test max data driver error failed user will library not home lib nvidia"
    hosts = "node server libcuda compute host pci tesla bus segment shared object device"
    named = Identity(frozenset(users.split()), frozenset(hosts.split()))
    after = diagnose(Scrub(shared.facts, named).facts)
    assert [(each.id, each.outcome) for each in after.results] == [
        (each.id, each.outcome) for each in shared.before.results
    ]


# Real machines whose evidence loses more than names of people: words of the kernel and of programs that no list has. The
# cause stays the same.
MASKED = {
    "dell-xe9680-xid-119": {"process"},
    "m2070-driver-396": {"text"},
    "rtx-4090-xid-31": {"text"},
    "vgpu-grid-p4-1q": {"process", "text"},
    "xid-31-62-45": {"text"},
}


@each_machine
def test_the_evidence_says_the_same(machine: str) -> None:
    shared = share(machine)
    pairs = list(zip(told(shared.before), told(shared.after), strict=True))
    assert [pair for pair in pairs if not says_the_same(*pair)] == []
    kinds = {found[1:].rpartition("-")[0] for _, line in pairs for found in PLACEHOLDER.findall(line)}
    assert kinds <= PERSONAL | MASKED.get(machine, set())


@each_machine
def test_versions_codes_and_addresses_on_the_bus_survive(machine: str) -> None:
    shared = share(machine)
    before, after = encode_facts(shared.facts).decode(), encode_facts(shared.scrubbed).decode()
    telling = re.compile(
        r"\bCUDA_ERROR_\w+|\bXid \(PCI:[0-9a-fA-F:.]+\): \d+|\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d\b|"
        r"(?<=\"version\": \")[^\"]+|\blib[\w-]+\.so(?:\.\d+)*|site-packages/nvidia/\w+"
    )
    assert telling.findall(before) == telling.findall(after)


@each_machine
def test_a_ticket_can_be_read_again_and_made_again(machine: str) -> None:
    """A ticket of a ticket is the same: nothing is left to be replaced."""
    shared = share(machine)
    first = make_ticket(Source(shared.facts, Identity()))
    again = decode_facts(record_of(pack(first.files), 64 << 20))
    assert make_ticket(Source(again, Identity())).files[FACTS] == first.files[FACTS]
    assert [cause.label for cause in diagnose(again).causes] == [cause.label for cause in shared.before.causes]
