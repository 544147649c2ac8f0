"""PKG: are the packages that the project requires available?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import NOT_FROM_PIP, has_no_cuda_wheel, pip, requirement
from tfgpu_doctor.checks.python.keras import MEANS_ON
from tfgpu_doctor.checks.python.replacement import install_cuda_build
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import needs_of, with_another_python
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment, System
from tfgpu_doctor.model.facts.project import Project
from tfgpu_doctor.model.facts.python import Target, TensorFlow

_GPU_PACKAGE = re.compile(r"tensorflow[-_]gpu(?:\[.*?\])?(.*)", re.IGNORECASE)
_EXACTLY = re.compile(r".*[^<>=!~]\s*={2,3}\s*([\w.]+)\s*")
_LOWER_BOUNDS = ("==", "~=", ">=", ">", "===")


@check(
    "PKG010",
    "the TensorFlow packages that the project requires exist",
    family="Python and packages",
    stage=Stage.PYTHON,
    after=("PKG001",),
    causes=("tensorflow_gpu_package_removed",),
    sources=("https://pypi.org/project/tensorflow-gpu/",),
)
def requirements_exist(project: Project, target: Target, knowledge: Knowledge, system: System | None = None) -> Yielded:
    """The package tensorflow-gpu ended with 2.11. Later versions are empty: they fail during installation, and pip then
    installs no other requirement either.

    Fix: require `tensorflow[and-cuda]` instead, of the same release.
    """
    if not project.requirements:
        raise Skip("no file in the working folder names a TensorFlow package")
    if not target.attempt.answered:
        raise NotMeasured("the packages of the target could not be read")
    if target.is_doctors_own:
        raise Skip("this Python is tfgpu-doctor's own: nothing that the project requires is installed in it")
    first = knowledge.boundaries["tensorflow_gpu_first_empty_release"].value
    last = knowledge.boundaries["tensorflow_gpu_last_release"].value
    empty = [each for each in project.requirements if _asks_for_empty(each.words, first)]
    if empty and not target.tensorflow_file:
        yield Finding(
            f"{empty[0].file} requires {empty[0].words}, which is empty: tensorflow-gpu ended with {last}",
            cause="tensorflow_gpu_package_removed",
            evidence=(*(f"{each.file}: {each.words}" for each in empty), "TensorFlow is not installed"),
            fix=_replace(target, empty[0].words, system, knowledge),
        )
    else:
        yield Evidence(", ".join(dict.fromkeys(each.words for each in project.requirements)))


def _replace(target: Target, words: str, system: System | None, knowledge: Knowledge) -> Fix:
    if has_no_cuda_wheel(system, knowledge):
        return Fix(f"Remove it. {NOT_FROM_PIP}")
    newest = knowledge.tensorflow_releases[-1]
    python = ".".join(target.version.split(".")[:2])
    fitting = [each for each in knowledge.tensorflow_releases if not python or python in each.pythons]
    if not fitting:
        return Fix(
            f"Replace it with `{requirement(system)}`. TensorFlow {newest.version} has no wheel for Python {python}: use another "
            "one, which uv (https://docs.astral.sh/uv) downloads.",
            with_another_python(newest, cuda=system is None or system.os == "Linux"),
        )
    named = next((each for each in fitting if each.version == _named_release(words, knowledge)), None)
    if named is None and fitting[-1].cuda_extra:
        wanted = requirement(system)
        return Fix(f"Replace it with `{wanted}`, and install again.", pip(target, "install", wanted))
    release = named or fitting[-1]
    needs = needs_of(knowledge, release.version, "linux")
    package = requirement(system) if needs and needs.cuda_extra else "tensorflow"
    text = f"Replace it with `{package}=={release.version}`, and install again."
    return install_cuda_build(target, release.version, knowledge, text, system)


def _named_release(words: str, knowledge: Knowledge) -> str:
    """Return the release of TensorFlow that a requirement names: "2.15.1" for "tensorflow-gpu==2.15.1"."""
    found = _EXACTLY.fullmatch(words)
    named = version(found.group(1)) if found else version("0")
    return next((each.version for each in knowledge.tensorflow_releases if version(each.version) == named), "")


def _asks_for_empty(words: str, first: str) -> bool:
    """Return whether pip would select an empty version of tensorflow-gpu: the newest, if the requirement names none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    found = _GPU_PACKAGE.fullmatch(words)
    if not found:
        return False
    try:
        bounds = SpecifierSet(found.group(1))
    except InvalidSpecifier:
        return False
    newer = (each for each in bounds if each.operator in _LOWER_BOUNDS)
    return bounds.contains(first) or any(version(each.version.removesuffix(".*")) >= version(first) for each in newer)


@check(
    "PKG011",
    "the Keras that TF_USE_LEGACY_KERAS requires is installed",
    family="Python and packages",
    stage=Stage.PYTHON,
    after=("PKG002",),
    causes=("keras3_incompatible_code",),
    sources=("https://keras.io/getting_started/",),
)
def legacy_keras_is_installed(
    environment: Environment, target: Target, tensorflow: TensorFlow, knowledge: Knowledge
) -> Yielded:
    """From 2.16 on, tf.keras is Keras 3. TF_USE_LEGACY_KERAS=1 replaces it with Keras 2 from the package tf_keras. Without
    that package, every use of tf.keras raises "Keras cannot be imported".

    Fix: `pip install tf_keras` with the same minor version as TensorFlow, or unset the variable.
    """
    first = knowledge.boundaries["first_release_with_keras_3"].value
    value = environment.get("TF_USE_LEGACY_KERAS") or ""
    if version(tensorflow.version) < version(first):
        raise Skip(f"tf.keras is Keras 2 before {first}")
    if value not in MEANS_ON:
        yield Evidence(f"TF_USE_LEGACY_KERAS is {value or 'not set'}")
    elif found := target.find("tf-keras"):
        yield Evidence(f"TF_USE_LEGACY_KERAS={value}, tf_keras {found.version}")
    else:
        minor = ".".join(tensorflow.version.split(".")[:2])
        yield Finding(
            f"TF_USE_LEGACY_KERAS={value} requires tf_keras, which is not installed: tf.keras cannot be used",
            cause="keras3_incompatible_code",
            severity="warning",
            evidence=(f"{target.prefix} has no distribution tf-keras", f"TensorFlow version: {tensorflow.version}"),
            fix=Fix("Install it, or unset the variable.", pip(target, "install", f"tf_keras~={minor}.0")),
        )
