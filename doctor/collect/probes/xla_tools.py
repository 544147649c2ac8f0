"""The tools with which XLA compiles kernels, libdevice and ptxas, from the few places that it searches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.model.facts.python import Target, TensorFlow
from tfgpu_doctor.model.facts.xla import XlaTools

_LIBDEVICE, _PTXAS = "nvvm/libdevice/libdevice.10.bc", "bin/ptxas"
_CHOSEN = re.compile(r"--xla_gpu_cuda_data_dir=[\"']?([^\s\"']+)")
_RELEASE = re.compile(r"release (\d+\.\d+)")
_ONE_FOLDER = re.compile(r"cu\d+")  # the wheels of CUDA 13 and later share one
_DEADLINE_S = 5.0

Place = tuple[Files, str]


@probe(waits_for="ptxas")
def xla_tools(host: Host, target: Target, tensorflow: TensorFlow) -> XlaTools:
    """Search as XLA does (xla/tsl/platform/default/cuda_root_path.cc), for ptxas on $PATH first, and query its version."""
    roots = list(_roots(host, target, tensorflow))
    path = [(host.target_files, folder) for folder in host.environment.get("PATH", "").split(os.pathsep) if folder]
    _, libdevice = _first((files, f"{root}/{_LIBDEVICE}") for files, root in roots)
    files, ptxas = _first(
        [(files, f"{folder}/ptxas") for files, folder in path] + [(files, f"{root}/{_PTXAS}") for files, root in roots]
    )
    runs = files is not None and files.root == "/"  # a file of another machine's root is not run on this one
    return XlaTools(
        libdevice=libdevice,
        ptxas=ptxas,
        ptxas_version=_version(host, ptxas) if runs else "",
        searched=tuple(dict.fromkeys(root for _, root in roots)),
    )


def _roots(host: Host, target: Target, tensorflow: TensorFlow) -> Iterable[Place]:
    """The folders that may contain a toolkit, the user's own choice first.

    The /usr/local/cuda-X.Y that was compiled into TensorFlow is not known: any of them counts.
    """
    site = os.path.dirname(os.path.dirname(target.tensorflow_file))
    names = host.target_files.names_if_any(f"{site}/nvidia")
    wheels = [f"{site}/nvidia/{name}" for name in names if _ONE_FOLDER.fullmatch(name)]
    conda = [target.prefix] if target.conda_packages else []
    chosen = _CHOSEN.findall(host.environment.get("XLA_FLAGS", ""))
    for folder in (*chosen, f"{site}/nvidia/cuda_nvcc", *wheels, *conda):
        yield host.target_files, folder
    for name in ("cuda", *host.files.names_if_any("/usr/local")):
        if name.startswith("cuda"):
            yield host.files, f"/usr/local/{name}"
    yield host.target_files, f"{site}/tensorflow/cuda"
    first = read_knowledge().boundaries["first_release_that_searches_opt_cuda"].value
    if version(tensorflow.version) >= version(first):
        yield host.files, "/opt/cuda"
        yield host.target_files, os.path.normpath(f"{site}/../../..")  # the prefix, where conda puts a toolkit


def _first(places: Iterable[Place]) -> tuple[Files | None, str]:
    """The first of the files that exists, and the file system that it belongs to."""
    return next(((files, path) for files, path in places if files.exists(path)), (None, ""))


def _version(host: Host, ptxas: str) -> str:
    """The CUDA release that ptxas reports; empty if it does not respond."""
    done = host.run([ptxas, "--version"], deadline_s=_DEADLINE_S)
    found = _RELEASE.search(done.stdout.decode("utf-8", "replace")) if done.exit_code == 0 else None
    return found.group(1) if found else ""
