"""The causes and the signatures in a log of one string, with what is given as pairs such as "os=Ubuntu"."""

from __future__ import annotations

import io

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.classification import _all_hits, classify
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.report import LogReport
from tfgpu_doctor.log.signatures import Scanner
from tfgpu_doctor.log.statements import read_statements

KNOWLEDGE = read_knowledge()
CREATED = (
    "I gpu_device.cc:1928] Created device /job:localhost/replica:0/task:0/device:GPU:0 with {} MB memory:  -> device: 0, "
    "name: NVIDIA GeForce RTX 3090, pci bus id: 0000:17:00.0, compute capability: 8.6"
)


def read(log: str, *context: str) -> LogReport:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    known = Context(dict(pair.split("=", 1) for pair in context))
    return classify(scanner.found, known, KNOWLEDGE, scanner.lines, scanner.kept.texts())


def labels(log: str, *context: str) -> list[str]:
    return [cause.label for cause in read(log, *context).causes]


def seen(log: str, *pairs: str) -> set[str]:
    """The signatures, the symptoms, and what follows from them."""
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log.encode()))
    statements = read_statements(scanner.kept.texts(), KNOWLEDGE.log_symptoms)
    context = (
        Context(dict(pair.split("=", 1) for pair in pairs))
        .learning(scanner.found, KNOWLEDGE)
        .hearing(statements.values)
    )
    return set(_all_hits(scanner.found, statements.symptoms, context, KNOWLEDGE, scanner.kept.texts()))


def example(name: str) -> str:
    """Of a signature, or of a symptom that people tell."""
    examples = {row.name: row.example for row in KNOWLEDGE.log_signatures}
    examples.update({row.name: row.example for row in KNOWLEDGE.log_symptoms})
    return examples[name]
