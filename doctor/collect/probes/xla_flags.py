"""The flags for XLA in the environment, tried by the TensorFlow that would read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.collect.probes.child import ask
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.facts.xla import FlagTrial, XlaFlags

VARIABLES = ("TF_XLA_FLAGS", "XLA_FLAGS")
# tensorflow/compiler/xla/parse_flags_from_env.cc, tsl/util/command_line_flags.cc; all releases since 1.13
_COMPLAINT = re.compile(
    r"Unknown flags? in (?:TF_)?XLA_FLAGS|Perhaps you meant to specify these on|Could not open file .* to read flags"
    r"|Flag parsing failed|Couldn't interpret value|^usage: --"
)
_WRITES = re.compile(r"--(?:xla_dump_|xla_gpu_dump_|tf_xla_persistent_cache_)")
_PREFIX = re.compile(r"^.*?\b[\w.]+\.(?:cc|h):\d+\] ")
_MOST, _LONGEST = 4, 500


@probe(waits_for="TensorFlow to read its flags", deadline_s=None)
def xla_flags(host: Host, request: Request, target: Target) -> XlaFlags:
    """Let TensorFlow read each variable alone, in a process without a GPU: a flag that it does not know ends the process."""
    set_ones = [name for name in VARIABLES if host.environment.get(name, "").strip()]
    if set_ones and request.quick:
        raise Unavailable("--quick skips TensorFlow itself")
    if set_ones and not target.tensorflow_file:
        raise Unavailable("no TensorFlow was found that could read the flags")
    return XlaFlags(trials=tuple(_trial(host, request, name) for name in set_ones))


def _trial(host: Host, request: Request, name: str) -> FlagTrial:
    variables = {other: "" for other in VARIABLES if other != name}
    variables[name] = without_files(host.environment.get(name, ""))
    attempt, _, lines = ask(
        host, request.python, "read_xla_flags", deadline_s=request.deadline_s / len(VARIABLES),
        variables={**variables, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "0"},
    )  # fmt: skip
    if attempt.answered or not (said := complaints(lines)):
        return FlagTrial(variable=name, attempt=attempt)
    # TensorFlow prints a list of all its flags behind them.
    short = msgspec.structs.replace(attempt, stderr=(), error=said[-1])
    return FlagTrial(variable=name, attempt=short, complaints=said)


def without_files(value: str) -> str:
    """The flags without those that let the process write files; TensorFlow knows these. A name of a file is unchanged."""
    words = value.split()
    return " ".join(word for word in words if not _WRITES.match(word)) if value.lstrip().startswith("--") else value


def complaints(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines about flags, without the prefix of the log."""
    return tuple(_PREFIX.sub("", line)[:_LONGEST].strip() for line in lines if _COMPLAINT.search(line))[:_MOST]
