"""Which code of a build runs on which GPU."""

from __future__ import annotations

import pytest

from tfgpu_doctor.knowledge.compute_capability import kernels_for, newest_major

BUILD = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")  # TensorFlow 2.21.0


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("3.7", "never"), ("5.2", "never"), ("6.0", "native"), ("6.1", "native"), ("7.0", "native"), ("7.5", "native"),
        ("8.0", "native"), ("8.6", "native"), ("8.9", "native"), ("9.0", "native"), ("10.0", "ptx"), ("12.0", "ptx"),
        ("12.1", "ptx"),
    ],
)  # fmt: skip
def test_gpus_with_the_build_of_today(capability: str, expected: str) -> None:
    assert kernels_for(capability, BUILD) == expected


@pytest.mark.parametrize(
    ("capability", "built", "expected"),
    [
        ("8.6", ("sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80"), "native"),
        ("8.6", ("sm_89",), "never"),
        ("9.0", ("sm_90a",), "native"),
        ("9.1", ("sm_90a",), "never"),
        ("12.0", ("compute_90a",), "never"),
        ("12.0", ("sm_120",), "native"),
        ("12.1", ("sm_100", "sm_120"), "native"),
        ("10.0", ("sm_120",), "never"),
        ("8.6", ("gfx906",), "unknown"),
        ("8.6", (), "unknown"),
        ("9", ("sm_90",), "native"),
        ("9.0", ("sm_80", "ptx_90"), "ptx"),
        ("8.9", ("sm_90", "ptx_90"), "never"),
    ],
)
def test_rules(capability: str, built: tuple[str, ...], expected: str) -> None:
    assert kernels_for(capability, built) == expected


def test_the_newest_major() -> None:
    assert newest_major(BUILD) == 9
    assert newest_major(("sm_89", "sm_120")) == 12
    assert newest_major(()) == 0


@pytest.mark.parametrize("capability", ["", "8..6", "8.6.1", "x", "-1", "8.", "9" * 5000])
def test_what_is_no_capability_tells_nothing(capability: str) -> None:
    assert kernels_for(capability, ("sm_80", "compute_90")) == "unknown"
    assert kernels_for("8.6", (f"sm_{capability}",)) == "unknown"
