"""PKG: are TensorFlow's dependencies installed in compatible versions?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import bring_cuda_libraries, pip
from tfgpu_doctor.checks.python.protobuf_range import accepted_protobuf, repair_protobuf
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Distribution, Runtime, Target, TensorFlow
from tfgpu_doctor.model.tags import version_of

_NUMPY = re.compile(
    r"_ARRAY_API not found|compiled using NumPy 1\.x|numpy\.(?:dtype|ndarray) size changed"
    r"|compiled against A[BP]I version 0x|numpy\._?core\.(?:umath|multiarray) failed"
)
_MODULE = re.compile(r'File ".*[/\\](?:site|dist)-packages[/\\](\w+)[/\\.]')
_OF_TENSORFLOW = ("tensorflow", "keras", "numpy", "ml_dtypes")  # TensorFlow's metadata bounds their versions
_PROTOBUF = re.compile(
    r"Descriptors cannot (?:not )?be created directly|google\.protobuf|'MessageFactory' object has no"
)
_NUMPY_2 = 2


def _complaint(runtime: Runtime | None, pattern: re.Pattern[str]) -> str:
    """Return the line of TensorFlow's failed import that matches the pattern."""
    if not runtime or not runtime.import_error:
        return ""
    lines = (runtime.import_error, *runtime.import_traceback, *runtime.log)
    return next((line.strip() for line in lines if pattern.search(line)), "")


@check(
    "PKG006",
    "NumPy has the major version that this TensorFlow was built for",
    family="Python and packages",
    tags=(version_of("numpy"),),
    stage=Stage.PYTHON,
    after=("PKG002", "PKG004", "PKG005"),
    causes=("numpy_abi_mismatch",),
    sources=("https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",),
)
def numpy_fits(target: Target, tensorflow: TensorFlow, knowledge: Knowledge, runtime: Runtime | None = None) -> Yielded:
    """Compiled code built for NumPy 1 cannot be loaded with NumPy 2: TensorFlow releases before 2.18 fail to import. They also
    fail if a package that they import, such as pandas or h5py, was built for another NumPy.

    Fix: `pip install 'numpy<2'`, or a newer TensorFlow; update the package that was built for another NumPy.
    """
    numpy = target.find("numpy")
    if not numpy:
        raise NotMeasured("the NumPy version is unknown")
    first = knowledge.boundaries["first_release_for_numpy_2"].value
    complaint = _complaint(runtime, _NUMPY)
    is_old = (
        version("0") < version(tensorflow.version)
        and version(tensorflow.version).release[:2] < version(first).release[:2]
    )
    predicted = is_old and version(numpy.version).major >= _NUMPY_2
    failed = _failed_module(runtime, complaint)
    if failed and not predicted:
        yield _built_for_another(target, numpy, failed, complaint)
    elif complaint or (predicted and not (runtime and runtime.version)):
        again = pip(target, "install", "--force-reinstall", "--no-deps", f"numpy=={numpy.version}")
        yield Finding(
            f"NumPy {numpy.version} is not compatible with TensorFlow {tensorflow.version}, which was built for "
            + ("NumPy 1" if predicted else "a different version"),
            cause="numpy_abi_mismatch",
            evidence=(
                *([complaint] if complaint else ()),
                *([f"TensorFlow {first} and newer is built for NumPy 2"] if predicted else ()),
            ),
            fix=Fix(
                "Install a compatible NumPy, or a newer TensorFlow.",
                pip(target, "install", "numpy<2") if predicted else again,
            ),
        )
    else:
        yield Evidence(f"NumPy {numpy.version} with TensorFlow {tensorflow.version}")


def _failed_module(runtime: Runtime | None, complaint: str) -> str:
    """Return the installed module that raised the complaint; empty if it is one of TensorFlow's own or not known."""
    raised = [each.strip() for each in (runtime.import_error, *runtime.import_traceback)] if runtime else []
    if not runtime or not complaint or complaint not in raised:
        return ""
    modules = [found.group(1) for line in runtime.import_traceback if (found := _MODULE.search(line))]
    return modules[-1] if modules and modules[-1] not in _OF_TENSORFLOW else ""


def _built_for_another(target: Target, numpy: Distribution, module: str, complaint: str) -> Finding:
    package = target.find(module.lower().replace("_", "-"))
    commands: tuple[str, ...] = ()
    if package and version(numpy.version) > version("0") and "+" not in numpy.version:
        kept = f"numpy=={numpy.version}"  # the one that TensorFlow was installed with
        commands = pip(target, "install", "--upgrade", "--force-reinstall", package.name, kept)
    return Finding(
        f"{f'{package.name} {package.version}' if package else module} was built for a NumPy other than the installed "
        f"{numpy.version}",
        cause="numpy_abi_mismatch",
        confidence="medium",
        evidence=(complaint, f"the traceback of `import tensorflow` ends in {module}"),
        fix=Fix(f"Update {module} to a build for this NumPy, or install the NumPy that it was built for.", commands),
    )


@check(
    "PKG007",
    "the protobuf version is one that this TensorFlow accepts",
    family="Python and packages",
    tags=(version_of("protobuf"),),
    stage=Stage.PYTHON,
    after=("PKG002", "PKG004", "PKG005"),
    causes=("protobuf_incompatible",),
    sources=("https://protobuf.dev/news/2022-05-06/",),
)
def protobuf_fits(
    target: Target,
    tensorflow: TensorFlow,
    knowledge: Knowledge,
    environment: Environment | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """TensorFlow's generated code works only with a range of protobuf versions; with others the import fails. Releases
    before 2.12 fail with protobuf 4, although the metadata of some of them does not exclude it.

    Fix: install a protobuf in the range; reinstall one that is in the range, but damaged.
    """
    protobuf = target.find("protobuf")
    accepted = accepted_protobuf(target, tensorflow, knowledge, environment)
    if not protobuf or not accepted:
        raise NotMeasured("the protobuf version, or the version that TensorFlow requires, is unknown")
    complaint = _complaint(runtime, _PROTOBUF)
    wanted = accepted.requirement
    fits = wanted.allows(protobuf.version)
    if complaint and fits:
        reason, fix = repair_protobuf(target, protobuf.version, wanted.specifier, complaint, knowledge)
        yield Finding(
            f"protobuf {protobuf.version} {reason}",
            cause="protobuf_incompatible",
            evidence=(complaint, *accepted.evidence),
            fix=fix,
        )
    elif complaint or (not fits and not (runtime and runtime.version)):
        yield Finding(
            f"protobuf {protobuf.version} is not compatible with TensorFlow {tensorflow.version}, which requires "
            f"{wanted.specifier}",
            cause="protobuf_incompatible",
            severity="error" if complaint or not runtime else "warning",
            evidence=(*([complaint] if complaint else ()), *accepted.evidence),
            fix=Fix("Install a protobuf in that range.", pip(target, "install", f"protobuf{wanted.specifier}")),
        )
    else:
        all_the_same = "" if fits else ", and was imported with this one all the same"
        yield Evidence(f"protobuf {protobuf.version}; TensorFlow requires {wanted.specifier}{all_the_same}")


@check(
    "PKG009",
    "the nvidia-* wheels have the versions that this TensorFlow requires",
    family="Python and packages",
    tags=(version_of("cuda-wheels"),),
    stage=Stage.LIBRARIES,
    after=("PKG002", "TFB001"),
    causes=("torch_tf_nvidia_wheel_conflict", "cuda_minor_library_mix"),
    sources=("https://www.tensorflow.org/install/pip",),
)
def nvidia_wheels_fit(
    target: Target,
    tensorflow: TensorFlow,
    knowledge: Knowledge,
    runtime: Runtime | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """Torch pins each nvidia-* wheel to one version. If installed after TensorFlow, it replaces the versions that
    TensorFlow needs.

    Fix: keep torch and TensorFlow in separate environments, or install TensorFlow's versions last.
    """
    wanted = [each for each in requirements_on(target, tensorflow.distribution, "nvidia-") if each.extra == "and-cuda"]
    pairs = [(each, found) for each in wanted if (found := target.find(each.name))]
    if not pairs:
        raise Skip("no nvidia-* wheel that TensorFlow requires is installed")
    wrong = [(each, found) for each, found in pairs if not each.allows(found.version)]
    pinned = {each.name: each.specifier for each in requirements_on(target, "torch", "nvidia-")}
    by_torch = [found for each, found in wrong if pinned.get(found.name) == f"=={found.version}"]
    if not by_torch:  # LIB007 checks a cuDNN from another source, because it sees the loaded one
        wrong = [(each, found) for each, found in wrong if not each.name.startswith("nvidia-cudnn")]
    if wrong and not (runtime and runtime.computes):
        lines = tuple(
            f"{found.name} {found.version} is installed, but TensorFlow requires {each.specifier}"
            for each, found in wrong
        )
        yield Finding(
            f"torch replaced {len(by_torch)} CUDA libraries with versions that TensorFlow does not accept"
            if by_torch
            else f"{len(wrong)} CUDA libraries have versions that TensorFlow does not accept",
            cause="torch_tf_nvidia_wheel_conflict" if by_torch else "cuda_minor_library_mix",
            # Wheels older than required fail; newer ones mostly work.
            severity="error" if any(each.is_undercut_by(found.version) for each, found in wrong) else "warning",
            evidence=(*lines, *(f"torch pins {found.name}=={found.version}" for found in by_torch)),
            fix=bring_cuda_libraries(
                target,
                tensorflow,
                knowledge,
                "Move torch to a separate environment, then install TensorFlow's versions here."
                if by_torch
                else "Install the versions that TensorFlow requires.",
                cuda_driver,
            ),
        )
    else:
        yield Evidence(", ".join(f"{found.name} {found.version}" for _, found in pairs))
