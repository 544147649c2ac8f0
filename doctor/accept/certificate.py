"""The certificate: what was asked of a machine, what was measured, and the verdict, in a form that tells when it is changed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tfgpu_doctor.accept.canonical import digest_of, seal_of
from tfgpu_doctor.accept.requirement import Requirement
from tfgpu_doctor.accept.rules_checks import CRASH
from tfgpu_doctor.accept.terms import Resolved
from tfgpu_doctor.model.facts.stress import Level
from tfgpu_doctor.model.report import MachineSummary, RootCause

SCHEMA = 2  # readers accept 1
Kind = Literal["tfgpu-doctor certificate"]
KIND: Kind = "tfgpu-doctor certificate"
Verdict = Literal["accepted", "not accepted", "not judged", "interrupted"]
EXIT_CODES: dict[Verdict, int] = {"accepted": 0, "not accepted": 1, "not judged": 3, "interrupted": 130}


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole result. `seal` is made of all else but `digest`, with a key; `digest` of all else."""

    schema: int = SCHEMA
    kind: Kind = KIND
    verdict: Verdict
    subject: str  # what the user calls the machine
    doctor: str
    issued: str  # UTC, ISO 8601
    recorded: str  # when the machine was examined
    seconds: float
    level: Level
    machine: MachineSummary
    versions: dict[str, str]
    facts: str  # the digest of the record that the verdict was made of
    profile: Resolved
    requirements: tuple[Requirement, ...]
    causes: tuple[RootCause, ...]
    notes: tuple[str, ...]
    digest: str = ""
    seal: str = ""

    @property
    def exit_code(self) -> int:
        """0 accepted · 1 not accepted · 3 a check of the doctor's own broke, and nothing else is amiss · 130 interrupted."""
        return EXIT_CODES[self.verdict]

    def proved(self, key: bytes | None = None) -> Certificate:
        """The same with its digest, and with a seal where there is a key."""
        sealed = {**msgspec.to_builtins(self), "seal": ""}
        seal = seal_of(without_proofs(sealed), key) if key else ""
        digest = digest_of(without_digest({**sealed, "seal": seal}))
        return msgspec.structs.replace(self, digest=digest, seal=seal)


def without_digest(document: dict[str, Any]) -> dict[str, Any]:
    """What the digest of a certificate's document is of."""
    return {key: value for key, value in document.items() if key != "digest"}


def without_proofs(document: dict[str, Any]) -> dict[str, Any]:
    """What its seal is of."""
    return {key: value for key, value in document.items() if key not in ("digest", "seal")}


def verdict_of(requirements: tuple[Requirement, ...], interrupted: bool) -> Verdict:
    """What the requirements come to; an interrupted run is never accepted, whatever was measured by then."""
    if interrupted:
        return "interrupted"
    missing = [each for each in requirements if not each.holds]
    if not missing and requirements:
        return "accepted"
    return "not judged" if all(each.key.startswith(f"{CRASH}.") for each in missing) else "not accepted"
