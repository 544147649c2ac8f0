"""ENV: does this process have the variables that activating its environment sets?"""

from __future__ import annotations

import os
import re

from tfgpu_doctor.checks.commands import prepend_library_path
from tfgpu_doctor.checks.libraries.lost_libraries import LostLibrary, folders_of, lost_libraries
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import Libraries
from tfgpu_doctor.model.facts.python import Runtime, Target
from tfgpu_doctor.model.facts.resolution import Resolution

_VARIABLE = "LD_LIBRARY_PATH"
_ITSELF = re.compile(r"\$\{LD_LIBRARY_PATH[^}]*\}|\$LD_LIBRARY_PATH")
_LISTED = 3


@check(
    "ENV004",
    "this process has the library path that activating its environment sets",
    family="Environment variables",
    stage=Stage.LIBRARIES,
    after=("TFB001", "DRV008", "LIB004", "TFW001"),
    causes=("env_vars_not_inherited_by_ide_or_notebook",),
    sources=(
        "https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html#saving-environment-variables",
    ),
)
def library_path_is_inherited(
    target: Target,
    environment: Environment,
    cuda_libraries: Libraries,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """A line in bin/activate or in conda's activate.d, or what `conda env config vars set` saved, affects only programs
    started from that shell. An IDE or notebook server started from the desktop runs the same Python without it, and does
    not find the CUDA libraries.

    Fix: start it from the activated shell, or set the variable in its run configuration or kernel.json.
    """
    written = target.exports.get(_VARIABLE, "")
    if not written:
        raise Skip(f"activating this environment sets no {_VARIABLE}")
    here = environment.get(_VARIABLE) or ""
    lacking = [folder for folder in _folders(written, target.prefix) if folder not in here.split(":")]
    lost = [each for each in lost_libraries(cuda_libraries, resolution, runtime) if _would_help(each, lacking, here)]
    if lost:
        copies = [path for each in lost for path in (each.pip_copies or each.other_copies)[:1]]
        yield Finding(
            f"activating {target.prefix} sets {_VARIABLE}, but this process does not have the value",
            cause="env_vars_not_inherited_by_ide_or_notebook",
            confidence="medium",
            evidence=(
                f"its activation sets {_VARIABLE}={written}",
                f"{_VARIABLE} in this process is {here or 'not set'}",
                *(each.said for each in lost[:_LISTED]),
            ),
            fix=Fix(
                "Start the IDE or notebook from a shell with the activated environment, or set the variable in its "
                "run configuration or kernel.json.",
                (prepend_library_path(folders_of(copies)),),
            ),
        )
    else:
        yield Evidence(
            "no missing library is in the folders that it would add"
            if lacking
            else f"{_VARIABLE} contains the folders that it adds"
        )


def _folders(written: str, prefix: str) -> list[str]:
    """Return the folders that a shell would expand the value to, as far as known without running its commands."""
    written = _ITSELF.sub(":", written)
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        written = written.replace(f"${{{variable}}}", prefix).replace(f"${variable}", prefix)
    words = [word.strip("\"'").rstrip("/") for word in written.split(":")]
    return [word for word in words if word.startswith("/")]


def _would_help(lost: LostLibrary, lacking: list[str], here: str) -> bool:
    """Return whether a missing library is in one of the folders, or the resulting value is unknown."""
    copies = (*lost.pip_copies, *lost.other_copies)
    known = any(os.path.dirname(path) in lacking for path in copies)
    return not lost.damage and (known or (not lacking and not here and bool(copies)))
