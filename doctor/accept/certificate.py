"""The certificate: requirements, measured values and the verdict, in a form that reveals changes."""

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
    """The complete result. `seal` covers everything else except `digest`, with a key; `digest` covers everything else."""

    schema: int = SCHEMA
    kind: Kind = KIND
    verdict: Verdict
    subject: str  # the user's name for the machine
    doctor: str
    issued: str  # UTC, ISO 8601
    recorded: str  # when the machine was examined
    seconds: float
    level: Level
    machine: MachineSummary
    versions: dict[str, str]
    facts: str  # the digest of the record that was judged
    profile: Resolved
    requirements: tuple[Requirement, ...]
    causes: tuple[RootCause, ...]
    notes: tuple[str, ...]
    digest: str = ""
    seal: str = ""

    @property
    def exit_code(self) -> int:
        """0 accepted · 1 not accepted · 3 a check itself crashed, and nothing else is missing · 130 interrupted."""
        return EXIT_CODES[self.verdict]

    def proved(self, key: bytes | None = None) -> Certificate:
        """Return the certificate with its digest, and with a seal if there is a key."""
        sealed = {**msgspec.to_builtins(self), "seal": ""}
        seal = seal_of(without_proofs(sealed), key) if key else ""
        digest = digest_of(without_digest({**sealed, "seal": seal}))
        return msgspec.structs.replace(self, digest=digest, seal=seal)


def without_digest(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a certificate's document that the digest covers."""
    return {key: value for key, value in document.items() if key != "digest"}


def without_proofs(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a certificate's document that the seal covers."""
    return {key: value for key, value in document.items() if key not in ("digest", "seal")}


def verdict_of(requirements: tuple[Requirement, ...], interrupted: bool) -> Verdict:
    """Return the verdict on the requirements; an interrupted run is never accepted, whatever was measured so far."""
    if interrupted:
        return "interrupted"
    missing = [each for each in requirements if not each.holds]
    if not missing and requirements:
        return "accepted"
    return "not judged" if all(each.key.startswith(f"{CRASH}.") for each in missing) else "not accepted"
