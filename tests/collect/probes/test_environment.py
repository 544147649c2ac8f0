"""The probe of the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tfgpu_doctor.collect.probes.environment import environment
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


def test_variables_that_matter_are_taken_as_they_are(machine: Machine) -> None:
    variables = {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": ":/usr/local/cuda/lib64:", "TF_CPP_MIN_LOG_LEVEL": "3"}
    found = machine.ask(environment, environment=variables)
    assert found.variables == variables
    assert found.get("CUDA_VISIBLE_DEVICES") == ""
    assert found.get("XLA_FLAGS") is None


def test_no_secret_is_taken(machine: Machine) -> None:
    secrets = {"AWS_SECRET_ACCESS_KEY": "k", "HF_TOKEN": "t", "PASSWORD": "p", "cuda_visible_devices": "0", "": "x"}
    assert machine.ask(environment, environment=secrets).variables == {}


def test_every_variable_of_the_knowledge_is_looked_at(machine: Machine) -> None:
    everything = dict.fromkeys(read_knowledge().variables, "value")
    assert machine.ask(environment, environment=everything).variables == everything


def test_a_value_of_any_length_is_cut(machine: Machine) -> None:
    found = machine.ask(environment, environment={"LD_LIBRARY_PATH": "/x:" * 100_000})
    assert found.variables["LD_LIBRARY_PATH"] == ("/x:" * 2000)[:4096]


def test_a_value_of_undecodable_bytes_can_be_recorded(machine: Machine) -> None:
    value = os.fsdecode(b"/home/andr\xe9/lib:/usr/lib")
    facts = Facts(environment=machine.ask(environment, environment={"LD_LIBRARY_PATH": value}))
    assert b"/usr/lib" in encode_facts(facts)
    assert decode_facts(encode_facts(facts)).environment is not None
