"""Write pytest-benchmark's JSON document from a run of comparisons, and read such documents back."""

from __future__ import annotations

import datetime as dt
import json
import platform
from typing import Any

import msgspec

from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Side
from tfgpu_doctor.model.report import MachineSummary, Report

_OURS = "tfgpu_doctor"  # the doctor's part of `machine_info`


class DocumentError(ValueError):
    """Raised for a file that is not a pytest-benchmark document or has no comparisons; the message says which."""


class Document(msgspec.Struct, frozen=True):
    """The contents of a document: the run, and the machine that it was measured on, if recorded."""

    bench: Bench
    machine: MachineSummary | None = None


def write_document(bench: Bench, report: Report) -> str:
    """Return the document, each comparison with the times of its candidate, as pytest-benchmark would write it.

    It is created from the measurements, not by pytest, so that runs that were stopped or restarted have one as well.
    """
    import pytest_benchmark

    return json.dumps(
        {
            "machine_info": {
                **_python(),
                _OURS: {**machine_part(report, bench.suite_version), "conditions": bench.conditions},
            },
            "commit_info": {},  # the run measures the machine, not the user's repository
            "benchmarks": [
                row
                for comparison in bench.comparisons
                if comparison.candidate and comparison.candidate.seconds
                for row in _benchmarks(comparison)
            ],
            _OURS: {"metrics": msgspec.to_builtins(bench.metrics)},
            "datetime": dt.datetime.now(dt.timezone.utc).isoformat(),
            "version": pytest_benchmark.__version__,
        },
        indent=4,
    )


def machine_part(report: Report, suite_version: str) -> dict[str, Any]:
    """Return the GPU, the driver and TensorFlow, which pytest-benchmark does not record."""
    summary = {"machine": msgspec.to_builtins(report.machine), "target": msgspec.to_builtins(report.target)}
    return {**summary, "suite_version": suite_version}


def extra_info(comparison: Comparison) -> dict[str, Any]:
    """Return what a benchmark records about its comparison in addition to the times of the candidate."""
    told: dict[str, Any] = {"verdict": comparison.verdict, "ratio": comparison.ratio, "interval": comparison.interval}
    return {
        **told,
        "device": comparison.device,
        "process_ratios": list(comparison.process_ratios),
        "baseline_s": list(comparison.baseline.seconds) if comparison.baseline else [],
    }


def _python() -> dict[str, Any]:
    system = platform.uname()
    return {
        "node": system.node,
        "machine": system.machine,
        "python_implementation": platform.python_implementation(),
        "python_version": platform.python_version(),
        "release": system.release,
        "system": system.system,
    }


def _benchmarks(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the rows of both sides, as the plugin of pytest records them: one group, named by its sides."""
    assert comparison.candidate
    test = f"test_{comparison.suite}.py::test_{comparison.name}"
    rows = [(comparison.candidate, test, extra_info(comparison))]
    if comparison.baseline:
        rows.append((comparison.baseline, f"{test} (baseline)", {"baseline_of": test}))
    return [_benchmark(comparison, *row) for row in rows]


def _benchmark(comparison: Comparison, side: Side, fullname: str, extra: dict[str, Any]) -> dict[str, Any]:
    from pytest_benchmark.stats import Stats

    stats = Stats()
    for seconds in side.seconds:
        stats.update(seconds)
    _, _, param = comparison.name.partition("[")
    return {
        "group": f"{comparison.suite}/{comparison.name}",
        "name": side.name,
        "fullname": fullname,
        "params": None,
        "param": param.rstrip("]") or None,
        "extra_info": extra,
        "options": {"min_rounds": comparison.rounds, "timer": "perf_counter", "warmup": True},
        "stats": {**stats.as_dict(), "data": list(side.seconds), "iterations": side.calls_a_round},
    }


def read_document(content: bytes) -> Document:
    """Read the comparisons of a document from this module or `pytest perf_tests --benchmark-json`. Raises DocumentError."""
    try:
        document = read_json(content)
        rows, about = document["benchmarks"], document["machine_info"].get(_OURS, {})
        comparisons = [_comparison(row) for row in rows if "ratio" in row.get("extra_info", {})]
        machine = msgspec.convert(about["machine"], MachineSummary) if "machine" in about else None
        version = str(about.get("suite_version", ""))
        conditions = msgspec.convert(about.get("conditions", {}), dict[str, str])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DocumentError(f"this is not a pytest-benchmark document ({type(error).__name__}: {error})") from error
    if not comparisons:
        raise DocumentError("none of its benchmarks is a tfgpu-doctor comparison")
    return Document(Bench(suite_version=version, conditions=conditions, comparisons=tuple(comparisons)), machine)


def _comparison(row: dict[str, Any]) -> Comparison:
    file, _, test = str(row["fullname"]).rpartition("/")[2].partition("::")
    told = {name: row["extra_info"].get(name) for name in ("verdict", "ratio", "interval")}
    told["process_ratios"] = row["extra_info"].get("process_ratios", ())
    suite = file.removeprefix("test_").removesuffix(".py")
    known = {"suite": suite, "name": test.removeprefix("test_"), "rounds": row.get("stats", {}).get("rounds", 0)}
    return msgspec.convert({**told, **known}, Comparison)
