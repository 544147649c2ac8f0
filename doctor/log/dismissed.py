"""What looks like a trouble, and is none beside something else in the same text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import USES, Hits
from tfgpu_doctor.log.fixes import OF_GPU
from tfgpu_doctor.log.lines import split_lines
from tfgpu_doctor.log.signatures import Hit

# What shows that TensorFlow has no GPU, somewhere or sometimes.
_NO_GPU = (
    "no_gpu_listed", "no_gpu_registered", "cannot_dlopen", "no_cuda_found", "no_device", "cuinit_303", "cuinit_unknown",
    "library_lost", "windows_dll_lost", "import_library", "built_without_cuda", "prose_works_in_shell",
)  # fmt: skip
_LONE_LIST = re.compile(r"(?:Out\[\d+\]: )?\[\]")
_GPU_INDEX = re.compile(r"GPU:(\d+)", re.IGNORECASE)
_COUNTED = re.compile(r"GPUs Available: *(\d+)")
_ABOUT_PTX = re.compile(r"ptx|libdevice", re.IGNORECASE)
_SAYS_NOTHING = ("noise_", "tells_", "says_")
_OF_PROGRAM = ("prose_error", "prose_crash")
_TRACEBACK = "Traceback (most recent call last):"
_OF_CUDART = ("library_lost", "windows_dll_lost", "cudart_lost", "cudart_noise", "prose_data_loading", "prose_random")


def without_dismissed(hits: Hits) -> Hits:
    """Drop the lines that mean nothing beside others: see the functions below."""
    hits = _kept(hits, "no_gpu_listed", _means_no_gpu(hits))
    hits = _kept(hits, "no_gpu_registered", _should_exist(hits))
    return _kept(hits, "ptxas_absent", _fails_without_ptxas(hits))


def _kept(hits: Hits, name: str, matters: Callable[[Hit], bool]) -> Hits:
    """The same with only those of a name that matter; without the name if none does."""
    if name not in hits:
        return hits
    kept = [hit for hit in hits[name] if matters(hit)]
    return {**hits, name: kept} if kept else {each: kind for each, kind in hits.items() if each != name}


def _means_no_gpu(hits: Hits) -> Callable[[Hit], bool]:
    """An empty list is one of GPUs, unless the text shows a GPU in use, and nobody says that it is not used."""
    ran_out = any("gpu" in hit.text.lower() for hit in hits.get("oom_tensor", ()))
    is_used = (ran_out or any(name in hits for name in USES)) and "prose_gpu_not_used" not in hits
    return lambda hit: not (is_used and _LONE_LIST.fullmatch(hit.text.strip(" \"',")))


def _should_exist(hits: Hits) -> Callable[[Hit], bool]:
    """A GPU that is asked for should exist, unless a lower index is the last that TensorFlow has."""
    names = (*USES, "gpu_listed", "gpu_seen")
    texts = [hit.text for name in names for hit in hits.get(name, ())]
    last = max((int(index) for text in texts for index in _GPU_INDEX.findall(text)), default=-1)
    last = max((last, *(int(found[1]) - 1 for text in texts if (found := _COUNTED.search(text)))))

    def should(hit: Hit) -> bool:
        asked, *others = map(int, _GPU_INDEX.findall(hit.text) or [0])
        return not 0 <= max((last, *others)) < asked

    return should


def _fails_without_ptxas(hits: Hits) -> Callable[[Hit], bool]:
    """The check of red zones does without ptxas, and says so once; it matters if a later line is about PTX as well."""
    quiet = {hit.line for hit in hits.get("noise_redzone_ptxas", ())}
    others = [
        hit.line
        for name, kind in hits.items()
        if not name.startswith(_SAYS_NOTHING)
        for hit in kind
        if hit.line not in quiet and _ABOUT_PTX.search(hit.text)
    ]
    return lambda hit: hit.line not in quiet or any(line > hit.line for line in others)


def with_absent_gpus(hits: Hits) -> Hits:
    """Add `gpus_absent` for the lines that say that there is no GPU; a lone empty list may be one of anything."""
    absent = [hit for hit in hits.get("no_gpu_listed", ()) if not _LONE_LIST.fullmatch(hit.text.strip(" \"',"))]
    return {**hits, "gpus_absent": absent} if absent else hits


def with_cudart_noise(
    hits: Hits, context: Context, complaints: Collection[str], texts: Sequence[tuple[int, str]] = ()
) -> Hits:
    """Add `cudart_noise`, where libcudart alone is missing, and nothing is about a GPU.

    TensorFlow says that this may be ignored then; JAX prints the line without that. `cudart_before_exception`: the
    program ends afterwards, with an exception that is not about a GPU.
    """
    lost = [hit for name in ("library_lost", "windows_dll_lost") for hit in hits.get(name, ())]
    if (
        not lost
        or not ("noise_cudart" in hits or "says_jax" in hits)
        or context.values.get("gpu")
        or context.values.get("cuda")
    ):
        return hits
    if not all(hit.groups["library"].startswith(("libcudart.so", "cudart64_")) for hit in lost):
        return hits
    ends = _exception_after(texts, lost[-1].line)
    others = [
        name
        for name, kind in hits.items()
        if not name.startswith(_SAYS_NOTHING)
        and name not in _OF_CUDART
        and not (ends and name == "plain_exception" and all(hit.line > ends for hit in kind))
        and not (ends and name in _OF_PROGRAM and not any(OF_GPU.search(hit.text) for hit in kind))
    ]
    if any(name in complaints or not name.startswith("prose_") for name in others):
        return hits
    return {**hits, "cudart_noise": lost, **({"cudart_before_exception": lost} if ends else {})}


def _exception_after(texts: Sequence[tuple[int, str]], line: int) -> int:
    """The line of the last traceback, if it is after this line, and what follows is not about a GPU; otherwise 0."""
    for first, text in reversed(texts):
        before, begin, after = text.rpartition(_TRACEBACK)
        if begin:
            number = first + len(split_lines(before + begin)) - 1
            return number if number > line and not OF_GPU.search(after) else 0
    return 0


def seen_but_idle(hits: Hits) -> Hits:
    """Read "the GPU is not used" as "the GPU is idle", where the log shows that TensorFlow has the GPU, and no failure."""
    has_gpu = any(name in hits for name in (*USES, "gpu_listed"))
    if not has_gpu or "prose_gpu_not_used" not in hits or any(name in hits for name in _NO_GPU):
        return hits
    return {("prose_gpu_idle" if name == "prose_gpu_not_used" else name): kind for name, kind in hits.items()}


def without_comparison(hits: Hits) -> Hits:
    """Drop that there is no GPU, where somebody compares the speed of a GPU that works with a run for which it was hidden."""
    works = any(name in hits for name in ("cudnn_loaded", "gpu_listed", *USES))
    compared = "prose_visible_devices" in hits and any(name in hits for name in ("prose_slow", "prose_gpu_slower"))
    if not works or not compared or "prose_gpu_not_used" in hits:
        return hits
    return {name: kind for name, kind in hits.items() if name != "no_device"}
