"""Rank causes from the signatures found in a log and from the given context. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Cause, LogRule
from tfgpu_doctor.log.alternatives import compiled
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import USES, Hits, derive
from tfgpu_doctor.log.dismissed import (
    seen_but_idle,
    with_absent_gpus,
    with_cudart_noise,
    without_comparison,
    without_dismissed,
)
from tfgpu_doctor.log.driver_load import since_driver_load
from tfgpu_doctor.log.extracted import tell
from tfgpu_doctor.log.fixes import OF_GPU, as_typed, filled_fix, undetermined_fix
from tfgpu_doctor.log.joined import join, told
from tfgpu_doctor.log.last_step import with_last_step
from tfgpu_doctor.log.machine import judge_facts, judge_versions, needed, partial_facts
from tfgpu_doctor.log.own_report import OwnReport
from tfgpu_doctor.log.ranking import ranked, shown_by
from tfgpu_doctor.log.readers import read_documents
from tfgpu_doctor.log.report import Line, LogCause, LogReport, Noise
from tfgpu_doctor.log.signatures import Found, Hit
from tfgpu_doctor.log.statements import read_statements
from tfgpu_doctor.log.training_steps import with_training_steps
from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.finding import UNDETERMINED

_SEVERITIES: dict[str, Severity] = {"blocker": "error", "degrades": "warning", "feature": "warning", "none": "info"}
_MOST_LINES = 4  # of evidence for one cause
_MOST_CAUSES = 6
HARMLESS = "harmless_noise_only"
_ASK_ALWAYS = (
    "the output of `tfgpu-doctor` on the machine, the TensorFlow release, and the log from the start of the program"
)
_WEAK_COMPLAINTS = ("prose_error", "prose_about_gpu")  # also in questions about harmless lines
_NOT_OF_GPU = (*_WEAK_COMPLAINTS, "prose_crash")  # unless they name one
# Statements that something is wrong, the most specific first.
_COMPLAINTS = (
    "prose_gpu_not_used", "prose_gpu_idle", "prose_out_of_memory", "prose_low_utilisation", "prose_slow", "prose_nan",
    "prose_hang", "prose_crash", "prose_error", "prose_about_gpu",
)  # fmt: skip


def classify(
    found: Mapping[str, Found],
    context: Context,
    knowledge: Knowledge,
    lines: int = 0,
    texts: Sequence[tuple[int, str]] = (),
    reports: Sequence[OwnReport] = (),
) -> LogReport:
    """Return the report for a log in which these signatures were found.

    `texts` are its parts to read as a text; `reports` are the doctor's own reports in it, which neither contains.
    """
    statements = read_statements(texts, knowledge.log_symptoms)
    known = context.learning(found, knowledge).hearing(statements.values)
    hits = _all_hits(found, statements.symptoms, known, knowledge, texts)
    best: dict[str, LogRule] = {}
    for rule in ranked(hits, known, knowledge):
        best.setdefault(rule.label, rule)
    needs = needed(known, knowledge)
    newest = knowledge.tensorflow_releases[-1]
    causes = [
        _cause(rule, hits, knowledge.causes[rule.label], filled_fix(rule.label, known, needs, newest), known)
        for rule in best.values()
    ]
    noise = [each for each in found.values() if each.signature.noise]
    complained = [name for name in _COMPLAINTS if name in hits and name not in _WEAK_COMPLAINTS]
    telling = [each for name, each in found.items() if name in hits]
    quiet = {hit.line for each in noise for hit in each.hits}
    if not causes and not complained and all(_is_mere_fact(each) or _is_noise(each, quiet) for each in telling):
        causes = _harmless(noise, knowledge.causes[HARMLESS])
    if not causes and (errors := _plain_errors(hits, noise)) and not _speak_of_no_gpu(errors, hits):
        causes = [_undetermined(errors, knowledge.causes[UNDETERMINED])]
    causes = join(reports, [*causes[:1], *(each for each in causes[1:] if each.label != UNDETERMINED)], knowledge)
    return LogReport(
        lines=lines,
        context=dict(context.values),
        stated={key: value for key, value in statements.values.items() if key not in context.values},
        extracted=tell(found, Context({}).learning(found, knowledge)),
        gpu_used=next((_line(hit) for name in USES for hit in hits.get(name, ())), None),
        causes=tuple(causes[:_MOST_CAUSES]),
        noise=tuple(_told_once(noise, knowledge)),
        reports=tuple(map(told, reports)),
    )


def _all_hits(
    found: Mapping[str, Found], symptoms: Hits, known: Context, knowledge: Knowledge, texts: Sequence[tuple[int, str]]
) -> Hits:
    """Return what was found, what follows from it and what people say, without what something else explains."""
    derived = with_last_step(since_driver_load(derive(found, known, knowledge), texts), texts)
    derived = _without_repeated(with_training_steps(derived, texts), knowledge, found)
    hits = {**symptoms, **derived}
    for name, hit in _judge_machine(texts, known, knowledge) if texts else ():
        hits.setdefault(name, []).append(hit)
    hits = with_absent_gpus(without_dismissed(without_comparison(seen_but_idle(hits))))
    return with_cudart_noise(hits, known, _COMPLAINTS[:-1], texts)


def _without_repeated(hits: Hits, knowledge: Knowledge, found: Mapping[str, Found]) -> Hits:
    """Drop the hits of families on lines that a signature of its own explains, also on those of which no hit was kept."""
    families = {each.name for each in knowledge.log_messages}

    def is_own(name: str) -> bool:
        return name not in families and not name.startswith(("plain_", "tells_"))

    own = {hit.line for name, kind in hits.items() if is_own(name) for hit in kind}
    crowded = [
        compiled(each.signature.pattern)
        for name, each in found.items()
        if is_own(name) and each.count > len(each.hits) and not each.signature.pattern.startswith("^")
    ]
    kept = {
        name: [
            hit
            for hit in kind
            if name not in families
            or (hit.line not in own and not any(pattern.search(hit.text) for pattern in crowded))
        ]
        for name, kind in hits.items()
    }
    return {name: kind for name, kind in kept.items() if kind}


def _told_once(noise: Sequence[Found], knowledge: Knowledge) -> Iterator[Noise]:
    """Yield the kinds of harmless lines; a family says nothing of a line that is in a kind of its own."""
    families = {each.name for each in knowledge.log_messages}
    own = {hit.line for each in noise if each.signature.name not in families for hit in each.hits}
    for each in noise:
        if each.signature.name not in families or each.hits[0].line not in own:
            yield Noise(each.signature.name, each.count, _line(each.hits[0]))


def _judge_machine(texts: Sequence[tuple[int, str]], known: Context, knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Yield what follows from the machine that a text describes."""
    documents = read_documents("\n".join(text for _, text in texts))
    yield from judge_versions(known, knowledge)
    yield from judge_facts(partial_facts(known, documents, knowledge))


def _cause(rule: LogRule, hits: Hits, cause: Cause, fix: str, context: Context) -> LogCause:
    kept = _first_of_each([hits[name] for name in shown_by(rule, hits)])
    return LogCause(
        label=rule.label,
        title=cause.title,
        severity=_SEVERITIES[cause.severity],
        confidence=rule.confidence,
        evidence=tuple(hit.text for hit in kept),
        lines=tuple(hit.line for hit in kept),
        fix=next((found for hit in kept if (found := hit.groups.get("fix", ""))), fix or cause.fix),
        ask=as_typed(rule.ask, context),
    )


def _first_of_each(kinds: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Return evidence lines in log order: the first of every kind, then more of each."""
    places = [(place, hit.line, hit) for kind in kinds for place, hit in enumerate(kind)]
    unique = {
        (hit.line, hit.line or hit.text): hit
        for _, _, hit in sorted(places, key=lambda each: each[:2])[: 3 * _MOST_LINES]
    }
    return sorted(list(unique.values())[:_MOST_LINES], key=lambda hit: hit.line)


# An exception is of this field if its line says so.
_FIELD = re.compile(
    r"gpu|cuda|cudnn|cublas|nccl|nvidia|nvrm|tensorflow|tf\.distribute|errors_impl|xla|llvm|ptx|stream_executor|\.cc:\d+\]",
    re.IGNORECASE,
)


def _plain_errors(hits: Hits, noise: Iterable[Found]) -> list[Hit]:
    """Return the lines that are plainly errors, and not known to be harmless; else what the author complains about."""
    harmless = {hit.line for each in noise for hit in each.hits}
    errors = [
        hit for name, kind in hits.items() if name.startswith("plain_") for hit in kind if _FIELD.search(hit.text)
    ]
    complaints = [hit for name in _COMPLAINTS for hit in hits.get(name, ())]
    best = {hit.line: hit for hit in sorted(errors, key=_has_fix) if hit.line not in harmless}
    return sorted(best.values(), key=_by_line) or complaints


def _speak_of_no_gpu(errors: Sequence[Hit], hits: Hits) -> bool:
    """Whether TensorFlow has a GPU, nobody complains about one, and none of the errors speaks of one."""
    if not any(name in hits for name in (*USES, "gpu_listed", "gpu_seen")):
        return False
    said = [hit.text for name in _COMPLAINTS for hit in hits.get(name, ())]
    is_said = any(name in hits for name in _COMPLAINTS if name not in _NOT_OF_GPU)
    return not is_said and not any(map(OF_GPU.search, [*said, *(hit.text for hit in errors)]))


def _has_fix(hit: Hit) -> bool:
    return "fix" in hit.groups


def _by_line(hit: Hit) -> int:
    return hit.line


def _undetermined(errors: Sequence[Hit], cause: Cause) -> LogCause:
    """Return the answer where the text shows trouble and no rule explains it."""
    kept = [*errors[: _MOST_LINES - 1], errors[-1]] if len(errors) > _MOST_LINES else list(errors)
    return LogCause(
        label=UNDETERMINED,
        title=cause.title,
        severity=_SEVERITIES[cause.severity],
        confidence="low",
        evidence=tuple(hit.text for hit in kept),
        lines=tuple(hit.line for hit in kept),
        fix=next((fix for hit in kept if (fix := hit.groups.get("fix", ""))), "")
        or undetermined_fix(hit.text for hit in kept)
        or cause.fix,
        ask=_ASK_ALWAYS,
    )


def _is_noise(found: Found, quiet: Collection[int]) -> bool:
    """Whether all lines of a kind are harmless: by themselves, or since another kind knows each of them as such."""
    every = found.count == len(found.hits) and all(hit.line in quiet for hit in found.hits)
    return found.signature.noise or (found.signature.name.startswith("plain_") and every)


def _is_mere_fact(found: Found) -> bool:
    """Whether the lines only describe the machine and report no problem."""
    return found.signature.name.startswith(("says_", "tells_")) or found.signature.name in (
        *USES,
        "cudnn_loaded",
        "adding_gpus",
        "opened",
        "smi_table",
        "capability_shown",
        "conda_cuda_packages",
        "cuda_wheels",
        "cuda_fits",
        "jetson",
        "free_memory",
        "total_memory",
        "secure_boot_on",
        "mig_listed",
        "compute_mode_default",
        "shm_default",
        "xla_gpu_listed",
    )


def _harmless(noise: Iterable[Found], cause: Cause) -> list[LogCause]:
    loud = [each for each in noise if each.signature.name.startswith("noise_")]
    if not loud:
        return []
    kept = _first_of_each([each.hits for each in loud])
    return [
        LogCause(
            label=HARMLESS,
            title=cause.title,
            severity="info",
            confidence="medium",
            evidence=tuple(hit.text for hit in kept),
            lines=tuple(hit.line for hit in kept),
            fix=cause.fix,
        )
    ]


def _line(hit: Hit) -> Line:
    return Line(hit.line, hit.text)
