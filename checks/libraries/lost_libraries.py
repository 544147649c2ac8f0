"""The CUDA libraries that TensorFlow cannot load, according to its log and to a simulation of the loader's search."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tfgpu_doctor.model.facts.nvidia import Libraries
from tfgpu_doctor.model.facts.python import LibraryLoad, Runtime
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

# TensorFlow also opens TensorRT, which is optional, and the driver's libraries, which LIB001 and LIB005 check.
CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt|cufft|cusolver|cusparse|cudnn|nvJitLink)\w*\.so\.[\d.]+")
_CHAIN = re.compile(r"^([^:\s]+\.so[.\d]*): cannot open shared object file")


@dataclass(frozen=True)
class LostLibrary:
    """A library that TensorFlow needs and cannot load."""

    soname: str
    missing: str  # the file that is actually missing: the library itself, or a dependency
    chain: tuple[str, ...]
    damage: str  # why an existing file cannot be loaded
    wheel: str  # the wheel that should contain the missing file: "nvidia-cudnn-cu12==9.3.0.75"
    pip_copies: tuple[str, ...]  # copies of the missing file that pip installed
    other_copies: tuple[str, ...]
    said: str
    asked_by: str = ""  # the library that opens it; empty for TensorFlow itself


def failed_loads(runtime: Runtime) -> list[LibraryLoad]:
    """Return the CUDA libraries that TensorFlow could not open, according to its log."""
    return [load for load in runtime.libraries if not load.opened and CUDA.fullmatch(load.soname)]


def opened_loads(runtime: Runtime | None) -> list[str]:
    """Return the CUDA libraries that TensorFlow opened, according to its log."""
    return [
        load.soname for load in (runtime.libraries if runtime else ()) if load.opened and CUDA.fullmatch(load.soname)
    ]


def said_of(load: LibraryLoad) -> str:
    """Return what TensorFlow's log reports about a library."""
    return f"TensorFlow could not load {load.soname!r}" + (f": {load.error}" if load.error else "")


def lost_libraries(
    cuda_libraries: Libraries, resolution: Resolution | None, runtime: Runtime | None
) -> list[LostLibrary]:
    """Those lost by the log, and those by the search that nothing which TensorFlow did contradicts."""
    failed = {load.soname: load for load in (failed_loads(runtime) if runtime and not runtime.gpus else ())}
    missing = {each.soname: each for each in (_missing(resolution, runtime) if resolution else ())}
    names = [*missing, *(name for name in failed if name not in missing)]
    return [_lost(name, missing.get(name), failed.get(name), cuda_libraries) for name in names]


def _missing(resolution: Resolution, runtime: Runtime | None) -> list[ResolvedLibrary]:
    if runtime and runtime.computes:
        return []
    lost = [each for each in resolution.missing if CUDA.fullmatch(each.soname) and CUDA.fullmatch(each.chain[-1])]
    names = {each.soname for each in lost}
    # A library that another library opens counts only if that one was found, and a wheel, an error or a dependency
    # names the file.
    lost = [
        each
        for each in lost
        if not each.asked_by or (each.asked_by not in names and (each.wheel or each.error or len(each.chain) > 1))
    ]
    if runtime and runtime.gpus:
        return [each for each in lost if each.asked_by]
    opened = opened_loads(runtime)
    # A library that TensorFlow did not try is left out only if the run listed the GPUs: a damaged one may have ended it.
    tried = {load.soname for load in runtime.libraries} if runtime and runtime.gpus_listed else set()
    return [each for each in lost if each.soname not in opened and (not tried or each.asked_by or each.soname in tried)]


def _lost(soname: str, resolved: ResolvedLibrary | None, load: LibraryLoad | None, libraries: Libraries) -> LostLibrary:
    chain = resolved.chain if resolved else (soname,)
    named = _CHAIN.match(load.error) if load else None
    if not resolved and named and named.group(1) != soname:
        chain = (soname, named.group(1))
    copies = [copy for copy in libraries.named(chain[-1]) if copy.kind != "stub"]
    damaged = bool(load and load.error and not named) or bool(resolved and resolved.error)
    return LostLibrary(
        soname=soname,
        missing=chain[-1],
        chain=chain,
        damage=(resolved.error if resolved else "") or (load.error if damaged and load else ""),
        wheel=resolved.wheel if resolved else "",
        pip_copies=tuple(copy.path for copy in copies if copy.found_in == "pip"),
        other_copies=tuple(copy.path for copy in copies if copy.found_in != "pip"),
        said=said_of(load) if load else _told(resolved, chain),
        asked_by=resolved.asked_by if resolved else "",
    )


def _told(resolved: ResolvedLibrary | None, chain: tuple[str, ...]) -> str:
    if resolved and resolved.error:
        return resolved.error
    asker = (
        f"{resolved.asked_by} opens {chain[0]}" if resolved and resolved.asked_by else f"TensorFlow opens {chain[0]}"
    )
    needs = "".join(f", which needs {name}" for name in chain[1:])
    return f"{asker}{needs}; the loader does not find {chain[-1]}"


def folders_of(paths: list[str]) -> list[str]:
    """Return the folders of the files, without duplicates."""
    return list(dict.fromkeys(os.path.dirname(path) for path in paths))
