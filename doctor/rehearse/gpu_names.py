"""Find the GPU in the table that a user means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from tfgpu_doctor.knowledge.schema import GpuModel
from tfgpu_doctor.model.plain_text import shortened

_MAKERS = {"nvidia", "geforce", "tesla"}  # words that users leave out or add
_MOST_SUGGESTIONS = 4
_MOST_NAMED = 12


class UnknownGpu(ValueError):
    """A name that matches no GPU in the table, or several, which are `matches`; the message lists similar names."""

    def __init__(self, message: str, matches: Sequence[GpuModel] = ()) -> None:
        super().__init__(message)
        self.matches = matches


def find_gpu(name: str, models: Sequence[GpuModel]) -> GpuModel:
    """Return the model of that name: in any case, with or without the brand, or a part that matches only one model.

    Raises UnknownGpu.
    """
    name = shortened(name)
    wanted = _words(name)
    exact = [model for model in models if wanted in (_words(each) for each in (model.name, *model.aliases))]
    if wanted and len(exact) == 1:
        return exact[0]
    partial = [model for model in models if wanted and set(wanted) <= _all_words(model)]
    if len(partial) == 1:
        return partial[0]
    if partial:
        raise UnknownGpu(f"{name!r} matches several GPUs: {_names(partial)}", partial)
    if not wanted:
        raise UnknownGpu(f"{name!r} is not a GPU that the doctor knows: a model is missing, as in 'RTX 4090'")
    raise UnknownGpu(f"{name!r} is not a GPU that the doctor knows; similar names: {_names(_nearest(name, models))}")


def _words(name: str) -> tuple[str, ...]:
    """Return the distinctive words in lower case: a100, sxm4, 40gb of "NVIDIA A100-SXM4-40GB"; gtx, 1080, ti of "GTX1080Ti"."""
    apart = re.sub(r"\b([rg]tx)(?=\d)|(?<=\d)(ti)\b", r" \1\2 ", name.lower())
    return tuple(word for word in re.findall(r"[a-z0-9]+", apart) if word not in _MAKERS)


def _all_words(model: GpuModel) -> set[str]:
    return {word for name in (model.name, *model.aliases) for word in _words(name)}


def _nearest(name: str, models: Sequence[GpuModel]) -> list[GpuModel]:
    by_name = {" ".join(_words(each)): model for model in models for each in (model.name, *model.aliases)}
    close = difflib.get_close_matches(" ".join(_words(name)), by_name, n=2 * _MOST_SUGGESTIONS, cutoff=0.0)
    return list({by_name[each].name: by_name[each] for each in close}.values())[:_MOST_SUGGESTIONS]


def _names(models: Sequence[GpuModel]) -> str:
    names = [model.name for model in models[:_MOST_NAMED]]
    left = len(models) - len(names)
    return ", ".join(names) + (f" and {left} more" if left else "")
