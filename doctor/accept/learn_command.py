"""`tfgpu-doctor accept learn`: a profile from repeated runs on a known-good machine."""

from __future__ import annotations

import click

from tfgpu_doctor.accept import options
from tfgpu_doctor.cli.output import note, refuse, refuse_unwritable


@click.command()
@click.option("--profile", metavar="NAME|FILE", default="server", show_default=True, help="The profile to extend.")
@click.option(
    "--runs", type=click.IntRange(3, 20), metavar="N", default=5, show_default=True, help="How often to measure."
)
@click.option("--leave-out", metavar="NAME", multiple=True, help="Set no minimum for this: pipeline/fit.")
@click.option(
    "--facts",
    metavar="FILE",
    multiple=True,
    help="Learn from records of one machine, or of three or more, instead; repeatable.",
)
@options.python
@options.even_if_busy
@options.deadline
@click.option("-o", "--output", metavar="FILE", help="Write the profile to FILE.")
def learn(
    *,
    profile: str,
    runs: int,
    leave_out: tuple[str, ...],
    facts: tuple[str, ...],
    python: str | None,
    even_if_busy: bool,
    deadline: float | None,
    output: str | None,
) -> int:
    """Measure a known-good machine several times, and write a profile with the minimums that it reaches.

    The machine must pass the base profile in each run. From records of several machines of one model, the minimums are those
    that machines of this model reach. Exit code: 0 written, 1 not learned, 2 wrong usage or unreadable
    input, 3 the doctor itself failed, 130 interrupted.
    """
    from tfgpu_doctor.accept.known_good import learn_profile
    from tfgpu_doctor.accept.learning import can_be_left_out
    from tfgpu_doctor.accept.recordings import each_once

    if facts and (python or even_if_busy):
        refuse("--facts learns from records: do not combine it with --python or --even-if-busy")
    if unknown := [name for name in leave_out if not can_be_left_out(name)]:
        refuse(
            f"there is no {unknown[0]} to leave out; name a comparison or a metric such as pipeline/fit, or a precision"
        )
    refuse_unwritable(output)
    resolved, examiner, recorded = options.ready(profile, facts, even_if_busy, python, deadline)
    recordings, copies = each_once(facts, recorded)
    for told in copies:
        note(told)
    return learn_profile(resolved, profile, examiner, recordings, runs, leave_out, output)
