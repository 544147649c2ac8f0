"""Which earlier run is the reference, and what else changed since it."""

from __future__ import annotations

import pathlib
import sqlite3

import msgspec
import pytest

from tfgpu_doctor.bench.conditions import Changed, changed_between, conditions_of
from tfgpu_doctor.bench.references import find_reference, keep_run, place_of, refuse_unsaved, sought_reference
from tfgpu_doctor.bench.run import SUITE_VERSION
from tfgpu_doctor.host.results import Results
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.model.facts.nvidia import Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Distribution, Runtime, Target, TensorFlowGpu
from tfgpu_doctor.model.report import MachineSummary

NOBODY = MachineSummary()


def machine(gpu: str = "NVIDIA T4", driver: str = "550.54.15", tensorflow: str = "2.20.0") -> Facts:
    return Facts(
        nvml=Nvml(Attempt("answered"), driver_version=driver, gpus=(NvmlGpu(0, name=gpu),)),
        runtime=Runtime(Attempt("answered"), version=tensorflow),
        target=Target(
            Attempt("answered"), version="3.12.1", distributions=(Distribution("nvidia-cudnn-cu12", "9.3.0"),)
        ),
    )


def listing(facts: Facts, *gpus: str) -> Facts:
    """The machine, of whose GPUs TensorFlow lists these."""
    listed = tuple(TensorFlowGpu(f"/physical_device:GPU:{n}", description=name) for n, name in enumerate(gpus))
    assert facts.runtime
    runtime = msgspec.structs.replace(facts.runtime, gpus=listed, gpus_listed=True)
    return msgspec.structs.replace(facts, runtime=runtime)


def run(facts: Facts, ratio: float = 2.0) -> Bench:
    measured = Comparison(suite="pipeline", name="map", verdict="faster", ratio=ratio, interval=(1.9, 2.1))
    return Bench(suite_version=SUITE_VERSION, conditions=conditions_of(facts), comparisons=(measured,))


def keep(results: Results, facts: Facts, name: str | None = "before", ratio: float = 2.0) -> None:
    bench = run(facts, ratio)
    keep_run(results, name, bench, place_of(facts, bench))


@pytest.fixture
def results(tmp_path: pathlib.Path) -> Results:
    return Results(str(tmp_path / "results.sqlite"))


def found(results: Results, facts: Facts, name: str = "before") -> tuple[list[float | None], tuple[Changed, ...]]:
    now = run(facts)
    reference = find_reference(sought_reference(name), results, place_of(facts, now), (), now, NOBODY)
    return [each.comparisons[0].ratio for each in reference.runs], reference.changed


def test_all_runs_under_a_name_are_the_reference(results: Results) -> None:
    keep(results, machine(), ratio=2.0)
    keep(results, machine(), ratio=2.1)
    keep(results, machine(), None, ratio=3.0)
    assert found(results, machine()) == ([2.0, 2.1], ())


def test_what_cannot_be_read_of_the_saved_runs_is_left_out(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(results, machine())
    bad: list[tuple[object, object]] = [
        (1.0, b"{"),
        (1.0, b"[" * 100_000),
        (1.0, b"\xff"),
        (1.0, b'{"comparisons": 1}'),
    ]
    with sqlite3.connect(results.path) as connection:
        for kept, document in [*bad, (1.0, 7), ("yesterday", b"{}")]:
            row = (kept, "before", place_of(machine(), run(machine())), document)
            connection.execute("insert into run (kept, name, place, document) values (?, ?, ?, ?)", row)
        connection.execute("update run set name = cast(x'ff' as text) where number = 2")
    connection.close()
    assert found(results, machine())[0] == [2.0]
    assert capsys.readouterr().err.count("a saved run cannot be read and is left out") >= 3


def test_the_last_run_is_one_run(results: Results) -> None:
    keep(results, machine(), ratio=2.0)
    keep(results, machine(), None, ratio=3.0)
    assert found(results, machine(), "last") == ([3.0], ())


def test_a_new_driver_and_tensorflow_are_compared_and_told(results: Results) -> None:
    keep(results, machine())
    ratios, changed = found(results, machine(driver="560.35.03", tensorflow="2.21.0"))
    assert ratios == [2.0]
    assert changed == (
        Changed(what="driver", now="560.35.03", reference="550.54.15"),
        Changed(what="TensorFlow", now="2.21.0", reference="2.20.0"),
    )
    assert found(results, machine(driver="560.35.03"), "last")[0] == [2.0]


def test_runs_of_different_drivers_are_not_one_reference(results: Results) -> None:
    keep(results, machine(), ratio=2.0)
    keep(results, machine(driver="560.35.03"), ratio=2.1)
    assert found(results, machine())[0] == [2.1]


def test_another_gpu_is_no_reference(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    keep(results, machine("NVIDIA L4"))
    assert found(results, machine()) == ([], ())
    assert "'before' was saved on NVIDIA L4" in capsys.readouterr().err


def test_the_gpus_that_tensorflow_lists_are_those_of_a_run(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(results, listing(machine(), "NVIDIA T4"))
    for gpus, told in (
        (["NVIDIA T4", "NVIDIA T4"], "NVIDIA T4+NVIDIA T4"),
        (["NVIDIA T4 MIG 1g.5gb"], "NVIDIA T4 MIG 1g.5gb"),
        ([], "no GPU"),  # as with CUDA_VISIBLE_DEVICES=-1
    ):
        for name, which in (("before", "'before' was saved"), ("last", "the last run was saved")):
            assert found(results, listing(machine(), *gpus), name) == ([], ())
            said = capsys.readouterr().err
            assert f"{which} on NVIDIA T4 | " in said
            assert f"but this machine is {told} | " in said
    assert found(results, listing(machine(), "NVIDIA T4"))[0] == [2.0]


def test_a_run_that_was_saved_by_the_names_of_the_boards_is_a_reference(results: Results) -> None:
    keep(results, machine())  # as earlier doctors named the place, and this one where TensorFlow's list is not known
    assert found(results, listing(machine(), "NVIDIA T4"))[0] == [2.0]


def test_another_version_of_the_suites_is_no_reference(results: Results) -> None:
    old = msgspec.structs.replace(run(machine()), suite_version="1")
    keep_run(results, "before", old, place_of(machine(), old))
    assert found(results, machine()) == ([], ())


def test_what_else_changed_is_packages_variables_and_settings() -> None:
    before = {"Python": "3.12.1", "nvidia-cudnn-cu12": "9.3.0", "ECC of GPU 0": "on", "kernel": "6.1"}
    now = {"Python": "3.12.1", "nvidia-cudnn-cu12": "9.8.0", "ECC of GPU 0": "on", "TF_XLA_FLAGS": "--x"}
    assert [(each.what, each.reference, each.now) for each in changed_between(now, before)] == [
        ("nvidia-cudnn-cu12", "9.3.0", "9.8.0"), ("TF_XLA_FLAGS", "none", "--x"), ("kernel", "6.1", "none"),
    ]  # fmt: skip
    assert changed_between(now, {}) == ()
    assert changed_between({**now, "compute mode of GPU 0": "default"}, now) == ()  # an earlier doctor did not ask
    assert conditions_of(machine())["nvidia-cudnn-cu12"] == "9.3.0"


def test_settings_that_slow_a_gpu_are_conditions() -> None:
    facts = machine()
    assert facts.nvml
    (gpu,) = facts.nvml.gpus
    health = msgspec.structs.replace(gpu.health, persistence_mode=False)
    slow = msgspec.structs.replace(gpu, health=health, compute_mode="exclusive_process")
    found = conditions_of(msgspec.structs.replace(facts, nvml=msgspec.structs.replace(facts.nvml, gpus=(slow,))))
    assert found["persistence mode of GPU 0"] == "off"
    assert found["compute mode of GPU 0"] == "exclusive_process"


def test_a_name_that_no_run_has_is_refused_before_anything_is_measured(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(name: str, save: str | None = None) -> str:
        with pytest.raises(SystemExit) as exit_:
            refuse_unsaved(sought_reference(name), results, save)
        assert exit_.value.code == 2
        return capsys.readouterr().err

    assert "no run is saved to compare with: `tfgpu-doctor bench --save before` saves one" in refused("before")
    assert "`tfgpu-doctor bench --save 'be fore'` saves one under this name, once it measures" in refused("be fore")
    refuse_unsaved(sought_reference("nightly"), results, "nightly")  # the first run of many
    refuse_unsaved(sought_reference("last"), results, None)
    keep(results, machine("NVIDIA L4"), None)
    assert "no run is saved under the name 'befor'; `tfgpu-doctor bench --save NAME` saves one" in refused("befor")
    keep(results, machine("NVIDIA L4"))
    assert "no run is saved under the name 'befor'; saved: before; `--compare last`" in refused("befor", "after")
    for name in ("before", "last"):  # whether it is of this machine shows once that is examined
        refuse_unsaved(sought_reference(name), results, None)


@pytest.mark.parametrize(
    ("bench", "why"),
    [
        (Bench(), "nothing was measured"),
        (
            Bench(metrics=(Metric(suite="numerics", name="error of sums", value=0.2, unit="of the allowed"),)),
            "only metrics were measured, and runs are compared by their comparisons",
        ),
        (Bench(comparisons=(Comparison(suite="pipeline", name="map", verdict="not run"),)), "nothing was measured"),
        (msgspec.structs.replace(run(machine("NVIDIA L4")), interrupted=True), "the run was interrupted"),
    ],
)
def test_that_nothing_is_saved_is_said(
    bench: Bench, why: str, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keep_run(results, "be fore", bench, "here")
    assert capsys.readouterr().err == f"tfgpu-doctor: {why}, so nothing is saved as 'be fore'\n"
    assert keep_run(results, None, bench, "here")
    assert capsys.readouterr().err == ""
    assert results.newest_last() == []
