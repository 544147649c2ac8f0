"""The plan: from a cause and the facts, derive the steps that fix it and those that the doctor may carry out itself."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tfgpu_doctor.fix.links import NO_COMPILER, NOT_FOUND, LinkStep, plan_compiler_links, plan_links
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.report import RootCause

# Options that make pip write outside its own environment.
_ELSEWHERE = ("-t", "--target", "--prefix", "--root", "--user", "--python", "-e", "--editable", "--src")
# Only the user can decide whether TensorFlow belongs in this environment at all.
_WRONG_TARGET = "wrong_python_environment"
_ONE_SHELL = 'For one shell only, `eval "$(tfgpu-doctor env --shell bash)"` is enough.'
_LINKS = {
    NOT_FOUND: (plan_links, f"Link the libraries into a folder that TensorFlow searches. {_ONE_SHELL}"),
    NO_COMPILER: (plan_compiler_links, f"Link the compiler into cuDNN's folder. {_ONE_SHELL}"),
}


@dataclass(frozen=True)
class PipStep:
    """A command of the target's own pip."""

    argv: tuple[str, ...]

    @property
    def text(self) -> str:
        """A short description of the step, for display."""
        return f"run {shlex.join(self.argv)}"


@dataclass(frozen=True)
class PrintedStep:
    """A step for the user: it needs root, changes the machine, or applies to one shell only."""

    text: str


Step = PipStep | LinkStep


@dataclass(frozen=True)
class Plan:
    """How to fix one cause: the advice, the steps inside the target environment, and the manual steps."""

    cause: RootCause
    advice: str
    prefix: str = ""  # of the environment
    steps: tuple[Step, ...] = ()
    by_hand: tuple[PrintedStep, ...] = ()

    @property
    def pip_steps(self) -> tuple[PipStep, ...]:
        """The pip steps: with any of them, every file in the environment may change."""
        return tuple(step for step in self.steps if isinstance(step, PipStep))


def plan_repair(cause: RootCause, facts: Facts) -> Plan:
    """Return the steps that fix a cause."""
    target = facts.target
    if target is None or not target.attempt.answered:
        return Plan(cause, cause.fix.text, by_hand=tuple(PrintedStep(each) for each in cause.fix.commands))
    if cause.label in _LINKS and facts.resolution:
        plan_them, advice = _LINKS[cause.label]
        if links := plan_them(target, facts.resolution):
            return Plan(cause, advice, target.prefix, links)
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
    """Return the step for a command if it runs the target's own pip and stays inside the target, else None."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:3] != [target.executable, "-m", "pip"] or words[3:4] not in (["install"], ["uninstall"]):
        return None
    if any(word.partition("=")[0] in _ELSEWHERE for word in words[4:]):
        return None
    return PipStep(tuple(words))
