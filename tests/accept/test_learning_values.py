"""The values that are learned: which get a bound, in which unit, and the figures behind a bound."""

from __future__ import annotations

import pathlib
import resource
import subprocess

import pytest
from doctor_command import clean_environment, doctor_argv
from judged import recorded_machine, shipped
from learnt_runs import recorded_at
from stressed import speed, stress, stress_round, stressed_gpu, transfer, transfers, under_stress

from tfgpu_doctor.accept.bounds import MOST_RUNS, T95, quantile
from tfgpu_doctor.accept.examine import Examined, Examiner
from tfgpu_doctor.accept.known_good import learn_profile
from tfgpu_doctor.accept.learning import learn
from tfgpu_doctor.accept.learning_units import in_units
from tfgpu_doctor.model.facts.stress import StressedGpu

COPIES = {"host-to-device": 25.3, "device-to-host": 25.3}


@pytest.mark.parametrize(
    ("freedom", "due"), [(2, 2.920), (3, 2.353), (10, 1.812), (18, 1.734), (19, 1.729), (20, 1.729), (700, 1.729)]
)
def test_the_bound_of_a_single_value_uses_the_table(freedom: int, due: float) -> None:
    assert quantile(freedom, 1) == due
    assert T95[min(freedom, MOST_RUNS - 1) - 2] == due


@pytest.mark.parametrize(
    ("freedom", "values", "due"),
    [(4, 2, 2.775582224), (4, 10, 4.593982612), (4, 50, 7.113198974), (4, 100, 8.497055463), (10, 2, 2.228130897)],
)
def test_the_bounds_of_several_values_use_every_term_of_the_expansion(freedom: int, values: int, due: float) -> None:
    """Tables have 2.776, 4.604, 7.173, 8.610 and 2.228."""
    assert quantile(freedom, values) == pytest.approx(due, rel=1e-8)


@pytest.mark.parametrize(
    ("gpus", "more"), [((stressed_gpu(),), {}), ((stressed_gpu(0), stressed_gpu(1)), {"device-to-device": 11.0})]
)
def test_copies_are_learned_in_units_and_products_with_a_known_peak_are_not(
    gpus: tuple[StressedGpu, ...], more: dict[str, float]
) -> None:
    assert in_units(under_stress(stress(*gpus))) == {**COPIES, **more}


def test_products_without_a_known_peak_are_learned_in_units() -> None:
    unheard_of = stressed_gpu(name="NVIDIA Unheard-of 1", rounds=(stress_round(speeds=(speed("float32"),)),))
    assert in_units(under_stress(stress(unheard_of))) == {**COPIES, "float32": 24.1}


def test_of_one_precision_without_a_peak_the_others_do_not_matter() -> None:
    """A product in float32 alone was timed: its share of the peak is known, and those of the others are not."""
    alone = stressed_gpu(rounds=(stress_round(speeds=(speed("float32"),)),))
    assert in_units(under_stress(stress(alone))) == COPIES


def test_a_share_above_the_peak_counts_as_all_of_it() -> None:
    fast = stressed_gpu(rounds=(stress_round(speeds=(speed("float32", teraflops=60.0),)),))
    bound = learn([under_stress(stress(fast))] * 3).peak_fractions["float32"]
    assert bound.runs == (1.0, 1.0, 1.0)
    assert bound.value == 0.894


def test_a_copy_slower_than_one_gigabyte_a_second_is_told_as_slow_as_it_is() -> None:
    slow = transfer("host", "GPU:0", gb_per_s=0.4)
    others = tuple(each for each in transfers(0) if (each.source, each.host_memory) != ("host", "pinned"))
    assert in_units(under_stress(stress(transfers=(*others, slow))))["host-to-device"] == 0.4


class Recorded(Examiner):
    """An examiner whose machine is a record: each examination gives the same facts."""

    def examine(self) -> Examined:
        return Examined(recorded_machine("workstation-healthy"))


def test_each_examination_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    resolved = shipped("ci")
    assert learn_profile(resolved, "ci", Recorded(resolved.profile), [], 3, [], None) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "tfgpu-doctor: run 1 of 3", "tfgpu-doctor: run 2 of 3", "tfgpu-doctor: run 3 of 3",
        "tfgpu-doctor: 0 bounds from 3 runs",
    ]  # fmt: skip
    assert 'extends = "ci"' in said.out.splitlines()


def test_a_profile_whose_folder_is_gone_by_then_is_printed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved, output = shipped("ci"), str(tmp_path / "gone/node.toml")
    with pytest.raises(SystemExit) as ended:
        learn_profile(resolved, "ci", Recorded(resolved.profile), [], 3, [], output)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert 'extends = "ci"' in said.err.splitlines()
    assert said.out == ""


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))


def test_a_profile_that_a_full_disk_does_not_take_is_printed(tmp_path: pathlib.Path) -> None:
    """It is the work of minutes."""
    words = recorded_at((1, 2, 3), tmp_path)
    done = subprocess.run(
        doctor_argv("accept", "learn", "--profile", "ci", *words, "-o", "node.toml"), capture_output=True, text=True,
        env=clean_environment(PYTHONDONTWRITEBYTECODE="1"), cwd=tmp_path, preexec_fn=_small_files, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert first == "tfgpu-doctor: error: node.toml cannot be written: File too large"
    assert 'extends = "ci"' in rest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run0.json", "run1.json", "run2.json"]
