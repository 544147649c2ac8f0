"""LOD001, LOD002, LOD003 and LOD005: equal bits, GPUs that agree, memory that keeps, a load that ends well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from healthy import ANSWERED, broken, runtime
from stressed import (
    exactness,
    hung,
    left_alone,
    pattern,
    speed,
    stress,
    stress_round,
    stressed_gpu,
    transfers,
    under_stress,
)

from tfgpu_doctor.checks.stress.copies import copies_arrive
from tfgpu_doctor.checks.stress.ending import stress_runs_to_its_end
from tfgpu_doctor.checks.stress.patterns import memory_keeps
from tfgpu_doctor.checks.stress.results import gpus_agree, results_repeat
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Check, Evidence
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import StressedGpu, StressRound

if TYPE_CHECKING:
    from checks.conftest import Judge

ON_HOST = "/job:localhost/replica:0/task:0/device:CPU:0"
OPERATION = "tensorflow.python.framework.errors_impl.InternalError: "


def machine(*gpus: StressedGpu, **changes: object) -> Facts:
    return under_stress(stress(*gpus, **changes))


def with_round(index: int = 0, /, **changes: object) -> StressedGpu:
    return stressed_gpu(index, rounds=(stress_round(**changes),))


def test_equal_bits_pass_with_how_often_and_how_many(judge: Judge) -> None:
    told = judge.passes(results_repeat, machine())
    assert "matmul in float32 900 times (16,777,216 elements)" in told
    assert "convolution in float32" in told
    assert "deviation from float64: 4.0% of" in told


def test_repetitions_of_all_rounds_count(judge: Judge) -> None:
    assert "1,800 times" in judge.passes(results_repeat, machine(stressed_gpu(rounds=(stress_round(), stress_round()))))


def test_a_gpu_that_disagrees_with_itself_is_named_with_how_many_elements(judge: Judge) -> None:
    bad = with_round(1, exactness=(exactness(), exactness("convolution", mismatches=37)))
    found = judge.finding(results_repeat, machine(stressed_gpu(0), bad))
    assert found.message.startswith(
        "GPU 1 (NVIDIA GeForce RTX 3090) does not reproduce its own results: a convolution in float32"
    )
    assert "37 elements" in found.message
    assert (found.cause, found.severity) == ("hardware_faulty_gpu", "error")


def test_without_a_promise_of_equal_bits_none_is_asked_for(judge: Judge) -> None:
    gpu = stressed_gpu(deterministic=False, rounds=(stress_round(exactness=(exactness(mismatches=3),)),))
    assert judge.skips(results_repeat, machine(gpu))
    assert judge.passes(results_repeat, machine(stressed_gpu(deterministic=False)))


def test_a_wrong_result_that_repeats_is_the_gpus_where_another_is_right(judge: Judge) -> None:
    wrong = with_round(1, exactness=(exactness(deviation=7.5),))
    found = judge.finding(results_repeat, machine(stressed_gpu(0), wrong))
    assert (found.cause, found.confidence) == ("hardware_faulty_gpu", "medium")
    assert "7.5 times" in found.message
    assert judge.finding(results_repeat, machine(wrong)).cause == "undetermined"


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (exactness(iterations=0),),
        (exactness(placed_on=ON_HOST),),
        (exactness(error="UnimplementedError: none"),),
    ],
    ids=["none", "not repeated", "elsewhere", "failed"],
)
def test_what_was_not_measured_is_no_pass(judge: Judge, rows: tuple[object, ...]) -> None:
    assert "did not reach this measurement" in judge.skips(results_repeat, machine(with_round(exactness=rows)))


def test_a_kind_that_was_tried_and_not_measured_is_no_pass(judge: Judge) -> None:
    failed = exactness("convolution", iterations=0, error="InternalError: none")
    assert "was not measured" in judge.skips(results_repeat, machine(with_round(exactness=(exactness(), failed))))


@pytest.mark.parametrize(("gpus", "cause"), [(1, "undetermined"), (2, "hardware_faulty_gpu")])
def test_products_that_are_no_numbers_are_a_fault(judge: Judge, gpus: int, cause: str) -> None:
    wrong = with_round(0, speeds=(speed("float32"), speed("float16", finite=False)))
    finding = judge.finding(results_repeat, machine(wrong, *(stressed_gpu(index) for index in range(1, gpus))))
    assert (finding.cause, len(finding.devices)) == (cause, 1)
    assert finding.message.startswith("GPU 0 ")
    assert "products in float16 are no numbers" in finding.message


def test_no_load_says_why(judge: Judge) -> None:
    for check in (results_repeat, gpus_agree, memory_keeps, stress_runs_to_its_end):
        assert "python (4711) computes on it" in judge.skips(check, machine(left_alone(0)))


def test_a_load_that_hung_says_so(judge: Judge) -> None:
    slow = hung(0, "importing TensorFlow")
    assert "did not respond within 72 s" in judge.skips(results_repeat, machine(slow))
    assert judge.skips(stress_runs_to_its_end, machine(slow))


def test_gpus_of_one_model_agree(judge: Judge) -> None:
    told = judge.passes(gpus_agree, machine(stressed_gpu(0), stressed_gpu(1), stressed_gpu(2)))
    assert told == (
        "GPUs 0, 1, 2 give identical bits for the matmul in float32, the convolution in float32, the matmul in float16"
    )


def test_gpus_that_agree_say_nothing_of_one_that_was_not_measured(judge: Judge) -> None:
    reason = judge.skips(gpus_agree, machine(stressed_gpu(0), stressed_gpu(1), hung(2, "importing TensorFlow")))
    assert "GPU 2 " in reason
    assert "did not respond" in reason


def test_the_one_that_stands_alone_is_named(judge: Judge) -> None:
    alone = with_round(2, exactness=(exactness(digests=("f" * 16, *exactness().digests[1:])),))
    found = judge.finding(gpus_agree, machine(stressed_gpu(0), stressed_gpu(1), alone))
    assert found.message.startswith("the matmul in float32 on GPU 2 ")
    assert (found.cause, found.severity, found.confidence) == ("hardware_faulty_gpu", "error", "medium")
    assert found.evidence[0] == "1 of 16 parts of the result differ from the 2 other GPUs"


def test_of_two_that_differ_neither_is_blamed(judge: Judge) -> None:
    other = with_round(1, exactness=(exactness(digests=("f" * 16,) * 16),))
    found = judge.finding(gpus_agree, machine(stressed_gpu(0), other))
    assert "GPU 0 " in found.message
    assert "GPU 1 " in found.message
    assert found.confidence == "low"


@pytest.mark.parametrize(
    "other",
    [
        stressed_gpu(1, name="NVIDIA GeForce RTX 4090"),
        stressed_gpu(1, multiprocessors=60),
        stressed_gpu(1, deterministic=False),
        with_round(1, exactness=(exactness(mismatches=1),)),
    ],
    ids=["another model", "fewer multiprocessors", "no promise", "differs from itself"],
)
def test_gpus_that_cannot_be_compared_are_not(judge: Judge, other: StressedGpu) -> None:
    assert "no two GPUs of the same model" in judge.skips(gpus_agree, machine(stressed_gpu(0), other))


def test_memory_that_keeps_says_how_much_was_tested(judge: Judge) -> None:
    told = judge.passes(memory_keeps, machine())
    assert "21.0 GiB of the 23.0 GiB that were free" in told
    assert "0x55, 0xAA, address, random" in told


def test_memory_that_does_not_keep_is_named_with_an_example(judge: Judge) -> None:
    bad = pattern("0xAA", mismatches=2, example="chunk 3, word 7: wrote 0xaaaaaaaaaaaaaaaa, read 0xaaaaaaaaaaaaaaab")
    found = judge.finding(memory_keeps, machine(with_round(memory=(pattern("0x55"), bad))))
    assert "2 words changed" in found.message
    assert any("read 0xaaaaaaaaaaaaaaab" in line for line in found.evidence)
    assert found.cause == "hardware_faulty_gpu"


@pytest.mark.parametrize(
    "rows",
    [(), (pattern("0x55", tested_bytes=0),), (pattern("0x55", placed_on=ON_HOST),), (pattern("0x55", tested_bytes=0, error="OOM"),)],
    ids=["none", "no byte", "elsewhere", "failed"],
)  # fmt: skip
def test_no_byte_tested_is_no_pass(judge: Judge, rows: tuple[object, ...]) -> None:
    assert "GPU 0 (NVIDIA GeForce RTX 3090) was not measured" in judge.skips(
        memory_keeps, machine(with_round(memory=rows))
    )


def test_a_load_that_ends_well(judge: Judge) -> None:
    assert "1 round of the stress test in 43 s" in judge.passes(stress_runs_to_its_end, machine())


def test_a_gpu_that_others_use_is_mentioned_and_no_fault(judge: Judge) -> None:
    found = judge.finding(stress_runs_to_its_end, machine(stressed_gpu(0), left_alone(1)))
    assert "GPU 1 " in found.message
    assert "python (4711) computes on it" in found.message
    assert found.severity == "info"
    assert found.fix is not None
    assert "--even-if-busy" in found.fix.text


def test_a_load_that_dies_is_told_with_where(judge: Judge) -> None:
    dead = stressed_gpu(
        attempt=Attempt(outcome="killed_by_signal", signal="SIGABRT", phase="products in tf32, round 1")
    )
    found = judge.finding(stress_runs_to_its_end, machine(dead))
    assert "was killed by SIGABRT during 'products in tf32, round 1'" in found.message
    assert (found.cause, found.severity) == ("undetermined", "error")


@pytest.mark.parametrize(
    ("error", "label"),
    [
        ("CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", "hardware_ecc_error"),
        ("failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS", "hardware_faulty_gpu"),
        ("failed to load module: CUDA_ERROR_LAUNCH_FAILED", "hardware_faulty_gpu"),
        ("something that nobody knows", "undetermined"),
    ],
)
def test_what_an_operation_raises_is_read(judge: Judge, error: str, label: str) -> None:
    assert judge.finding(stress_runs_to_its_end, machine(stressed_gpu(error=OPERATION + error))).cause == label


@pytest.mark.parametrize(
    "gpu",
    [
        stressed_gpu(error="ModuleNotFoundError: No module named 'numpy'"),
        stressed_gpu(rounds=(), attempt=Attempt(outcome="not_started", error="no such file")),
        stressed_gpu(rounds=(), attempt=Attempt(outcome="unparsable")),
        stressed_gpu(rounds=()),
    ],
    ids=["no numpy", "not started", "not understood", "nothing done"],
)
def test_the_doctors_own_trouble_is_no_fault_of_the_gpu(judge: Judge, gpu: StressedGpu) -> None:
    assert judge.skips(stress_runs_to_its_end, machine(gpu))


def test_a_load_that_the_user_stopped_is_no_death(judge: Judge) -> None:
    killed = stressed_gpu(attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL"))
    assert "interrupted" in judge.skips(stress_runs_to_its_end, machine(killed, interrupted=True))
    assert judge.passes(results_repeat, machine(killed, interrupted=True))


def test_a_gpu_that_stops_answering_under_load_hangs(judge: Judge) -> None:
    silent = stressed_gpu(attempt=Attempt(outcome="timed_out", seconds=72.0, phase="products in float16, round 1"))
    found = judge.finding(stress_runs_to_its_end, machine(silent))
    assert (found.cause, found.severity, found.confidence) == ("gpu_hang", "error", "medium")


def test_a_gpu_that_hangs_in_its_first_operation_is_an_error(judge: Judge) -> None:
    found = judge.finding(stress_runs_to_its_end, machine(stressed_gpu(0), hung(1)))
    assert found.message.startswith(
        "the stress test on GPU 1 (NVIDIA GeForce RTX 3090) did not respond within 72 s during"
    )
    assert (found.cause, found.severity, found.confidence) == ("gpu_hang", "error", "medium")
    assert "this step alone ran for 60 s" in found.evidence
    assert (
        judge.finding(stress_runs_to_its_end, machine(hung(0, "asking the driver for free memory"))).cause == "gpu_hang"
    )


def test_one_hang_is_one_error_and_nothing_passes_on_the_results_of_the_others() -> None:
    blocked_copy = Attempt(outcome="timed_out", seconds=40.0, phase="copying from host to GPU:0")
    facts = machine(
        stressed_gpu(0), hung(1), transfers=(), transfers_attempt=blocked_copy, transfers_phase_s=35.0
    )  # fmt: skip
    report = diagnose(facts)
    assert [(cause.id, cause.label) for cause in report.causes] == [("LOD005", "gpu_hang")]
    assert (report.healthy, report.fit) == (False, False)
    for id in ("LOD001", "LOD003", "LOD006"):
        result = report.find(id)
        assert result is not None
        assert (result.outcome, result.reason) == (
            "skip",
            "GPU 1 (NVIDIA GeForce RTX 3090) was not measured: the stress test did not respond within 72 s during "
            "'matmul in float32, round 1'",
        )
    copies = report.find("LOD004")
    assert copies is not None
    assert copies.outcome == "skip"
    assert "the copy test did not respond within 40 s" in copies.reason


@pytest.mark.parametrize(
    ("gpu", "start_s"),
    [
        (hung(1, phase_s=None), 8.0),
        (hung(1, phase_s=12.0), 8.0),
        (hung(1, "importing TensorFlow", phase_s=70.0), 8.0),
        (hung(1, phase_s=60.0), 35.0),
        (hung(1, attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL", phase="matmul in float32, round 1")), 8.0),
        (hung(1, attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="importing TensorFlow")), 8.0),
        (hung(1, attempt=Attempt(outcome="failed", error="it used 90 GB of memory")), 8.0),
        (stressed_gpu(1, rounds=()), 8.0),
    ],
    ids=["unknown for how long", "short", "starting", "TensorFlow starts slowly", "out of memory", "crashed", "ended", "nothing done"],
)  # fmt: skip
def test_a_gpu_that_may_have_been_starting_is_not_judged(judge: Judge, gpu: StressedGpu, start_s: float) -> None:
    slow = runtime(attempt=Attempt(outcome="answered", seconds=start_s))
    facts = broken(machine(stressed_gpu(0), gpu, left_alone(2)), runtime=slow)
    told = judge.skips(stress_runs_to_its_end, facts)
    assert told.startswith("GPU 1 (NVIDIA GeForce RTX 3090) was not measured: the stress test ")
    assert told.endswith("; GPU 2 (NVIDIA GeForce RTX 3090) was not tested: python (4711) computes on it")
    for check in (results_repeat, memory_keeps):
        assert "GPU 1 (NVIDIA GeForce RTX 3090) was not measured" in judge.skips(check, facts)


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        (results_repeat, with_round(exactness=(exactness(mismatches=3),))),
        (memory_keeps, with_round(memory=(pattern("0xAA", mismatches=2),))),
        (stress_runs_to_its_end, stressed_gpu(error=f"{OPERATION}CUDA_ERROR_ILLEGAL_ADDRESS")),
    ],
)
def test_a_finding_stands_next_to_a_gpu_that_was_not_measured(judge: Judge, check: Check, bad: StressedGpu) -> None:
    facts = machine(bad, hung(1, "importing TensorFlow"), hung(2, "importing TensorFlow"))
    assert "GPU 0 " in judge.finding(check, facts).message
    told = [each.text for each in judge(check, facts) if isinstance(each, Evidence)]
    named = "GPU 1 (NVIDIA GeForce RTX 3090), GPU 2 (NVIDIA GeForce RTX 3090) were not measured: "
    assert [line.startswith(named) for line in told] == [True]


def test_copies_that_all_arrived_pass_although_a_gpu_hung_before(judge: Judge) -> None:
    assert judge.passes(copies_arrive, machine(stressed_gpu(0), hung(1), transfers=transfers(0, 1)))


def test_a_round_cut_short_still_tells_what_it_knows(judge: Judge) -> None:
    cut = StressRound(exactness=(exactness(),))
    gpu = msgspec.structs.replace(stressed_gpu(attempt=ANSWERED), rounds=(cut,))
    assert "matmul" in judge.passes(results_repeat, machine(gpu))
