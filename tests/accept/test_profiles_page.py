"""docs/profiles.md says what is so: its example is a profile, and what it quotes is what the doctor says."""

from __future__ import annotations

import pathlib
import re

import msgspec
import pytest
from judged import judged, profile_of, recorded_machine, shipped
from locations import ROOT

from tfgpu_doctor.accept.describing import keys_table
from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.accept.terms import Allowed, Checks, Profile
from tfgpu_doctor.accept.vocabulary import ProfileError

PAGE = (ROOT / "docs/profiles.md").read_text("utf-8")


def test_the_example_is_a_profile(tmp_path: pathlib.Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    profile = profile_of(example, tmp_path).profile
    assert profile.allowed[0].check == "HLT005"
    assert profile.reference_fractions["float32"] == 0.75  # of the one that it extends


def test_the_examples_of_all_keys_make_a_profile(tmp_path: pathlib.Path) -> None:
    """Written down as a user would, all at once."""
    found = {row.split("`")[1]: row.rpartition(" | ")[2].strip("` |\n") for row in keys_table().splitlines()[2:]}
    names = [field.encode_name for kind in (Profile, Checks, Allowed) for field in msgspec.structs.fields(kind)]
    assert {key.rpartition(" ")[2] for key in found} == set(names) - {"checks", "allowed"}
    tables = ("speed-ups", "peak-fractions", "metric-fractions", "reference-fractions", "metrics", "spreads")
    lines = [f"{key} = {example}" for key, example in found.items() if " " not in key and key not in tables]
    lines += [line for key in tables for line in (f"[{key}]", found[key])]
    for table in ("[checks]", "[[allowed]]"):
        lines += [
            table,
            *(f"{key.split()[1]} = {example}" for key, example in found.items() if key.startswith(f"{table} ")),
        ]
    profile = profile_of("\n".join(lines), tmp_path).profile
    assert profile.gpus == 8
    assert profile.allowed[0].cause == "gpu_thermal_or_power_throttling"


@pytest.mark.parametrize(
    "toml",
    ['[speed-ups]\n"training/step[cn]" = 2', '[[allowed]]\ncheck = "HLT005"\nreason = "x"', 'extends = "one.toml"'],
)
def test_what_is_refused_is_refused_in_those_words(toml: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.toml").write_text('extends = "one.toml"')
    name, toml = ("one.toml", 'extends = "other.toml"') if "one.toml" in toml else ("hall-2.toml", toml)
    with pytest.raises(ProfileError) as caught:
        profile_of(toml, tmp_path, name)
    assert f"\ntfgpu-doctor: error: {caught.value}\n" in PAGE


def test_the_table_of_a_machine_without_a_gpu_is_as_shown() -> None:
    text = render_certificate(judged(recorded_machine("vm-without-gpu"), shipped("workstation")), "text")
    start = text.index("    requirement")
    shown = text[start : text.index("1 met")].strip()
    assert [line.split() for line in shown.splitlines()][2:] == [
        line.split() for line in PAGE[PAGE.index("✗   GPU001") : PAGE.index("\n1 met")].strip().splitlines()
    ]
