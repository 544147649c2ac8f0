"""Find GPUs in free text ("1080ti", "two RTX 3090", "Tesla V100 32GB") and their compute capability."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfgpu_doctor.knowledge import Knowledge

_NAME = re.compile(
    r"(?<![\w.])(?P<series>(?:nvidia |geforce |quadro |tesla |titan )*(?:gtx|rtx|gts|gt|titan|tesla|quadro|geforce|nvidia))?[ -]?"
    r"(?P<model>(?:[abhklmptv]|gh|gb|rtx ?a|mx|gb)?\d{2,4}[mx]?|x\b|xp\b|v\b|rtx|z\b|black|l4\b|t4\b)"
    r"[ -]?(?P<suffix>(?:ti super|ti|super|max-q|mobile|laptop|ada|m\b)\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NamedGpu:
    """A GPU that a text names, and its compute capability."""

    name: str
    compute_capability: str


def find_gpus(text: str, knowledge: Knowledge) -> list[NamedGpu]:
    """Return the GPUs that a short text names, each once."""
    if known := knowledge.gpu_named(text.strip()):
        return [NamedGpu(known.name, known.compute_capability)]
    found: dict[str, NamedGpu] = {}
    for match in _NAME.finditer(text):
        series, model = (match["series"] or "").lower(), match["model"].lower().replace(" ", "")
        capability = _capability(series, model, (match["suffix"] or "").lower(), knowledge.gpu_series)
        if capability:
            name = " ".join(match.group().split())
            found.setdefault(name.lower(), NamedGpu(name, capability))
    return list(found.values())


def _capability(series: str, model: str, suffix: str, table: Mapping[tuple[str, str], str]) -> str:
    """Return the compute capability; empty if the name is not specific, or the number may be anything, such as a year."""
    if series.endswith("titan"):
        return table.get(("titan", model), "")
    model = model.removeprefix("rtx").strip()
    full = f"{model}{suffix}" if suffix == "m" else model
    if (series or model[:1].isalpha()) and ("model", full) in table:
        return table["model", full]
    number = re.match(r"\d{3,4}", model)
    if not number or not (series or suffix) or not number.group().endswith(("0", "5")):
        return ""
    if series.endswith("quadro"):
        return table.get(("series", "20"), "") if "rtx" in series else ""
    return table.get(("series", number.group()[:-2]), "")
