"""A probe whose answer another fact may have changed is asked once more."""

from __future__ import annotations

import sys

import pytest
from healthy import computation, runtime

from tfgpu_doctor.collect.examination import _Examination
from tfgpu_doctor.collect.probe import Probe, Request, Unavailable, probe
from tfgpu_doctor.collect.probes.kernel_log import kernel_log
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment, System
from tfgpu_doctor.model.facts.python import Runtime


def facts_of(*probes: Probe) -> Facts:
    under_way = _Examination(Host(environment={}), Request(python=sys.executable), probes)
    under_way.run(None)
    return under_way.facts()


def counting(**how: object) -> tuple[Probe, list[int]]:
    """A probe that gives how often it was asked; it fails from the second time on where it `breaks`."""
    asked: list[int] = []

    @probe(waits_for="nothing", again_if=how.get("again_if"))  # type: ignore[arg-type]
    def environment() -> Environment:
        asked.append(1)
        if how.get("breaks") and len(asked) > 1:
            raise Unavailable("not any more")
        return Environment(variables={"asked": str(len(asked))})

    return environment, asked


@probe(waits_for="nothing")
def system(environment: Environment) -> System:
    return System(os="Linux", release=environment.variables["asked"], architecture="x86_64")


def test_it_is_asked_again_when_the_other_fact_is_known() -> None:
    environment, asked = counting(again_if=lambda fact: isinstance(fact, System))
    found = facts_of(environment, system)
    assert len(asked) == 2
    assert found.environment == Environment(variables={"asked": "2"})
    assert found.system and found.system.release == "1"


@pytest.mark.parametrize("again_if", [None, lambda _: False])
def test_it_is_asked_once_where_nothing_asks_for_more(again_if: object) -> None:
    environment, asked = counting(again_if=again_if)
    facts_of(environment, system)
    assert len(asked) == 1


def test_its_own_answer_does_not_make_it_ask_again() -> None:
    environment, asked = counting(again_if=lambda fact: isinstance(fact, Environment))
    facts_of(environment, system)
    assert len(asked) == 1


def test_what_it_told_before_stands_where_it_fails_then() -> None:
    environment, asked = counting(again_if=lambda fact: isinstance(fact, System), breaks=True)
    found = facts_of(environment, system)
    assert len(asked) == 2
    assert found.environment == Environment(variables={"asked": "1"})
    assert "environment" not in found.unknown


@pytest.mark.parametrize(
    ("fact", "again"),
    [
        (runtime(), False),
        (runtime(gpus=(), computations=()), False),
        (runtime(computations=(computation("matmul", error="CUDA_ERROR_LAUNCH_FAILED"),)), True),
        (runtime(computations=()), True),
        (runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL"), gpus=(), computations=()), True),
        (Environment(), False),
    ],
    ids=["it computes", "no GPU", "it fails", "it ended early", "somebody ended it", "another fact"],
)
def test_the_kernels_log_is_read_again_after_a_failure(fact: Runtime, again: bool) -> None:
    assert kernel_log.again_if
    assert kernel_log.again_if(fact) is again
