"""LIM002, LIM004 to LIM006: addresses, threads, files, locked memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_ground import OPEN, built, limits
from built_machines import cuda_that_fails, cuda_without_library, failed_import
from every import every
from healthy import ANSWERED, broken, computation, nvml_gpu, runtime

from tfgpu_doctor.checks.machine.limits import (
    address_space_suffices,
    files_may_be_opened,
    memory_may_be_locked,
    threads_may_be_started,
)
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

GIB = 1 << 30
CONFINED = limits(resources={**OPEN, "as": 8 * GIB})
UNUSED = runtime(gpus=(), computations=(), log=())
# What TensorFlow 2.21 said under `prlimit --as=1300M`, and under a control group of 5 tasks.
NO_SEGMENT = "ImportError: /x/_pywrap_profiler_plugin.so: failed to map segment from shared object"
NO_THREAD = "F env.cc:84] Check failed: ret == 0 (11 vs. 0) Thread tf_Compute creation via pthread_create() failed."


# LIM002


def test_an_unlimited_address_space_is_healthy(judge: Judge) -> None:
    assert judge.passes(address_space_suffices, limits=limits()) == "ulimit -v is unlimited"


def test_a_limit_that_tensorflow_lives_with_is_no_fault(judge: Judge) -> None:
    assert "computes" in judge.passes(address_space_suffices, limits=CONFINED)


def test_a_limit_that_cuda_lives_with_is_no_fault(judge: Judge) -> None:
    assert "cuInit succeeds" in judge.passes(address_space_suffices, limits=CONFINED, runtime=None)


@pytest.mark.parametrize(
    "sections",
    [
        {"cuda_driver": cuda_that_fails(2, "CUDA_ERROR_OUT_OF_MEMORY"), "runtime": UNUSED},
        {"cuda_driver": cuda_that_fails(2, "CUDA_ERROR_OUT_OF_MEMORY"), "runtime": None},
        {"runtime": failed_import(NO_SEGMENT)},
        {"runtime": Runtime(attempt=Attempt(outcome="failed", exit_code=1, error="MemoryError"))},
        {"cuda_driver": {"library": "", "library_error": "libcuda.so.1: failed to map segment from shared object"}, "runtime": UNUSED},
        {"runtime": runtime(computations=(computation("matmul", largest_error=None, error="CUDA_ERROR_OUT_OF_MEMORY: out of memory"),))},
    ],
)  # fmt: skip
def test_addresses_that_run_out(judge: Judge, sections: dict[str, Any]) -> None:
    finding = judge.finding(address_space_suffices, limits=CONFINED, **sections)
    assert (finding.severity, finding.cause) == ("error", "address_space_limit")
    assert finding.message.startswith("ulimit -v is 8.0 GiB")
    assert finding.fix and finding.fix.commands == ("ulimit -v unlimited",)
    assert "h_vmem" in finding.fix.text


@pytest.mark.parametrize("cuda", [cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE"), cuda_without_library()])
def test_another_trouble_of_cudas_is_not_laid_to_the_limit(judge: Judge, cuda: Any) -> None:
    assert judge.skips(address_space_suffices, limits=CONFINED, cuda_driver=cuda, runtime=UNUSED)


def test_a_full_gpu_is_not_laid_to_the_limit(judge: Judge) -> None:
    full = {"gpus": (nvml_gpu(memory_free_bytes=100 << 20),)}
    failed = runtime(computations=(computation("matmul", error="CUDA_ERROR_OUT_OF_MEMORY", largest_error=None),))
    assert judge.does_not_object(address_space_suffices, limits=CONFINED, nvml=full, runtime=failed)


def test_a_limit_that_was_not_read_is_not_judged(judge: Judge) -> None:
    assert judge.skips(address_space_suffices, limits=Limits())


# LIM004


def test_a_group_without_limit(judge: Judge) -> None:
    found = limits(resources={})
    assert (
        judge.passes(threads_may_be_started, limits=found, runtime=None)
        == "no control group limits the number of tasks"
    )


@pytest.mark.parametrize(("limit", "used"), [(4096, 61), (2048, 12), (97, 0)])
def test_room_for_all_threads(judge: Judge, limit: int, used: int) -> None:
    found = limits(32, tasks_limit=limit, tasks_used=used)
    assert str(limit) in judge.passes(threads_may_be_started, limits=found, runtime=None)


def test_too_little_room_is_foretold(judge: Judge) -> None:
    found = limits(256, tasks_limit=512, tasks_used=40)
    finding = judge.finding(threads_may_be_started, limits=found, runtime=None)
    assert (finding.severity, finding.cause) == ("warning", "task_limit")
    assert "about 768 threads on 256 CPUs" in finding.message
    assert finding.fix and "--pids-limit" in finding.fix.text


def test_a_program_that_computes_had_room(judge: Judge) -> None:
    found = limits(256, tasks_limit=512, tasks_used=40)
    assert "computes" in judge.passes(threads_may_be_started, limits=found)


@pytest.mark.parametrize(
    "died",
    [
        runtime(computations=(), attempt=Attempt(outcome="killed_by_signal", signal="SIGABRT"), log=(NO_THREAD,)),
        runtime(
            computations=(), log=(), attempt=Attempt(outcome="killed_by_signal", signal="SIGABRT", stderr=(NO_THREAD,))
        ),
        runtime(computations=(), log=(), use_error="RuntimeError: can't start new thread"),
    ],
)
@pytest.mark.parametrize("found", [limits(32, tasks_limit=100, tasks_used=42), limits(32), limits(32, resources={})])
def test_a_thread_that_could_not_be_started(judge: Judge, found: Limits, died: Runtime) -> None:
    finding = judge.finding(threads_may_be_started, limits=found, runtime=died)
    assert (finding.severity, finding.cause) == ("error", "task_limit")
    assert any("thread" in line.lower() for line in finding.evidence)


def test_another_abort_is_not_laid_to_threads(judge: Judge) -> None:
    died = Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGABRT", stderr=("free(): invalid pointer",)))
    assert judge.does_not_object(threads_may_be_started, limits=limits(), runtime=died)


# LIM005, LIM006


@pytest.mark.parametrize(("limit", "severity"), [(250, "info"), (1023, "info"), (1024, ""), (65_536, ""), (-1, "")])
def test_open_files(judge: Judge, limit: int, severity: str) -> None:
    found = judge.findings(files_may_be_opened, limits=limits(resources={**OPEN, "nofile": limit}))
    assert [each.severity for each in found] == ([severity] if severity else [])


NO_FILE = "OSError: [Errno 24] Too many open files: '/usr/lib/libcudart.so.12'"


@pytest.mark.parametrize(
    ("limit", "run", "severity", "command"),
    [
        (64, failed_import(NO_FILE), "error", "ulimit -n 1024"),
        (4096, failed_import(NO_FILE), "error", "ulimit -n 16384"),
        (4096, runtime(computations=(), use_error=NO_FILE), "error", "ulimit -n 16384"),
        (4096, runtime(gpus=(), computations=(), log=(f"E {NO_FILE}",)), "error", "ulimit -n 16384"),
        (64, runtime(log=(f"W {NO_FILE}",)), "warning", "ulimit -n 1024"),
    ],
    ids=["import", "a higher limit", "use", "log", "it computes"],
)
def test_files_that_run_out(judge: Judge, limit: int, run: Runtime, severity: str, command: str) -> None:
    finding = judge.finding(files_may_be_opened, limits=limits(resources={**OPEN, "nofile": limit}), runtime=run)
    assert (finding.cause, finding.severity) == ("open_files_limit", severity)
    assert finding.message == f"only {limit} files may be open at once, and TensorFlow needs more"
    assert any(NO_FILE in line for line in finding.evidence)
    assert finding.fix and finding.fix.commands == (command,)


@pytest.mark.parametrize(
    ("limit", "said"),
    [(-1, NO_FILE), (4096, "OSError: [Errno 23] Too many open files in system")],
    ids=["no limit", "system"],
)
def test_files_that_run_out_elsewhere_are_not_laid_to_the_limit(judge: Judge, limit: int, said: str) -> None:
    found = limits(resources={**OPEN, "nofile": limit})
    assert judge.passes(files_may_be_opened, limits=found, runtime=failed_import(said))


def test_an_import_that_the_limit_of_files_ends_is_explained_by_it() -> None:
    report = diagnose(broken(limits=limits(resources={**OPEN, "nofile": 64}), runtime=failed_import(NO_FILE)))
    assert [(cause.id, cause.label) for cause in report.causes] == [("LIM005", "open_files_limit")]
    assert "TFW001" in report.causes[0].explains


def test_macos_has_fewer_by_itself(judge: Judge) -> None:
    assert judge.skips(files_may_be_opened, limits=limits(resources={"nofile": 256}), system={"os": "Darwin"})


@pytest.mark.parametrize("devices", [(), ("uverbs0",)])
@pytest.mark.parametrize("limit", [64 << 10, 8 << 20, -1])
def test_locked_memory_matters_to_infiniband_alone(judge: Judge, devices: tuple[str, ...], limit: int) -> None:
    sections = {"limits": limits(resources={**OPEN, "memlock": limit}), "system": {"rdma_devices": devices}}
    if not devices:
        assert judge.skips(memory_may_be_locked, **sections) == "there is no InfiniBand on this machine"
    elif limit < 0:
        assert "unlimited" in judge.passes(memory_may_be_locked, **sections)
    else:
        finding = judge.finding(memory_may_be_locked, **sections)
        assert finding.severity == "info"
        assert "uverbs0" in finding.evidence[1]


@pytest.mark.parametrize(
    "check", [address_space_suffices, threads_may_be_started, files_may_be_opened, memory_may_be_locked]
)
@every("name", [name for name in built() if name.endswith("-healthy")])
def test_healthy_machines_have_no_fault(judge: Judge, check: Any, name: str) -> None:
    machine = built()[name]
    assert machine.limits is None or judge.does_not_object(check, machine)


def test_an_answer_that_was_never_given_is_no_complaint(judge: Judge) -> None:
    assert judge.skips(address_space_suffices, limits=CONFINED, cuda_driver=None, runtime=Runtime(attempt=ANSWERED))
