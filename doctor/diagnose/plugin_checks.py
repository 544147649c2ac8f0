"""The checks of plugins, which never run in this process: a child describes them, and another one runs each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import tfgpu_doctor.collect.workers
from tfgpu_doctor.diagnose.selection import nearest
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import create_whole
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import UNDETERMINED, CannotTell, Check, Evidence, Finding, NotMeasured, PluginError, Skip, Stage
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.tags import Goal

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__)), "run_plugin.py")
_DEADLINE_S = 20.0  # a plugin may import large packages


class _Description(msgspec.Struct, frozen=True):
    id: str
    title: str
    stage: Stage
    after: tuple[str, ...]
    causes: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    optional: tuple[str, ...]
    family: str
    tags: tuple[str, ...]
    goal: Goal | None
    explanation: str


class _Answer(msgspec.Struct, frozen=True):
    """What the child says: a field for each kind of answer."""

    checks: tuple[_Description, ...] = ()
    findings: tuple[Finding, ...] = ()
    evidence: tuple[str, ...] = ()
    skip: str | None = None
    not_measured: bool = False
    cannot_tell: bool = False
    error: str = ""


def describe_plugin(value: str) -> list[Check]:
    """Return the checks of an entry point ("module:attribute"). Raises PluginError."""
    described = _ask("describe", value).checks
    return [
        Check(
            each.id, each.title, each.stage, _in_a_child(value, each), each.after, each.causes, each.sources, each.needs,
            each.optional, each.family, each.tags, each.goal,
        )
        for each in described
    ]  # fmt: skip


def _in_a_child(value: str, described: _Description) -> Callable[..., list[Finding | Evidence]]:
    def function(**given: Any) -> list[Finding | Evidence]:
        facts = Facts(**{name: fact for name, fact in given.items() if name != "knowledge"})
        with scratch_folder() as folder:
            path = os.path.join(folder, "facts.json")
            create_whole(path, encode_facts(facts))
            answer = _ask("run", value, described.id, path)
        if answer.skip is not None:
            raise (CannotTell if answer.cannot_tell else NotMeasured if answer.not_measured else Skip)(answer.skip)
        _refuse_unknown_causes(answer.findings)
        return [*answer.findings, *map(Evidence, answer.evidence)]

    function.__doc__ = described.explanation
    return function


def _refuse_unknown_causes(findings: Sequence[Finding]) -> None:
    labels = read_knowledge().causes
    for each in findings:
        if each.cause not in labels:
            raise PluginError(
                f"it found {each.message!r} with the cause {each.cause!r}, which is not in the doctor's list (without a "
                f"cause, a finding is {UNDETERMINED!r}){nearest(each.cause, labels)}"
            )


def _ask(*arguments: str) -> _Answer:
    host = Host()
    done = host.run([sys.executable, _PROGRAM, *arguments], deadline_s=_DEADLINE_S)
    if done.timed_out:
        raise PluginError(f"it did not end within {_DEADLINE_S:.0f} s")
    try:
        answer = decode_json(done.stdout, _Answer)
    except msgspec.ValidationError as error:
        raise PluginError(f"it gave something else than a check gives: {error}") from None
    except msgspec.DecodeError:
        how = done.not_started or done.excess or done.signal or f"exit code {done.exit_code}"
        last = (done.stderr.strip().splitlines() or [""])[-1][:200]
        said = f"; the last that it printed: {last}" if last else ""
        raise PluginError(f"it ended the process that it ran in ({how}){said}") from None
    if answer.error:
        raise PluginError(answer.error)
    return answer
