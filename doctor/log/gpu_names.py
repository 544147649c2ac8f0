"""Find GPUs in free text ("1080ti", "two RTX 3090", "Tesla V100 32GB") and their compute capability."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.knowledge import Knowledge

_TOKEN = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)*")
_BRAND = re.compile(
    r"(?:nvidia|geforce|gtx|gts|gt|rtx|quadro|tesla|jetson)(?=[a-z]*\d|gtx|rtx|titan)|titan(?=(?:xp?|v|z|rtx)$)"
)
_NUMBER = re.compile(r"(?P<number>\d{3,4})(?P<mobile>mx?)?(?P<suffix>ti|super|max|boost|s)*")
_COUNTED = re.compile(r"\d{1,2}x(?=[a-z])")  # "8xA100"
_BRANDS = frozenset(("nvidia", "geforce", "gtx", "gts", "gt", "rtx", "quadro", "tesla", "titan", "jetson", "pro"))
_GEFORCE = frozenset(("geforce", "gtx", "gts", "gt", "rtx"))
_SUFFIXES = frozenset(("ti", "super"))
_LAPTOP = frozenset(("laptop", "mobile", "max"))  # max-q
_OF_OTHERS = frozenset(("m4",))  # a chip of Apple's, unless Tesla is before it
_NOT_DRIVERS = 800  # a smaller number after NVIDIA may be the branch of a driver: nvidia-470
_MOST_TOKENS = 200
_LONGEST_TOKEN = 40
_LONGEST_NAME = 8  # tokens
# What may be beside a number that is the name of a GPU by itself: "2 x 3090, 24 GB".
_BESIDE = re.compile(
    r"x|a|my|one|two|three|four|eight|and|with|nvidia|gpus?|cards?|graphics|vram|memory|ram|[gm]i?b|each"
    r"|ti|super|d|\d{1,2}(?:x|g|gi?b)?|x\d|\d{4,5}mi?b"
)


@dataclass(frozen=True)
class NamedGpu:
    """A GPU that a text names, and its compute capability."""

    name: str
    compute_capability: str


@dataclass(frozen=True)
class _Token:
    """A word or number of a text, in lower case; a brand is split from what follows it: gtx1080 is two."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Match:
    """The number of tokens of a name, and the compute capability; empty if the name is not specific."""

    tokens: int
    capability: str


def find_gpus(text: str, knowledge: Knowledge) -> list[NamedGpu]:
    """Return the GPUs that a short text names, each once."""
    if known := knowledge.gpu_named(text.strip()):
        return [NamedGpu(known.name, known.compute_capability)]
    tokens = _tokens(text)
    names, numbers = _names(knowledge)
    if _is_list(tokens, {**names, **numbers}):
        names = {**names, **numbers}
    found: dict[str, NamedGpu] = {}
    place, brands = 0, 0  # the first token not yet read, and the number of brands before it
    while place < len(tokens):
        match = _match(tokens, place, brands, names, knowledge)
        if match and match.capability:
            name = " ".join(text[tokens[place - brands].start : tokens[place + match.tokens - 1].end].split())
            found.setdefault(name.lower(), NamedGpu(name, match.capability))
        brands = brands + 1 if not match and tokens[place].text in _BRANDS else 0
        place += match.tokens if match else 1
    return list(found.values())


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    text = text.lower()
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if end - start <= _LONGEST_TOKEN:
            if counted := _COUNTED.match(text, start, end):
                start = counted.end()
            while brand := _BRAND.match(text, start, end):
                found.append(_Token(brand.group(), start, brand.end()))
                start = brand.end()
        found.append(_Token(text[start:end], start, end))
        if len(found) >= _MOST_TOKENS:
            break
    return found


@functools.lru_cache(maxsize=1)
def _names(knowledge: Knowledge) -> tuple[dict[str, str], dict[str, str]]:
    """Map the names of models, without spaces, to compute capabilities: those that are specific, and mere numbers."""
    names: dict[str, str] = {}
    numbers: dict[str, str] = {}
    for gpu in knowledge.gpus:
        for name in (gpu.name, gpu.name.removeprefix("NVIDIA "), *gpu.aliases):
            joined = _joined(_tokens(name))
            number = re.fullmatch(r"(?:gtx|rtx)?(\d{3,4}(?:d|m|\d{1,2}gb)?)", joined)
            if number:
                numbers[number[1]] = gpu.compute_capability
            if not number or number[1] != joined:
                names[joined] = gpu.compute_capability
    for (kind, name), capability in knowledge.gpu_series.items():
        if kind == "model" and name[0].isalpha():
            names.setdefault(name.replace(" ", ""), capability)
    return {name: value for name, value in names.items() if name not in _OF_OTHERS}, numbers


def _joined(tokens: Sequence[_Token]) -> str:
    return "".join(token.text for token in tokens)


def _is_list(tokens: Sequence[_Token], names: Mapping[str, str]) -> bool:
    """Whether a text names GPUs and nothing else, so that a mere number in it is one, too."""
    return all(token.text in names or token.text in _BRANDS or _BESIDE.fullmatch(token.text) for token in tokens)


def _match(
    tokens: Sequence[_Token], place: int, brands: int, names: Mapping[str, str], knowledge: Knowledge
) -> _Match | None:
    """Return the name that begins at a token, after some brands; None if none does."""
    before = [token.text for token in tokens[place - brands : place]]
    after = [token.text for token in tokens[place + 1 : place + 3]]
    return (
        _titan(tokens[place].text, after, before, knowledge)
        or _known(tokens, place, names, knowledge)
        or _numbered(tokens[place].text, after, before, names, knowledge)
    )


def _known(tokens: Sequence[_Token], place: int, names: Mapping[str, str], knowledge: Knowledge) -> _Match | None:
    """The longest name of the tables."""
    for end in range(min(place + _LONGEST_NAME, len(tokens)), place, -1):
        capability = names.get(_joined(tokens[place:end]))
        follows = tokens[end].text if end < len(tokens) else ""
        if capability and follows == "ada":  # people write RTX A6000 Ada for RTX 6000 Ada
            return _Match(end - place + 1, knowledge.gpu_series["series", "rtx ada"])
        if capability and not (tokens[end - 1].text == "titan" and ("titan", follows) in knowledge.gpu_series):
            return _Match(end - place, capability)
    return None


def _titan(text: str, after: Sequence[str], before: Sequence[str], knowledge: Knowledge) -> _Match | None:
    """The words after TITAN. A TITAN X is of Maxwell if it is a GTX, of Pascal if it says so, and else unknown."""
    if "titan" not in before:
        return None
    if after and (capability := knowledge.gpu_series.get(("titan", f"{text} {after[0]}"))):
        return _Match(2, capability)
    capability = knowledge.gpu_series.get(("titan", text))
    is_known = text != "x" or "gtx" in before
    return _Match(1, capability if is_known else "") if capability else None


def _numbered(
    text: str, after: Sequence[str], before: Sequence[str], names: Mapping[str, str], knowledge: Knowledge
) -> _Match | None:
    """A number, such as of a GeForce: it may be anything, such as a year, without a brand or a suffix."""
    series = knowledge.gpu_series
    if "ada" in after and re.fullmatch(r"a?\d{3,4}", text) and after[0] in ("ada", "sff"):
        return _Match(after.index("ada") + 2, series["series", "rtx ada"])
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    if line := series.get(("series", " ".join(before[-2:]))):
        return _Match(1, line)
    number, follows = found["number"], after[0] if after else ""
    is_geforce = not _GEFORCE.isdisjoint(before) and "quadro" not in before
    is_nvidia = "nvidia" in before and (bool(found["mobile"]) or int(number) >= _NOT_DRIVERS)
    is_laptop = follows in _LAPTOP and (f"gtx{number}" in names or f"rtx{number}" in names)
    if not (is_geforce or is_nvidia or is_laptop or found["suffix"] or follows in _SUFFIXES):
        return None
    mobile = found["mobile"] or (follows if is_geforce and follows == "m" else "")
    capability = series.get(("model", f"{number}{mobile}"), "")
    if not capability and number[-1] in "05" and number[-2:] != "00":
        capability = series.get(("series", number[:-2]), "")
    return _Match(2 if follows in ("m", *_SUFFIXES) else 1, capability)
