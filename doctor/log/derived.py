"""Signatures that no single pattern gives: what follows from the values that several lines hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tfgpu_doctor.knowledge import version
from tfgpu_doctor.log.signatures import Found, Hit

Hits = dict[str, list[Hit]]
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LITTLE_BYTES = 1 << 30  # an allocator that begins with less than this found a GPU that others fill
_LITTLE_SHARE = 0.1
# By Xid (https://docs.nvidia.com/deploy/xid-errors/): errors of the GPU's memory, and of the program or the GPU's engine.
_MEMORY_XIDS = {"48", "63", "64", "74", "92", "94", "95"}
_OFF_THE_BUS_XIDS = {"79"}
_APPLICATION_XIDS = {"13", "31", "43", "45", "62", "68"}


def derive(found: Mapping[str, Found]) -> Hits:
    """Every signature that was seen, with the derived ones."""
    hits: Hits = {name: each.hits for name, each in found.items()}
    for name, hit in (
        *_libraries(hits),
        *_driver(hits),
        *_capabilities(hits),
        *_memory(hits),
        *_xids(hits),
        *_versions(hits),
    ):
        hits.setdefault(name, []).append(hit)
    return hits


def _libraries(hits: Hits) -> Iterator[tuple[str, Hit]]:
    lost = hits.get("library_lost", [])
    names = {hit.groups["library"] for hit in lost}
    for hit in lost:
        name, cause = hit.groups["library"], hit.groups.get("cause", "")
        if name.startswith("libcuda.so"):
            yield "libcuda_lost", hit
            if len({each for each in names if "nvinfer" not in each}) == 1:
                yield "libcuda_only_lost", hit
        elif cause and cause != name:
            yield "needed_library_lost", hit
        elif name.startswith("libcudart.so"):
            yield "cudart_lost", hit
        # CUDA 11.0 alone has this name beside a libcudart.so.11.0; every later one has libcusolver.so.11 (release notes).
        elif name == "libcusolver.so.10" and not any(each.startswith("libcudart") for each in names):
            yield "minor_library_lost", hit
    for hit in hits.get("cudnn_part_lost", []):
        if hit.groups.get("cause", "").startswith("libcuda.so"):
            yield "cudnn_needs_libcuda", hit


def _driver(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """A library older than the module was not left by an upgrade without a reboot: that leaves a newer one."""
    for hit in hits.get("dso_mismatch", []):
        kernel, library = (version(hit.groups[name].strip(".")) for name in ("kernel", "library"))
        if library < kernel:
            yield "older_library", hit


def _capabilities(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """Which way a GPU differs from what TensorFlow was built for."""
    for hit in hits.get("not_built_for", []):
        major = int(hit.groups["capability"].partition(".")[0])
        if major >= 10:
            yield "not_built_for_new", hit
        elif major <= 5:
            yield "not_built_for_old", hit
        else:
            yield "not_built_for_middle", hit


def _memory(hits: Hits) -> Iterator[tuple[str, Hit]]:
    total = max((_bytes(hit) for hit in hits.get("total_memory", [])), default=0)
    for hit in hits.get("free_memory", []):
        if total and _bytes(hit) < _LITTLE_SHARE * total:
            yield "low_free_memory", hit
    first = next(iter(hits.get("device_out_of_memory", [])), None)
    if first and _bytes(first) < _LITTLE_BYTES:
        yield "low_free_memory", first


def _bytes(hit: Hit) -> float:
    try:
        return float(hit.groups["amount"].rstrip(".")) * _UNITS[hit.groups["unit"]]
    except ValueError:
        return float("inf")


def _xids(hits: Hits) -> Iterator[tuple[str, Hit]]:
    kinds = (
        ("xid_memory", _MEMORY_XIDS),
        ("xid_off_the_bus", _OFF_THE_BUS_XIDS),
        ("xid_application", _APPLICATION_XIDS),
    )
    for hit in hits.get("xid", []):
        for name, codes in kinds:
            if hit.groups["xid"] in codes:
                yield name, hit


def _versions(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """What pip could not find."""
    for hit in hits.get("no_version", []):
        wanted = re.match(r"[\w.-]+", hit.groups["wanted"])
        name = wanted.group().lower().replace("_", "-") if wanted else ""
        if name.startswith("tensorrt"):
            yield "no_tensorrt_libs", hit
        elif name == "tensorflow-gpu":
            yield "no_gpu_package", hit
        elif name.startswith(("tensorflow", "tf-nightly")):
            yield "no_tensorflow_version", hit
