"""Wording that all formats of a certificate share."""

from __future__ import annotations

from tfgpu_doctor.accept.certificate import Certificate, Verdict
from tfgpu_doctor.accept.requirement import OF_A_CHECK, OUTCOMES, Requirement
from tfgpu_doctor.accept.rules_machine import counted
from tfgpu_doctor.accept.verifying import Verified
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.model.report import RootCause

_VERDICTS: dict[Verdict, str] = {
    "accepted": "Accepted", "not accepted": "Not accepted", "not judged": "Not judged", "interrupted": "Interrupted",
}  # fmt: skip


def headline(certificate: Certificate) -> str:
    """Return the verdict and the first reason against acceptance, on one line."""
    return on_one_line(_headline(certificate))


def _headline(certificate: Certificate) -> str:
    said = f"{_VERDICTS[certificate.verdict]} by the profile {certificate.profile.name}"
    if certificate.verdict == "interrupted":
        return f"Interrupted: not judged by the profile {certificate.profile.name}"
    if certificate.verdict == "accepted":
        beside = len(certificate.causes)
        return f"{said}, with {beside} issue{'s' if beside > 1 else ''} to fix" if beside else said
    return f"{said}: {_first(certificate)}"


def _first(certificate: Certificate) -> str:
    missing = [row for row in certificate.requirements if not row.holds]
    row = next((row for row in missing if row.outcome == "missed"), missing[0] if missing else None)
    if row is None:
        return "there are no requirements"
    return row.measured if row.check and row.measured else f"{row.title}, {measured(row)}"


def subject(certificate: Certificate) -> str:
    """Return what was examined, on one line."""
    machine = certificate.machine
    versions = [f"{name} {version}" for name, version in certificate.versions.items()]
    words = [
        certificate.subject,
        counted(machine.gpus) or "no NVIDIA GPU",
        *versions,
        machine.system,
        machine.container,
    ]
    return " · ".join(on_one_line(word) for word in words if word)


def on_one_line(text: str) -> str:
    """Return the text with line breaks replaced by spaces."""
    return " ".join(text.split())


def measured(row: Requirement) -> str:
    """Return what was measured, or why nothing was."""
    if row.outcome == "explained":
        because = f"because of {', '.join(map(short_name, row.explained_by))}"
        return f"{row.measured}; {because}" if row.measured else because
    if row.outcome == "not measured":
        return f"not measured: {row.reason}"
    if row.outcome == "not judged":
        return f"{row.measured}; not judged: {row.reason}"
    if row.outcome == "allowed":
        return f"{row.measured}; allowed: {row.reason}"
    return f"{row.measured}; {row.reason}" if row.reason else row.measured


def short_name(key: str) -> str:
    """Return the name of a row for other rows: the check that it refers to, or its key."""
    kind, _, id = key.partition(".")
    return id if kind in OF_A_CHECK else key


def remedies(certificate: Certificate) -> list[str]:
    """Return how to measure what was not measured, each remedy once, with the rows that it concerns."""
    waiting: dict[str, list[str]] = {}
    for row in certificate.requirements:
        if row.outcome == "not measured":
            waiting.setdefault(row.remedy, []).append(short_name(row.key))
    return [f"to measure {', '.join(keys)}: {remedy}" for remedy, keys in waiting.items()]


def counts_line(certificate: Certificate) -> str:
    """Return `12 met · 1 missed`; zeros are omitted."""
    outcomes = [row.outcome for row in certificate.requirements]
    return " · ".join(f"{outcomes.count(each)} {each}" for each in OUTCOMES if each in outcomes)


def deciding(certificate: Certificate) -> list[RootCause]:
    """Return the causes that prevent acceptance; all others are only mentioned."""
    against = {row.check for row in certificate.requirements if row.outcome == "missed"}
    return [cause for cause in certificate.causes if cause.id in against]


def proofs(certificate: Certificate) -> list[str]:
    """Return times, the program's version, and the digests."""
    made = f"tfgpu-doctor {certificate.doctor}, examined {certificate.recorded}, issued {certificate.issued}"
    profile = f"profile {' < '.join(certificate.profile.chain)}, {certificate.profile.digest}"
    seal = f"seal {certificate.seal}" if certificate.seal else ""
    return [on_one_line(text) for text in (made, profile, f"certificate {certificate.digest}", seal) if text]


def said_of(found: Verified, path: str) -> str:
    """Return the result of verifying a certificate, with its verdict."""
    if found.certificate is None:
        return f"{clean(path)}: CHANGED: {clean(found.why)}\n"
    said = [f"{path}: intact: {found.why}", f"{headline(found.certificate)}, issued {found.certificate.issued}"]
    return "\n".join(clean(" ".join(line.split())) for line in (*said, subject(found.certificate))) + "\n"
