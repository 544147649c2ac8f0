"""The plan: from a cause and the facts, the steps that mend it, and which of them the doctor may carry out itself."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tfgpu_doctor.fix.links import NOT_FOUND, LinkStep, plan_links
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.report import RootCause

# Options that make pip write elsewhere than into its own environment.
_ELSEWHERE = ("-t", "--target", "--prefix", "--root", "--user", "--python", "-e", "--editable", "--src")
# Whether TensorFlow belongs into this environment at all is for the user to say.
_WRONG_TARGET = "wrong_python_environment"
_BY_LINKS = (
    "Make the libraries found by links in a folder where TensorFlow looks. For one shell alone, "
    '`eval "$(tfgpu-doctor env --shell bash)"` does as well.'
)


@dataclass(frozen=True)
class PipStep:
    """A command of the target's own pip."""

    argv: tuple[str, ...]

    @property
    def text(self) -> str:
        """The step in a few words, to be shown."""
        return f"run {shlex.join(self.argv)}"


@dataclass(frozen=True)
class PrintedStep:
    """What is left to the user: it needs root, changes the machine, or holds for one shell alone."""

    text: str


Step = PipStep | LinkStep


@dataclass(frozen=True)
class Plan:
    """How to mend one cause: the advice, the steps inside the target environment, and those left to the user."""

    cause: RootCause
    advice: str
    prefix: str = ""  # of the environment
    steps: tuple[Step, ...] = ()
    by_hand: tuple[PrintedStep, ...] = ()

    @property
    def pip_steps(self) -> tuple[PipStep, ...]:
        """The steps that are pip's: with any, whatever lies in the environment may change."""
        return tuple(step for step in self.steps if isinstance(step, PipStep))


def plan_repair(cause: RootCause, facts: Facts) -> Plan:
    """The steps that mend a cause."""
    target = facts.target
    if target is None or not target.attempt.answered:
        return Plan(cause, cause.fix.text, by_hand=tuple(PrintedStep(each) for each in cause.fix.commands))
    if cause.label == NOT_FOUND and facts.resolution:
        links = plan_links(target, facts.resolution)
        if links:
            return Plan(cause, _BY_LINKS, target.prefix, links)
    steps: list[Step] = []
    by_hand: list[PrintedStep] = []
    for command in cause.fix.commands:
        step = read_pip_command(command, target)
        if step and cause.label != _WRONG_TARGET:
            steps.append(step)
        else:
            by_hand.append(PrintedStep(command))
    return Plan(cause, cause.fix.text, target.prefix, tuple(steps), tuple(by_hand))


def read_pip_command(command: str, target: Target) -> PipStep | None:
    """The step that a command is, where it is one of the target's own pip and stays inside the target."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:3] != [target.executable, "-m", "pip"] or words[3:4] not in (["install"], ["uninstall"]):
        return None
    if any(word.partition("=")[0] in _ELSEWHERE for word in words[4:]):
        return None
    return PipStep(tuple(words))
