"""`accept learn`: a profile from a known-good machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from tfgpu_doctor.accept.certifying import certify
from tfgpu_doctor.accept.examine import Examined, Examiner
from tfgpu_doctor.accept.learning import Learnt, NotLearnt, learn
from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.accept.reading import file_of
from tfgpu_doctor.accept.terms import Resolved
from tfgpu_doctor.accept.writing import profile_text
from tfgpu_doctor.cli.output import deliver, note
from tfgpu_doctor.model.amounts import amount

_REFUSED = 1


def learn_profile(
    resolved: Resolved, named: str, examiner: Examiner, given: Sequence[Examined], runs: int, leave_out: Sequence[str],
    output: str | None,
) -> int:  # fmt: skip
    """Examine the machine `runs` times, or use the given runs; write the profile, or report why there is none."""
    found: list[Examined] = []
    for examined in given or _examinations(examiner, runs):
        certificate = certify(examined, resolved)
        if certificate.verdict != "accepted":
            deliver(render_certificate(certificate, "text", to_terminal=True), None)
            why = "interrupted" if examined.interrupted else f"the profile {resolved.name} does not accept the machine"
            note(f"no profile was learned: {why}")
            return certificate.exit_code
        found.append(examined)
    try:
        learnt = learn([examined.facts for examined in found], leave_out, resolved.profile)
    except NotLearnt as error:
        note(f"no profile was learned: {error}")
        return _REFUSED
    return write_learnt(learnt, named, len(found), output)


def write_learnt(learnt: Learnt, named: str, runs: int, output: str | None) -> int:
    """Write the profile that extends the one that is named so, and return the exit code."""
    deliver(profile_text(learnt, _base(named, output), _about(learnt, runs)), output, costly=True)
    note(f"{amount(learnt.bounds, 'bound')} from {_from(learnt, runs)}" + (f", in {output}" if output else ""))
    return 0


def _examinations(examiner: Examiner, runs: int) -> Iterator[Examined]:
    for number in range(1, runs + 1):
        note(f"run {number} of {runs}")
        yield examiner.examine()


def _base(named: str, output: str | None) -> str:
    """Return the profile that the new one extends, as the new file must name it."""
    file = file_of(named)
    if file is None:
        return named
    return os.path.relpath(file, os.path.dirname(os.path.realpath(output)) if output else ".")


def _about(learnt: Learnt, runs: int) -> str:
    machine = f"{learnt.gpus} x {learnt.models[0]}" if learnt.gpus else "a machine without a GPU"
    return f"learned on {time.strftime('%Y-%m-%d', time.gmtime())} from {_from(learnt, runs)} on {machine}"


def _from(learnt: Learnt, runs: int) -> str:
    """Return what the bounds come from; of several machines also how many of them a profile from the others accepts."""
    if learnt.machines == 1:
        return f"{runs} runs"
    told = f"{runs} runs of {learnt.machines} machines"
    if learnt.accepted is None:
        return told
    return f"{told} ({learnt.accepted} of {learnt.machines} are accepted by what the others teach)"
