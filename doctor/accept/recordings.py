"""The recordings among the files that a profile is learned from: copies of one recording are one run, not several."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tfgpu_doctor.accept.canonical import digest_of_bytes
from tfgpu_doctor.accept.examine import Examined
from tfgpu_doctor.accept.learning_models import gpu_uuids
from tfgpu_doctor.model.facts import Facts, encode_facts


def each_once(paths: Sequence[str], recorded: Sequence[Examined]) -> tuple[list[Examined], list[str]]:
    """Return the recordings, each once, and a sentence for each that several of the files contain."""
    found: dict[Hashable, list[int]] = {}
    for place, examined in enumerate(recorded):
        found.setdefault(_identity(examined.facts), []).append(place)
    told = [_told([paths[place] for place in places]) for places in found.values() if len(places) > 1]
    return [recorded[places[0]] for places in found.values()], told


def _identity(facts: Facts) -> Hashable:
    """Return the moment of the recording and its GPUs, which a copy with other contents shares; without them, the content."""
    uuids = tuple(filter(None, gpu_uuids(facts)))
    return (facts.recorded, uuids) if facts.recorded and uuids else digest_of_bytes(encode_facts(facts))


def _told(paths: Sequence[str]) -> str:
    names = list(dict.fromkeys(paths))
    if len(names) == 1:
        return f"{names[0]} was given {len(paths)} times: it counts as one run"
    return f"{', '.join(names[:-1])} and {names[-1]} are one recording: they count as one run"
