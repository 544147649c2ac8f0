"""Which files that a profile is learned from are copies of one recording."""

from __future__ import annotations

import msgspec
from healthy import broken, healthy, nvml_gpu

from tfgpu_doctor.accept.examine import Examined
from tfgpu_doctor.accept.recordings import each_once
from tfgpu_doctor.model.facts import Facts

FIRST, SECOND = "2026-11-20T01:00:00Z", "2026-11-20T02:00:00Z"


def at(moment: str, facts: Facts) -> Facts:
    return msgspec.structs.replace(facts, recorded=moment)


def kept(*runs: Facts) -> list[int]:
    """The places of the recordings that count."""
    given = [Examined(facts) for facts in runs]
    found, told = each_once([f"{place}.json" for place in range(len(runs))], given)
    assert bool(told) == (len(found) < len(given))
    return [next(place for place, each in enumerate(given) if each is one) for one in found]


def test_a_copy_with_other_contents_has_the_moment_and_the_gpus_of_the_first() -> None:
    one = at(FIRST, broken(nvml={"gpus": (nvml_gpu(),)}))
    assert kept(one, msgspec.structs.replace(one, doctor="0.0.9")) == [0]


def test_runs_of_other_moments_or_other_gpus_each_count() -> None:
    one = at(FIRST, broken(nvml={"gpus": (nvml_gpu(uuid="GPU-1"),)}))
    other = at(FIRST, broken(nvml={"gpus": (nvml_gpu(uuid="GPU-2"),)}))
    assert kept(one, at(SECOND, one), other) == [0, 1, 2]


def test_without_gpus_or_a_moment_the_content_decides() -> None:
    bare = at(FIRST, broken(nvml=None))
    assert kept(bare, bare, msgspec.structs.replace(bare, doctor="0.0.9")) == [0, 2]
    timeless = at("", healthy())
    assert kept(timeless, timeless, msgspec.structs.replace(timeless, doctor="0.0.9")) == [0, 2]
