"""Signatures that no single pattern matches: they follow from values in several lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.file_names import ONE_NAME_PER_MAJOR
from tfgpu_doctor.log.gpu_names import find_gpus
from tfgpu_doctor.log.machine import NOT_A_LINE, needed
from tfgpu_doctor.log.registered_memory import little_memory, small_pool
from tfgpu_doctor.log.signatures import Found, Hit
from tfgpu_doctor.log.xids import xid_signatures

Hits = dict[str, list[Hit]]
USES = ("described_gpu", "gpu_created", "gpu_allocator", "gpu_executes")  # each shows that TensorFlow uses a GPU
_MAY_OPEN_LATER = ("library_lost", "windows_dll_lost")
_FOLLOWS = 3  # lines
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
_UNUSED_MIB, _UNUSED_PERCENT = 500, 5  # a desktop uses less than this; TensorFlow takes more, even with memory growth
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LITTLE_BYTES = 1 << 30  # an allocator that starts with less than this found a GPU whose memory other processes use
_LITTLE_SHARE = 0.1
# Libraries named after the CUDA release that they belong to; the others have separate version numbers.
_NAMED_AFTER_CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt)\.so\.(\d+(?:\.\d+)?)|cudart64_(\d+)\.dll")
_CUDART = re.compile(r"libcudart\.so\.(\d+\.\d+)|cudart64_(\d{2,3})\.dll")
_TOOLKIT = re.compile(r"lib(?:cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse)\.so")
# Opened, it says that TensorFlow found its own CUDA; from CUDA 11 on, the others' names do not have its version.
_OWN_CUDA = re.compile(r"lib(?:cudart\.so\.|cu(?:blas|fft|rand|solver|sparse)\.so\.\d+\.\d)|cudart64_")
# The last release whose import fails without its CUDA is 1.12: what it shows of a GPU, it shows with its CUDA.
_LINKED = re.compile(r"\D{0,20}\b1\.(?:\d|1[0-2])\b(?!\d)")
_LAST_OLD_MAJOR = 5  # Maxwell: the kernels in TensorFlow's wheels are for Pascal and newer, and PTX does not go back
# From 2.22 on this file prints the names again, of all libraries: these three come from packages of their own.
_SINCE_2_22, _OF_ALL = "dlopen_checker.cc", ("libcublas.so", "libcufft.so", "libcudnn.so")
_OWN_BUILD = re.compile(r"\bsource\b|\bbazel\b", re.IGNORECASE)  # for the GPUs that its builder chose
_RELEASED = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu")
_WHOLE = 3  # numbers of a release


def derive(found: Mapping[str, Found], context: Context, knowledge: Knowledge) -> Hits:
    """Return every signature that was found, including the derived ones."""
    hits = _without_opened({name: each.hits for name, each in found.items()})
    for name, hit in (
        *_libraries(hits),
        *_cuda(hits, context),
        *_driver(hits),
        *_capabilities(hits, knowledge),
        *_opened_cuda(hits, context, knowledge),
        *_kernels(context, knowledge),
        *_compilers(hits),
        *_memory(hits),
        *(() if context.knows("mig") else little_memory(hits, knowledge)),
        *small_pool(hits),
        *_idle(hits),
        *xid_signatures(hits, knowledge),
        *_versions(hits, knowledge),
    ):
        hits.setdefault(name, []).append(hit)
    return hits


def _without_opened(hits: Hits) -> Hits:
    """Drop the libraries that could not be loaded and later were: by their times if both lines have one (a notebook)."""
    opened = [hit for hit in hits.get("opened", ()) if "library" in hit.groups]

    def is_opened(lost: Hit) -> bool:
        return any(hit.groups["library"] == lost.groups["library"] and _is_later(hit, lost) for hit in opened)

    lost = [hit for name in _MAY_OPEN_LATER for hit in hits.get(name, ())]
    gone = {hit.line for hit in lost if is_opened(hit)} - {hit.line for hit in lost if not is_opened(hit)}
    if not gone:
        return hits
    if all(hit.line in gone for hit in lost):
        gone |= {hit.line for hit in hits.get("cannot_dlopen", ()) if max(gone) < hit.line <= max(gone) + _FOLLOWS}
    kept = {name: [hit for hit in kind if hit.line not in gone] for name, kind in hits.items()}
    return {name: kind for name, kind in kept.items() if kind}


def _is_later(hit: Hit, other: Hit) -> bool:
    times = [found.group() for each in (hit, other) if (found := _TIME.search(each.text))]
    if len(times) == 2 and times[0] != times[1]:
        return times[0] > times[1]
    return hit.line > other.line


def _idle(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """What `nvidia-smi` shows where no program uses a GPU: nothing is computed, and almost no memory is used."""
    rows = hits.get("tells_smi_row", [])
    if any(name in hits for name in USES):
        return
    if rows and all(map(_is_idle, rows)):
        yield "smi_idle", rows[0]


def _is_idle(row: Hit) -> bool:
    used, busy = (int(row.groups[name]) for name in ("used_mib", "busy_percent"))
    return used < _UNUSED_MIB and busy < _UNUSED_PERCENT


def _libraries(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """Derive signatures from the names of the libraries that could not be loaded."""
    lost = [hit for name in ("library_lost", "import_library", "windows_dll_lost") for hit in hits.get(name, [])]
    names = {hit.groups["library"] for hit in lost}
    imported = hits.get("import_library", [])
    for hit in lost:
        name, cause = hit.groups["library"], hit.groups.get("cause", "")
        if name.startswith(("libcuda.so", "nvcuda.dll")):
            yield "libcuda_lost", hit
            if names <= {"libcuda.so.1", "libcuda.so", "nvcuda.dll"}:
                yield "libcuda_only_lost", hit
        elif cause and cause != name:
            yield "needed_library_lost", hit
        elif name.startswith(("libcudart.so", "cudart64_")):
            if _SINCE_2_22 not in hit.text:
                yield "cudart_lost", hit
        # Only CUDA 11.0 has this name together with libcudart.so.11.0; later releases have libcusolver.so.11 (release notes).
        elif name == "libcusolver.so.10" and not any(each.startswith("libcudart") for each in names):
            yield "minor_library_lost", hit
        elif hit in imported and _TOOLKIT.match(name):
            yield "toolkit_library_lost", hit
    named = [hit for hit in lost if _SINCE_2_22 in hit.text]
    is_whole = all(any(hit.groups["library"].startswith(each) for hit in named) for each in _OF_ALL)
    for hit in named:
        yield ("whole_cuda_lost" if is_whole else "some_cuda_lost"), hit
    for hit in hits.get("cudnn_part_lost", []):
        if hit.groups.get("cause", "").startswith("libcuda.so"):
            yield "cudnn_needs_libcuda", hit


def _cuda(hits: Hits, context: Context) -> Iterator[tuple[str, Hit]]:
    """Whether the CUDA version of a library that could not be loaded is known to be installed."""
    installed = [_parts(text) for text in re.findall(r"\d+(?:\.\d+)*", context.values.get("cuda", ""))]
    for name in ("library_lost", "import_library", "windows_dll_lost"):
        for hit in hits.get(name, []):
            found = _NAMED_AFTER_CUDA.match(hit.groups["library"])
            if found and installed:
                wanted = _parts(found[1] or _dotted(found[2]))
                same = any(each[: len(wanted)] == wanted for each in installed)
                yield "cuda_as_wanted" if same else "cuda_other", hit


def _parts(version: str) -> list[int]:
    """Return the part of a CUDA version that the names of its libraries distinguish."""
    parts = [int(part) for part in version.split(".")]
    return parts[:1] if parts[0] >= ONE_NAME_PER_MAJOR else parts[:2]


def _dotted(digits: str) -> str:
    """Return the version in the name of a DLL: 110 is 11.0, 90 is 9.0, and 12 is 12."""
    return digits if digits.startswith("1") and len(digits) == 2 else f"{digits[:-1]}.{digits[-1]}"


def _driver(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """A library older than the module does not come from an upgrade without a reboot: that leaves a newer library."""
    for hit in hits.get("dso_mismatch", []):
        kernel, library = (version(hit.groups[name].strip(".")) for name in ("kernel", "library"))
        if library < kernel:
            yield "older_library", hit


def _capabilities(hits: Hits, knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Whether a GPU is newer or older than those TensorFlow was built for, or in between."""
    too_new = version(knowledge.boundaries["first_capability_where_ptx_fails"].value)
    for hit in hits.get("not_built_for", []):
        capability = version(hit.groups["capability"])
        if capability >= too_new:
            yield "not_built_for_new", hit
        elif capability.major <= _LAST_OLD_MAJOR:
            yield "not_built_for_old", hit
        else:
            yield "not_built_for_middle", hit


def _opened_cuda(hits: Hits, context: Context, knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Whether TensorFlow opened its CUDA, and whether a GPU is newer: that CUDA has neither kernels nor libraries for it."""
    yield from (("own_cuda_opened", hit) for hit in hits.get("opened", []) if _OWN_CUDA.search(hit.text))
    if _LINKED.match(context.values.get("tensorflow", "")):
        yield from (("own_cuda_opened", hit) for hit in hits.get("capability_shown", []))
    opened = [found for hit in hits.get("opened", []) if (found := _CUDART.search(hit.text))]
    if not opened:
        return
    cuda = opened[0][1] or _dotted(opened[0][2])
    for hit in (*hits.get("capability_shown", []), *hits.get("described_gpu", [])):
        capability = hit.groups.get("capability") or f"{hit.groups.get('major', '')}.{hit.groups.get('minor', '')}"
        first = knowledge.first_ptxas(f"{capability.partition('.')[0]}.0")  # its kernels run on later minor versions
        if first and version(first.cuda) > version(cuda):
            text = (
                f"{hit.text} (CUDA {cuda} is loaded; compute capability {capability} needs CUDA {first.cuda} or newer)"
            )
            yield "gpu_newer_than_opened_cuda", Hit(hit.line, text, {})


def _kernels(context: Context, knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Whether the stated release has machine code for each stated GPU, so that nothing is compiled for it at the start."""
    needs = needed(context, knowledge)
    gpus = find_gpus(context.values.get("gpu", ""), knowledge)
    if needs is None or not gpus or _OWN_BUILD.search(context.values.get("install_method", "")):
        return
    if all(kernels_for(gpu.compute_capability, needs.compute_capabilities) == "native" for gpu in gpus):
        names = ", ".join(gpu.name for gpu in gpus)
        yield "kernels_fit_gpu", Hit(NOT_A_LINE, f"TensorFlow {needs.minor} has machine code for {names}", {})


def _compilers(hits: Hits) -> Iterator[tuple[str, Hit]]:
    """A ptxas that XLA refuses to use, and another to install."""
    for hit in hits.get("ptxas_refused", []):
        refused = hit.groups["ptxas"]
        major = refused.partition(".")[0]
        fix = (
            f"XLA does not use ptxas {refused}, for a bug in it: install another one with `pip install --upgrade "
            f'"nvidia-cuda-nvcc-cu{major}>{refused},<{int(major) + 1}"`, or put another ptxas before it on PATH.'
        )
        yield "ptxas_with_known_bug", Hit(hit.line, hit.text, {**hit.groups, "fix": fix})


def _memory(hits: Hits) -> Iterator[tuple[str, Hit]]:
    total = max((_bytes(hit) for hit in hits.get("total_memory", [])), default=0)
    for hit in hits.get("free_memory", []):
        if total and _bytes(hit) < _LITTLE_SHARE * total:
            yield "low_free_memory", hit
    # TensorFlow requests a tenth less each time: if it gets little, other processes use the rest.
    least = min(hits.get("device_out_of_memory", []), key=_bytes, default=None)
    if least and _bytes(least) < _LITTLE_BYTES:
        yield "low_free_memory", least


def _bytes(hit: Hit) -> float:
    try:
        return float(hit.groups["amount"].rstrip(".")) * _UNITS[hit.groups["unit"]]
    except ValueError:
        return float("inf")


def _versions(hits: Hits, knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """What pip could not find. For tensorflow-gpu, releases before it was discontinued count as any other package's."""
    ended = version(knowledge.boundaries["tensorflow_gpu_first_empty_release"].value)
    for hit in hits.get("no_version", []):
        wanted = re.match(r"([\w.-]+)(?:\[[^\]]*\])?(?:==(\d[\w.]*))?", hit.groups["wanted"].strip("'\"`"))
        name = wanted[1].lower().replace("_", "-") if wanted else ""
        if name.startswith("tensorrt"):
            yield "no_tensorrt_libs", hit
        elif wanted and name == "tensorflow-gpu" and version(wanted[2] or "0") >= ended:
            yield "no_gpu_package", hit
        elif wanted and name in _RELEASED and not _was_released(wanted[2] or "", knowledge):
            fix = f"No release {wanted[2]} of TensorFlow is known: choose one that pip lists, or one of `tfgpu-doctor matrix`."
            yield "plain_no_such_release", Hit(hit.line, hit.text, {**hit.groups, "fix": fix})
        elif name.startswith(("tensorflow", "tf-nightly")):
            yield "no_tensorflow_version", hit


def _was_released(wanted: str, knowledge: Knowledge) -> bool:
    """Whether there may be such a release: the table has each final one from its first to its last, and none of the future."""
    asked = version(wanted or "0")
    if (
        len(asked.release) < _WHOLE
        or asked.is_prerelease
        or asked.local
        or asked > version(knowledge.tensorflow_releases[-1].version)
    ):
        return True
    known = {version(each.version) for each in knowledge.tensorflow_releases}
    return asked in known or asked < min(known)
