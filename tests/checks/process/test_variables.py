"""ENV: environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_machines import variables
from every import every

from tfgpu_doctor.checks.process.variables import no_debugging_variable, values_are_understood
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.machine import Environment

if TYPE_CHECKING:
    from checks.conftest import Judge

WITH_VALUES = [(row.name, value) for row in read_knowledge().variables.values() for value in row.values]


# ENV001


def test_no_variable_is_well(judge: Judge) -> None:
    assert judge.passes(values_are_understood, environment=Environment()) == "0 relevant variables are set"
    one = judge.passes(values_are_understood, environment=Environment(variables={"TF_GPU_THREAD_COUNT": "2"}))
    assert one == "1 relevant variable is set"


@every("name, value", WITH_VALUES)
def test_a_value_of_the_table_is_understood(judge: Judge, name: str, value: str) -> None:
    assert judge.passes(values_are_understood, environment=variables(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_DEVICE_ORDER", "pci_bus_id"),
        ("CUDA_MODULE_LOADING", "lazy"),
        ("CUDA_CACHE_DISABLE", "true"),
        ("CUDA_LAUNCH_BLOCKING", "yes"),
        ("TF_GPU_THREAD_MODE", "private"),
        ("TF_CPP_MIN_LOG_LEVEL", "ERROR"),
    ],
)
def test_a_value_that_does_not_count_is_mentioned(judge: Judge, name: str, value: str) -> None:
    finding = judge.finding(values_are_understood, environment=variables(**{name: value}))
    assert finding.severity == "info"
    assert f"{name}={value!r} is not a valid value" in finding.message
    values = ", ".join(read_knowledge().variables[name].values)
    assert values in finding.evidence[0]
    assert finding.fix and finding.fix.commands == (f"unset {name}",)


def test_every_such_variable_is_mentioned(judge: Judge) -> None:
    environment = variables(CUDA_DEVICE_ORDER="x", CUDA_MODULE_LOADING="y", CUDA_CACHE_DISABLE="0")
    found = judge.findings(values_are_understood, environment=environment)
    assert [finding.message.partition("=")[0] for finding in found] == ["CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING"]


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "XLA_FLAGS", "PYTHONPATH", "NOT_IN_THE_TABLE"]
)
@pytest.mark.parametrize("value", ["", "anything at all"])
def test_variables_that_may_hold_anything_are_left_alone(judge: Judge, name: str, value: str) -> None:
    assert judge.passes(values_are_understood, environment=variables(**{name: value}))


@pytest.mark.parametrize("name", ["TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR"])
def test_variables_with_a_check_of_their_own_are_judged_there(judge: Judge, name: str) -> None:
    assert judge.passes(values_are_understood, environment=variables(**{name: "wrong"}))


# TensorFlow reads its switches with ReadBoolFromEnvVar, which takes words too
@pytest.mark.parametrize("value", ["true", "false"])
def test_tensorflows_switches_take_words_too(judge: Judge, value: str) -> None:
    assert judge.passes(values_are_understood, environment=variables(TF_ENABLE_ONEDNN_OPTS=value))


# ENV002


@pytest.mark.parametrize("value", [None, "", "0"])
def test_launches_that_do_not_wait_pass(judge: Judge, value: str | None) -> None:
    environment = Environment(variables={} if value is None else {"CUDA_LAUNCH_BLOCKING": value})
    assert judge.passes(no_debugging_variable, environment=environment) == "CUDA_LAUNCH_BLOCKING is not 1"


def test_launches_that_wait_are_mentioned(judge: Judge) -> None:
    finding = judge.finding(no_debugging_variable, environment=variables(CUDA_LAUNCH_BLOCKING="1"))
    assert finding.severity == "info"
    assert finding.evidence == ("CUDA_LAUNCH_BLOCKING is '1'",)
    assert finding.fix and finding.fix.commands == ("unset CUDA_LAUNCH_BLOCKING",)


def test_what_is_mentioned_is_not_followed_by_its_contrary(judge: Judge) -> None:
    yielded = judge(no_debugging_variable, environment=variables(CUDA_LAUNCH_BLOCKING="1"))
    assert "is not 1" not in str(yielded)
