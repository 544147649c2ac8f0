"""ENV: does this TensorFlow know the flags in TF_XLA_FLAGS and XLA_FLAGS?"""

from __future__ import annotations

import re

from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.xla import FlagTrial, XlaFlags

_UNKNOWN = re.compile(r"Unknown flags? in \w+: (.+)")
_VALUE = re.compile(r"Couldn't interpret value (.*) for flag (\w+)|^usage: (--.+)")
_FILE = re.compile(r'Could not open file "([^"]*)" to read flags')
_WHOSE = {"XLA_FLAGS": "--xla_", "TF_XLA_FLAGS": "--tf_"}


_SOURCES = (
    "https://github.com/openxla/xla/blob/main/xla/parse_flags_from_env.cc",
    "https://github.com/tensorflow/tensorflow/issues/76717",
    "https://github.com/google-research/proteinfer/issues/87",
    "https://github.com/tensorflow/tensorflow/issues/36247",
)


@check(
    "ENV005",
    "TensorFlow knows the flags in TF_XLA_FLAGS",
    family="Environment variables",
    stage=Stage.LIBRARIES,
    after=("PKG002", "TFW001"),
    causes=("unknown_flag_in_environment",),
    sources=_SOURCES,
)
def tensorflow_knows_its_flags(environment: Environment | None = None, xla_flags: XlaFlags | None = None) -> Yielded:
    """TensorFlow reads TF_XLA_FLAGS when it lists the devices; a flag that this release does not know, or a value that it
    cannot interpret, ends the process. The doctor lets this TensorFlow read the variable in a process without a GPU.

    Fix: remove the flag; flags that begin with --xla_ belong into XLA_FLAGS.
    """
    yield from _judge("TF_XLA_FLAGS", environment, xla_flags)


@check(
    "ENV007",
    "XLA knows the flags in XLA_FLAGS",
    family="Environment variables",
    stage=Stage.RUNTIME,
    after=("PKG002", "TFW001"),
    causes=("unknown_flag_in_environment",),
    sources=_SOURCES,
)
def xla_knows_its_flags(environment: Environment | None = None, xla_flags: XlaFlags | None = None) -> Yielded:
    """XLA's flags change with every release. A flag that it does not know ends the process, but only when the first function
    is compiled, so that TensorFlow works until then. The doctor lets this TensorFlow compile a function for the CPU.

    Fix: remove the flag; https://openxla.org/xla/flags_guidance lists those of the current XLA.
    """
    yield from _judge("XLA_FLAGS", environment, xla_flags)


def _judge(variable: str, environment: Environment | None, xla_flags: XlaFlags | None) -> Yielded:
    if environment is None:
        raise NotMeasured("the environment is not known")
    if not (environment.get(variable) or "").strip():
        yield Evidence(f"{variable} is not set")
        return
    trial = next((each for each in (xla_flags.trials if xla_flags else ()) if each.variable == variable), None)
    if trial is None:
        raise Skip(f"TensorFlow was not asked to read {variable}")
    if trial.complaints:
        yield _finding(trial, environment.get(variable) or "")
    elif trial.attempt.answered:
        yield Evidence(f"TensorFlow read {variable}, and compiled a function")
    else:
        raise NotMeasured(f"the process that reads {variable} {trial.attempt.ending}")


def _finding(trial: FlagTrial, value: str) -> Finding:
    when = (
        "TensorFlow lists its devices" if trial.variable == "TF_XLA_FLAGS" else "a function is first compiled with XLA"
    )
    said = "\n".join(trial.complaints)
    unknown, file, wrong = _UNKNOWN.search(said), _FILE.search(said), _VALUE.search(said)
    other = next(name for name in _WHOSE if name != trial.variable)
    fix = f"Remove it from {trial.variable}."
    if unknown:
        what = f"{trial.variable} has a flag that this TensorFlow does not know: {unknown.group(1)}"
        if unknown.group(1).startswith(_WHOSE[other]):
            fix = f"Put it into {other} instead of {trial.variable}, or remove it."
    elif file:
        what = f"{trial.variable} does not begin with --, so it names a file with flags, but {file.group(1)} cannot be opened"
        fix = f"Begin every flag in {trial.variable} with --, or name a file that exists."
    else:
        named = (wrong.group(2) or wrong.group(3) or "") if wrong else ""
        what = f"{trial.variable} has a value that this TensorFlow cannot interpret" + (f": {named}" if named else "")
        fix = f"Correct the value in {trial.variable}, or remove the flag."
    return Finding(
        f"{what}; the process ends when {when}",
        cause="unknown_flag_in_environment",
        evidence=(f"{trial.variable}={value}", *(f"TensorFlow: {line}" for line in trial.complaints)),
        fix=Fix(fix, (f"unset {trial.variable}",)),
    )
