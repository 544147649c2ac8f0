"""Run the perf suites on a machine that was examined."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.conditions import conditions_of
from tfgpu_doctor.bench.others import used_by_others
from tfgpu_doctor.bench.run import COMPILES_S, Order, run_suites
from tfgpu_doctor.bench.telemetry import Telemetry
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.perf_tests.journal import Account
from tfgpu_doctor.perf_tests.variables import (
    ALTHOUGH_BUSY_VARIABLE,
    BUSY_VARIABLE,
    COMPILES_VARIABLE,
    FACTS_VARIABLE,
)

NEEDED = ("pytest", "pytest_benchmark", "numpy", "scipy")  # and TensorFlow


def lacking_packages(needed: Sequence[str] = NEEDED) -> list[str]:
    """Return the packages required by the suites that cannot be imported."""
    return [name for name in needed if importlib.util.find_spec(name) is None]


def measure_suites(
    facts: Facts, suites: Sequence[str], budget_s: float | None, waiting: Waiting, *, started: float | None = None,
    comparisons: Sequence[Comparison] = (), even_if_busy: bool = False,
) -> Bench:  # fmt: skip
    """Run the suites and sample the GPUs meanwhile; the budget starts at `started` (seconds since 1970), or now.

    `comparisons`: only these, again. `even_if_busy`: also on GPUs that others use.
    """
    started = time.time() if started is None else started
    busy = used_by_others(Host(), facts)
    with scratch_folder() as scratch:
        record = os.path.join(scratch, "facts.json")
        write_whole(record, encode_facts(facts))
        order = Order(
            journal=os.path.join(scratch, "journal"),
            suites=suites,
            comparisons=comparisons,
            budget_s=budget_s,
            started=started,
            variables={
                FACTS_VARIABLE: record,
                BUSY_VARIABLE: json.dumps(busy),
                **({ALTHOUGH_BUSY_VARIABLE: "1"} if even_if_busy else {}),
                **({COMPILES_VARIABLE: "1"} if compiles(facts) else {}),
            },
            longest_s=COMPILES_S if compiles(facts) else Order.longest_s,
        )
        with Telemetry(Host(), facts) as telemetry:
            measured = run_suites(order, lambda account, seconds: _show(waiting, account, seconds, budget_s))
        measured = telemetry.added_to(measured)
        conditions = {**conditions_of(facts), **telemetry.conditions_of(measured)}
        listed = len(facts.runtime.gpus) if facts.runtime else 0
        busy = {} if even_if_busy else busy or {}
        return msgspec.structs.replace(measured, conditions=conditions, busy=busy, gpus_listed=listed)


def compiles(facts: Facts) -> bool:
    """Whether the driver compiles the kernels of a GPU from PTX: then its first calls take many minutes, and do not hang."""
    built = facts.tensorflow.compute_capabilities if facts.tensorflow else ()
    gpus = facts.runtime.gpus if facts.runtime else ()
    return any(kernels_for(gpu.compute_capability, built) == "ptx" for gpu in gpus)


def _show(waiting: Waiting, account: Account, seconds: float, budget_s: float | None) -> None:
    what = account.test.rpartition("::")[2] or "TensorFlow to start"
    done = f"{len(account.ended)} of {account.waiting} done"
    process = f", process {account.process} of {account.processes}" if account.processes > 1 else ""
    left = f", {max(0.0, budget_s - seconds):.0f} s left" if budget_s is not None else ""
    waiting.show([f"{what} ({done}{process}{left})"], seconds)
