"""The TensorFlow wheel, read without importing it."""

from __future__ import annotations

import ast
import os
import re
from typing import Any

from tfgpu_doctor.collect.ldso.gpu_code import gpu_targets
from tfgpu_doctor.collect.ldso.shared_object import Unloadable, read_shared_object
from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Distribution, Target, TensorFlow

_BUILD_INFO = "python/platform/build_info.py"
_FRAMEWORK = "libtensorflow_framework.so.2"
_KERNELS = "libtensorflow_cc.so.2"
_CONDA_BUILD = re.compile(r" cuda_?(\d\d)(\d)")
_EXTRA, _BY_BUILD_INFO = "and-cuda", "its build_info.py"


@probe(waits_for="the files of TensorFlow")
def tensorflow(host: Host, request: Request, system: System, target: Target) -> TensorFlow:
    """Read the wheel's build_info.py, metadata and RUNPATH.

    From 2.22 on build_info.py names no versions: the requirements name CUDA's, and the kernels what they are compiled for.
    """
    if not target.attempt.answered:
        raise Unavailable(f"the target's Python {target.attempt.ending}")
    if not target.tensorflow_file:
        raise Unavailable(f"TensorFlow is not installed in {target.executable}")
    if not target.tensorflow_file.endswith("__init__.py"):
        raise Unavailable(f"`import tensorflow` runs {target.tensorflow_file}, which is not TensorFlow")
    folder = os.path.dirname(target.tensorflow_file)
    owner = _owner(target, os.path.dirname(folder))
    if owner is None:
        raise Unavailable(f"no installed distribution owns {target.tensorflow_file}")
    build = parse_build_info(host.target_files.text_if_any(os.path.join(folder, _BUILD_INFO)))
    with_cuda = build.get("is_cuda_build")
    cuda, cudnn, named_by = str(build.get("cuda_version", "")), str(build.get("cudnn_version", "")), _BY_BUILD_INFO
    if with_cuda and not cuda:
        cuda, cudnn, named_by = (
            _conda_cuda(target) if owner.installer == "conda" else _required_cuda(target, owner.name)
        )
    targets = tuple(build.get("cuda_compute_capabilities", ()))
    if with_cuda and not targets:
        targets = _compiled_for(host, os.path.join(folder, _KERNELS))
    return TensorFlow(
        version=owner.version,
        distribution=owner.name,
        folder=folder,
        built_with_cuda=with_cuda,
        cuda_version=cuda,
        cudnn_version=cudnn,
        cuda_named_by=named_by,
        compute_capabilities=targets,
        wheel_tag=_wheel_tag(host, owner),
        runpath=() if request.quick else _runpath(host, os.path.join(folder, _FRAMEWORK), system.architecture),
    )


def _owner(target: Target, site: str) -> Distribution | None:
    """The distribution in that folder that lists the package's files, or, if none has such a list, matches by name."""
    here = [found for found in target.distributions if found.folder == site]
    owners = [found for found in here if found.name in target.tensorflow_owners]
    named = [found for found in here if found.name.startswith(("tensorflow", "tf-nightly")) and found.requires]
    return next(iter(owners or named), None)


def parse_build_info(source: str) -> dict[str, Any]:
    """The dictionary that build_info.py assigns, from its syntax tree; empty if there is none to read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            try:
                return dict(ast.literal_eval(node.value.args[0]))  # OrderedDict([("cuda_version", "12.5.1"), ...])
            except (ValueError, TypeError):
                return {}
    return {}


def _conda_cuda(target: Target) -> tuple[str, str, str]:
    """The CUDA of a build of conda's, whose name has it ("cuda129py312h..."); its requirements are those of pip's build."""
    for name in ("tensorflow-base", "tensorflow"):
        if found := _CONDA_BUILD.search(target.conda_packages.get(name, "")):
            return f"{found[1]}.{found[2]}", "", f"conda's {name} {target.conda_packages[name]}"
    return "", "", _BY_BUILD_INFO


def _required_cuda(target: Target, distribution: str) -> tuple[str, str, str]:
    """The major versions of CUDA and cuDNN that the extra [and-cuda] brings, and the requirement that names the first.

    Up to CUDA 12 the name of a package has the major version, from 13 on its own version (nvidia-cuda-runtime).
    """
    majors: dict[str, dict[str, str]] = {"nvidia-cuda-runtime": {}, "nvidia-cudnn": {}}
    for prefix, found in majors.items():
        for each in requirements_on(target, distribution, prefix):
            suffix = each.name.removeprefix(prefix).removeprefix("-cu")
            major = suffix if suffix and prefix == "nvidia-cuda-runtime" else each.lowest.partition(".")[0]
            if each.extra == _EXTRA and major.isdigit():
                found[major] = f"it requires {each.name}{each.specifier}"
    cuda, cudnn = majors.values()
    if len(cuda) != 1:
        return "", "", _BY_BUILD_INFO
    return next(iter(cuda)), next(iter(cudnn), "") if len(cudnn) == 1 else "", next(iter(cuda.values()))


def _compiled_for(host: Host, path: str) -> tuple[str, ...]:
    try:
        with host.target_files.open_binary(path) as file:
            return gpu_targets(file)
    except OSError:
        return ()


def _wheel_tag(host: Host, owner: Distribution) -> str:
    for name in host.target_files.names_if_any(owner.folder):
        if name.endswith(".dist-info") and name.lower().startswith(owner.name.replace("-", "_") + "-"):
            text = host.target_files.text_if_any(os.path.join(owner.folder, name, "WHEEL"))
            return next((line[5:].strip() for line in text.splitlines() if line.startswith("Tag: ")), "")
    return ""


def _runpath(host: Host, path: str, architecture: str) -> tuple[str, ...]:
    """RUNPATH (or RPATH) of a shared library; empty if there is none, or if the library cannot be loaded anyway."""
    try:
        size = host.target_files.status(path).size_bytes
        with host.target_files.open_binary(path) as file:
            words = read_shared_object(file, size, architecture)
    except (OSError, Unloadable):
        return ()
    return words.runpath or words.rpath
