"""PKG: does Python import the environment's own packages, and no other files of their names?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfgpu_doctor.checks.copies import evidence_of, in_place_of, repair
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.python import Runtime, Target

_RELEVANT = ("tensorflow", "tf-nightly", "keras", "numpy", "protobuf", "nvidia-")
_LABELS = {"working folder": "local_module_shadows_tensorflow", "user site": "user_site_shadowing"}


@check(
    "PKG004",
    "no local file hides TensorFlow or a module that it imports",
    family="Python and packages",
    stage=Stage.PYTHON,
    after=("PKG001",),
    causes=("local_module_shadows_tensorflow", "library_shadowed"),
    sources=("https://docs.python.org/3/library/sys_path_init.html",),
)
def no_local_file_hides_modules(target: Target, runtime: Runtime | None = None) -> Yielded:
    """Python searches the program's folder first, so a tensorflow.py or inspect.py there is imported instead of the real
    module. A folder on PYTHONPATH also comes before the installed packages.

    Fix: rename the file, and remove the __pycache__ folder next to it; or take its folder out of PYTHONPATH.
    """
    file = target.tensorflow_file
    copy = _blamed_copy(runtime)
    if found := _in_working_folder(target, runtime, copy) or _another_tensorflow(target, runtime):
        yield found
    elif copy and copy.placed_by != "user site":
        yield _shadowing(copy, runtime)
    else:
        yield Evidence(f"`import tensorflow` runs {file}" if file else "no such file found")


def _in_working_folder(target: Target, runtime: Runtime | None, copy: Copy | None) -> Finding | None:
    """Return the finding for a module named tensorflow, or, if no copy is known to be blamed, one in the traceback."""
    here, file = target.working_folder, target.tensorflow_file
    # A working folder that is itself on the search path (site-packages, for example) hides nothing.
    is_ones_own = bool(here) and here not in target.search_path and not _is_inside(here, target.search_path)
    hides = is_ones_own and here in (os.path.dirname(file), os.path.dirname(os.path.dirname(file)))
    traceback = "\n".join(runtime.import_traceback) if runtime else ""
    blamed = [path for path in target.local_modules if is_ones_own and path in traceback and not copy]
    if not hides and not blamed:
        return None
    path = file if hides else blamed[0]
    return Finding(
        f"{path} is imported instead of the library of that name",
        cause="local_module_shadows_tensorflow",
        evidence=(
            f"it is in the working folder {here}, which Python searches first",
            *([runtime.import_error] if runtime and runtime.import_error else ()),
        ),
        fix=Fix(f"Rename {path}, or start Python in another folder."),
    )


def _another_tensorflow(target: Target, runtime: Runtime | None) -> Finding | None:
    """Return the finding for a tensorflow of no package that is imported instead of an installed one, and fails."""
    file = target.tensorflow_file
    hidden = _hidden_tensorflow(target) if _error(runtime) else ""
    if not hidden:
        return None
    folder = searched_for(file)
    return Finding(
        f"{file} is imported instead of the TensorFlow in {hidden}",
        cause="local_module_shadows_tensorflow",
        evidence=(f"it belongs to no installed package, and Python searches {folder} first", _error(runtime)),
        fix=Fix(f"Rename {file}, or remove {folder} from Python's search path (PYTHONPATH or a .pth file)."),
    )


def _blamed_copy(runtime: Runtime | None) -> Copy | None:
    """Return the copy of a module that the failed import is about; None if it is about none.

    A package that is installed as a whole, and that the exception does not name, may have been used in vain by the culprit.
    """
    copies = runtime.copies if runtime and _error(runtime) else ()
    return next((each for each in copies if each.named or not each.owner), None)


def _error(runtime: Runtime | None) -> str:
    """Return why TensorFlow could not be imported, or why what was imported under its name is none."""
    return (runtime.import_error or ("" if runtime.version else runtime.use_error)) if runtime else ""


def _shadowing(copy: Copy, runtime: Runtime | None) -> Finding:
    """Return the finding that names the copy of a module which is imported in place of the package's own."""
    error = _error(runtime)
    return Finding(
        f"`import {copy.name}` runs {copy.path} instead of {in_place_of(copy)}, and importing TensorFlow fails with it",
        cause=_LABELS.get(copy.placed_by, "library_shadowed"),
        confidence="high" if copy.path in error or copy.name.split(".")[-1] in error or not copy.owner else "medium",
        evidence=(error[:300], *evidence_of(copy)),
        fix=repair(copy),
    )


def _hidden_tensorflow(target: Target) -> str:
    """Return the folder of an installed TensorFlow that is not the imported one; empty if there is none."""
    here = searched_for(target.tensorflow_file)
    if not target.tensorflow_file or any(
        found.folder == here and found.name.startswith(("tensorflow", "tf-nightly", "intel-tensorflow"))
        for found in target.distributions
    ):
        return ""  # installed there, although without a list of its files
    owning = [found.folder for found in target.distributions if found.name in target.tensorflow_owners]
    return owning[0] if owning and here not in owning else ""


def searched_for(file: str) -> str:
    """Return the folder of the search path in which a module was found."""
    folder, name = os.path.split(file)
    return os.path.dirname(folder) if name == "__init__.py" else folder


def _is_inside(folder: str, others: Sequence[str]) -> bool:
    """Return whether a folder is below one of the others that is a site-packages folder."""
    sites = [other for other in others if other.rstrip("/").endswith(("site-packages", "dist-packages"))]
    return any(folder.startswith(site.rstrip("/") + "/") for site in sites)


@check(
    "PKG005",
    "packages in the user site do not hide those of the environment",
    family="Python and packages",
    stage=Stage.PYTHON,
    after=("PKG002",),
    causes=("user_site_shadowing",),
    sources=("https://docs.python.org/3/library/site.html#site.ENABLE_USER_SITE",),
)
def user_site_hides_nothing(target: Target, runtime: Runtime | None = None) -> Yielded:
    """Packages under ~/.local come before those of a conda environment or a container, and are easy to overlook.

    Fix: `export PYTHONNOUSERSITE=1`, or uninstall them from the user site.
    """
    if not target.user_site:
        raise Skip("the user site is disabled")
    if (copy := _blamed_copy(runtime)) and copy.placed_by == "user site":
        yield _shadowing(copy, runtime)
        return
    if target.tensorflow_file.startswith(target.user_site):
        yield Evidence(f"TensorFlow itself is in the user site {target.user_site}")
        return
    mine = {found.name: found for found in target.distributions if found.folder == target.user_site}
    twice = [found for found in target.distributions if found.folder != target.user_site and found.name in mine]
    hidden = [
        f"{each.name} {mine[each.name].version} hides {each.version}"
        for each in twice
        if each.version != mine[each.name].version
    ]
    telling = [line for line in hidden if line.startswith(_RELEVANT)]
    if telling and not (runtime and runtime.gpus):
        yield Finding(
            f"the user site {target.user_site} hides packages in the environment: {telling[0]}",
            cause="user_site_shadowing",
            severity="error" if runtime and runtime.import_error else "warning",
            evidence=tuple(telling),
            fix=Fix("Disable the user site.", ("export PYTHONNOUSERSITE=1",)),
        )
    else:
        differ = "differs" if len(hidden) == 1 else "differ"
        yield Evidence(
            f"{amount(len(hidden), 'package')} in the user site {differ} from the environment's; none causes a problem"
        )
