"""Certify an examined machine: judge it as of now, and add the digest and, with a key, the seal."""

from __future__ import annotations

import datetime as dt

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.examine import Examined
from tfgpu_doctor.accept.judging import judge
from tfgpu_doctor.accept.terms import Resolved
from tfgpu_doctor.diagnose.plugins import load_checks


def certify(examined: Examined, resolved: Resolved, name: str = "", key: bytes | None = None) -> Certificate:
    """Return the certificate of a machine, issued now; `name` is the user's name for the machine."""
    checks, broken = load_checks()
    now = dt.datetime.now(dt.timezone.utc)
    found = judge(
        examined.facts, resolved, today=now.date(), checks=checks, broken=broken, interrupted=examined.interrupted,
        seconds=examined.seconds, issued=now.strftime("%Y-%m-%dT%H:%M:%SZ"), subject=name,
    )  # fmt: skip
    return found.proved(key)
