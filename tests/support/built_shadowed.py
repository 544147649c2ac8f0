"""Machines on which another copy stands in the place of a package's own: a library, or a module."""

from __future__ import annotations

from typing import Any

import msgspec
from built_machines import failed_import, variables
from healthy import SITE, broken, lost_library, pip_library, target, without_gpus

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

_OPENER = f"{SITE}/tensorflow/libtensorflow_framework.so.2"
_TRUNCATED = "it is truncated: 4,096 of at least 105,137,712 bytes are present"
_PARTS = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled", "engines_runtime_compiled")
_CANNOT = ("W gpu_device.cc:2342] Cannot dlopen some GPU libraries.",)


def _refused(name: str, path: str, error: str, **changes: Any) -> Facts:
    """A library of which the loader takes a damaged copy that is not pip's."""
    own = pip_library(name)
    copies = (LibraryFile(soname=name, path=path, real_path=path, size_bytes=4096, found_in="LD_LIBRARY_PATH"), own)
    copy = Copy(
        **{
            "name": name, "path": path, "error": error, "placed_by": "LD_LIBRARY_PATH", "entry": path.rpartition("/")[0],
            "number": 1, "instead": own.path, "instead_owner": "pip: nvidia-cublas-cu12 12.5.3.2", **changes,
        }
    )  # fmt: skip
    lost = ResolvedLibrary(
        soname=name, found=False, needed_by_tensorflow=True, error=f"{path}: {error}", missing_chain=(name,)
    )
    return broken(
        environment=variables(LD_LIBRARY_PATH=copy.entry) if copy.placed_by == "LD_LIBRARY_PATH" else variables(),
        cuda_libraries=Libraries(copies=copies),
        resolution=Resolution(opener=_OPENER, libraries=(lost,), copies=(copy,)),
        runtime=without_gpus(lost_library(name, f"{path}: file too short"), log=_CANNOT),
    )


def _cudnn_without_its_parts() -> Facts:
    """An older libcudnn.so.9 in a folder of LD_LIBRARY_PATH, without the libraries that it opens."""
    path, own = "/opt/old/lib/libcudnn.so.9", pip_library("libcudnn.so.9")
    parts = [f"libcudnn_{part}.so.9" for part in _PARTS]
    beside = [own.path.replace("libcudnn.so.9", name) for name in parts]
    copies = [
        LibraryFile(soname=name, path=file, real_path=file, size_bytes=1 << 20, found_in="pip")
        for name, file in zip(parts, beside, strict=True)
    ]
    lost = [
        ResolvedLibrary(
            soname=name, found=False, needed_by_tensorflow=True, asked_by="libcudnn.so.9", missing_chain=(name,),
            wheel="nvidia-cudnn-cu12==9.3.0.75", elsewhere=(file,),
        )
        for name, file in zip(parts, beside, strict=True)
    ]  # fmt: skip
    first = ResolvedLibrary(
        soname="libcudnn.so.9", found=True, needed_by_tensorflow=True, path=path, real_path=path,
        found_by="LD_LIBRARY_PATH", shadowed=(own.path,),
    )  # fmt: skip
    copy = Copy(
        name="libcudnn.so.9", path=path, placed_by="LD_LIBRARY_PATH", entry="/opt/old/lib", number=2, others=("/opt/lib",),
        instead=own.path, instead_owner="pip: nvidia-cudnn-cu12 9.3.0.75",
    )  # fmt: skip
    return broken(
        environment=variables(LD_LIBRARY_PATH="/opt/lib:/opt/old/lib"),
        cuda_libraries=Libraries(copies=(own, *copies)),
        resolution=Resolution(opener=_OPENER, libraries=(first, *lost), copies=(copy,)),
        runtime=without_gpus(log=_CANNOT),
    )


def _module(name: str, path: str, error: str, **changes: Any) -> Facts:
    """A module that is not the package's own, with which importing TensorFlow fails."""
    copy = Copy(
        **{
            "name": name, "path": path, "placed_by": "PYTHONPATH", "entry": "/home/user/lib", "number": 1,
            "instead": f"{SITE}/{name}.py", "instead_owner": f"{name} 4.12.2", **changes,
        }
    )  # fmt: skip
    run = failed_import(error, f'  File "{SITE}/tensorflow/python/types/trace.py", line 31, in <module>')
    return broken(runtime=msgspec.structs.replace(run, copies=(copy,)))


def built() -> dict[str, Facts]:
    """The machines by name."""
    extensions, user_site = "/home/user/lib/typing_extensions.py", "/home/user/.local/lib/python3.12/site-packages"
    mine = f"{user_site}/typing_extensions.py"
    protobuf = "/opt/old/google/protobuf/__init__.py"
    lacks = "ImportError: cannot import name 'Protocol' from 'typing_extensions' ({})"
    in_user_site = _module("typing_extensions", mine, lacks.format(mine), placed_by="user site", entry=user_site)
    return {
        "truncated-cublas-on-library-path": _refused("libcublas.so.12", "/opt/half/libcublas.so.12", _TRUNCATED),
        "truncated-cublas-by-ld-so-conf": _refused(
            "libcublas.so.12", "/opt/cuda/lib64/libcublas.so.12", _TRUNCATED, placed_by="ld.so.conf", number=0,
            file="/etc/ld.so.conf.d/cuda.conf", line=2,
        ),
        "older-cudnn-without-its-parts": _cudnn_without_its_parts(),
        "typing-extensions-on-pythonpath": _module("typing_extensions", extensions, lacks.format(extensions)),
        "older-protobuf-by-pth-file": _module(
            "google.protobuf", protobuf, f"ImportError: cannot import name 'runtime_version' from 'google.protobuf' ({protobuf})",
            placed_by=".pth file", entry="/opt/old", number=0, file=f"{SITE}/company.pth", line=1, owner="protobuf 3.20.3",
            instead=f"{SITE}/google/protobuf/__init__.py", instead_owner="protobuf 5.28.3",
        ),
        "user-site-hides-typing-extensions": broken(in_user_site, target=target(user_site=user_site)),
        "six-in-working-folder": _module(
            "six", "/home/user/project/six.py", "ModuleNotFoundError: No module named 'six.moves'; 'six' is not a package",
            placed_by="working folder", entry="/home/user/project", number=0, instead_owner="six 1.17.0",
        ),
    }  # fmt: skip
