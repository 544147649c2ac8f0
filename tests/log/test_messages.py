"""Families of messages: each row is well-formed, finds its example, and names its first cause; the inventory is judged."""

from __future__ import annotations

import io
import json
import re
from collections import Counter

import msgspec
import pytest
from every import every
from locations import ROOT

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import LogMessage
from tfgpu_doctor.log.classification import _without_repeated, classify
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import derive
from tfgpu_doctor.log.report import LogReport
from tfgpu_doctor.log.signatures import Found, Scanner
from tfgpu_doctor.model.finding import UNDETERMINED

KNOWLEDGE = read_knowledge()
FAMILIES = KNOWLEDGE.log_messages
NAMES = {row.name for row in FAMILIES}
LOGGER = "2026-11-21 10:00:00.123456: E tensorflow/core/source.cc:5] "  # so that no line is taken for a person's


def scan(log: str) -> dict[str, Found]:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    return scanner.found


def read(log: str) -> LogReport:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    return classify(scanner.found, Context({}), KNOWLEDGE, scanner.lines, scanner.kept.texts())


def own_signatures(log: str) -> set[str]:
    """The signatures that match a log besides the families, and besides those that any error line has."""
    return {name for name in scan(log) if name not in NAMES and not name.startswith("plain_")}


# The table.


def test_the_table_has_families() -> None:
    assert len(FAMILIES) >= 150


@every(
    "row", json.loads((ROOT / "checks/data/log_messages.json").read_text("utf-8"))["rows"], key=lambda row: row["name"]
)
def test_a_row_has_exactly_the_fields_of_the_schema(row: dict[str, object]) -> None:
    assert tuple(row) == tuple(field.name for field in msgspec.structs.fields(LogMessage))


def test_names_are_unique_among_all_signatures_and_symptoms() -> None:
    names = Counter(
        [*(row.name for row in KNOWLEDGE.log_signatures), *(row.name for row in KNOWLEDGE.log_symptoms)]
    )  # log_signatures contains the families
    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) >= NAMES


@every("row", FAMILIES, key=lambda row: row.name)
def test_a_row_is_well_formed(row: LogMessage) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]+", row.name)
    assert row.meaning
    assert row.meaning[-1] not in ".:,"
    assert row.source.startswith("https://")
    assert set(row.indicates) <= set(KNOWLEDGE.causes)
    assert len(set(row.indicates)) == len(row.indicates)
    assert row.ask or len(row.indicates) < 2, "several causes: say what decides"


@every("row", FAMILIES, key=lambda row: row.name)
def test_a_row_finds_its_example(row: LogMessage) -> None:
    pattern = re.compile(row.pattern)
    found = pattern.search(row.example)
    assert found, "also where case matters, as in tools/measure_messages.py"
    assert found.group()
    assert "(?P<" not in row.pattern, "a family catches no values"
    assert pattern.search("") is None
    gates = row.gate.split("|")
    assert all(gate and gate == gate.lower() for gate in gates)
    assert any(gate in found.group().lower() for gate in gates)
    assert scan(row.example)[row.name].count == 1


@every("row", [row for row in FAMILIES if row.noise], key=lambda row: row.name)
def test_noise_indicates_nothing(row: LogMessage) -> None:
    assert (row.indicates, row.ask, row.rules) == ((), "", ())


# From a line to causes.

# A signature of its own that only tells a value, or another one, takes the line; see below.
TAKEN = {"driver_perhaps_too_old"}
ALONE = [row for row in FAMILIES if not own_signatures(LOGGER + row.example)]


@every("row", [row for row in ALONE if row.indicates], key=lambda row: row.name, least=100)
def test_a_line_of_a_family_gives_its_first_cause(row: LogMessage) -> None:
    report = read(f"one\ntwo\n{LOGGER}{row.example}\n")
    first = report.causes[0]
    assert first.label == row.indicates[0]
    assert first.confidence in ("low", "medium")
    assert first.lines == (3,)
    assert row.example.strip()[:100] in first.evidence[0]
    assert len(first.evidence) == 1
    assert first.confidence == "low" or first.ask or len(row.indicates) == 1
    assert set(row.indicates) <= {cause.label for cause in report.causes}


@every(
    "row",
    [row for row in ALONE if not row.indicates and not row.noise],
    key=lambda row: row.name,
)
def test_a_line_of_a_family_without_a_cause_is_undetermined(row: LogMessage) -> None:
    (cause,) = read(f"{LOGGER}{row.example}\n").causes
    assert (cause.label, cause.confidence, cause.lines) == (UNDETERMINED, "low", (1,))


@every("row", [row for row in FAMILIES if row.noise], key=lambda row: row.name)
def test_a_line_of_noise_is_no_cause(row: LogMessage) -> None:
    report = read(f"{LOGGER}{row.example}\n")
    assert [cause for cause in report.causes if cause.severity != "info"] == []
    assert row.name in {each.name for each in report.noise}


@pytest.mark.parametrize(
    "line",
    [
        "CUDA lazy loading is not enabled. Enabling it can significantly reduce device memory usage. See https://x",
        "Using ptxas for compilation. nvlink is not available.",
    ],
)
def test_a_harmless_line_is_no_cause_because_of_another_family(line: str) -> None:
    found = [row for row in FAMILIES if re.search(row.pattern, line)]
    assert found[0].noise
    assert [cause for cause in read(f"{LOGGER}{line}\n").causes if cause.severity != "info"] == []


def test_a_busy_cupti_is_undetermined() -> None:
    (cause,) = read(f"{LOGGER}{next(row.example for row in FAMILIES if row.name == 'cupti_busy')}\n").causes
    assert cause.label == UNDETERMINED


def test_a_driver_that_is_perhaps_too_old_is_a_cause() -> None:
    (cause, *_) = read(f"{LOGGER}Possibly insufficient driver version: 450.80.2\n").causes
    assert cause.label == "driver_too_old"


@every("row", [row for row in FAMILIES if row not in ALONE and row.name not in TAKEN], key=lambda row: row.name)
def test_a_line_that_a_signature_of_its_own_matches_is_not_counted_twice(row: LogMessage) -> None:
    log = LOGGER + row.example
    found = scan(log)
    assert row.name in found
    hits = _without_repeated(derive(found, Context({}), KNOWLEDGE), KNOWLEDGE, found)
    assert set(hits) & NAMES == set()
    for cause in read(log).causes:
        assert cause.lines == (1,)
        assert len(cause.evidence) == 1


def test_a_family_counts_on_the_lines_that_no_other_signature_explains() -> None:
    explained = "Could not load dynamic library 'libcudart.so.11.0'; dlerror: CUDA_ERROR_OUT_OF_MEMORY"
    plain = "cudaErrorMemoryAllocation"
    found = scan(f"{LOGGER}{explained}\n{LOGGER}{plain}\n")
    assert [hit.line for hit in found["code_out_of_memory"].hits] == [1, 2]
    hits = _without_repeated(derive(found, Context({}), KNOWLEDGE), KNOWLEDGE, found)
    assert [hit.line for hit in hits["code_out_of_memory"]] == [2]


def test_a_line_that_several_families_match_is_shown_once() -> None:
    line = f"{LOGGER}could not synchronize on CUDA context: CUDA_ERROR_ILLEGAL_INSTRUCTION: an illegal instruction"
    assert len(set(scan(line)) & NAMES) > 1
    assert [cause.lines for cause in read(line).causes] == [(1,)] * len(read(line).causes)


@every("row", [row for row in FAMILIES if row.indicates], key=lambda row: row.name)
def test_the_rules_of_a_family_are_ranked_as_it_lists_its_causes(row: LogMessage) -> None:
    assert [rule.label for rule in row.rules] == list(row.indicates)
    ranks = [rule.rank for rule in row.rules]
    assert ranks == sorted(ranks, reverse=True)
    assert {rule.confidence for rule in row.rules} == {"medium" if len(ranks) == 1 else "low"}
    assert {rule.any for rule in row.rules} == {(row.name,)}


# The inventory.

TEXTS = [row[0] for row in json.loads((ROOT / "tools/messages/inventory.json").read_text("utf-8"))["rows"]]


def test_of_several_families_the_first_decides() -> None:
    patterns = [(row, re.compile(row.pattern, re.IGNORECASE)) for row in FAMILIES]
    several, wrong = 0, []
    for text in TEXTS:
        matched = [row for row, pattern in patterns if pattern.search(text)]
        if len(matched) < 2 or own_signatures(LOGGER + text):
            continue
        several += 1
        first = matched[0]
        expected = list(first.indicates[:1] or (() if first.noise else (UNDETERMINED,)))
        found = [
            cause.label for cause in read(f"{LOGGER}{text}\n").causes if cause.severity != "info" or not first.noise
        ]
        wrong += [f"{text}: {first.name}: {found}"] if found[:1] != expected else []
    assert several > 300
    assert wrong == []


@pytest.fixture(scope="module")
def judges() -> dict[str, Counter[str]]:
    """By kind, how many texts of the inventory each row judges; "" is nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        import measure_messages

        patterns = measure_messages.judging_patterns()
        found: dict[str, Counter[str]] = {}
        for text, kind, *_ in json.loads(measure_messages.INVENTORY.read_text("utf-8"))["rows"]:
            found.setdefault(kind, Counter())[measure_messages.name_of_judge(text, patterns)] += 1
    return found


@pytest.mark.parametrize("kind", ["error", "code"])
def test_nearly_all_texts_of_the_inventory_are_judged(judges: dict[str, Counter[str]], kind: str) -> None:
    total = sum(judges[kind].values())
    assert total > 400
    assert 1 - judges[kind][""] / total >= 0.95


def test_most_texts_of_the_inventory_are_judged_by_more_than_a_general_row(judges: dict[str, Counter[str]]) -> None:
    import measure_messages

    general = sum(count for name, count in judges["error"].items() if measure_messages.is_general(name))
    assert general / sum(judges["error"].values()) < 0.2


def test_the_tool_prints_the_share_and_what_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], judges: dict[str, Counter[str]]
) -> None:
    import measure_messages

    monkeypatch.setattr("sys.argv", ["measure_messages.py", "--list"])
    assert measure_messages.main() == 0
    printed = capsys.readouterr().out.splitlines()
    totals = [line.split()[:5] for line in printed if " all " in line and "general" in line]
    counts = {kind: (sum(each.values()) - each[""], sum(each.values())) for kind, each in judges.items()}
    assert totals == [[kind, "all", str(judged), "of", str(total)] for kind, (judged, total) in sorted(counts.items())]
    not_judged = [line for line in printed if re.match(r"[\w-]+ \S+-\S+: ", line)]
    assert len(not_judged) >= judges["error"][""] + judges["code"][""]
