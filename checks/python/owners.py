"""Which distributions own the package tensorflow: that of the folder it is imported from, or files that are gone."""

from __future__ import annotations

import os

from tfgpu_doctor.checks.commands import NOT_FROM_PIP, reinstall
from tfgpu_doctor.checks.python.import_order import searched_for
from tfgpu_doctor.checks.python.replacement import replace_with_cuda_build
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Finding, Fix
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Distribution, Target

CPU_ONLY = ("tensorflow-cpu", "intel-tensorflow", "tensorflow-intel", "tf-nightly-cpu", "tensorflow-cpu-aws")


def owners_of(target: Target) -> list[Distribution]:
    """Return the distributions that list tensorflow/__init__.py among their files."""
    return [each for each in target.distributions if each.name in target.tensorflow_owners]


def owners_of_the_imported(target: Target) -> tuple[dict[str, str], list[Distribution]]:
    """Return the owners in the folder from which tensorflow is imported, name to version, and those in other folders.

    Where it is imported from a folder of nobody's, that of the owner which comes first on the search path counts. One and the
    same release in another folder is the same installation by a link (lib64), or one without a difference.
    """
    listed = owners_of(target)
    imported = os.path.normpath(searched_for(target.tensorflow_file))
    folders = [os.path.normpath(each.folder) for each in listed]
    folder = imported if imported in folders or not folders else folders[0]
    there = {each.name: each.version for each in listed if os.path.normpath(each.folder) == folder}
    unlisted = {each.name for each in listed} - there.keys()
    owners = {name: there.get(name, "") for name in target.tensorflow_owners if name not in unlisted}
    others = [each for each in listed if os.path.normpath(each.folder) != folder]
    return owners, [each for each in others if there.get(each.name) != each.version]


def files_are_missing(lost: Distribution, active: str, fix: Fix) -> Finding:
    """Return the finding that a distribution is there but its package is not."""
    return Finding(
        f"{lost.name} {lost.version} is listed as installed in {lost.folder}, but its package tensorflow is missing there",
        cause="wrong_python_environment",
        evidence=(
            "its RECORD lists tensorflow/__init__.py, and no folder of the search path has that file; removing another "
            "package of TensorFlow (`pip uninstall tensorflow-cpu`) removes it too",
            *([f"another environment is active: {active}"] if active else ()),
        ),
        fix=fix,
    )


def bring_back(
    target: Target,
    lost: list[Distribution],
    knowledge: Knowledge,
    system: System | None,
    cuda_driver: CudaDriver | None,
    *,
    by_nvidia: bool,
) -> Fix:
    """Return the fix that installs the lost package again, or a build with CUDA if it was one without, or two."""
    versions = {each.name: each.version for each in reversed(lost)}
    if by_nvidia:
        return Fix(f"Install it again. {NOT_FROM_PIP}")
    if target.rejects_pip:
        return Fix(
            "Install it again with what installed it, or create a virtual environment for it (`python3 -m venv`)."
        )
    if len(versions) > 1 or set(versions) & set(CPU_ONLY):
        return replace_with_cuda_build(target, versions, knowledge, "Install it again.", system, cuda_driver)
    return reinstall(target, f"{lost[0].name}=={lost[0].version}" if lost[0].version else lost[0].name)
