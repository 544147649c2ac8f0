"""Errors that a profile allows: they block no other check, and accept nothing that was not measured."""

from __future__ import annotations

import pathlib
import re

import msgspec
import pytest
from judged import TODAY, judged, profile_of, recorded_machine, red, rows_of

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.examine import reaches_goal
from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts

ECC, TORCH = "a100-uncorrectable-ecc", "torch-after-tensorflow"  # TensorFlow computes on the second alone


def allowing(*ids: str, until: str = TODAY.isoformat()) -> str:
    return "".join(f"[[allowed]]\ncheck = '{id}'\nreason = 'until the swap'\nexpires = {until}\n" for id in ids)


def by(toml: str, facts: Facts, folder: pathlib.Path) -> Certificate:
    return judged(facts, profile_of(toml, folder))


def test_an_allowed_error_does_not_keep_the_goal_from_being_judged(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine(TORCH)
    blocked = by("", facts, tmp_path)
    assert (red(blocked), rows_of(blocked)["goal.GPU004"].outcome) == (["checks.PKG009"], "explained")
    certificate = by(allowing("PKG009"), facts, tmp_path)
    assert (red(certificate), rows_of(certificate)["goal.GPU004"].outcome) == (["checks.LIB007"], "met")
    certificate = by(allowing("PKG009", "LIB007", "GPU005"), facts, tmp_path)
    rows = rows_of(certificate)
    assert (rows["allowed.PKG009"].outcome, rows["goal.GPU004"].outcome) == ("allowed", "met")
    assert "same result as on the CPU" in rows["goal.GPU004"].measured
    assert (certificate.verdict, red(certificate)) == ("accepted", [])


def test_what_an_allowed_error_has_hidden_counts(tmp_path: pathlib.Path) -> None:
    """The same GPU requests a reset, and TensorFlow's product on it ended with an error."""
    certificate = by(allowing("HLT002"), recorded_machine(ECC), tmp_path)
    assert red(certificate) == ["checks.HLT003"]
    assert rows_of(certificate)["goal.GPU004"].explained_by == ("checks.HLT003",)
    certificate = by(allowing("HLT002", "HLT003"), recorded_machine(ECC), tmp_path)
    goal = rows_of(certificate)["goal.GPU004"]
    assert (red(certificate), goal.outcome) == (["goal.GPU004"], "missed")
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in goal.measured


def test_the_goal_needs_its_own_evidence_whatever_is_allowed(tmp_path: pathlib.Path) -> None:
    untried = msgspec.structs.replace(
        recorded_machine(TORCH), runtime=None, unknown={"runtime": "TensorFlow was not started"}
    )
    certificate = by(allowing("PKG009", "LIB007"), untried, tmp_path)
    row = rows_of(certificate)["goal.GPU004"]
    assert (row.outcome, row.reason) == ("not measured", "TensorFlow was not started")
    assert certificate.verdict == "not accepted"


@pytest.mark.parametrize("machine", [ECC, "debian-nouveau", "vm-without-gpu", "ubuntu-without-driver"])
def test_no_machine_is_accepted_because_everything_is_allowed(machine: str, tmp_path: pathlib.Path) -> None:
    certificate = by(allowing(*(each.id for each in ALL_CHECKS)), recorded_machine(machine), tmp_path)
    assert certificate.verdict == "not accepted"
    assert not rows_of(certificate)["goal.GPU004"].holds


def test_an_allowance_that_has_expired_blocks_again(tmp_path: pathlib.Path) -> None:
    certificate = by(allowing("PKG009", "LIB007", until="2026-11-20"), recorded_machine(TORCH), tmp_path)
    assert (red(certificate), rows_of(certificate)["goal.GPU004"].outcome) == (["checks.PKG009"], "explained")


def dying_with_changed_copies() -> Facts:
    """The copies arrive changed, which LOD004 finds; the GPU dies, which LOD005 would find after it."""
    facts = recorded_machine("loaded-gpu-dies")
    assert facts.stress
    changed = tuple(msgspec.structs.replace(each, mismatches=7) for each in facts.stress.transfers)
    return msgspec.structs.replace(facts, stress=msgspec.structs.replace(facts.stress, transfers=changed))


def test_what_an_ignored_error_hides_is_not_measured(tmp_path: pathlib.Path) -> None:
    facts = dying_with_changed_copies()
    certificate = by("[checks]\nignore = ['LOD004']", facts, tmp_path)
    row = rows_of(certificate)["checks"]
    assert (row.outcome, red(certificate)) == ("not measured", ["checks"])
    assert re.fullmatch(r"LOD005, .* could not be judged: blocked by LOD004", row.reason)
    assert (
        row.remedy
        == "mend what LOD004 finds, or allow it in the profile under `[[allowed]]`, with a reason and a last day"
    )
    assert red(by(allowing("LOD004"), facts, tmp_path)) == ["checks.LOD005"]
    assert red(by("[checks]\nselect = ['LOD005', 'GPU']\nignore = ['LOD004']", facts, tmp_path)) == ["checks"]


def test_an_ignored_error_that_blocks_nothing_that_counts_is_no_matter(tmp_path: pathlib.Path) -> None:
    facts = dying_with_changed_copies()
    blocked = [each.id for each in diagnose(facts).results if "LOD004" in each.blocked_by]
    ignored = ", ".join(f"'{id}'" for id in ("LOD004", *blocked))
    assert by(f"[checks]\nignore = [{ignored}]", facts, tmp_path).verdict == "accepted"
    alone = by("[checks]\nselect = ['GPU', 'DRV']\nignore = ['LOD004']", facts, tmp_path)
    assert alone.verdict == "accepted"


def test_a_required_check_that_an_ignored_error_hides_is_one_red_row(tmp_path: pathlib.Path) -> None:
    text = "[checks]\nselect = ['GPU', 'LOD005']\nignore = ['LOD004']\nrequire = ['LOD005']"
    certificate = by(text, dying_with_changed_copies(), tmp_path)
    assert red(certificate) == ["require.LOD005"]
    assert rows_of(certificate)["checks"].measured.endswith(", 1 were blocked: LOD005")


def test_checks_of_a_gpu_that_is_not_required_did_not_apply(tmp_path: pathlib.Path) -> None:
    certificate = by("gpus = 0", recorded_machine("vm-without-gpu"), tmp_path)
    row = rows_of(certificate)["checks"]
    assert (certificate.verdict, row.outcome) == ("accepted", "met")
    assert "blocked" not in row.measured
    assert sum(map(int, re.findall(r"\d+(?= (?:passed|did|were|could))", row.measured))) == len(ALL_CHECKS) - 1


def test_what_blocks_the_goal_is_named_if_it_does_not_count(tmp_path: pathlib.Path) -> None:
    certificate = by("[checks]\nignore = ['PKG009']", recorded_machine(TORCH), tmp_path)
    row = rows_of(certificate)["goal.GPU004"]
    assert (row.outcome, row.reason) == ("not measured", "blocked by PKG009")
    assert row.remedy == (
        "mend what PKG009 finds, or allow it in the profile under `[[allowed]]`, with a reason and a last day"
    )


def test_the_suites_run_where_only_what_is_allowed_is_wrong(tmp_path: pathlib.Path) -> None:
    allowed = profile_of(allowing("PKG009", "LIB007", until="2999-12-31"), tmp_path).profile
    assert reaches_goal(recorded_machine(TORCH), allowed)
    assert not reaches_goal(recorded_machine(TORCH), profile_of("", tmp_path).profile)
