"""PKG012, PKG013: which framework Keras uses, and whether it can write for TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import packages, variables
from healthy import runtime

from tfgpu_doctor.checks.python.keras import keras_uses_tensorflow, tensorboard_is_installed
from tfgpu_doctor.model import Evidence
from tfgpu_doctor.model.facts.keras import Keras
from tfgpu_doctor.model.facts.project import Project, ProjectRequirement

if TYPE_CHECKING:
    from checks.conftest import Judge

FILE = "/home/user/.keras/keras.json"
LABEL = "keras_backend_not_tensorflow"
KERAS_3 = ("keras", "3.10.0")
LEGACY = ("tf-keras", "2.20.1")
NONE = Keras(file=FILE)


def says(backend: str, file: str = FILE) -> Keras:
    return Keras(file=file, exists=True, backend=backend)


def with_keras(*changed: tuple[str, str], tensorflow: str = "2.20.0", without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The sections of a machine with other packages."""
    target = packages(*changed, ("tensorflow", tensorflow), without=without)
    return {"target": target, "tensorflow": {"version": tensorflow}, "runtime": runtime(version=tensorflow)}


NO_KERAS = {"target": packages(without=("keras",))}
NIGHTLY = {"target": packages(("keras-nightly", "3.16.0.dev2026110103"), without=("keras",))}
OLD = with_keras(("keras", "2.15.0"), tensorflow="2.15.1")
OLD_WITH_KERAS_3 = with_keras(KERAS_3, tensorflow="2.15.1")
WITH_LEGACY = with_keras(KERAS_3, LEGACY)

# What each machine must get: a severity, "pass" or "skip". Written down before the rule.
VARIANTS: dict[str, tuple[str, dict[str, str], Keras, dict[str, Any]]] = {
    "variable names jax": ("error", {"KERAS_BACKEND": "jax"}, NONE, {}),
    "file names torch": ("error", {}, says("torch"), {}),
    "variable overrides the file": ("pass", {"KERAS_BACKEND": "tensorflow"}, says("jax"), {}),
    "variable overrides the file, to the worse": ("error", {"KERAS_BACKEND": "torch"}, says("tensorflow"), {}),
    "misspelt": ("error", {"KERAS_BACKEND": "tenserflow"}, NONE, {}),
    "capital letters": ("error", {"KERAS_BACKEND": "TensorFlow"}, NONE, {}),
    "empty variable leaves the file": ("error", {"KERAS_BACKEND": ""}, says("torch"), {}),
    "Keras 2 has no other backend": ("pass", {"KERAS_BACKEND": "jax"}, says("theano"), OLD),
    "legacy Keras for tf.keras": ("info", {"KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "1"}, NONE, WITH_LEGACY),
    "legacy Keras, its package missing": ("error", {"KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "1"}, NONE, {}),
    "legacy package, not switched on": ("error", {"KERAS_BACKEND": "torch"}, NONE, WITH_LEGACY),
    "legacy switch with a value that is off": ("error", {"KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "0"}, NONE, WITH_LEGACY),
    "no Keras": ("skip", {"KERAS_BACKEND": "jax"}, NONE, NO_KERAS),
    "nightly Keras": ("error", {"KERAS_BACKEND": "jax"}, NONE, NIGHTLY),
    "Keras 3 beside TensorFlow 2.15": ("error", {"KERAS_BACKEND": "jax"}, NONE, OLD_WITH_KERAS_3),
    "file that is not JSON": ("pass", {}, Keras(file=FILE, exists=True), {}),
    "file without a backend": ("pass", {}, says(""), {}),
    "file that is a list": ("error", {}, Keras(file=FILE, exists=True, error="it is no JSON object"), {}),
    "file of KERAS_HOME": ("error", {"KERAS_HOME": "/k"}, says("jax", "/k/keras.json"), {}),
    "numpy cannot train": ("error", {"KERAS_BACKEND": "numpy"}, NONE, {}),
    "nothing set": ("pass", {}, NONE, {}),
    "theano in an old file": ("error", {}, says("theano"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_which_framework_keras_uses(judge: Judge, name: str) -> None:
    expected, set_ones, file, sections = VARIANTS[name]
    given = {"environment": variables(**set_ones), "keras": file, **sections}
    if expected == "pass":
        judge.passes(keras_uses_tensorflow, **given)
    elif expected == "skip":
        judge.skips(keras_uses_tensorflow, **given)
    else:
        finding = judge.finding(keras_uses_tensorflow, **given)
        assert finding.severity == expected
        assert finding.cause == ("undetermined" if file.error else LABEL)


def test_the_finding_says_what_was_found_and_where(judge: Judge) -> None:
    by_variable = judge.finding(keras_uses_tensorflow, environment=variables(KERAS_BACKEND="jax"), keras=NONE)
    assert "Keras trains with JAX" in by_variable.message
    assert by_variable.fix is not None
    assert by_variable.fix.commands == ("export KERAS_BACKEND=tensorflow",)
    by_file = judge.finding(keras_uses_tensorflow, keras=says("torch"))
    assert FILE in " ".join(by_file.evidence)
    misspelt = judge.finding(keras_uses_tensorflow, environment=variables(KERAS_BACKEND="Tensorflow"), keras=NONE)
    assert "cannot be imported" in misspelt.message


def test_the_fix_is_where_the_backend_is_named(judge: Judge) -> None:
    by_variable = judge.finding(keras_uses_tensorflow, environment=variables(KERAS_BACKEND="jax"), keras=says("torch"))
    assert by_variable.fix and by_variable.fix.text == "Set the variable to tensorflow before Keras is imported."
    by_file = judge.finding(keras_uses_tensorflow, keras=says("torch", "/k/keras.json"))
    assert by_file.fix
    assert by_file.fix.text == 'Change "backend" to "tensorflow" in /k/keras.json, or override it with the variable.'


def test_a_record_from_before_this_fact(judge: Judge) -> None:
    assert judge.finding(keras_uses_tensorflow, environment=variables(KERAS_BACKEND="jax")).cause == LABEL
    judge.passes(keras_uses_tensorflow)


# PKG013

WANTS = Project(requirements=(ProjectRequirement(file="/p/requirements.txt", words="tensorboard>=2.19"),))
BOARDS: dict[str, tuple[str, dict[str, Any]]] = {
    "2.21 without": ("info", with_keras(tensorflow="2.21.0")),
    "2.21 with": ("pass", with_keras(("tensorboard", "2.20.0"), tensorflow="2.21.0")),
    "2.21 with the nightly": ("pass", with_keras(("tb-nightly", "2.21.0a20260301"), tensorflow="2.21.0")),
    "2.22 nightly without": ("info", with_keras(tensorflow="2.22.0.dev20261101")),
    "2.20 requires it": ("skip", with_keras(tensorflow="2.20.0")),
    "2.15": ("skip", OLD),
    "the project asks for it": ("warning", {**with_keras(tensorflow="2.21.0"), "project": WANTS}),
    "the project asks, and has it": ("pass", {**with_keras(("tensorboard", "2.20.0"), tensorflow="2.21.0"), "project": WANTS}),
}  # fmt: skip


@pytest.mark.parametrize("name", BOARDS)
def test_whether_tensorboard_is_there(judge: Judge, name: str) -> None:
    expected, sections = BOARDS[name]
    if expected == "pass":
        judge.passes(tensorboard_is_installed, **sections)
    elif expected == "skip":
        judge.skips(tensorboard_is_installed, **sections)
    else:
        finding = judge.finding(tensorboard_is_installed, **sections)
        assert (finding.severity, finding.cause) == (expected, "tensorboard_not_installed")
        assert finding.fix is not None
        assert finding.fix.commands == ("/home/user/venv/bin/python -m pip install tensorboard",)


def test_where_tensorboard_is_only_mentioned_the_report_says_why_that_is_no_fault(judge: Judge) -> None:
    yielded = judge(tensorboard_is_installed, **BOARDS["2.21 without"][1])
    assert [each.text for each in yielded if isinstance(each, Evidence)] == [
        "programs that do not write for TensorBoard do not need it"
    ]
