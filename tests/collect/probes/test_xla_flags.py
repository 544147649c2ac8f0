"""The probe of the flags for XLA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from healthy import target

from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes.xla_flags import without_files, xla_flags
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts.xla import XlaFlags

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

READ = Completed(b'{"phase": "importing TensorFlow"}\n{"read": true}\n', "", 3.0, 0)
# TensorFlow 2.21.0's own words.
ENDED = Completed(
    b'{"phase": "compiling with XLA"}\n',
    "I0000 00:00:1795386875.455375   10140 port.cc:153] oneDNN custom operations are on.\n"
    "F0000 00:00:1795386878.350424   10140 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_gpu_made_up=1\n",
    3.5,
    1,
)
NO_NUMPY = Completed(b"", "ModuleNotFoundError: No module named 'numpy'\n", 0.1, 1)


def test_nothing_set_starts_nothing(machine: Machine) -> None:
    for environment in ({}, {"XLA_FLAGS": ""}, {"TF_XLA_FLAGS": " "}):
        assert machine.ask(xla_flags, environment=environment, done=READ, target=target()) == XlaFlags()
    assert machine.asked == []


def test_each_variable_is_read_alone_and_without_a_gpu(machine: Machine) -> None:
    both = {"XLA_FLAGS": "--xla_gpu_autotune_level=0", "TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}
    found = machine.ask(xla_flags, environment=both, done=READ, target=target())
    assert [(each.variable, each.attempt.answered, each.complaints) for each in found.trials] == [
        ("TF_XLA_FLAGS", True, ()),
        ("XLA_FLAGS", True, ()),
    ]
    assert [each.variables["CUDA_VISIBLE_DEVICES"] for each in machine.asked] == ["-1", "-1"]
    assert [each.variables.get("XLA_FLAGS") for each in machine.asked] == ["", "--xla_gpu_autotune_level=0"]


def test_a_complaint_is_kept_without_its_prefix(machine: Machine) -> None:
    [trial] = machine.ask(xla_flags, environment={"XLA_FLAGS": "--x"}, done=ENDED, target=target()).trials
    assert trial.complaints == ("Unknown flag in XLA_FLAGS: --xla_gpu_made_up=1",)
    assert trial.attempt.stderr == ()


def test_another_end_is_no_complaint(machine: Machine) -> None:
    [trial] = machine.ask(xla_flags, environment={"XLA_FLAGS": "--x"}, done=NO_NUMPY, target=target()).trials
    assert trial.complaints == ()
    assert trial.attempt.error == "ModuleNotFoundError: No module named 'numpy'"


def test_without_tensorflow_nothing_is_tried(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="no TensorFlow"):
        machine.ask(xla_flags, environment={"XLA_FLAGS": "--x"}, done=READ, target=target(tensorflow_file=""))
    quick = Request(python="python", level="quick")
    with pytest.raises(Unavailable, match="--quick"):
        machine.ask(xla_flags, environment={"XLA_FLAGS": "--x"}, done=READ, target=target(), request=quick)


@pytest.mark.parametrize(
    ("value", "tried"),
    [
        ("--xla_dump_to=/d --xla_gpu_autotune_level=0", "--xla_gpu_autotune_level=0"),
        ("--tf_xla_auto_jit=2 --tf_xla_persistent_cache_directory=/c", "--tf_xla_auto_jit=2"),
        ("/etc/xla.flags", "/etc/xla.flags"),
        ("--xla_made_up", "--xla_made_up"),
    ],
)
def test_no_flag_lets_the_process_write_files(value: str, tried: str) -> None:
    assert without_files(value) == tried
