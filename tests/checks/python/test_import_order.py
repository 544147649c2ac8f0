"""PKG: modules in the place of an installed package's, by who put them there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import failed_import
from built_shadowed import built
from healthy import runtime, target

from tfgpu_doctor.checks.python.import_order import no_local_file_hides_modules, user_site_hides_nothing
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

MACHINES = built()


def failed(error: str, **changes: Any) -> Runtime:
    """A failed import that ended in a copy of six."""
    copy = Copy(
        **{"name": "six", "path": "/opt/x/six.py", "placed_by": "PYTHONPATH", "instead": "/site/six.py", **changes}
    )
    return msgspec.structs.replace(failed_import(error), copies=(copy,))


def test_a_module_on_pythonpath_is_named_with_what_put_it_there(judge: Judge) -> None:
    finding = judge.finding(no_local_file_hides_modules, MACHINES["typing-extensions-on-pythonpath"])
    assert finding.cause == "library_shadowed"
    assert finding.message == (
        "`import typing_extensions` runs /home/user/lib/typing_extensions.py instead of the copy of typing_extensions 4.12.2, "
        "and importing TensorFlow fails with it"
    )
    assert finding.confidence == "high"
    assert "entry 1 of PYTHONPATH: /home/user/lib" in finding.evidence[1]
    assert finding.fix
    assert finding.fix.commands == ("unset PYTHONPATH",)


@pytest.mark.parametrize(
    ("machine", "label", "words"),
    [
        ("older-protobuf-by-pth-file", "library_shadowed", "company.pth, line 1"),
        ("six-in-working-folder", "local_module_shadows_tensorflow", "the working folder /home/user/project"),
        ("user-site-hides-typing-extensions", "user_site_shadowing", "the user site /home/user/.local"),
    ],
)
def test_the_label_follows_from_who_put_it_there(machine: str, label: str, words: str) -> None:
    (cause,) = diagnose(MACHINES[machine]).causes
    assert cause.label == label
    assert words in " ".join(cause.evidence)
    assert {"PKG006", "PKG007", "TFW001"} <= set(cause.explains)


def test_the_user_site_is_its_own_checks_matter(judge: Judge) -> None:
    machine = MACHINES["user-site-hides-typing-extensions"]
    assert judge.does_not_object(no_local_file_hides_modules, machine)
    finding = judge.finding(user_site_hides_nothing, machine)
    assert finding.fix
    assert finding.fix.commands == ("export PYTHONNOUSERSITE=1",)


def test_a_package_that_is_merely_on_the_way_is_not_blamed(judge: Judge) -> None:
    run = failed("ImportError: libfoo.so.1: cannot open shared object file", named=False, owner="six 1.16.0")
    assert judge.does_not_object(no_local_file_hides_modules, runtime=run)


def test_a_file_of_no_package_on_the_way_is_blamed(judge: Judge) -> None:
    finding = judge.finding(no_local_file_hides_modules, runtime=failed("ValueError: 3", named=False))
    assert finding.message.startswith("`import six` runs /opt/x/six.py instead of /site/six.py")


def test_an_installed_package_that_the_exception_does_not_name_is_a_guess(judge: Judge) -> None:
    finding = judge.finding(no_local_file_hides_modules, runtime=failed("ValueError: 3", owner="six 1.9.0"))
    assert finding.confidence == "medium"


def test_a_tensorflow_that_imports_is_not_judged_by_its_copies(judge: Judge) -> None:
    run = msgspec.structs.replace(failed("x"), import_error="", version="2.20.0", use_error="RuntimeError: no")
    assert judge.does_not_object(no_local_file_hides_modules, runtime=run)


def test_a_module_named_tensorflow_that_is_none_is_named(judge: Judge) -> None:
    """It can be imported; only its use shows what it is."""
    file = "/opt/x/tensorflow.py"
    error = "AttributeError: module 'tensorflow' has no attribute '__version__'"
    run = Runtime(attempt=Attempt(outcome="answered", seconds=0.1, exit_code=0), use_error=error)
    finding = judge.finding(no_local_file_hides_modules, target=target(tensorflow_file=file), runtime=run)
    assert finding.cause == "local_module_shadows_tensorflow"
    assert finding.message.startswith(f"{file} is imported instead of the TensorFlow in ")
    assert judge.does_not_object(no_local_file_hides_modules, runtime=runtime())
