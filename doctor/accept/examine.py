"""Examine and measure a machine as a profile requires."""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor._project import install
from tfgpu_doctor.accept.job import in_job_across_nodes
from tfgpu_doctor.accept.reading import read_profile
from tfgpu_doctor.accept.rules_suites import suites_due
from tfgpu_doctor.accept.terms import Profile, Resolved
from tfgpu_doctor.accept.vocabulary import ProfileError, Vocabulary
from tfgpu_doctor.bench import is_own, lacking_packages, measure_suites, why_unusable
from tfgpu_doctor.cli.configuration import Configuration, ConfigurationError, read_configuration
from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine, find_python
from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.perf_tests.budget import parse_budget


@dataclass(frozen=True)
class Examined:
    """The facts of a machine, and whether the user stopped the examination early."""

    facts: Facts
    interrupted: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Examiner:
    """The settings for the examination of a machine."""

    profile: Profile
    even_if_busy: bool = False
    settings: Configuration = field(default_factory=Configuration)

    def check_usage(self) -> None:
        """Reject settings that cannot work before anything is measured."""
        if why := self.why_unusable():
            refuse(why)

    def why_unusable(self) -> str:
        """Return why the suites cannot run in this Python; empty if they can."""
        if not self.profile.all_suites:
            return ""
        python = self.settings.python
        if python and os.path.dirname(find_python(python)) != os.path.dirname(sys.executable):
            return (
                f"the suites {', '.join(self.profile.all_suites)} run in the doctor's own Python, but {python} is a "
                "different one: install the doctor in the environment of that TensorFlow, and run it there"
            )
        for suite in filter(is_own, self.profile.all_suites):
            if why := why_unusable(suite, self.profile.all_suites):
                return f"the suites: {why}"
        if lacking := lacking_packages():
            return (
                f"the suites {', '.join(self.profile.all_suites)} cannot run: {', '.join(lacking)} cannot be imported here: "
                f"{install('bench')}"
            )
        return ""

    def examine(self) -> Examined:
        """Examine this machine: first checks and stress test, then the suites if the machine reaches its goal."""
        started = time.monotonic()
        with Waiting() as waiting:
            try:
                facts = examine(
                    python=self.settings.python,
                    level=self.profile.level,
                    soak_s=60 * self.profile.minutes,
                    even_if_busy=self.even_if_busy,
                    deadline_s=self.settings.deadline,
                    on_wait=waiting.show,
                )
            except Interrupted as stop:
                return Examined(stop.facts, True, time.monotonic() - started)
            interrupted = False
            suites = tuple(suites_due(self.profile, facts, several_nodes=in_job_across_nodes()))
            if suites and reaches_goal(facts, self.profile):
                try:
                    budget_s = parse_budget(self.profile.budget)
                    bench = measure_suites(facts, suites, budget_s, waiting, even_if_busy=self.even_if_busy)
                except KeyboardInterrupt:
                    return Examined(facts, True, time.monotonic() - started)
                facts, interrupted = msgspec.structs.replace(facts, bench=bench), bench.interrupted
        return Examined(facts, interrupted, time.monotonic() - started)


def reaches_goal(facts: Facts, profile: Profile) -> bool:
    """Return whether the machine serves its purpose, apart from what the profile allows today: else no suite is run."""
    from tfgpu_doctor.accept.rules_checks import allowed_findings
    from tfgpu_doctor.accept.rules_machine import goal_of
    from tfgpu_doctor.diagnose.engine import diagnose

    today = dt.datetime.now(dt.timezone.utc).date()
    goal = diagnose(facts, allowed=allowed_findings(profile, today)).shows(goal_of(profile, facts))
    return goal is not None and goal.outcome in ("pass", "warn")


def settings_of(python: str | None, deadline: float | None) -> Configuration:
    """Return the project's settings; those that select checks have no effect, because the profile selects them."""
    try:
        return read_configuration().with_options(python=python, deadline=deadline)
    except ConfigurationError as error:
        refuse(str(error))


def profile_named(name: str) -> Resolved:
    """Return the profile; reject one that cannot be used."""
    checks, broken = load_checks()
    try:
        return read_profile(name, Vocabulary([check.id for check in checks], complete=not broken))
    except ProfileError as error:
        refuse(str(error))
