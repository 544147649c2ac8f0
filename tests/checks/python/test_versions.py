"""PKG: versions of the packages that TensorFlow builds on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import failed_import, packages
from healthy import distribution, runtime, target
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.checks.python.versions import numpy_fits, nvidia_wheels_fit, protobuf_fits
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.python import Runtime, Target

if TYPE_CHECKING:
    from checks.conftest import Judge

PYTHON = "/home/user/venv/bin/python"
JANES = "/home/jane doe/venv/bin/python"
UNUSED = runtime(gpus=(), computations=())
ABI = "AttributeError: _ARRAY_API not found"
DESCRIPTORS = "TypeError: Descriptors cannot be created directly."


# PKG006


@pytest.mark.parametrize(
    ("numpy", "tensorflow"),
    [
        ("2.1.3", "2.18.0"),
        ("2.1.3", "2.20.0"),
        ("3.0.0", "2.20.0"),
        ("1.26.4", "2.20.0"),
        ("1.26.4", "2.15.1"),
        ("2.1.3", "2.18.0.dev20240901"),
        ("2.1.3", "2.18.0rc0"),
        ("2.1.3", "3.0.0"),
        ("2.1.3", "2.18.0+nv24.11"),
    ],
)
@pytest.mark.parametrize("run", [None, failed_import("ImportError: something else")])
def test_a_numpy_that_fits_passes(judge: Judge, numpy: str, tensorflow: str, run: Runtime | None) -> None:
    there = packages(("numpy", numpy), ("tensorflow", tensorflow))
    evidence = judge.passes(numpy_fits, target=there, tensorflow={"version": tensorflow}, runtime=run)
    assert evidence == f"NumPy {numpy} with TensorFlow {tensorflow}"


@pytest.mark.parametrize("numpy", ["2.0.0", "2.0.0rc1", "2.1.3", "3.0.0"])
@pytest.mark.parametrize("tensorflow", ["2.17.1", "2.15.1", "1.15.5"])
@pytest.mark.parametrize("run", [None, failed_import(ABI), failed_import("ImportError: odd")])
def test_numpy_2_does_not_fit_a_build_for_numpy_1(
    judge: Judge, numpy: str, tensorflow: str, run: Runtime | None
) -> None:
    there = packages(("numpy", numpy))
    finding = judge.finding(numpy_fits, target=there, tensorflow={"version": tensorflow}, runtime=run)
    assert (finding.cause, finding.severity) == ("numpy_abi_mismatch", "error")
    assert (
        finding.message == f"NumPy {numpy} is not compatible with TensorFlow {tensorflow}, which was built for NumPy 1"
    )
    assert finding.evidence[-1] == "TensorFlow 2.18 and newer is built for NumPy 2"
    assert (ABI in finding.evidence) == (run is not None and run.import_error == ABI)
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'numpy<2'",)


@pytest.mark.parametrize(
    "complaint",
    [
        ABI,
        "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.1.3 as it may crash.",
        "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header",
        "ImportError: numpy.core.umath failed to import",
        "ImportError: numpy.core.multiarray failed to import",
        "ImportError: numpy._core.multiarray failed to import",
        "RuntimeError: module compiled against API version 0xe but this version of numpy is 0xd",
        "RuntimeError: module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000",
        "ValueError: numpy.ndarray size changed, may indicate binary incompatibility. Expected 88 from C header",
    ],
)
@pytest.mark.parametrize("where", ["error", "traceback", "log"])
def test_the_imports_own_complaint_counts(judge: Judge, complaint: str, where: str) -> None:
    run = failed_import(
        complaint if where == "error" else "ImportError: odd", *([f"  {complaint}"] if where == "traceback" else [])
    )
    if where == "log":
        run = msgspec.structs.replace(run, log=(complaint,))
    finding = judge.finding(numpy_fits, runtime=run)
    assert finding.cause == "numpy_abi_mismatch"
    assert (
        finding.message
        == "NumPy 2.1.3 is not compatible with TensorFlow 2.20.0, which was built for a different version"
    )
    assert finding.evidence[0] == complaint
    assert finding.fix
    assert finding.fix.commands == (f"{PYTHON} -m pip install --force-reinstall --no-deps numpy==2.1.3",)


SITE = "/home/user/venv/lib/python3.12/site-packages"
RESIZED = "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject"
BY_PANDAS = (  # https://github.com/tensorflow/tensorflow/issues/98406
    f'  File "{SITE}/tensorflow/python/keras/engine/data_adapter.py", line 65, in <module>',
    f'  File "{SITE}/pandas/_libs/__init__.py", line 18, in <module>',
    '  File "pandas/_libs/interval.pyx", line 1, in init pandas._libs.interval',
)


@pytest.mark.parametrize("changed", ["dtype", "ndarray"])
@pytest.mark.parametrize("separator", ["/", "\\"])
def test_a_package_that_was_built_for_another_numpy_is_named(judge: Judge, changed: str, separator: str) -> None:
    error = RESIZED.replace("dtype", changed)
    run = failed_import(error, *(line.replace("/", separator) for line in BY_PANDAS))
    there = packages(("numpy", "1.23.5"), ("pandas", "2.1.4"))
    finding = judge.finding(numpy_fits, target=there, tensorflow={"version": "2.12.0"}, runtime=run)
    assert (finding.cause, finding.severity, finding.confidence) == ("numpy_abi_mismatch", "error", "medium")
    assert finding.message == "pandas 2.1.4 was built for a NumPy other than the installed 1.23.5"
    assert finding.evidence[0] == error
    assert "built for NumPy 2" not in str(finding.evidence)
    assert finding.fix and finding.fix.commands == (
        f"{PYTHON} -m pip install --upgrade --force-reinstall pandas numpy==1.23.5",
    )


def test_a_module_of_an_unknown_package_is_named_without_a_command(judge: Judge) -> None:
    run = failed_import(RESIZED, f'  File "{SITE}/cv2/__init__.py", line 181, in <module>')
    finding = judge.finding(numpy_fits, runtime=run)
    assert finding.message == "cv2 was built for a NumPy other than the installed 2.1.3"
    assert finding.fix and finding.fix.commands == ()


@pytest.mark.parametrize(
    "last",
    [f"{SITE}/numpy/core/__init__.py", f"{SITE}/tensorflow/__init__.py", f"{SITE}/ml_dtypes/__init__.py", "/p/a.py"],
)
def test_tensorflows_own_modules_are_not_named(judge: Judge, last: str) -> None:
    run = failed_import(RESIZED, f'  File "{last}", line 1, in <module>')
    assert judge.finding(numpy_fits, runtime=run).message.startswith("NumPy 2.1.3 is not compatible with TensorFlow")


def test_a_traceback_of_another_error_names_no_package(judge: Judge) -> None:
    run = msgspec.structs.replace(failed_import("ImportError: odd", *BY_PANDAS), log=(RESIZED,))
    assert judge.finding(numpy_fits, runtime=run).message.startswith("NumPy 2.1.3 is not compatible with TensorFlow")


def test_numpy_2_explains_the_failure_of_a_package_too(judge: Judge) -> None:
    run = failed_import(RESIZED, *BY_PANDAS)
    finding = judge.finding(numpy_fits, tensorflow={"version": "2.15.1"}, runtime=run)
    assert finding.message == "NumPy 2.1.3 is not compatible with TensorFlow 2.15.1, which was built for NumPy 1"


def test_a_tensorflow_that_was_imported_has_a_numpy_that_fits(judge: Judge) -> None:
    assert judge.passes(numpy_fits, target=packages(("numpy", "2.1.3")), tensorflow={"version": "2.15.1"})


def test_a_complaint_in_the_log_of_an_import_that_succeeds_is_no_fault(judge: Judge) -> None:
    assert judge.passes(numpy_fits, runtime=runtime(log=(ABI,)))


@pytest.mark.parametrize("run", [None, failed_import(ABI)])
def test_without_numpy_nothing_is_judged(judge: Judge, run: Runtime | None) -> None:
    assert judge.skips(numpy_fits, target=packages(without=("numpy",)), runtime=run) == "the NumPy version is unknown"


@pytest.mark.parametrize("numpy", ["", "unknown"])
def test_a_numpy_of_unknown_version_is_no_fault(judge: Judge, numpy: str) -> None:
    there = packages(("numpy", numpy))
    assert judge.passes(numpy_fits, target=there, tensorflow={"version": "2.15.1"}, runtime=None)


@pytest.mark.parametrize("version", ["", "custom"])
def test_a_tensorflow_of_unknown_version_is_no_fault(judge: Judge, version: str) -> None:
    assert judge.does_not_object(numpy_fits, tensorflow={"version": version}, runtime=None)


# PKG007


def test_a_protobuf_within_the_range_passes(judge: Judge) -> None:
    assert judge.passes(protobuf_fits) == "protobuf 5.28.3; TensorFlow requires >=5.28.0"


@pytest.mark.parametrize("version", ["5.28.0", "6.33.1", "99.0"])
def test_the_range_has_its_ends(judge: Judge, version: str) -> None:
    assert judge.passes(protobuf_fits, target=packages(("protobuf", version)), runtime=None)


@pytest.mark.parametrize("version", ["5.27.5", "3.20.3"])
@pytest.mark.parametrize(
    ("run", "severity"),
    [(None, "error"), (failed_import(DESCRIPTORS), "error"), (failed_import("ImportError: odd"), "warning")],
)
def test_a_protobuf_out_of_the_range_does_not_fit(
    judge: Judge, version: str, run: Runtime | None, severity: str
) -> None:
    finding = judge.finding(protobuf_fits, target=packages(("protobuf", version)), runtime=run)
    assert (finding.cause, finding.severity) == ("protobuf_incompatible", severity)
    assert finding.message == f"protobuf {version} is not compatible with TensorFlow 2.20.0, which requires >=5.28.0"
    assert finding.evidence[-1] == "Requires-Dist: protobuf>=5.28.0"
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'protobuf>=5.28.0'",)


def test_a_range_with_exclusions_is_quoted(judge: Judge) -> None:
    requires = ("protobuf!=4.21.0,!=4.21.1,<5.0.0dev,>=3.20.3",)
    there = target(
        distributions=(distribution("protobuf", "4.21.0"), distribution("tensorflow", "2.15.1", requires=requires))
    )
    finding = judge.finding(protobuf_fits, target=there, tensorflow={"version": "2.15.1"}, runtime=None)
    assert finding.fix
    [command] = finding.fix.commands
    assert shlex.split(command)[-1].startswith("protobuf")
    assert "!=4.21.0" in shlex.split(command)[-1]


@pytest.mark.parametrize(
    "complaint",
    [
        DESCRIPTORS,
        "TypeError: Descriptors cannot not be created directly.",
        "ImportError: cannot import name 'runtime_version' from 'google.protobuf'",
        "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",
    ],
)
def test_the_complaint_of_protobuf_counts(judge: Judge, complaint: str) -> None:
    finding = judge.finding(protobuf_fits, runtime=failed_import(complaint))
    assert (finding.cause, finding.severity) == ("protobuf_incompatible", "error")
    assert finding.evidence[0] == complaint


def with_protobuf(version: str, release: str, requires: str, installer: str = "pip") -> dict[str, Any]:
    """Sections: TensorFlow of that release, which requires `protobuf` so, and a protobuf."""
    owner = distribution("tensorflow", release, requires=(f"protobuf{requires}",), installer=installer)
    there = target(distributions=(distribution("protobuf", version), owner))
    return {"target": there, "tensorflow": {"version": release}}


@pytest.mark.parametrize("release", ["2.4.0", "2.6.4", "2.7.2", "2.8.1", "2.9.0"])
@pytest.mark.parametrize("version", ["4.21.0", "4.25.8", "6.33.1"])
@pytest.mark.parametrize(
    ("run", "severity"),
    [(None, "error"), (failed_import(DESCRIPTORS), "error"), (failed_import("ImportError: odd"), "warning")],
)
def test_a_release_that_does_not_exclude_protobuf_4(
    judge: Judge, release: str, version: str, run: Runtime | None, severity: str
) -> None:
    finding = judge.finding(protobuf_fits, **with_protobuf(version, release, ">=3.9.2"), runtime=run)
    assert (finding.cause, finding.severity) == ("protobuf_incompatible", severity)
    assert (
        finding.message
        == f"protobuf {version} is not compatible with TensorFlow {release}, which requires >=3.9.2,<3.21"
    )
    assert "Requires-Dist: protobuf>=3.9.2" in finding.evidence
    assert "metadata" in finding.evidence[-1]
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'protobuf>=3.9.2,<3.21'",)


@pytest.mark.parametrize("version", ["3.9.2", "3.19.6", "3.20.3"])
def test_protobuf_3_fits_such_a_release(judge: Judge, version: str) -> None:
    assert judge.passes(protobuf_fits, **with_protobuf(version, "2.8.0", ">=3.9.2"), runtime=None)


@pytest.mark.parametrize(
    ("release", "installer"), [("2.11.0", "conda"), ("2.8.0+nv22.6", "pip"), ("2.12.0", "pip"), ("", "pip")]
)
def test_a_build_whose_generated_code_is_not_known_accepts_protobuf_4(
    judge: Judge, release: str, installer: str
) -> None:
    assert judge.passes(protobuf_fits, **with_protobuf("4.21.12", release, ">=3.9.2", installer), runtime=None)


def test_the_implementation_in_python_accepts_older_code(judge: Judge) -> None:
    chosen = Environment(variables={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"})
    sections = with_protobuf("4.25.8", "2.8.0", ">=3.9.2")
    assert judge.passes(protobuf_fits, **sections, environment=chosen, runtime=None)


GENCODE = (
    "google.protobuf.runtime_version.VersionError: Detected incompatible Protobuf Gencode/Runtime versions when loading "
    "tensorflow/core/framework/attr_value.proto: gencode {} runtime {}. Runtime version cannot be older than the linked gencode version."
)
DAMAGED = "ImportError: cannot import name 'descriptor' from 'google.protobuf' (unknown location)"
NO_RUNTIME_VERSION = "ImportError: cannot import name 'runtime_version' from 'google.protobuf'"
NO_PROTOTYPE = "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'"


@pytest.mark.parametrize(
    ("version", "requires", "complaint", "message", "wanted"),
    [
        ("5.28.1", ">=5.28.0", GENCODE.format("5.28.3", "5.28.1"), "made for 5.28.3", ">=5.28.0,>=5.28.3,<6"),
        ("5.29.0", "<6,>=3.20.3", GENCODE.format("6.31.1", "5.29.0"), "made for 6.31.1", ""),
        ("7.36.2", ">=5.28.0", GENCODE.format("5.28.3", "7.36.2"), "made for 5.28.3", ">=5.28.0,>=5.28.3,<6"),
        ("5.29.0", ">=5.28.0", GENCODE.format("5.28.3", "5.28.1"), "is damaged", "==5.29.0"),
        ("4.25.8", "<5,>=3.20.3", DESCRIPTORS, "rejects older", "<5,>=3.20.3,<3.21"),
        ("5.28.3", ">=5.28.0", DESCRIPTORS, "rejects older", ""),
        ("6.33.1", ">=5.28.0", NO_PROTOTYPE, "rejects older", ">=5.28.0,<6.30"),
        ("4.25.8", "<6,>=3.20.3", NO_RUNTIME_VERSION, "made for 5.27", "<6,>=3.20.3,>=5.27"),
        ("4.25.8", "<5,>=3.20.3", NO_RUNTIME_VERSION, "made for 5.27", ""),
        ("5.28.3", ">=5.28.0", NO_RUNTIME_VERSION, "is damaged", "==5.28.3"),
        ("5.28.3", ">=5.28.0", DAMAGED, "is damaged", "==5.28.3"),
        ("5.28.3", ">=5.28.0", NO_PROTOTYPE, "is damaged", "==5.28.3"),
    ],
)
def test_a_protobuf_within_the_range_that_fails_is_not_asked_for_again(
    judge: Judge, version: str, requires: str, complaint: str, message: str, wanted: str
) -> None:
    sections = with_protobuf(version, "2.20.0", requires)
    finding = judge.finding(protobuf_fits, **sections, runtime=failed_import(complaint))
    assert (finding.cause, finding.severity) == ("protobuf_incompatible", "error")
    assert message in finding.message
    assert "which requires" not in finding.message
    assert finding.evidence == (complaint, f"Requires-Dist: protobuf{SpecifierSet(requires)}")
    options = ["--force-reinstall", "--no-deps"] if wanted.startswith("==") else []
    expected = [[PYTHON, "-m", "pip", "install", *options, f"protobuf{wanted}"]] if wanted else []
    assert finding.fix and [shlex.split(each) for each in finding.fix.commands] == expected
    assert not wanted or options or not SpecifierSet(wanted).contains(version)


def test_a_damaged_protobuf_of_unknown_version_is_installed_again(judge: Judge) -> None:
    sections = with_protobuf("", "2.20.0", ">=5.28.0")
    finding = judge.finding(protobuf_fits, **sections, runtime=failed_import(DAMAGED))
    assert finding.fix
    assert finding.fix.commands == (f"{PYTHON} -m pip install --force-reinstall --no-deps 'protobuf>=5.28.0'",)


def test_a_tensorflow_that_was_imported_has_a_protobuf_that_fits(judge: Judge) -> None:
    passed = judge.passes(protobuf_fits, target=packages(("protobuf", "3.20.3")))
    assert passed.endswith("was imported with this one all the same")
    assert "all the same" not in judge.passes(protobuf_fits)


@pytest.mark.parametrize(
    "there",
    [
        packages(without=("protobuf",)),
        target(distributions=(distribution("protobuf", "3.20.3"), distribution("tensorflow", "2.20.0"))),
        target(distributions=()),
    ],
    ids=["no protobuf", "no requirement", "nothing"],
)
def test_a_protobuf_that_nobody_asks_for_is_not_judged(judge: Judge, there: Target) -> None:
    assert "is unknown" in judge.skips(protobuf_fits, target=there, runtime=None)


@pytest.mark.parametrize("version", ["", "unknown"])
def test_a_protobuf_of_unknown_version_is_no_fault(judge: Judge, version: str) -> None:
    assert judge.does_not_object(protobuf_fits, target=packages(("protobuf", version)), runtime=None)


# PKG009

CUBLAS, RUNTIME, CUDNN = "nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12"


def with_torch(*pins: str, version: str = "2.4.1", changed: tuple[tuple[str, str], ...] = ()) -> Target:
    base = packages(*changed)
    torch = distribution("torch", version, requires=pins)
    return msgspec.structs.replace(base, distributions=(*base.distributions, torch))


def pinning(name: str, pin: str, installed: str) -> Target:
    """An environment whose TensorFlow pins a wheel exactly, as releases up to 2.19 do."""
    base = packages((name, installed), without=("tensorflow",))
    tensorflow = distribution("tensorflow", "2.17.1", requires=(f'{name}=={pin}; extra == "and-cuda"',))
    return msgspec.structs.replace(base, distributions=(*base.distributions, tensorflow))


def test_wheels_that_tensorflow_asks_for_pass(judge: Judge) -> None:
    assert f"{CUBLAS} 12.5.3.2" in judge.passes(nvidia_wheels_fit)


def test_newer_wheels_within_the_range_pass(judge: Judge) -> None:
    assert judge.passes(nvidia_wheels_fit, target=packages((CUBLAS, "12.9.1.4")), runtime=None)


@pytest.mark.parametrize(
    "there",
    [
        packages(without=tuple(each.name for each in target().distributions if each.name.startswith("nvidia-"))),
        target(distributions=(distribution("tensorflow", "2.20.0"), distribution(CUBLAS, "11.0"))),
        target(distributions=()),
    ],
    ids=["no wheels", "no requirement", "nothing"],
)
def test_without_such_wheels_nothing_is_judged(judge: Judge, there: Target) -> None:
    assert "no nvidia-* wheel" in judge.skips(nvidia_wheels_fit, target=there, runtime=None)


@pytest.mark.parametrize("run", [None, UNUSED, failed_import("ImportError: odd")])
@pytest.mark.parametrize(
    ("installed", "severity"), [("12.1.3.1", "error"), ("12.5.3.1", "error"), ("13.0.0.1", "warning")]
)
def test_wheels_that_tensorflow_does_not_ask_for_are_a_mix(
    judge: Judge, installed: str, severity: str, run: Runtime | None
) -> None:
    finding = judge.finding(nvidia_wheels_fit, target=packages((CUBLAS, installed)), runtime=run)
    assert (finding.cause, finding.severity) == ("cuda_minor_library_mix", severity)
    assert finding.message == "1 CUDA libraries have versions that TensorFlow does not accept"
    assert len(finding.evidence) == 1
    assert finding.evidence[0].startswith(f"{CUBLAS} {installed} is installed, but TensorFlow requires ")
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'",)
    assert finding.fix.text == "Install the versions that TensorFlow requires."


@pytest.mark.parametrize(
    "pin",
    [
        f'{CUBLAS}==12.1.3.1; platform_system == "Linux" and platform_machine == "x86_64"',
        f"{CUBLAS}==12.1.3.1",
        f"{CUBLAS} (==12.1.3.1) ; platform_system == 'Linux'",
        "nvidia_cublas_cu12==12.1.3.1",
    ],
)
def test_torch_is_blamed_for_what_it_pins(judge: Judge, pin: str) -> None:
    there = with_torch(pin, changed=((CUBLAS, "12.1.3.1"),))
    finding = judge.finding(nvidia_wheels_fit, target=there, runtime=None)
    assert (finding.cause, finding.severity) == ("torch_tf_nvidia_wheel_conflict", "error")
    assert finding.message == "torch replaced 1 CUDA libraries with versions that TensorFlow does not accept"
    assert f"torch pins {CUBLAS}==12.1.3.1" in finding.evidence
    assert finding.fix and "separate environment" in finding.fix.text


def test_torch_is_blamed_for_a_cudnn_that_it_pins(judge: Judge) -> None:
    there = with_torch(f"{CUDNN}==9.1.0.70", changed=((CUDNN, "9.1.0.70"),))
    assert judge.finding(nvidia_wheels_fit, target=there, runtime=None).cause == "torch_tf_nvidia_wheel_conflict"


@pytest.mark.parametrize("pins", [(), (f"{CUBLAS}==12.4.5.8",), ("typing-extensions>=4",)])
def test_torch_is_not_blamed_for_what_it_does_not_pin(judge: Judge, pins: tuple[str, ...]) -> None:
    there = with_torch(*pins, changed=((CUBLAS, "12.1.3.1"),))
    finding = judge.finding(nvidia_wheels_fit, target=there, runtime=None)
    assert finding.cause == "cuda_minor_library_mix"
    assert finding.fix and "torch" not in finding.fix.text


def test_torch_that_pins_what_tensorflow_accepts_is_welcome(judge: Judge) -> None:
    there = with_torch(f"{CUBLAS}==12.6.4.1", changed=((CUBLAS, "12.6.4.1"),))
    assert judge.passes(nvidia_wheels_fit, target=there, runtime=None)


def test_a_cudnn_of_another_origin_is_judged_elsewhere(judge: Judge) -> None:
    assert judge.passes(nvidia_wheels_fit, target=packages((CUDNN, "9.0.0.312")), runtime=None)


def test_a_tensorflow_that_computes_has_wheels_that_fit(judge: Judge) -> None:
    there = with_torch(f"{CUBLAS}==12.1.3.1", changed=((CUBLAS, "12.1.3.1"),))
    assert judge.passes(nvidia_wheels_fit, target=there)


def test_a_newer_wheel_than_the_one_pinned_is_a_warning(judge: Judge) -> None:
    finding = judge.finding(nvidia_wheels_fit, target=pinning(CUBLAS, "12.3.4.1", "12.5.3.2"), runtime=None)
    assert finding.severity == "warning"


def test_an_older_wheel_than_the_one_pinned_is_an_error(judge: Judge) -> None:
    finding = judge.finding(nvidia_wheels_fit, target=pinning(CUBLAS, "12.3.4.1", "12.1.3.1"), runtime=None)
    assert finding.severity == "error"


@pytest.mark.parametrize("version", ["", "unknown"])
def test_a_wheel_of_unknown_version_is_no_fault(judge: Judge, version: str) -> None:
    assert judge.does_not_object(nvidia_wheels_fit, target=packages((CUBLAS, version)), runtime=None)


@pytest.mark.parametrize(
    ("check", "sections"),
    [
        (numpy_fits, {"tensorflow": {"version": "2.15.1"}}),
        (protobuf_fits, {"runtime": failed_import(DAMAGED)}),
        (nvidia_wheels_fit, {"target": packages((CUBLAS, "12.1.3.1"), executable=JANES)}),
    ],
)
def test_the_commands_survive_a_blank_in_the_path(judge: Judge, check: Check, sections: dict[str, Any]) -> None:
    finding = judge.finding(check, **{"target": target(executable=JANES), "runtime": None, **sections})
    assert finding.fix
    assert [shlex.split(command)[0] for command in finding.fix.commands] == [JANES]
