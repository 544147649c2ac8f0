"""ENV005, ENV007: the flags in TF_XLA_FLAGS and XLA_FLAGS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import variables
from healthy import ANSWERED

from tfgpu_doctor.checks.process.xla_flags import tensorflow_knows_its_flags, xla_knows_its_flags
from tfgpu_doctor.collect.probes.xla_flags import complaints
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.xla import FlagTrial, XlaFlags

if TYPE_CHECKING:
    from checks.conftest import Judge

LABEL = "unknown_flag_in_environment"
ENDED = Attempt(outcome="failed", exit_code=1, phase="compiling with XLA")
ABORTED = Attempt(outcome="killed_by_signal", signal="SIGABRT", phase="listing the devices")
# Lines of TensorFlow 2.21.0, by this project's own runs; the last of 2.11, from a public thread (proteinfer, issue 87).
UNKNOWN = "F0000 00:00:1795386878.350424   10140 parse_flags_from_env.cc:234] Unknown flag in {}: {}"
NO_FILE = (
    'F0000 00:00:1795386101.402206    4631 parse_flags_from_env.cc:171] Could not open file "{0}" to read flags for '
    'environment variable "XLA_FLAGS". (We assumed "{0}" was a file name because it did not start with a "--".)'
)
NO_VALUE = (
    "E0000 00:00:1795386110.495607    5372 command_line_flags.cc:63] Couldn't interpret value abc for flag xla_gpu_autotune_level.",
    "F0000 00:00:1795386110.495656    5372 parse_flags_from_env.cc:220] Check failed: tsl::Flags::Parse(&env_argv->argc, "
    "env_argv->argv.data(), flag_list) Flag parsing failed.",
    "usage: --xla_gpu_autotune_level=abc",
    "Flags:",
)
OLDER = (
    "2025-10-28 10:00:00.000000: F tensorflow/compiler/xla/parse_flags_from_env.cc:221] Unknown flags in XLA_FLAGS: "
    "--xla_gpu_enable_triton_gemm=false --xla_gpu_a=1",
    "Perhaps you meant to specify these on the TF_XLA_FLAGS envvar?",
)


def trial(variable: str, *lines: str, attempt: Attempt = ANSWERED) -> FlagTrial:
    """A variable, and what its process printed."""
    return FlagTrial(variable=variable, attempt=attempt, complaints=complaints(lines))


TWO = {"XLA_FLAGS": "--xla_dump_to=/tmp/d --xla_gpu_made_up=1"}
BOTH = {"XLA_FLAGS": "--xla_dump_to=/tmp/d", "TF_XLA_FLAGS": "--tf_xla_made_up"}

# What each machine must get: a severity, "pass" or "skip", and words of it. Written down before the rule.
VARIANTS: dict[str, tuple[str, str, dict[str, str], tuple[FlagTrial, ...]]] = {
    "one of two": ("error", "--xla_gpu_made_up=1", TWO, (
        trial("XLA_FLAGS", UNKNOWN.format("XLA_FLAGS", "--xla_gpu_made_up=1"), attempt=ENDED),)),
    "data folder": ("pass", "XLA_FLAGS", {"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/lib/cuda"}, (trial("XLA_FLAGS"),)),
    "dump folder": ("pass", "XLA_FLAGS", {"XLA_FLAGS": "--xla_dump_to=/tmp/d"}, (trial("XLA_FLAGS"),)),
    "clustering": ("pass", "TF_XLA_FLAGS", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}, (trial("TF_XLA_FLAGS"),)),
    "TensorFlow's own": ("error", "--tf_xla_made_up", {"TF_XLA_FLAGS": "--tf_xla_made_up"}, (
        trial("TF_XLA_FLAGS", UNKNOWN.format("TF_XLA_FLAGS", "--tf_xla_made_up"), attempt=ABORTED),)),
    "XLA's in TensorFlow's": ("error", "XLA_FLAGS instead", {"TF_XLA_FLAGS": "--xla_dump_to=/tmp/d"}, (
        trial("TF_XLA_FLAGS", UNKNOWN.format("TF_XLA_FLAGS", "--xla_dump_to=/tmp/d"), attempt=ENDED),)),
    "missing flag file": ("error", "/home/user/flags", {"XLA_FLAGS": "/home/user/flags"}, (
        trial("XLA_FLAGS", NO_FILE.format("/home/user/flags"), attempt=ENDED),)),
    "no dashes": ("error", "does not begin with --", {"XLA_FLAGS": "xla_dump_to=/d"}, (
        trial("XLA_FLAGS", NO_FILE.format("xla_dump_to=/d"), attempt=ENDED),)),
    "value": ("error", "xla_gpu_autotune_level", {"XLA_FLAGS": "--xla_gpu_autotune_level=abc"}, (
        trial("XLA_FLAGS", *NO_VALUE, attempt=ENDED),)),
    "older release": ("error", "--xla_gpu_a=1", {"XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false --xla_gpu_a=1"}, (
        trial("XLA_FLAGS", *OLDER, attempt=ABORTED),)),
    "died of something else": ("skip", "SIGILL", {"XLA_FLAGS": "--xla_dump_to=/tmp/d"}, (
        trial("XLA_FLAGS", attempt=Attempt(outcome="killed_by_signal", signal="SIGILL")),)),
    "raised something else": ("skip", "ModuleNotFoundError", {"XLA_FLAGS": "--xla_dump_to=/tmp/d"}, (
        trial("XLA_FLAGS", attempt=Attempt(outcome="failed", exit_code=1, error="ModuleNotFoundError: no numpy")),)),
    "late": ("skip", "did not respond", {"XLA_FLAGS": "--xla_dump_to=/tmp/d"}, (
        trial("XLA_FLAGS", attempt=Attempt(outcome="timed_out", seconds=60.0)),)),
    "one of both": ("error", "TF_XLA_FLAGS", BOTH, (
        trial("TF_XLA_FLAGS", UNKNOWN.format("TF_XLA_FLAGS", "--tf_xla_made_up"), attempt=ENDED), trial("XLA_FLAGS"))),
    "one unknown, one late": ("error", "TF_XLA_FLAGS", BOTH, (
        trial("TF_XLA_FLAGS", UNKNOWN.format("TF_XLA_FLAGS", "--tf_xla_made_up"), attempt=ENDED),
        trial("XLA_FLAGS", attempt=Attempt(outcome="timed_out", seconds=60.0)))),
    "nothing set": ("pass", "not set", {}, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_flags(judge: Judge, name: str) -> None:
    """The two checks together: both look at one variable each."""
    expected, words, set_ones, trials = VARIANTS[name]
    given: dict[str, Any] = {"environment": variables(**set_ones), "xla_flags": XlaFlags(trials=trials)}
    checks = (tensorflow_knows_its_flags, xla_knows_its_flags)
    if expected == "pass":
        assert words in "\n".join(judge.passes(check, **given) for check in checks)
    elif expected == "skip":
        assert words in judge.skips(xla_knows_its_flags, **given)
        judge.passes(tensorflow_knows_its_flags, **given)
    else:
        [finding] = [each for check in checks if judge.does_not_object(check, **given) is False
                     for each in judge.findings(check, **given)]  # fmt: skip
        assert (finding.severity, finding.cause) == (expected, LABEL)
        assert finding.fix is not None
        assert words in " ".join((finding.message, *finding.evidence, finding.fix.text))


def test_a_record_from_before_this_fact(judge: Judge) -> None:
    assert "was not asked" in judge.skips(xla_knows_its_flags, environment=variables(XLA_FLAGS="--x"))
