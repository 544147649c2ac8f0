"""PKG: are TensorFlow's dependencies installed in compatible versions?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import bring_cuda_libraries, pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.tags import version_of

_NUMPY = re.compile(
    r"_ARRAY_API not found|compiled using NumPy 1\.x|numpy\.dtype size changed|numpy\.core\.(?:umath|multiarray) failed"
)
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
    """Compiled code built for NumPy 1 cannot be loaded with NumPy 2: TensorFlow releases before 2.18 fail to import.

    Fix: `pip install 'numpy<2'`, or a newer TensorFlow.
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
    if complaint or (predicted and not (runtime and runtime.version)):
        again = pip(target, "install", "--force-reinstall", "--no-deps", f"numpy=={numpy.version}")
        yield Finding(
            f"NumPy {numpy.version} is not compatible with TensorFlow {tensorflow.version}, which was built for "
            + ("NumPy 1" if predicted else "a different version"),
            cause="numpy_abi_mismatch",
            evidence=(*([complaint] if complaint else ()), f"TensorFlow {first} and newer is built for NumPy 2"),
            fix=Fix(
                "Install a compatible NumPy, or a newer TensorFlow.",
                pip(target, "install", "numpy<2") if predicted else again,
            ),
        )
    else:
        yield Evidence(f"NumPy {numpy.version} with TensorFlow {tensorflow.version}")


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
def protobuf_fits(target: Target, tensorflow: TensorFlow, runtime: Runtime | None = None) -> Yielded:
    """TensorFlow's generated code works only with a range of protobuf versions; with others the import fails.

    Fix: install a protobuf in the range that TensorFlow's metadata requires.
    """
    protobuf = target.find("protobuf")
    wanted = next(
        (each for each in requirements_on(target, tensorflow.distribution, "protobuf") if not each.extra), None
    )
    if not protobuf or not wanted:
        raise NotMeasured("the protobuf version, or the version that TensorFlow requires, is unknown")
    complaint = _complaint(runtime, _PROTOBUF)
    fits = wanted.allows(protobuf.version)
    if complaint or (not fits and not (runtime and runtime.version)):
        yield Finding(
            f"protobuf {protobuf.version} is not compatible with TensorFlow {tensorflow.version}, which requires "
            f"{wanted.specifier}",
            cause="protobuf_incompatible",
            severity="error" if complaint or not runtime else "warning",
            evidence=(*([complaint] if complaint else ()), f"Requires-Dist: protobuf{wanted.specifier}"),
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
    target: Target, tensorflow: TensorFlow, knowledge: Knowledge, runtime: Runtime | None = None
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
            ),
        )
    else:
        yield Evidence(", ".join(f"{found.name} {found.version}" for _, found in pairs))
