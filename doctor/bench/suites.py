"""Run the perf suites on a machine that was examined."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence

from tfgpu_doctor.bench.run import Order, run_suites
from tfgpu_doctor.bench.telemetry import Telemetry
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.perf_tests.journal import Account
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

NEEDED = ("pytest", "pytest_benchmark", "numpy", "scipy")  # and TensorFlow


def lacking_packages(needed: Sequence[str] = NEEDED) -> list[str]:
    """Return the packages required by the suites that cannot be imported."""
    return [name for name in needed if importlib.util.find_spec(name) is None]


def measure_suites(
    facts: Facts, suites: Sequence[str], budget_s: float | None, waiting: Waiting, started: float | None = None
) -> Bench:
    """Run the suites and sample the GPUs meanwhile; the budget starts at `started` (seconds since 1970), or now."""
    with scratch_folder() as scratch:
        record = os.path.join(scratch, "facts.json")
        write_whole(record, encode_facts(facts))
        order = Order(
            journal=os.path.join(scratch, "journal"),
            suites=suites,
            budget_s=budget_s,
            started=time.time() if started is None else started,
            variables={FACTS_VARIABLE: record},
        )
        with Telemetry(Host(), gpus=bool(facts.nvml and facts.nvml.gpus)) as telemetry:
            measured = run_suites(order, lambda account, seconds: _show(waiting, account, seconds, budget_s))
        return telemetry.added_to(measured)


def _show(waiting: Waiting, account: Account, seconds: float, budget_s: float | None) -> None:
    what = account.test.rpartition("::")[2] or "TensorFlow to start"
    done = f"{len(account.ended)} of {account.waiting} done"
    left = f", {max(0.0, budget_s - seconds):.0f} s left" if budget_s is not None else ""
    waiting.show([f"{what} ({done}{left})"], seconds)
