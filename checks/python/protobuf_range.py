"""Which protobuf a TensorFlow accepts, and how to repair one that it rejects although the version is accepted."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tfgpu_doctor.checks.commands import pip, reinstall
from tfgpu_doctor.checks.tensorflow.wheel import is_from_index
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import Requirement, requirements_on
from tfgpu_doctor.model import Fix
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.python import Target, TensorFlow

_IMPLEMENTATION = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
_MADE_FOR = re.compile(r"gencode (\d+(?:\.\d+)+) runtime")
_NO_RUNTIME_VERSION = re.compile(r"cannot import name '?runtime_version")
# Complaints about code for an older protobuf, and the boundary from which on a protobuf complains so.
_OLDER_CODE = (
    (re.compile(r"Descriptors cannot (?:not )?be created directly"), "first_protobuf_that_rejects_older_code"),
    (re.compile(r"'MessageFactory' object has no"), "first_protobuf_without_get_prototype"),
)
_OF_ANOTHER = "TensorFlow requires protobuf{}, so the code belongs to another package, which the traceback names. {}"


@dataclass(frozen=True)
class AcceptedProtobuf:
    """The protobuf versions that work, and where that comes from."""

    requirement: Requirement
    evidence: tuple[str, ...]


def accepted_protobuf(
    target: Target, tensorflow: TensorFlow, knowledge: Knowledge, environment: Environment | None
) -> AcceptedProtobuf | None:
    """Return what TensorFlow's metadata requires, with the upper bound that older releases do not declare."""
    required = requirements_on(target, tensorflow.distribution, "protobuf")
    wanted = next((each for each in required if not each.extra), None)
    if wanted is None:
        return None
    said = (f"Requires-Dist: protobuf{wanted.specifier}",)
    first = knowledge.boundaries["first_release_for_protobuf_4"]
    limit = knowledge.boundaries["first_protobuf_that_rejects_older_code"].value
    in_python = environment is not None and environment.get(_IMPLEMENTATION) == "python"
    is_older = version("0") < version(tensorflow.version) < version(first.value)
    if not is_older or in_python or not wanted.allows(limit) or not is_from_index(target, tensorflow):
        return AcceptedProtobuf(wanted, said)
    bounded = replace(wanted, specifier=f"{wanted.specifier},<{limit}".lstrip(","))
    why = f"TensorFlow before {first.value} fails with protobuf 4; this metadata does not exclude it ({first.source})"
    return AcceptedProtobuf(bounded, (*said, why))


def repair_protobuf(
    target: Target, installed: str, accepted: str, complaint: str, knowledge: Knowledge
) -> tuple[str, Fix]:
    """Return what is wrong with an accepted protobuf version, according to the complaint, and its fix."""
    boundaries = knowledge.boundaries
    first = boundaries["first_protobuf_with_runtime_version"].value
    made_for, needed = "", ""
    if named := _MADE_FOR.search(complaint):
        made_for = named.group(1)  # generated code works with the major version that it was made for
        needed = f">={made_for},<{version(made_for).major + 1}"
    elif _NO_RUNTIME_VERSION.search(complaint):
        made_for, needed = first, f">={first}"
    if needed and not Requirement("protobuf", needed, "").allows(installed):
        return _needs(target, made_for, accepted, needed)
    for pattern, name in _OLDER_CODE:
        limit = boundaries[name].value
        if pattern.search(complaint) and version(installed) >= version(limit):
            return _rejects(target, accepted, limit)
    what = "is damaged, or files of another version are mixed in"
    if version(installed) > version("0"):
        return what, reinstall(target, f"protobuf=={installed}")
    again = pip(target, "install", "--force-reinstall", "--no-deps", f"protobuf{accepted}")
    return what, Fix("Reinstall protobuf.", again)


def _needs(target: Target, made_for: str, accepted: str, needed: str) -> tuple[str, Fix]:
    or_newer = "" if "<" in needed else " or newer"
    what = f"does not fit the generated code that fails, which was made for {made_for}{or_newer}"
    if not Requirement("protobuf", accepted, "").allows(made_for):
        return what, Fix(_OF_ANOTHER.format(accepted, "Move it to a separate environment."))
    return what, Fix(
        "Install the protobuf that the code needs.", pip(target, "install", f"protobuf{accepted},{needed}")
    )


def _rejects(target: Target, accepted: str, limit: str) -> tuple[str, Fix]:
    what = f"rejects older generated code: it needs a protobuf before {limit}"
    lowest = Requirement("protobuf", accepted, "").lowest
    if lowest and version(lowest) >= version(limit):
        return what, Fix(_OF_ANOTHER.format(accepted, "Update it."))
    return what, Fix("Install an older protobuf.", pip(target, "install", f"protobuf{accepted},<{limit}"))
