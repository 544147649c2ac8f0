"""PKG: can what the project asks for be had?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.project import Project
from tfgpu_doctor.model.facts.python import Target, TensorFlow

_GPU_PACKAGE = re.compile(r"tensorflow[-_]gpu(?:\[.*?\])?(.*)", re.IGNORECASE)
_LOWER_BOUNDS = ("==", "~=", ">=", ">", "===")
_MEANS_ON = ("1", "true", "True")  # the three that TensorFlow's lazy_loader.py knows


@check(
    "PKG010",
    "the project asks for packages of TensorFlow that exist",
    stage=Stage.PYTHON,
    after=("PKG001",),
    causes=("tensorflow_gpu_package_removed",),
    sources=("https://pypi.org/project/tensorflow-gpu/",),
)
def requirements_exist(project: Project, target: Target, knowledge: Knowledge) -> Yielded:
    """The package tensorflow-gpu ended with 2.11. Later versions hold nothing, and fail while pip installs them, with all
    that stands beside them in the requirements.

    Fix: ask for `tensorflow[and-cuda]` in its place.
    """
    if not project.requirements:
        raise Skip("no file of the working folder names a package of TensorFlow")
    first = knowledge.boundaries["tensorflow_gpu_first_empty_release"].value
    last = knowledge.boundaries["tensorflow_gpu_last_release"].value
    empty = [each for each in project.requirements if _asks_for_empty(each.words, first)]
    if empty and not target.tensorflow_file:
        yield Finding(
            f"{empty[0].file} asks for {empty[0].words}, which holds nothing: tensorflow-gpu ended with {last}",
            cause="tensorflow_gpu_package_removed",
            evidence=(*(f"{each.file}: {each.words}" for each in empty), "TensorFlow is not installed"),
            fix=Fix(
                "Write `tensorflow[and-cuda]` in its place, and install again.",
                pip(target, "install", "tensorflow[and-cuda]"),
            ),
        )
    else:
        yield Evidence(", ".join(dict.fromkeys(each.words for each in project.requirements)))


def _asks_for_empty(words: str, first: str) -> bool:
    """Whether pip would take a version of tensorflow-gpu that holds nothing: the newest does, where none is named."""
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
    "the Keras that TF_USE_LEGACY_KERAS asks for is installed",
    stage=Stage.PYTHON,
    after=("PKG002",),
    causes=("keras3_incompatible_code",),
    sources=("https://keras.io/getting_started/",),
)
def legacy_keras_is_installed(
    environment: Environment, target: Target, tensorflow: TensorFlow, knowledge: Knowledge
) -> Yielded:
    """From 2.16 on tf.keras is Keras 3. TF_USE_LEGACY_KERAS=1 puts Keras 2 in its place, from the package tf_keras;
    without that package every use of tf.keras raises "Keras cannot be imported".

    Fix: `pip install tf_keras` of TensorFlow's own minor version, or unset the variable.
    """
    first = knowledge.boundaries["first_release_with_keras_3"].value
    value = environment.get("TF_USE_LEGACY_KERAS") or ""
    if version(tensorflow.version) < version(first):
        raise Skip(f"tf.keras is Keras 2 before {first}")
    if value not in _MEANS_ON:
        yield Evidence(f"TF_USE_LEGACY_KERAS is {value or 'not set'}")
    elif found := target.find("tf-keras"):
        yield Evidence(f"TF_USE_LEGACY_KERAS={value}, tf_keras {found.version}")
    else:
        minor = ".".join(tensorflow.version.split(".")[:2])
        yield Finding(
            f"TF_USE_LEGACY_KERAS={value} asks for tf_keras, which is not installed: tf.keras cannot be used",
            cause="keras3_incompatible_code",
            severity="warning",
            evidence=(f"no distribution tf-keras in {target.prefix}", f"TensorFlow is {tensorflow.version}"),
            fix=Fix("Install it, or unset the variable.", pip(target, "install", f"tf_keras~={minor}.0")),
        )
