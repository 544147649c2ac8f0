"""The engine: outcomes, edges between checks, and which cause comes first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from built_health import hung, without
from every import every
from healthy import broken, healthy, without_gpus
from locations import ROOT
from replayed import NAMES, report_on

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import NOTHING_YIELDED, BrokenPlugin, diagnose
from tfgpu_doctor.diagnose.fitness import makes_unfit
from tfgpu_doctor.diagnose.selection import Selection
from tfgpu_doctor.knowledge import Knowledge, read_knowledge
from tfgpu_doctor.model import (
    CannotTell,
    Check,
    Evidence,
    Finding,
    Fix,
    NotMeasured,
    Skip,
    Stage,
    Yielded,
    check,
    in_order,
)
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import Driver
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressTest
from tfgpu_doctor.model.report import Report, Result
from tfgpu_doctor.model.tags import UNFIT


def passing(id: str, *after: str) -> Check:
    @check(id, "it is well", after=after)
    def function() -> Yielded:
        yield Evidence("seen")

    return function


def failing(id: str, *after: str, cause: str = "driver_too_old", **finding: object) -> Check:
    @check(id, "it is well", after=after, causes=(cause,))
    def function() -> Yielded:
        yield Finding("it is not", cause=cause, fix=Fix("mend it"), **finding)  # type: ignore[arg-type]

    return function


def report_of(*checks: Check, facts: Facts | None = None, selection: Selection | None = None) -> Report:
    return diagnose(facts or healthy(), checks=checks, selection=selection)


def result_of(one: Check, facts: Facts | None = None) -> Result:
    return report_of(one, facts=facts).results[0]


def test_a_check_without_findings_passes() -> None:
    assert result_of(passing("TST001")).outcome == "pass"


@pytest.mark.parametrize("yielded", [(), (Evidence(""),), (Evidence(" \n"),)])
def test_a_check_that_yields_nothing_does_not_pass(yielded: tuple[Evidence, ...]) -> None:
    """A pass needs evidence. What comes after it is judged: it did not fail."""

    @check("TST001", "every GPU is well")
    def function() -> Yielded:
        yield from yielded

    report = report_of(function, passing("TST002", "TST001"))
    assert [each.outcome for each in report.results] == ["skip", "pass"]
    assert report.results[0].reason == "it yielded neither evidence nor a finding"


def test_every_pass_of_the_doctors_own_checks_has_evidence() -> None:
    """On every recorded machine: a check with nothing to say would be skipped with the words of the engine."""
    results = [(name, each) for name in NAMES for each in report_on(name).results]
    assert [(name, each.id) for name, each in results if each.reason == NOTHING_YIELDED] == []
    assert len(results) > 10_000


def test_a_check_as_the_design_shows_it() -> None:
    @check("TST001", "the driver is new enough", after=("DRV001",))
    def driver_is_new_enough(driver: Driver, knowledge: Knowledge) -> Yielded:
        if driver.version < "999":
            yield Finding(f"driver {driver.version} is older than 999", cause="driver_too_old", fix=Fix("upgrade"))

    result = result_of(driver_is_new_enough)
    assert result.outcome == "fail"
    assert result.findings[0].message == "driver 560.35.03 is older than 999"


@pytest.mark.parametrize(("severity", "outcome"), [("error", "fail"), ("warning", "warn"), ("info", "pass")])
def test_severity_decides_the_outcome(severity: str, outcome: str) -> None:
    assert result_of(failing("TST001", severity=severity)).outcome == outcome


def test_a_fact_that_could_not_be_had_skips_with_its_reason() -> None:
    @check("TST001", "it is well")
    def function(nvml: object) -> Yielded:
        yield Evidence("never reached")

    facts = msgspec.structs.replace(broken(nvml=None), unknown={"nvml": "no answer in time"})
    result = result_of(function, facts)
    assert (result.outcome, result.reason) == ("skip", "no answer in time")


def test_a_parameter_with_a_default_may_be_missing() -> None:
    @check("TST001", "it is well")
    def function(nvml: object = None) -> Yielded:
        yield Evidence(f"nvml is {nvml}")

    assert result_of(function, broken(nvml=None)).evidence == ("nvml is None",)


def test_a_check_that_breaks_is_a_crash_and_the_others_go_on() -> None:
    @check("TST001", "it is well")
    def function() -> Yielded:
        yield Evidence("so far")
        raise ZeroDivisionError("of my own making")

    report = report_of(function, passing("TST002"))
    assert [result.outcome for result in report.results] == ["crash", "pass"]
    assert report.results[0].reason == "ZeroDivisionError: of my own making"
    assert report.healthy is False
    assert report.exit_code() == 3


def test_a_check_that_skips_says_why() -> None:
    @check("TST001", "it is well")
    def function() -> Yielded:
        yield from ()
        raise Skip("this is no batch job")

    assert (result_of(function).outcome, result_of(function).reason) == ("skip", "this is no batch job")


def raising(skip: Skip) -> Check:
    @check("TST001", "it is well")
    def function() -> Yielded:
        yield from ()
        raise skip

    return function


@check("TST001", "it is well")
def needs_stress(stress: StressTest) -> Yielded:
    yield Evidence(str(stress))


@check("TST001", "it is well")
def needs_runtime(runtime: Runtime) -> Yielded:
    yield Evidence(str(runtime))


WITHOUT = {"stress": "only --level deep stress-tests", "runtime": "--quick skips TensorFlow"}
LOST = msgspec.structs.replace(healthy(), runtime=None, unknown=WITHOUT)


@every(
    "found, facts, unmeasured",
    [
        (raising(Skip("this is no batch job")), healthy(), False),
        (raising(NotMeasured("the log cannot be read")), healthy(), True),
        (raising(CannotTell("nobody knows")), healthy(), True),
        (needs_runtime, LOST, True),
        (needs_runtime, msgspec.structs.replace(LOST, quick=True), False),
        (needs_runtime, msgspec.structs.replace(LOST, unknown={}), False),
        (needs_stress, LOST, False),
        (needs_stress, msgspec.structs.replace(LOST, level="deep"), True),
    ],
)
def test_what_could_not_be_measured_is_told_from_what_does_not_apply(
    found: Check, facts: Facts, unmeasured: bool
) -> None:
    (result,) = diagnose(facts, checks=[found]).results
    assert (result.outcome, result.unmeasured) == ("skip", unmeasured)


def test_what_comes_after_a_failure_is_blocked_by_it() -> None:
    report = report_of(failing("TST001"), failing("TST002", "TST001"), failing("TST003", "TST002"))
    assert [result.outcome for result in report.results] == ["fail", "blocked", "blocked"]
    assert report.results[2].blocked_by == ("TST001",)
    assert [cause.id for cause in report.causes] == ["TST001"]
    assert report.causes[0].explains == ("TST002", "TST003")


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_what_comes_after_less_than_a_failure_runs(severity: str) -> None:
    report = report_of(failing("TST001", severity=severity), passing("TST002", "TST001"))
    assert report.results[1].outcome == "pass"


def unfit(id: str, *after: str, **finding: Any) -> Check:
    """A check of the fitness of GPUs; it finds an error where it is given one."""

    @check(id, "it is well", tags=(UNFIT,), after=after, causes=("gpu_lost",))
    def function() -> Yielded:
        yield Finding("it is not", fix=Fix("mend it"), **finding) if finding else Evidence("seen")

    return function


@pytest.mark.parametrize(("blocks", "computes"), [(False, "pass"), (True, "blocked")])
def test_one_gpu_at_fault_blocks_what_else_is_judged_of_their_fitness_alone(blocks: bool, computes: str) -> None:
    checks = (unfit("TST001", cause="gpu_lost", blocks=blocks), unfit("TST002", "TST001"), passing("TST003", "TST002"))
    assert [result.outcome for result in report_of(*checks).results] == ["fail", "blocked", computes]


def test_of_several_errors_one_that_blocks_is_enough() -> None:
    @check("TST001", "it is well", tags=(UNFIT,), causes=("gpu_lost",))
    def function() -> Yielded:
        yield Finding("one of two", cause="gpu_lost", blocks=False)
        yield Finding("the other", cause="gpu_lost")

    assert report_of(function, passing("TST002", "TST001")).results[1].blocked_by == ("TST001",)


def test_a_gpu_of_eight_that_hangs_leaves_the_others_to_be_judged() -> None:
    report = diagnose(without(3, hung()))
    outcomes = {result.id: result.outcome for result in report.results}
    assert (outcomes["HLT001"], outcomes["GPU004"], outcomes["GPU005"]) == ("fail", "pass", "pass")
    assert {outcomes[id] for id in ("HLT002", "HLT003", "LNK003", "SHR001")} == {"blocked"}
    assert [(cause.id, cause.label) for cause in report.causes] == [("HLT001", "gpu_hang")]
    assert (report.computes, report.fit, report.healthy, report.exit_code()) == (True, False, False, 1)


@pytest.mark.parametrize(
    ("facts", "selection", "computes", "fit", "is_healthy"),
    [
        (healthy(), {}, True, True, True),
        (healthy(quick=True), {}, None, None, True),
        (healthy(), {"select": ("DRV",)}, None, None, False),
        (healthy(), {"ignore": ("HLT002",)}, True, None, True),
        (healthy(), {"ignore": ("GPU004",)}, None, None, False),
        (broken(runtime=None), {}, None, None, False),
        (broken(runtime=without_gpus()), {}, False, None, False),
        (without(3, hung(), runtime=None), {}, None, False, False),
        (without(3, hung()), {"ignore": ("HLT001",)}, True, None, True),
    ],
    ids=["healthy", "quick", "selection", "ignored", "goal ignored", "not run", "no GPU", "unfit, not run", "unfit, ignored"],
)  # fmt: skip
def test_the_two_questions(
    facts: Facts, selection: dict[str, Any], computes: bool | None, fit: bool | None, is_healthy: bool
) -> None:
    report = diagnose(facts, selection=Selection(**selection))
    assert (report.computes, report.fit, report.healthy) == (computes, fit, is_healthy)


@pytest.mark.parametrize(
    ("label", "tagged", "is_unfit"),
    [
        ("gpu_lost", False, True),
        ("undetermined", True, True),
        ("undetermined", False, False),
        ("gpu_memory_held_by_other_process", True, False),
        ("driver_too_old", False, False),
    ],
)
def test_which_errors_say_that_a_gpu_is_unfit(label: str, tagged: bool, is_unfit: bool) -> None:
    assert makes_unfit(label, (UNFIT,) if tagged else ()) is is_unfit


def test_whether_gpus_are_fit_is_not_known_where_a_check_of_them_broke() -> None:
    @check("TST001", "it is well", tags=(UNFIT,))
    def function() -> Yielded:
        yield Evidence(f"{1 // int('0')}")

    report = diagnose(healthy(), checks=[*ALL_CHECKS, function])
    assert (report.computes, report.fit) == (True, None)


def test_what_builds_on_what_cannot_be_told_cannot_be_told_either() -> None:
    @check("TST001", "it is well")
    def function() -> Yielded:
        yield from ()
        raise CannotTell("nobody knows")

    report = report_of(function, failing("TST002", "TST001"), failing("TST003", "TST002"))
    assert [result.outcome for result in report.results] == ["skip", "skip", "skip"]
    assert report.results[1].reason == "TST001 could not be determined"
    assert report.results[1].unmeasured
    assert report.exit_code() == 3


def test_an_error_that_is_allowed_blocks_nothing() -> None:
    """It is still found. Another error of the same check still blocks."""

    def of_one_gpu(id: str, finding: Finding) -> bool:
        return (id, finding.cause) == ("TST001", "driver_too_old")

    checks = (failing("TST001"), passing("TST002", "TST001"), passing("TST003", "TST002"))
    report = diagnose(healthy(), checks=checks, allowed=of_one_gpu)
    assert [result.outcome for result in report.results] == ["fail", "pass", "pass"]
    assert [cause.id for cause in report.causes] == ["TST001"]
    checks = (failing("TST001", cause="gpu_lost"), *checks[1:])
    report = diagnose(healthy(), checks=checks, allowed=of_one_gpu)
    assert [result.outcome for result in report.results] == ["fail", "blocked", "blocked"]


def test_edges_work_in_any_order_of_the_list() -> None:
    report = report_of(failing("TST002", "TST001"), failing("TST001"))
    assert [result.outcome for result in report.results] == ["blocked", "fail"]


def test_an_edge_to_a_check_that_is_not_there_is_no_obstacle() -> None:
    assert result_of(passing("TST001", "GON001")).outcome == "pass"


def test_graver_causes_come_first() -> None:
    report = report_of(
        failing("TST001", cause="ptx_jit_startup_delay", severity="warning"),
        failing("TST002", cause="undetermined"),
        failing("TST003", cause="no_nvidia_driver", confidence="low"),
        failing("TST004", cause="nouveau_loaded"),
        failing("TST005", cause="driver_too_old"),
    )
    assert [cause.id for cause in report.causes] == ["TST004", "TST005", "TST003", "TST002", "TST001"]


def test_findings_of_one_label_are_one_cause() -> None:
    report = report_of(failing("TST001", evidence=("a",)), failing("TST002", evidence=("b",)))
    assert [cause.id for cause in report.causes] == ["TST001"]
    assert report.causes[0].evidence == ("a", "it is not", "b")
    assert report.causes[0].explains == ("TST002",)


def test_two_things_of_unknown_cause_stay_two() -> None:
    report = report_of(failing("TST001", cause="undetermined"), failing("TST002", cause="undetermined"))
    assert [cause.id for cause in report.causes] == ["TST001", "TST002"]


def test_information_is_no_cause() -> None:
    report = report_of(failing("TST001", severity="info"))
    assert report.causes == ()
    assert (report.exit_code(), report.exit_code("info")) == (0, 1)


def test_a_finding_without_a_fix_still_says_what_to_do_next() -> None:
    @check("TST001", "it is well")
    def function() -> Yielded:
        yield Finding("it is not")

    assert "tfgpu-doctor explain TST001" in report_of(function).causes[0].fix.text


@pytest.mark.parametrize(("level", "code"), [("info", 1), ("warning", 1), ("error", 0)])
def test_the_exit_code_follows_the_level(level: str, code: int) -> None:
    report = report_of(failing("TST001", severity="warning"), passing("TST002"))
    assert report.exit_code(level) == code  # type: ignore[arg-type]


def test_zero_checks_are_not_healthy() -> None:
    report = report_of()
    assert report.healthy is False
    assert report.exit_code() == 3


def test_skips_alone_are_not_healthy() -> None:
    @check("TST001", "it is well")
    def function(nvml: object) -> Yielded:
        yield Evidence("never reached")

    report = report_of(function, facts=broken(nvml=None))
    assert report.healthy is False
    assert report.exit_code() == 3


def test_without_its_goal_a_machine_is_not_healthy() -> None:
    facts = broken(runtime=None)
    report = diagnose(facts)
    assert report.causes == ()
    assert report.healthy is False
    assert report.exit_code() == 3


def test_a_broken_plugin_is_shown() -> None:
    report = diagnose(healthy(), broken=[BrokenPlugin("acme", "ImportError: no acme")])
    assert report.results[-1].outcome == "crash"
    assert report.exit_code() == 3


def test_selected_checks_alone_are_shown() -> None:
    report = diagnose(healthy(), selection=Selection(select=("MEM", "DRV002")))
    assert {result.id for result in report.results} == {"DRV002", *(c.id for c in ALL_CHECKS if c.id.startswith("MEM"))}
    assert (report.healthy, report.judged, report.exit_code()) == (
        False,
        True,
        0,
    )  # none of them shows that it computes


def test_a_selection_with_the_question_itself_may_be_healthy() -> None:
    goal = next(each.id for each in ALL_CHECKS if each.goal == "computes")
    assert diagnose(healthy(), selection=Selection(select=(goal,))).healthy is True


def test_a_failed_prerequisite_of_a_selected_check_is_shown() -> None:
    checks = (failing("TST001"), passing("OTH001"), passing("TST002", "TST001"))
    report = report_of(*checks, selection=Selection(select=("TST002",)))
    assert [result.id for result in report.results] == ["TST001", "TST002"]
    assert report.exit_code() == 1


def test_an_ignored_failure_neither_counts_nor_lets_others_fail() -> None:
    checks = (failing("TST001"), failing("TST002", "TST001"))
    report = report_of(*checks, selection=Selection(ignore=("TST001",)))
    assert [result.outcome for result in report.results] == ["skip", "blocked"]
    assert report.causes == ()
    assert (report.judged, report.exit_code()) == (False, 3)  # nothing else was judged
    report = report_of(*checks, passing("TST003"), selection=Selection(ignore=("TST001",)))
    assert (report.judged, report.exit_code()) == (True, 0)
    assert report.healthy is False


def test_counts_add_up() -> None:
    report = diagnose(healthy())
    assert sum(report.counts.values()) == len(report.results) == len(ALL_CHECKS)


def test_interruption_has_its_exit_code() -> None:
    assert diagnose(healthy(), interrupted=True).exit_code() == 130


def test_an_id_must_be_letters_and_three_digits() -> None:
    with pytest.raises(ValueError, match="ACME001"):
        check("acme-1", "it is well")


def test_every_first_party_check_is_sound() -> None:
    """Ids are unique, prerequisites exist and form no ring, facts exist, titles and explanations are there."""
    ids = [each.id for each in ALL_CHECKS]
    known = {*Facts.__struct_fields__, "knowledge"}
    assert len(ids) == len(set(ids)) >= 30
    for each in ALL_CHECKS:
        assert set(each.after) <= set(ids), f"{each.id} comes after a check that does not exist"
        assert {*each.needs, *each.optional} <= known, f"{each.id} needs a fact that no probe gives"
        assert "Fix:" in each.explanation, f"{each.id} does not say how to mend it"
        assert each.sources, f"{each.id} names no source"
        assert set(each.causes) <= set(read_knowledge().causes)
        assert not each.title.endswith(".")
    diagnose(healthy())  # a ring of prerequisites would raise


def test_deeper_checks_are_listed_before_those_that_build_on_them() -> None:
    place = {each.id: index for index, each in enumerate(ALL_CHECKS)}
    backwards = [(each.id, before) for each in ALL_CHECKS for before in each.after if place[before] > place[each.id]]
    assert backwards == []
    stages = {each.id: each.stage for each in ALL_CHECKS}
    assert [(each.id, id) for each in ALL_CHECKS for id in each.after if stages[id] > each.stage] == []


def test_no_module_of_checks_is_forgotten() -> None:
    defining = {path.stem for path in (ROOT / "checks").glob("*/*.py") if "\n@check(" in path.read_text("utf-8")}
    assert defining == {each.function.__module__.rpartition(".")[2] for each in ALL_CHECKS}


def test_checks_lie_in_the_order_of_stage_depth_and_id() -> None:
    def made(id: str, stage: Stage, *after: str) -> Check:
        return check(id, "a check", stage=stage, after=after)(lambda: ())

    last, deep = made("AAA001", Stage.SPEED), made("AAA002", Stage.GPU, "CCC003")
    first, second, odd = made("CCC003", Stage.GPU), made("DDD004", Stage.GPU), made("EEE005", Stage.GPU, "GONE001")
    ordered = in_order([last, deep, odd, second, first])
    assert [each.id for each in ordered] == ["CCC003", "DDD004", "EEE005", "AAA002", "AAA001"]


def test_two_checks_with_one_id_are_refused() -> None:
    one = check("AAA001", "one", stage=Stage.GPU)(lambda: ())
    other = check("AAA001", "other", stage=Stage.GPU)(lambda: ())
    assert in_order([one, one]) == (one,)
    with pytest.raises(ValueError, match="two checks have the id AAA001: 'one' and 'other'"):
        in_order([one, other])


def test_a_gpu_on_the_bus_that_nobody_could_account_for_leaves_the_question_open() -> None:
    """CUDA's own process failed, so the lists cannot be compared; TensorFlow computes on one GPU of two."""
    facts = healthy()
    assert facts.pci and facts.cuda_driver
    first = facts.pci.nvidia_gpus[0]
    two = msgspec.structs.replace(
        facts.pci, devices=(*facts.pci.devices, msgspec.structs.replace(first, address="0000:02:00.0"))
    )
    assert diagnose(msgspec.structs.replace(facts, cuda_driver=None)).fit is True
    assert diagnose(msgspec.structs.replace(facts, cuda_driver=None, pci=two)).fit is None
