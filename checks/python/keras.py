"""PKG: does Keras use TensorFlow, and can it write for TensorBoard?"""

from __future__ import annotations

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.keras import Keras
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.project import Project
from tfgpu_doctor.model.facts.python import Distribution, Target, TensorFlow

_VARIABLE, _OURS = "KERAS_BACKEND", "tensorflow"
_NAMES = {
    "jax": "JAX",
    "torch": "PyTorch",
    "numpy": "NumPy",
    "openvino": "OpenVINO",
}  # as Keras spells them, and as people do
MEANS_ON = ("true", "True", "1")  # values of TF_USE_LEGACY_KERAS: tensorflow/python/util/lazy_loader.py
_CONFIG = "https://github.com/keras-team/keras/blob/v3.10.0/keras/src/backend/config.py"
_TENSORBOARDS = ("tensorboard", "tb-nightly")


@check(
    "PKG012",
    "Keras uses TensorFlow",
    family="Python and packages",
    stage=Stage.RUNTIME,
    after=("PKG002",),
    causes=("keras_backend_not_tensorflow",),
    sources=(
        "https://keras.io/getting_started/#configuring-your-backend",
        _CONFIG,
        "https://github.com/keras-team/keras/issues/19423",
        "https://github.com/lvapeab/nmt-keras/issues/68",
    ),
)
def keras_uses_tensorflow(
    target: Target, environment: Environment, knowledge: Knowledge, keras: Keras | None = None
) -> Yielded:
    """Keras 3 trains with the framework that KERAS_BACKEND or keras.json names. With another one than TensorFlow, nothing of
    the model runs in TensorFlow: its GPU stays idle, and TensorFlow's settings of memory and precision have no effect.

    Fix: `export KERAS_BACKEND=tensorflow`, or change "backend" in keras.json.
    """
    found = target.find("keras") or target.find("keras-nightly")
    if not found:
        raise Skip("Keras is not installed")
    if version(found.version).major < version(knowledge.boundaries["first_keras_with_backends"].value).major:
        yield Evidence(f"Keras {found.version} always uses TensorFlow")
        return
    chosen, where = _chosen(environment, keras)
    if keras and keras.error:
        yield Finding(
            f"importing Keras fails: {keras.file} has content that Keras cannot use",
            cause=UNDETERMINED,
            evidence=(f"{keras.file}: {keras.error}",),
            fix=Fix("Rename the file: Keras then writes a new one."),
        )
    elif chosen == _OURS:
        yield Evidence(f"{where}; Keras {found.version}")
    else:
        yield _finding(chosen, where, found, target, environment, keras)


def _chosen(environment: Environment, keras: Keras | None) -> tuple[str, str]:
    """Return the backend that Keras takes, and what names it: the variable if it is not empty, then the file."""
    if value := environment.get(_VARIABLE):
        return value, f"{_VARIABLE}={value}"
    if keras and keras.backend:
        return keras.backend, f'"backend" is "{keras.backend}" in {keras.file}'
    return _OURS, "neither KERAS_BACKEND nor keras.json names a backend"


def _finding(
    chosen: str, where: str, found: Distribution, target: Target, environment: Environment, keras: Keras | None
) -> Finding:
    own_keras = target.find("tf-keras") if environment.get("TF_USE_LEGACY_KERAS") in MEANS_ON else None
    by_variable = bool(environment.get(_VARIABLE))
    message = (
        f"Keras trains with {_NAMES[chosen]}, not with TensorFlow: TensorFlow's GPU stays idle"
        if chosen in _NAMES
        else f"Keras cannot be imported: it has no backend {chosen!r}"
    )
    file = keras.file if keras else "~/.keras/keras.json"
    return Finding(
        message + (" (only for `import keras`; tf.keras is Keras 2)" if own_keras else ""),
        cause="keras_backend_not_tensorflow",
        severity="info" if own_keras else "error",
        evidence=(
            where,
            f"Keras {found.version} is installed, which obeys it",
            *([f"TF_USE_LEGACY_KERAS makes tf.keras the package tf_keras {own_keras.version}"] if own_keras else ()),
        ),
        fix=Fix(
            "Set the variable to tensorflow before Keras is imported."
            if by_variable
            else f'Change "backend" to "tensorflow" in {file}, or override it with the variable.',
            ("export KERAS_BACKEND=tensorflow",),
        ),
    )


@check(
    "PKG013",
    "TensorBoard is installed for what writes to it",
    family="Python and packages",
    stage=Stage.ADVICE,
    after=("PKG002",),
    causes=("tensorboard_not_installed",),
    sources=(
        "https://github.com/tensorflow/tensorflow/pull/110709",
        "https://github.com/keras-team/keras/pull/22376",
        "https://github.com/rstudio/keras3/pull/1540",
    ),
)
def tensorboard_is_installed(
    target: Target, tensorflow: TensorFlow, knowledge: Knowledge, project: Project | None = None
) -> Yielded:
    """From 2.21 on, TensorFlow does not install TensorBoard. The callback keras.callbacks.TensorBoard and tf.summary can be
    used until they first write: after the first epoch, the training ends with TBNotInstalledError.

    Fix: `pip install tensorboard`.
    """
    first = knowledge.boundaries["first_release_without_tensorboard"].value
    if version(tensorflow.version).release < version(first).release:
        raise Skip(f"TensorFlow before {first} requires TensorBoard itself")
    found = next((each for name in _TENSORBOARDS if (each := target.find(name))), None)
    if found:
        yield Evidence(f"{found.name} {found.version}")
        return
    wants = [each for each in (project.requirements if project else ()) if each.words.lower().startswith("tensorboard")]
    yield Finding(
        "TensorBoard is not installed: a training with the TensorBoard callback ends after its first epoch",
        cause="tensorboard_not_installed",
        severity="warning" if wants else "info",
        evidence=(
            f"TensorFlow {tensorflow.version} no longer requires it, and {target.prefix} has no distribution tensorboard",
            *(f"{each.file}: {each.words}" for each in wants[:3]),
        ),
        fix=Fix("Install it, if your programs write for TensorBoard.", pip(target, "install", "tensorboard")),
    )
    yield Evidence("programs that do not write for TensorBoard do not need it")
