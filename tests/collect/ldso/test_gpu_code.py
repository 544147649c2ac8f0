"""For which GPUs a library holds code."""

from __future__ import annotations

import importlib.util
import io
import pathlib
import random

import pytest
from installed import skip_without_tensorflow
from made_up_releases import BUILT, made_up_container, made_up_gpu_library

from tfgpu_doctor.collect.ldso.gpu_code import CONTAINERS, containers, gpu_targets
from tfgpu_doctor.collect.probes.tensorflow_wheel import parse_build_info

LIBRARY = made_up_gpu_library(*[made_up_container(*BUILT)] * 3)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([BUILT], ("sm_60", "compute_90")),
        ([((2, 80),), BUILT, BUILT], ("sm_60", "compute_90")),  # a kernel for one GPU alone
        ([((1, 90), (2, 80))], ("sm_80", "ptx_90")),
        ([((16, 90), (2, 120), (2, 100))], ("sm_100", "sm_120")),  # a kind that is not known
        ([()], ()),
        ([], ()),
    ],
)
def test_the_targets_of_most_containers_are_named(
    rows: list[tuple[tuple[int, int], ...]], expected: tuple[str, ...]
) -> None:
    library = made_up_gpu_library(*(made_up_container(*each) for each in rows))
    assert gpu_targets(io.BytesIO(library)) == expected


def test_only_the_first_containers_are_read() -> None:
    first, later = made_up_container(*BUILT), made_up_container((2, 70))
    library = made_up_gpu_library(*[first] * CONTAINERS, *[later] * (2 * CONTAINERS))
    assert gpu_targets(io.BytesIO(library)) == ("sm_60", "compute_90")


def test_a_container_that_claims_more_than_there_is_ends_with_it() -> None:
    whole = made_up_container(*BUILT)
    claims = whole[:8] + (1 << 40).to_bytes(8, "little") + whole[16:]
    assert list(containers(io.BytesIO(claims), 0, len(claims))) == [((1, 90), (2, 60), (2, 90))]


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"version https://git-lfs\n" * 9, LIBRARY[:64], LIBRARY[:-200]])
def test_what_is_no_whole_library_has_no_targets(content: bytes) -> None:
    assert gpu_targets(io.BytesIO(content)) == ()


def test_damaged_libraries_end_in_an_answer() -> None:
    chance = random.Random(20261126)
    for _ in range(3000):
        damaged = bytearray(LIBRARY)
        for _ in range(chance.randint(1, 6)):
            place = chance.choice(
                [chance.randrange(64), 4096 + chance.randrange(600), len(LIBRARY) - 1 - chance.randrange(400)]
            )
            damaged[place] = chance.randrange(256)
        assert isinstance(gpu_targets(io.BytesIO(damaged)), tuple)


@pytest.mark.tensorflow
def test_a_real_tensorflow_holds_what_its_build_says() -> None:
    """As its build_info.py says, where it says anything (up to 2.21)."""
    skip_without_tensorflow()
    spec = importlib.util.find_spec("tensorflow")
    assert spec and spec.origin
    package = pathlib.Path(spec.origin).parent
    said = parse_build_info((package / "python/platform/build_info.py").read_text("utf-8"))
    if not said["is_cuda_build"]:
        pytest.skip("this TensorFlow is built without CUDA")
    with (package / "libtensorflow_cc.so.2").open("rb") as file:
        found = gpu_targets(file)
    assert found
    assert tuple(said.get("cuda_compute_capabilities", found)) == found
