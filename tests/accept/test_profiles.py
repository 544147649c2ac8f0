"""Profiles: those that are shipped, what `extends` does, and what is refused with which words."""

from __future__ import annotations

import datetime as dt
import json
import os
import pathlib
import tempfile

import hypothesis.strategies as st
import msgspec
import pytest
from healthy import healthy
from hypothesis import given
from judged import VOCABULARY, judged, profile_of, shipped

from tfgpu_doctor.accept.reading import read_profile, shipped_profiles
from tfgpu_doctor.accept.terms import Allowed, Checks, Profile
from tfgpu_doctor.accept.vocabulary import ProfileError, Vocabulary

SHIPPED = ("ci", "cluster-node", "server", "workstation")
ALLOWED = '[[allowed]]\ncheck = "{check}"\nreason = "known"\nexpires = {expires}\n'


def refusal(toml: str, folder: pathlib.Path, name: str = "mine.toml") -> str:
    """The words with which a profile is refused."""
    with pytest.raises(ProfileError) as caught:
        profile_of(toml, folder, name)
    words = str(caught.value)
    assert words.startswith(f"{name}: ")
    assert "\n" not in words
    return words.removeprefix(f"{name}: ")


def test_the_shipped_profiles_are_those_of_the_contract() -> None:
    assert tuple(shipped_profiles()) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_says_what_it_is_for(name: str) -> None:
    resolved = shipped(name)
    assert resolved.profile.about
    assert resolved.chain[0] == name
    assert resolved.profile.gpus == ">=1"
    assert not resolved.profile.allowed


def test_the_nearer_profile_wins_key_by_key(tmp_path: pathlib.Path) -> None:
    profile_of('extends = "workstation"\nlevel = "deep"\nbudget = "5m"\nsuites = ["device_placement", "training"]\n[speed-ups]\n"training" = 3\n' + ALLOWED.format(check="HLT005", expires="2027-01-31"), tmp_path, "hall.toml")  # fmt: skip
    text = 'extends = "hall.toml"\ngpus = 8\n[speed-ups]\n"training/step[cnn]" = 5\n'
    resolved = profile_of(text + ALLOWED.format(check="LNK001", expires="2027-02-28"), tmp_path)
    profile = resolved.profile
    assert resolved.chain == ("mine.toml", "hall.toml", "workstation")
    assert (profile.gpus, profile.budget, profile.level, profile.about) == (8, "5m", "deep", "")
    assert profile.speed_ups["training"] == 3
    assert profile.speed_ups["training/step[cnn]"] == 5
    assert profile.speed_ups["device_placement/gpu[matmul]"] == 2
    assert [each.check for each in profile.allowed] == ["HLT005", "LNK001"]
    assert resolved.source("gpus") == "mine.toml"
    assert resolved.source("budget") == "hall.toml"
    assert resolved.source("speed-ups.device_placement/gpu[matmul]") == "workstation"
    assert resolved.source("driver") == "always"


def test_a_file_is_found_beside_the_one_that_extends_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/all.toml").write_text("gpus = 2\n")
    (tmp_path / "profiles/mine.toml").write_text('extends = "all.toml"\n')
    monkeypatch.chdir(tmp_path)
    assert read_profile("profiles/mine.toml", VOCABULARY).profile.gpus == 2


def test_the_digest_is_that_of_what_is_asked_alone(tmp_path: pathlib.Path) -> None:
    one = profile_of("gpus = 2\n[checks]\nignore = ['MEM005']\n", tmp_path)
    other = profile_of("# in other words\nchecks = { ignore = ['MEM005'] }\ngpus = 2\n", tmp_path, "other.toml")
    assert one.digest == other.digest
    assert profile_of("gpus = 3\n", tmp_path).digest != one.digest


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("gpu = 1", "there is no key 'gpu'; did you mean gpus?"),
        ("speedups = {}", "there is no key 'speedups'; did you mean speed-ups?"),
        ("level = 'deeper'", "level: there is no level 'deeper'; did you mean deep?"),
        ("level = 3", "level: Expected `str`, got `int`; write \"deep\""),
        ("fail-level = 'warn'", "fail-level: there is no fail-level 'warn'; did you mean warning?"),
        ("minutes = 0.5", "minutes: Expected `float` >= 1.0"),
        ("gpus = '1 or 2'", "gpus: '1 or 2' is not a range; write >=2, or >=2,<4"),
        ("gpus = -1", "gpus: -1 is not a range; write >=2, or >=2,<4"),
        ("gpus = '>=0'", "gpus: require at least one GPU, or 0 for a machine that computes on its CPU"),
        ("gpus = ''", "gpus: require at least one GPU, or 0 for a machine that computes on its CPU"),
        ("gpus = 0\nlevel = 'deep'", "level: 'deep' is for machines with GPUs, but gpus is 0: standard is required"),
        ("gpus = true", "gpus: Expected `int | str`, got `bool`; write 8 or \">=1\""),
        ("models = 'H100'", "models: Expected `array`, got `str`"),
        ("gpu-memory = '80'", "gpu-memory: '80' is not a size; write 16 GiB, or 80 GB"),
        ("driver = 'new'", "driver: 'new' is not a range; write >=550, or >=550,<600"),
        ("tensorflow = 'latest'", "tensorflow: 'latest' is not a range; write >=2.16, or >=2.16,<2.22"),
        ("budget = 'soon'", "budget: a budget is a time such as 60s or 5m, or full; not 'soon'"),
        ("suites = ['trainig']", "suites: there is no suite 'trainig'; did you mean training?"),
        ("suites = ['training']\nlevel = 'quick'", "suites: level quick does not run TensorFlow; at least standard is required"),
        ("[checks]\nselct = ['DRV']", "checks: there is no key 'selct'; did you mean select?"),
        ("[checks]\nselect = ['DRV999']", "checks.select: no check is called 'DRV999'; did you mean DRV009?"),
        ("[checks]\nrequire = ['LOD01']", "checks.require: there is no check 'LOD01'; did you mean LOD001?"),
        ("[checks]\nrequire = ['LOD001']\nignore = ['LOD']", "checks: LOD001 is both required and ignored; remove one of them"),
        ("checks = 3", "checks: a table is required here, not int"),
        ("[speed-ups]\n'training/step[cn]' = 2", "speed-ups: there is no comparison 'training/step[cn]'; did you mean training/step[cnn]?"),
        ("[speed-ups]\n'training' = 2", "speed-ups: 'training' is measured by the suite 'training': add it to `suites`"),
        ("[speed-ups]\n'training' = -1", 'speed-ups."training": Expected `float` > 0.0'),
        ("[speed-ups]\n'training' = inf", 'speed-ups."training": inf is not a finite number'),
        ("[speed-ups]\n'training' = nan", 'speed-ups."training": nan is not a finite number'),
        ("[speed-ups]\n'numerics' = 2", "speed-ups: there is no comparison 'numerics'"),
        ("[peak-fractions]\nfloat32 = 40", 'peak-fractions."float32": Expected `float` <= 1.0'),
        ("[peak-fractions]\nfp16 = 0.4", "peak-fractions: there is no precision 'fp16'; did you mean float16?"),
        ("[peak-fractions]\nfloat16 = 0.4", "peak-fractions: the stress test measures them, but level is 'standard': deep or soak is required"),
        ("[metric-fractions]\n'device_placement/copy' = 0.4", "metric-fractions: there is no metric with a hardware limit 'device_placement/copy'; did you mean device_placement/copy in the device?"),
        ("[allowed]\ncheck = 'HLT005'", "allowed: must be a list of tables, each written as [[allowed]]"),
        ("[[allowed]]\ncheck = 'HLT005'\nreason = 'known'", "allowed, number 1: expires is missing; write \"2027-03-31\""),
        ("[[allowed]]\ncheck = 'HLT005'\nexpires = 2027-01-01", "allowed, number 1: reason is missing; write \"the rack feeds 300 W a board\""),
        (ALLOWED.format(check="HLT05", expires="2027-01-01"), "allowed, number 1: check: there is no check 'HLT05'; did you mean HLT005?"),
        (ALLOWED.format(check="HLT005", expires="'soon'"), "allowed, number 1: expires: Invalid RFC3339 encoded date"),
        (ALLOWED.format(check="HLT005", expires="2027-01-01") + "cause = 'driver_to_old'", "allowed, number 1: cause: there is no cause 'driver_to_old'; did you mean driver_too_old?"),
        ("[[allowed]]\ncheck = 'HLT005'\nreason = ' '\nexpires = 2027-01-01", "allowed, number 1: reason is empty: say why the finding is allowed"),
        ("extends = 3", "extends: Expected `str`, got `int`"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_what_to_write(toml: str, said: str, tmp_path: pathlib.Path) -> None:
    assert refusal(toml, tmp_path).startswith(said)


def test_a_profile_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(ProfileError, match=r"there is no profile 'workstaton'; did you mean workstation\?"):
        shipped("workstaton")


def test_a_file_that_is_not_there_is_told(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProfileError, match=r"missing\.toml cannot be read: No such file or directory"):
        read_profile(str(tmp_path / "missing.toml"), VOCABULARY)
    with pytest.raises(ProfileError, match=r"^mine.toml: extends: gone.toml cannot be read: No such file or directory"):
        profile_of('extends = "gone.toml"', tmp_path)


@pytest.mark.parametrize("content", [b"gpus = ", b"gpus = 1\ngpus = 2", b"\xff\xfe", b"[checks\n", b"a = 1" + b"\x00"])
def test_what_is_not_toml_is_told(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=r"mine\.toml is not TOML: "):
        read_profile(str(path), VOCABULARY)


def test_a_folder_is_no_profile(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProfileError, match="cannot be read: Is a directory"):
        read_profile(f"{tmp_path}{os.sep}", VOCABULARY)


@pytest.mark.parametrize(("spare", "said"), [(0, ""), (1, "large.toml is larger than 64 KiB: it is not a profile")])
def test_a_profile_has_at_most_64_kib(spare: int, said: str, tmp_path: pathlib.Path) -> None:
    text = "gpus = 2\n#"
    text += "x" * ((64 << 10) + spare - len(text))
    if said:
        with pytest.raises(ProfileError, match=f"{said}$"):
            profile_of(text, tmp_path, "large.toml")
    else:
        assert profile_of(text, tmp_path, "large.toml").profile.gpus == 2


def test_profiles_that_extend_each_other_are_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one.toml").write_text('extends = "other.toml"')
    (tmp_path / "other.toml").write_text('extends = "one.toml"')
    (tmp_path / "self.toml").write_text('extends = "./self.toml"')
    with pytest.raises(ProfileError, match=r"^a profile extends itself: one.toml -> other.toml -> one.toml$"):
        read_profile(str(tmp_path / "one.toml"), VOCABULARY)
    with pytest.raises(ProfileError, match=r"^a profile extends itself: self.toml -> self.toml$"):
        read_profile(str(tmp_path / "self.toml"), VOCABULARY)


def test_what_a_base_says_wrongly_is_told_of_the_base(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hall.toml").write_text("gpu = 2")
    with pytest.raises(ProfileError, match=r"^hall.toml: there is no key 'gpu'"):
        profile_of('extends = "hall.toml"', tmp_path)


def test_a_plugin_that_could_not_be_loaded_may_bring_any_check(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[checks]\nrequire = ['ACME001']\n")
    assert read_profile(str(path), Vocabulary(VOCABULARY.checks, complete=False)).profile.checks.require == ("ACME001",)


# Whatever stands in a profile, it is read, or refused in one sentence.

KEYS = st.sampled_from(
    [field.encode_name for kind in (Profile, Checks, Allowed) for field in msgspec.structs.fields(kind)]
    + ["training", "training/step[cnn]", "float16", "device_placement/copy in the device", "x"]
)
WORDS = st.sampled_from(
    ["server", "DRV001", "DRV", "HLT005", "training", "deep", ">=1", "80 GiB", "5m", "error", "\x1b", ""]
)
SCALARS = st.one_of(st.integers(-1, 9), st.floats(), st.booleans(), WORDS, st.dates())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_document_is_read_or_refused(document: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(f"{json.dumps(key)} = {as_toml(value)}" for key, value in document.items())
        words = "mine.toml: "
        try:
            judged(healthy(), profile_of(text, pathlib.Path(folder)))
        except ProfileError as error:
            words = str(error)
    assert words.startswith(("mine.toml: ", "mine.toml is not TOML: "))
    assert len(words.splitlines()) == 1


def as_toml(value: object) -> str:
    """A value written inline."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {as_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, float):
        return repr(value).replace("e+", "e")
    return value.isoformat() if isinstance(value, dt.date) else json.dumps(value)


@pytest.mark.parametrize("content", [b"a = " + b"[" * 60_000, b"a" + b".a" * 10_000 + b" = 1", b"x" * (2 << 20)])
def test_what_is_built_to_break_a_reader_is_refused(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError):
        read_profile(str(path), VOCABULARY)
