"""The probe of the load, its processes' answers recorded; see tests/collect/workers for the processes themselves."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from healthy import ANSWERED, cuda_gpu, gpu, healthy, nvml_gpu, runtime

import tfgpu_doctor.collect.workers
from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes import stress as module
from tfgpu_doctor.collect.probes.stress import _Run
from tfgpu_doctor.collect.probes.stress import stress as probe_of_stress
from tfgpu_doctor.collect.probes.stress_plan import make_plan
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressTest
from tfgpu_doctor.model.soak import least_load_s

ON_GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
WORKERS = pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent
Row = dict[str, Any]


def lines(*rows: Row) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def described(*indices: int, **changes: Any) -> Row:
    rows = {
        str(index): {
            "uuid": nvml_gpu(index).uuid, "pci_address": nvml_gpu(index).pci_address, "max_sm_mhz": 2100, "power_limit_w": 350.0,
            "default_power_limit_w": 350.0, "slowdown_c": 95, **changes,
        }
        for index in indices
    }  # fmt: skip
    return {"gpus": rows}


def look(**changes: Any) -> Row:
    row = {
        "sm_mhz": 210, "temperature_c": 40, "power_w": 30.0, "utilization_percent": 0, "reasons": ["gpu_idle"],
        "pcie_generation": 1, "pcie_width": 16, "tenants": [], "used_bytes": 1 << 28, "drawing_bytes": 0,
    }  # fmt: skip
    return {**row, **changes}


def looks(rows: Mapping[int, Row], *moments: float) -> Row:
    return {"samples": {f"{moment:.3f}": {str(index): row for index, row in rows.items()} for moment in moments}}


def a_round(began: float = 100.0, **changes: Any) -> Row:
    row = {
        "began_s": began, "seconds": 44.0,
        "exactness": [{"operation": "matmul", "precision": "float32", "placed_on": ON_GPU, "iterations": 9, "elements": 16,
                       "mismatches": 0, "deviation": 0.1, "digests": ["ab"], "seconds": 1.0}],
        "speeds": [{"precision": "float32", "teraflops": 24.0, "side": 8192, "iterations": 40, "seconds": 5.0,
                    "began_s": began + 10, "finite": True}],
        "memory": [{"pattern": "0x55", "placed_on": ON_GPU, "tested_bytes": 1 << 34, "mismatches": 0, "seconds": 1.0}],
    }  # fmt: skip
    return {**row, **changes}


def worked(*rounds: Row) -> Completed:
    rows = {str(place): row for place, row in enumerate(rounds or (a_round(),))}
    said = lines({"free_bytes": 23 << 30, "integrated": False}, {"deterministic": True}, {"rounds": rows})
    return Completed(said, "", 60.0, exit_code=0)


def copied(count: int) -> Completed:
    rows = [
        {"source": "host", "destination": f"GPU:{place}", "host_memory": "pinned", "copied_bytes": 1 << 28, "copies": 9,
         "gb_per_s": 25.0, "mismatches": 0, "began_s": 150.0, "ended_s": 151.0}
        for place in range(count)
    ]  # fmt: skip
    return Completed(lines({"transfers": {str(count - at): row for at, row in enumerate(rows)}}), "", 12.0, exit_code=0)


class Scripted(Host):
    """A host on which each program of a load ends as it is told, and which keeps what it was asked."""

    def __init__(self, count: int, environment: Mapping[str, str] | None = None, **answers: Any) -> None:
        super().__init__("/", {} if environment is None else environment)
        idle = lines(described(*range(count)), looks({index: look() for index in range(count)}, 1.0, 2.5, 3.0))
        loaded = look(
            sm_mhz=1700,
            utilization_percent=99,
            reasons=["sw_power_cap"],
            temperature_c=70,
            power_w=340.0,
            pcie_generation=4,
        )
        under = lines(described(*range(count)), looks(dict.fromkeys(range(count), loaded), 111.0, 113.0, 150.5))
        self.answers: dict[str, Any] = {
            "idle": idle,
            "under": under,
            "stress_gpu": worked(),
            "stress_links": copied(count),
            **answers,
        }
        self.asked: list[tuple[str, Row, dict[str, str]]] = []
        self._lock = threading.Lock()

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        variables: Mapping[str, str] | None = None,
        until: Any = None,
        memory_bytes: float | None = None,
    ) -> Completed:
        assert until is not None, "nobody would tell it that the doctor is gone"
        (program,) = [os.path.basename(word)[: -len(".py")] for word in argv if word.endswith(".py")]
        plan = json.loads(argv[-1])
        with self._lock:
            self.asked.append((program, {**plan, "deadline_s": deadline_s}, dict(variables or {})))
        if program == "sample_nvml":
            return Completed(self.answers["idle" if plan["with_tenants"] else "under"], "", 1.0, exit_code=0)
        answer = self.answers[program]
        done: Completed = answer(plan, dict(variables or {})) if callable(answer) else answer
        return done

    def plans(self, program: str) -> list[Row]:
        return [plan for name, plan, _ in self.asked if name == program]

    def variables_of(self, program: str) -> list[dict[str, str]]:
        return [variables for name, _, variables in self.asked if name == program]


def listed(count: int, **changes: Any) -> Runtime:
    return runtime(gpus=tuple(map(gpu, range(count))), attempt=ANSWERED, **changes)


def put(
    host: Scripted, count: int = 1, found: Runtime | None = None, nvml: Nvml | None = None, **request: Any
) -> StressTest:
    asked = Request(**{"python": "/venv/bin/python", "level": "deep", **request})
    driver = CudaDriver(attempt=ANSWERED, gpus=tuple(map(cuda_gpu, range(count))))
    known = nvml or Nvml(attempt=ANSWERED, gpus=tuple(map(nvml_gpu, range(count))))
    fact: StressTest = probe_of_stress.function(host, asked, found or listed(count), known, driver)
    return fact


def test_each_gpu_is_loaded_in_a_process_of_its_own_and_shown_by_its_uuid() -> None:
    host = Scripted(2)
    found = put(host, 2)
    assert [each.index for each in found.tested] == [0, 1]
    shown = sorted(each["CUDA_VISIBLE_DEVICES"] for each in host.variables_of("stress_gpu"))
    assert shown == [nvml_gpu(0).uuid, nvml_gpu(1).uuid]
    assert "CUDA_VISIBLE_DEVICES" not in host.variables_of("stress_links")[0]
    assert all(each["TF_FORCE_GPU_ALLOW_GROWTH"] == "true" for each in host.variables_of("stress_gpu"))
    assert host.plans("stress_links")[0]["devices"] == ["/GPU:0", "/GPU:1"]


def test_the_variable_of_the_user_keeps_its_meaning() -> None:
    host = Scripted(2, {"CUDA_VISIBLE_DEVICES": "5, 3"})
    put(host, 2)
    assert sorted(each["CUDA_VISIBLE_DEVICES"] for each in host.variables_of("stress_gpu")) == ["3", "5"]


def test_one_gpu_is_shown_as_it_is() -> None:
    host = Scripted(1)
    put(host)
    assert "CUDA_VISIBLE_DEVICES" not in host.variables_of("stress_gpu")[0]


def test_the_fact_holds_what_the_processes_said() -> None:
    (found,) = put(Scripted(1)).gpus
    assert (found.name, found.uuid, found.deterministic) == ("NVIDIA GeForce RTX 3090", nvml_gpu(0).uuid, True)
    assert (found.free_bytes, found.max_sm_mhz, found.power_limit_w) == (23 << 30, 2100.0, 350.0)
    assert found.attempt is not None
    assert found.attempt.answered
    (row,) = found.rounds
    assert row.exactness[0].iterations == 9
    assert row.memory[0].tested_bytes == 1 << 34
    assert row.speeds[0].teraflops == 24.0


def test_the_looks_that_fell_into_the_products_are_the_readings() -> None:
    (found,) = put(Scripted(1)).gpus
    readings = found.rounds[0].readings
    assert readings is not None
    assert readings.samples == 2  # at 111 and 113: the products took from 110 to 115
    assert (readings.sm_mhz, readings.temperature_c, readings.power_w) == (1700.0, 70.0, 340.0)
    assert readings.reasons == {"sw_power_cap": 1.0}


def test_copies_have_the_link_that_the_gpu_had_meanwhile() -> None:
    (row,) = put(Scripted(1)).transfers
    assert (row.source, row.destination, row.gb_per_s) == ("host", "GPU:0", 25.0)
    assert (row.pcie_generation, row.pcie_width) == (4, 16)


def busy(**changes: Any) -> bytes:
    rows = {0: look(), 1: look(**changes)}
    return lines(described(0, 1), looks(rows, 1.0, 2.5, 3.0))


@pytest.mark.parametrize(
    ("changes", "sign"),
    [
        ({"tenants": [{"pid": 4711, "name": "python"}]}, "python (4711) computes on it"),
        ({"utilization_percent": 60}, "another process uses it 60 % of the time"),
        ({"used_bytes": 9 << 30}, "9.0 GiB of its memory are in use by others"),
    ],
    ids=["a process", "use", "memory"],
)
def test_a_gpu_that_others_use_is_left_alone_and_the_others_go_on(changes: Row, sign: str) -> None:
    host = Scripted(2, idle=busy(**changes))
    found = put(host, 2)
    assert found.gpus[0].untouched == ""
    assert sign in found.gpus[1].untouched
    assert found.gpus[1].attempt is None
    assert [each["CUDA_VISIBLE_DEVICES"] for each in host.variables_of("stress_gpu")] == [nvml_gpu(0).uuid]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in host.variables_of("stress_links")] == [nvml_gpu(0).uuid]


def test_even_if_busy_overrules_and_says_so() -> None:
    found = put(Scripted(2, idle=busy(utilization_percent=60)), 2, even_if_busy=True)
    assert [each.untouched for each in found.gpus] == ["", ""]
    assert "60 %" in found.gpus[1].busy[0]
    assert found.gpus[1].rounds


@pytest.mark.parametrize(
    "changes",
    [
        {"tenants": [{"pid": 9, "name": "nvidia-cuda-mps-server"}]},
        {"used_bytes": 4 << 30, "drawing_bytes": 3 << 30},
        {"utilization_percent": None, "used_bytes": None},
        {"utilization_percent": 7},
    ],
    ids=["MPS's server", "a desktop", "not told", "a little"],
)
def test_a_gpu_that_nobody_computes_on_is_loaded(changes: Row) -> None:
    assert put(Scripted(2, idle=busy(**changes)), 2).gpus[1].untouched == ""


def test_what_the_doctor_itself_computed_a_moment_ago_is_nobody_elses() -> None:
    rows = looks({0: look(utilization_percent=99)}, 1.0)
    rows["samples"].update(looks({0: look()}, 2.5, 3.0)["samples"])
    assert put(Scripted(1, idle=lines(described(0), rows))).gpus[0].untouched == ""


def test_where_nvml_tells_nothing_no_gpu_is_touched() -> None:
    host = Scripted(1, idle=lines({"library_error": "libnvidia-ml.so.1: no such file"}))
    found = put(host)
    assert "could not be determined: libnvidia-ml.so.1: no such file" in found.gpus[0].untouched
    assert host.plans("stress_gpu") == []
    assert put(Scripted(1, idle=lines({"library_error": "none"})), even_if_busy=True).gpus[0].rounds


def test_the_figures_of_a_divided_gpu_are_those_of_all_its_parts() -> None:
    host = Scripted(
        1, idle=lines(described(0), looks({0: look(utilization_percent=90, used_bytes=60 << 30)}, 1.0, 3.0))
    )
    found = put(host, nvml=Nvml(attempt=ANSWERED, gpus=(nvml_gpu(0, mig=True, mig_devices=("MIG-1",)),)))
    assert (found.gpus[0].mig, found.gpus[0].untouched) == (True, "")


def test_a_process_that_dies_keeps_what_it_knew_and_costs_no_other() -> None:
    def die(plan: Row, variables: dict[str, str]) -> Completed:
        if variables["CUDA_VISIBLE_DEVICES"] == nvml_gpu(0).uuid:
            return worked()
        said = lines({"rounds": {"0": a_round(speeds=[], memory=[])}}, {"phase": "products in tf32, round 1"})
        return Completed(said, "F boom\n", 9.0, exit_code=-6, signal="SIGABRT")

    well, dead = put(Scripted(2, stress_gpu=die), 2).gpus
    assert well.speeds
    assert dead.attempt is not None
    assert dead.attempt.ending == "was killed by SIGABRT during 'products in tf32, round 1'"
    assert dead.exactness
    assert not dead.speeds


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """The time at which the clock of the probe stands still."""
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: 1000.0))
    return 1000.0


def test_a_process_that_hangs_tells_for_how_long_its_last_step_ran(now_s: float) -> None:
    def hang(plan: Row, variables: dict[str, str]) -> Completed:
        said = lines({"phase": "matmul in float32, round 1", "phase_began_s": now_s + 6.0})
        return Completed(said, "", 72.0, timed_out=True)

    (found,) = put(Scripted(1, stress_gpu=hang)).gpus
    assert found.attempt is not None
    assert (found.attempt.outcome, found.attempt.phase) == ("timed_out", "matmul in float32, round 1")
    assert found.phase_s == 66.0
    assert put(Scripted(1)).gpus[0].phase_s is None


def test_a_copy_that_hangs_names_the_gpus_as_tensorflow_lists_them(now_s: float) -> None:
    """The process that copies sees only the GPUs that nobody uses."""

    def hang(plan: Row, variables: dict[str, str]) -> Completed:
        said = lines({"phase": "copying from GPU:0 to GPU:1", "phase_began_s": now_s + 10.0})
        return Completed(said, "", 40.0, timed_out=True)

    rows = {0: look(tenants=[{"pid": 4711, "name": "python"}]), 1: look(), 2: look()}
    found = put(Scripted(3, idle=lines(described(0, 1, 2), looks(rows, 1.0, 2.5, 3.0)), stress_links=hang), 3)
    assert found.transfers_attempt is not None
    assert found.transfers_attempt.phase == "copying from GPU:1 to GPU:2"
    assert found.transfers_phase_s == 30.0


def test_an_exception_that_ends_the_copies_is_kept() -> None:
    stopped = Completed(lines({"error": "MemoryError: no memory"}), "", 4.0, exit_code=0)
    assert put(Scripted(1, stress_links=stopped)).transfers_error == "MemoryError: no memory"


HANGING = """
import contextlib, time
__version__ = "2.21.0"
class config:
    class experimental:
        set_memory_growth = staticmethod(lambda device, on: None)
    set_soft_device_placement = staticmethod(lambda on: None)
    list_physical_devices = staticmethod(lambda kind: [])
class errors:
    class OpError(Exception): pass
function = lambda each: each
device = lambda name: contextlib.nullcontext()
constant = lambda array: time.sleep(600)
"""


def test_the_program_that_copies_tells_when_each_copy_began(tmp_path: pathlib.Path) -> None:
    """A real process, with a TensorFlow in which the first copy never ends."""
    pytest.importorskip("numpy")
    (tmp_path / "tensorflow.py").write_text(HANGING)
    request = Request(python=sys.executable, level="deep")
    run = _Run(Host("/", dict(os.environ)), request, make_plan(request, listed(1)), [], [])
    plan = json.dumps({"devices": ["/CPU:1", "/CPU:2"], "seconds": 1.0, "copied_bytes": 1 << 10})
    attempt, answer = run._ask("stress_links", [plan], 8.0, {"PYTHONPATH": str(tmp_path)})
    assert (attempt.outcome, attempt.phase) == ("timed_out", "copying from host to CPU:1")
    assert 0 < answer["phase_s"] < attempt.seconds


@pytest.mark.parametrize("output", [b"", b"junk", lines({"rounds": {"0": {"began_s": "x"}}}), lines({"rounds": [1]})])
def test_an_answer_that_cannot_be_understood(output: bytes) -> None:
    (found,) = put(Scripted(1, stress_gpu=Completed(output, "", 1.0, exit_code=0))).gpus
    assert found.rounds == ()


@pytest.mark.parametrize("output", [b"", lines({"transfers": {"1": {"source": "host"}}}), lines({"transfers": "none"})])
def test_copies_that_cannot_be_understood(output: bytes) -> None:
    assert put(Scripted(1, stress_links=Completed(output, "", 1.0, exit_code=0))).transfers == ()


def test_after_an_interruption_nothing_more_is_started_and_the_fact_says_so() -> None:
    host = Scripted(1)

    def stopped(plan: Row, variables: dict[str, str]) -> Completed:
        host.stop()
        return Completed(lines({"rounds": {"0": a_round(memory=[])}}), "", 20.0, exit_code=-9, signal="SIGKILL")

    host.answers["stress_gpu"] = stopped
    found = put(host)
    assert found.interrupted
    assert found.gpus[0].exactness
    assert host.plans("stress_links") == []


@pytest.mark.parametrize("level", ["quick", "standard"])
def test_other_levels_put_no_load_on(level: str) -> None:
    host = Scripted(1)
    with pytest.raises(Unavailable, match="--level deep"):
        put(host, level=level)
    assert host.asked == []


@pytest.mark.parametrize(
    ("found", "why"),
    [(listed(0), "no GPU"), (listed(1, only_listed=True), "simulated")],
    ids=["no GPU", "rehearsal"],
)
def test_where_there_is_nothing_to_load(found: Runtime, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        put(Scripted(1), found=found)


def test_all_of_deep_fits_into_two_minutes() -> None:
    host = Scripted(8)
    found = listed(8, import_seconds=6.0)
    put(host, 8, found)
    idle, under = host.plans("sample_nvml")
    longest = found.attempt.seconds + idle["seconds"] + host.plans("stress_gpu")[0]["deadline_s"]
    assert longest + host.plans("stress_links")[0]["seconds"] < 120
    assert under["seconds"] < 120
    for plan in host.plans("stress_gpu"):
        assert plan["seconds"] == plan["round_s"] < plan["deadline_s"]


def test_a_tensorflow_that_takes_the_time_leaves_none() -> None:
    slow = runtime(attempt=ANSWERED.__class__(outcome="answered", seconds=110.0), import_seconds=100.0)
    with pytest.raises(Unavailable, match="--deadline"):
        put(Scripted(1), found=slow)
    assert put(Scripted(1), found=slow, deadline_s=900.0).gpus[0].rounds


def test_a_soak_lasts_as_long_as_it_is_told() -> None:
    plan = make_plan(Request(python="p", level="soak", soak_s=600.0), healthy().runtime or runtime())
    assert plan.work_s == 600.0
    assert 30 <= plan.round_s <= 60
    assert plan.total_s < 600 + 2 * 120


def test_a_tensorflow_that_starts_slowly_does_not_shorten_a_soak() -> None:
    """A cluster's file system, read for the first time."""
    slow = runtime(attempt=ANSWERED.__class__(outcome="answered", seconds=45.0), import_seconds=30.0)
    plan = make_plan(Request(python="p", level="soak", soak_s=900.0), slow)
    assert plan.work_s == 900.0


# Runs the rounds of the program itself, on a clock of its own: each step takes that share of its time.
ROUNDS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import stress_gpu
share, plan, now, found = float(sys.argv[2]), json.loads(sys.argv[3]), [100.0], {}
stress_gpu.time.monotonic = lambda: now[0]
stress_gpu.begin = lambda phase: None
stress_gpu.say = lambda rounds: found.update((number, each["seconds"]) for number, each in rounds.items())
test = object.__new__(stress_gpu.StressTest)
test._plan, test._ends, test._number, test._harmless = plan, 100.0 + plan["seconds"], -1, ()
def step(name):
    def take():
        now[0] += share * test._share(name, 1)
        return {}
    test._take(name, name, {}, take)
for name in stress_gpu.SHARES:
    setattr(test, "_" + name, lambda name=name: step(name))
test._tf = type("tf", (), {"errors": type("errors", (), {"OpError": OSError})})
test.run()
print(sum(found.values()), file=sys.stderr)
"""


@pytest.mark.parametrize("minutes", [1, 2.5, 10, 15, 45, 120])
@pytest.mark.parametrize("share", [0.51, 0.8, 1.0, 1.24, 1.45])
def test_a_soak_that_ends_by_itself_is_as_long_as_an_acceptance_asks(minutes: float, share: float) -> None:
    plan = make_plan(Request(python="p", level="soak", soak_s=60 * minutes), healthy().runtime or runtime())
    asked = json.dumps({"seconds": plan.work_s, "round_s": plan.round_s})
    argv = [sys.executable, "-c", ROUNDS, str(WORKERS), str(share), asked]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert float(done.stderr) >= least_load_s(60 * minutes)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("9.0", ["float32", "tf32", "float16", "bfloat16"]),
        ("7.5", ["float32", "float16"]),
        ("", ["float32", "float16"]),
    ],
)
def test_precisions_are_those_of_the_gpu(capability: str, expected: list[str]) -> None:
    host = Scripted(1)
    put(host, found=runtime(gpus=(gpu(0, compute_capability=capability),)))
    assert host.plans("stress_gpu")[0]["precisions"] == expected


def test_a_gpu_that_nvml_does_not_list_is_left_alone() -> None:
    host = Scripted(1, idle=lines(described(0, pci_address="00000000:77:00.0"), looks({0: look()}, 1.0, 3.0)))
    assert "NVML does not list it" in put(host).gpus[0].untouched
