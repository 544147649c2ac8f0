"""PKG: do the packages that TensorFlow builds on have versions that fit it?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.commands import bring_cuda_libraries, pip
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow

_NUMPY = re.compile(
    r"_ARRAY_API not found|compiled using NumPy 1\.x|numpy\.dtype size changed|numpy\.core\.(?:umath|multiarray) failed"
)
_PROTOBUF = re.compile(
    r"Descriptors cannot (?:not )?be created directly|google\.protobuf|'MessageFactory' object has no"
)
_NUMPY_2 = 2


def _complaint(runtime: Runtime | None, pattern: re.Pattern[str]) -> str:
    """The line of TensorFlow's failed import that the pattern fits."""
    if not runtime or not runtime.import_error:
        return ""
    lines = (runtime.import_error, *runtime.import_traceback, *runtime.log)
    return next((line.strip() for line in lines if pattern.search(line)), "")


@check(
    "PKG006",
    "NumPy is of the major version that this TensorFlow was built for",
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
        raise Skip("numpy's version is not known")
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
            f"NumPy {numpy.version} does not fit TensorFlow {tensorflow.version}, which was built for "
            + ("NumPy 1" if predicted else "another one"),
            cause="numpy_abi_mismatch",
            evidence=(*([complaint] if complaint else ()), f"TensorFlow is built for NumPy 2 from {first} on"),
            fix=Fix(
                "Install a NumPy that fits, or a newer TensorFlow.",
                pip(target, "install", "numpy<2") if predicted else again,
            ),
        )
    else:
        yield Evidence(f"NumPy {numpy.version} with TensorFlow {tensorflow.version}")


@check(
    "PKG007",
    "protobuf is of a version that this TensorFlow accepts",
    stage=Stage.PYTHON,
    after=("PKG002", "PKG004", "PKG005"),
    causes=("protobuf_incompatible",),
    sources=("https://protobuf.dev/news/2022-05-06/",),
)
def protobuf_fits(target: Target, tensorflow: TensorFlow, runtime: Runtime | None = None) -> Yielded:
    """TensorFlow's generated code works with a range of protobuf versions only; others fail at import.

    Fix: install a protobuf within the range that TensorFlow's metadata asks for.
    """
    protobuf = target.find("protobuf")
    wanted = next(
        (each for each in requirements_on(target, tensorflow.distribution, "protobuf") if not each.extra), None
    )
    if not protobuf or not wanted:
        raise Skip("protobuf's version, or the one that TensorFlow asks for, is not known")
    complaint = _complaint(runtime, _PROTOBUF)
    fits = wanted.allows(protobuf.version)
    if complaint or (not fits and not (runtime and runtime.version)):
        yield Finding(
            f"protobuf {protobuf.version} does not fit TensorFlow {tensorflow.version}, which asks for {wanted.specifier}",
            cause="protobuf_incompatible",
            severity="error" if complaint or not runtime else "warning",
            evidence=(*([complaint] if complaint else ()), f"Requires-Dist: protobuf{wanted.specifier}"),
            fix=Fix("Install a protobuf within that range.", pip(target, "install", f"protobuf{wanted.specifier}")),
        )
    else:
        yield Evidence(f"protobuf {protobuf.version}, and TensorFlow asks for {wanted.specifier}")


@check(
    "PKG009",
    "the nvidia-* wheels are of versions that this TensorFlow asks for",
    stage=Stage.LIBRARIES,
    after=("PKG002", "TFB001"),
    causes=("torch_tf_nvidia_wheel_conflict", "cuda_minor_library_mix"),
    sources=("https://www.tensorflow.org/install/pip",),
)
def nvidia_wheels_fit(
    target: Target, tensorflow: TensorFlow, knowledge: Knowledge, runtime: Runtime | None = None
) -> Yielded:
    """Torch pins each nvidia-* wheel to one version; installed after TensorFlow it replaces those that TensorFlow needs.

    Fix: keep torch and TensorFlow in environments of their own, or install TensorFlow's versions last.
    """
    wanted = [each for each in requirements_on(target, tensorflow.distribution, "nvidia-") if each.extra == "and-cuda"]
    pairs = [(each, found) for each in wanted if (found := target.find(each.name))]
    if not pairs:
        raise Skip("none of the nvidia-* wheels that TensorFlow asks for is installed")
    wrong = [(each, found) for each, found in pairs if not each.allows(found.version)]
    pinned = {each.name: each.specifier for each in requirements_on(target, "torch", "nvidia-")}
    by_torch = [found for each, found in wrong if pinned.get(found.name) == f"=={found.version}"]
    if not by_torch:  # a cuDNN of another origin is judged by LIB007, which sees the one that is loaded
        wrong = [(each, found) for each, found in wrong if not each.name.startswith("nvidia-cudnn")]
    if wrong and not (runtime and runtime.computes):
        lines = tuple(
            f"{found.name} {found.version} is installed, TensorFlow asks for {each.specifier}" for each, found in wrong
        )
        yield Finding(
            f"torch replaced {len(by_torch)} CUDA libraries by versions that TensorFlow does not accept"
            if by_torch
            else f"{len(wrong)} CUDA libraries are of versions that TensorFlow does not accept",
            cause="torch_tf_nvidia_wheel_conflict" if by_torch else "cuda_minor_library_mix",
            # Wheels older than asked for fail; newer ones mostly work.
            severity="error" if any(each.is_undercut_by(found.version) for each, found in wrong) else "warning",
            evidence=(*lines, *(f"torch pins {found.name}=={found.version}" for found in by_torch)),
            fix=bring_cuda_libraries(
                target,
                tensorflow,
                knowledge,
                "Give torch an environment of its own, then install TensorFlow's versions here.",
            ),
        )
    else:
        yield Evidence(", ".join(f"{found.name} {found.version}" for _, found in pairs))
