"""Read what one TensorFlow wheel declares: build_info.py, METADATA, and the RUNPATH of its framework library."""

from __future__ import annotations

import ast
import email
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from releases.elf_runpath import NoRunpath, read_runpath
from releases.fetching import Unreachable, fetch
from releases.package_index import IndexedWheel, platform_of
from releases.remote_wheel import RemoteWheel
from tfgpu_doctor.collect.ldso.gpu_code import CONTAINERS, containers, named

_BUILD_INFO = "tensorflow/python/platform/build_info.py"
_FRAMEWORK = "tensorflow/libtensorflow_framework.so.2"
_KERNELS = "tensorflow/libtensorflow_cc.so.2"
_CONTAINER = b"\x50\xed\x55\xba\x01\x00\x10\x00"  # how each container of code for GPUs begins
_ENOUGH_BYTES = 32 << 20  # for a row of them: those of 2.22.0rc0 have a megabyte each
_BOUNDED = ("numpy", "protobuf", "keras", "keras-nightly")
_STANDS_FOR = ("tensorflow-intel", "tensorflow-cpu-aws", "tensorflow-macos")  # a wheel without code needs one of them
_EXTRA = "and-cuda"
_SYSTEM = {"linux": "Linux", "windows": "Windows", "macos": "Darwin"}  # as markers name them (PEP 508)
_WINDOWS = re.compile(r"64_(\d+?)(\d)?")  # build_info.py names Windows' DLLs: cudart64_112, cudnn64_8


@dataclass(frozen=True)
class Contents:
    """The contents of one wheel. `stands_for` is the package that contains the code, if this wheel contains none."""

    cuda: str = ""
    cudnn: str = ""
    compute_capabilities: tuple[str, ...] = ()
    stands_for: str = ""
    requires_python: str = ""
    requires: tuple[str, ...] = ()
    cuda_extra: tuple[str, ...] = field(default=())


def read_contents(wheel: IndexedWheel) -> Contents:
    """Read build_info.py and METADATA; METADATA comes from its own file on the index if the index offers it.

    Raises Unreachable.
    """
    archive = RemoteWheel(wheel.url)
    metadata = _metadata(wheel, archive)
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist") or []]
    build = parse_build_info(archive.text(_BUILD_INFO)) if archive.find(_BUILD_INFO) else {}
    cuda = bool(build.get("is_cuda_build"))
    return Contents(
        cuda=_dotted(build.get("cuda_version")) or _required(needed, "nvidia-cuda-runtime") if cuda else "",
        cudnn=_dotted(build.get("cudnn_version")) or _required(needed, "nvidia-cudnn") if cuda else "",
        compute_capabilities=_targets(build.get("cuda_compute_capabilities")) if cuda else (),
        stands_for="" if build else _stand_in(needed, _SYSTEM[platform_of(wheel)[0]], platform_of(wheel)[1]),
        requires_python=metadata.get("Requires-Python", "").replace(" ", ""),
        requires=_written(
            each for each in needed if not _asks_extra(each) and canonicalize_name(each.name) in _BOUNDED
        ),
        cuda_extra=_written(each for each in needed if _asks_extra(each)),
    )


def read_runpath_folders(wheel: IndexedWheel) -> tuple[str, ...]:
    """Return the folders of pip's nvidia packages that libtensorflow_framework.so.2 searches: "cublas" for nvidia/cublas/lib.

    The library is compressed, so it is read from its start up to the dynamic section. Raises Unreachable.
    """
    archive = RemoteWheel(wheel.url)
    if archive.find(_FRAMEWORK) is None:
        return ()
    try:
        folders = read_runpath(archive.stream(_FRAMEWORK))
    except NoRunpath as error:
        raise Unreachable(f"{_FRAMEWORK} in {wheel.url}: {error}") from error
    return tuple(sorted({found.group(1) for each in folders if (found := re.search(r"nvidia/(\w+)/lib$", each))}))


def read_kernel_targets(wheel: IndexedWheel) -> tuple[str, ...]:
    """Return what the kernels are compiled for, of a wheel whose build_info.py does not say it (from 2.22 on).

    The library is read up to its kernels, which lie behind its first quarter. Raises Unreachable.
    """
    archive = RemoteWheel(wheel.url)
    known, place = bytearray(), 0
    for piece in archive.stream(_KERNELS) if archive.find(_KERNELS) else ():
        known += piece
        while (begin := known.find(_CONTAINER, place)) >= 0 and len(known) > begin + _ENOUGH_BYTES:
            row = list(containers(io.BytesIO(known[begin : begin + _ENOUGH_BYTES]), 0, _ENOUGH_BYTES))
            if len(row) == CONTAINERS:  # single ones lie before
                return named(row)
            place = begin + len(_CONTAINER)
        if begin < 0:
            place = max(place, len(known) - len(_CONTAINER) + 1)
    return ()


def _required(needed: Iterable[Requirement], prefix: str) -> str:
    """Return the major version of a package of NVIDIA's that [and-cuda] requires: that of its lowest version."""
    found = [each for each in needed if _asks_extra(each) and canonicalize_name(each.name).startswith(prefix)]
    lowest = [bound.version for each in found for bound in each.specifier if bound.operator in (">=", "==")]
    return lowest[0].partition(".")[0] if lowest else ""


def parse_build_info(source: str) -> dict[str, object]:
    """Return the dictionary that build_info.py assigns; its `null` becomes None."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            return dict(ast.literal_eval(node.value.args[0]))
    raise Unreachable("build_info.py has an unknown format")


def _metadata(wheel: IndexedWheel, archive: RemoteWheel) -> email.message.Message:
    if wheel.has_metadata:
        return email.message_from_string(fetch(f"{wheel.url}.metadata")[0].decode("utf-8", "replace"))
    member = archive.find(".dist-info/METADATA")
    if member is None:
        raise Unreachable(f"{wheel.url} has no METADATA")
    return email.message_from_string(archive.text(member))


def _dotted(value: object) -> str:
    """Return a version in the form used on Linux: 11.2 for "64_112", 8 for "64_8"."""
    text = str(value or "")
    found = _WINDOWS.fullmatch(text)
    return ".".join(filter(None, found.groups())) if found else text


def _targets(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, (list, tuple)) else ()


def _asks_extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and f'extra == "{_EXTRA}"' in str(requirement.marker).replace("'", '"')


def _stand_in(needed: Iterable[Requirement], system: str, machine: str) -> str:
    """Return the package that a wheel without code requires on its own system."""
    here = {"platform_system": system, "platform_machine": machine, "extra": ""}
    possible = [each for each in needed if canonicalize_name(each.name) in _STANDS_FOR]
    meant = [each.name for each in possible if not each.marker or each.marker.evaluate(here)]
    return meant[0] if meant else ""


def _written(needed: Iterable[Requirement]) -> tuple[str, ...]:
    """Return the requirements in canonical form, sorted; the marker of the extra itself is left out."""
    lines = []
    for each in needed:
        bounds = ",".join(sorted(str(bound) for bound in each.specifier))
        marker = f"; {each.marker}" if each.marker and not _asks_extra(each) else ""
        lines.append(f"{canonicalize_name(each.name)}{bounds}{marker}")
    return tuple(sorted(lines))
