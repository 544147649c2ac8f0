"""Measure on simulated noise whether the intervals and verdicts of `tfgpu-doctor bench` hold what they promise.

    python tools/calibrate_bench.py [engine|methods|designs|compare|learn …] [--trials 1000] [--seed 1]

Prints tables in Markdown; docs/calibration.md explains them. Run it with a Python that has tfgpu-doctor[bench]. Exit
code 1: the engine breaks a promise in one of the fifteen scenarios. All tables take 12 minutes of one CPU.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence

import calibration  # before numpy: sets the number of its threads
import numpy as np
from calibration.families import (
    COMPARISONS,
    JUDGES,
    MACHINES,
    PROCESSES,
    SPREAD,
    engine,
    engine_bounds,
    family_bounds,
    learnt,
    simulate,
    simulate_processes,
)
from calibration.methods import DESIGNS, METHODS, Method
from calibration.scenarios import BEYOND, SCENARIOS, Random, Scenario
from calibration.scores import Score, of_engine, of_method
from tabulate import tabulate

from tfgpu_doctor.perf_tests.budget import LEAST_S, USUAL_S, Passes, passes_for

__all__ = ["calibration", "main"]
# What `bench` does with each budget, and what `pytest` does, in its one process.
PASSES = (
    *((f"--budget {text}", passes_for(seconds)) for text, seconds in (("2m", 120.0), ("5m", 300.0), ("full", None))),
    *((f"pytest, {seconds:g} s", Passes(1, seconds)) for seconds in (LEAST_S, USUAL_S)),
)
_COLUMNS = (
    "scenario", "coverage", "or too noisy", "false faster", "false slower", "too noisy", "found faster", "found slower",
    "half width", "seconds", "broken",
)  # fmt: skip
_ERRORS = (0.005, 0.01, 0.03)  # of a process
_PLANTED = (1, COMPARISONS // 2, COMPARISONS)  # how many comparisons of a run became slower
Judged = dict[str, list[Score]]  # by method, in the order of the scenarios


def percent(share: float, digits: int = 1) -> str:
    """Return "95.0", in percent."""
    return f"{100 * share:.{digits}f}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return tabulate(rows, headers=headers, tablefmt="pipe", disable_numparse=True)


def random_of(seed: int, scenario: Scenario, name: str) -> Random:
    """Return random numbers that depend on nothing else: one table alone has the same figures as all of them."""
    return np.random.default_rng([seed, *scenario.name.encode(), 0, *name.encode()])


def row_of(scenario: Scenario, found: Score) -> list[str]:
    """Return the row of a scenario in the table of one method."""
    shares = (
        found.covered, found.held, found.faster, found.slower, found.noisy, found.found_faster, found.found_slower,
        found.half_width,
    )  # fmt: skip
    return [scenario.name, *map(percent, shares), f"{found.seconds:.2f}", ", ".join(found.misses(scenario)) or "-"]


def by_budget(trials: int, seed: int, scenarios: Sequence[Scenario]) -> Judged:
    """Let the engine measure all scenarios with each budget."""
    return {
        name: [of_engine(each, random_of(seed, each, name), trials, passes) for each in scenarios]
        for name, passes in PASSES
    }


def by_method(trials: int, seed: int, methods: Sequence[Method], scenarios: Sequence[Scenario]) -> Judged:
    """Let each candidate judge all scenarios."""
    return {
        each.name: [of_method(one, random_of(seed, one, each.name), trials, each) for one in scenarios]
        for each in methods
    }


def side_by_side(judged: Judged, scenarios: Sequence[Scenario], what: str, share: Callable[[Score], float]) -> str:
    """Return a table with a column for each method: a share under its promise is in italics, one that breaks it bold."""
    rows = []
    for number, scenario in enumerate(scenarios):
        found = [scores[number] for scores in judged.values()]
        rows.append([scenario.name, *(_marked(each, scenario, what, percent(share(each))) for each in found)])
    return table(("scenario", *judged), rows)


def _marked(found: Score, scenario: Scenario, what: str, text: str) -> str:
    if what in found.misses(scenario):
        return f"**{text}**"
    return f"*{text}*" if what in found.misses(scenario, errors=0.0) else text


def three_tables(judged: Judged, scenarios: Sequence[Scenario]) -> str:
    """Return what is covered, falsely judged, and found, for each method."""
    return "\n\n".join(
        f"{title}, percent:\n\n{side_by_side(judged, scenarios, what, share)}"
        for title, what, share in (
            ("Coverage, or `too noisy`", "covered", lambda score: score.held),
            ("False `faster` or false `slower`, the larger", "false", lambda score: max(score.faster, score.slower)),
            ("A planted 10 % found, the smaller of both directions", "found", _found),
        )
    )


def _found(score: Score) -> float:
    return min(score.found_faster, score.found_slower)


def engine_tables(trials: int, seed: int) -> tuple[str, bool]:
    """Return the engine's tables, and whether it keeps all promises with every budget."""
    judged, beyond = (by_budget(trials, seed, scenarios) for scenarios in (SCENARIOS, BEYOND))
    usual = next(iter(judged.values()))
    rows = [row_of(*each) for each in zip(SCENARIOS, usual, strict=True)]
    others = three_tables(judged, SCENARIOS)
    kept = not any(
        found.misses(scenario) for scores in judged.values() for scenario, found in zip(SCENARIOS, scores, strict=True)
    )
    return "\n\n".join((table(_COLUMNS, rows), others, f"Beyond:\n\n{three_tables(beyond, BEYOND)}")), kept


def method_tables(trials: int, seed: int) -> str:
    """Return the tables of the candidates."""
    costs = [(each.name, each.parameters) for each in METHODS]
    judged, beyond = (by_method(trials, seed, METHODS, scenarios) for scenarios in (SCENARIOS, BEYOND))
    parts = (table(("name", "method"), costs), three_tables(judged, SCENARIOS), three_tables(beyond, BEYOND))
    return "\n\n".join(parts)


def design_table(trials: int, seed: int) -> str:
    """Return what numbers of processes and seconds cost, for the median of paired ratios."""
    rows = []
    shown = [
        SCENARIOS[0],
        SCENARIOS[1],
        SCENARIOS[2],
        next(each for each in SCENARIOS if each.name == "process offsets"),
    ]
    for method, scores in zip(DESIGNS, by_method(trials, seed, DESIGNS, SCENARIOS).values(), strict=True):
        pairs = list(zip(SCENARIOS, scores, strict=True))
        rows.append([
            method.parameters,
            percent(min(each.held for each in scores)),
            percent(max(max(each.faster, each.slower) for each in scores)),
            percent(min(_found(each) for scenario, each in pairs if scenario.quiet)),
            *(percent(each.half_width) for scenario, each in pairs if scenario in shown),
            "; ".join(f"{scenario.name}: {', '.join(miss)}" for scenario, each in pairs if (miss := each.misses(scenario)))
            or "-",
        ])  # fmt: skip
    widths = (f"half width: {each.name}" for each in shown)
    return table(("design", "least coverage", "most false", "least found (quiet)", *widths, "broken"), rows)


def compare_tables(trials: int, seed: int) -> str:
    """Return the table of all methods, and that of the engine with the intervals of a few processes."""
    return f"{compare_table(trials, seed)}\n\nWith intervals of processes:\n\n{process_table(trials, seed)}"


def process_table(trials: int, seed: int) -> str:
    """Return the same of the engine, whose intervals come from a few processes each, as those of `bench` do."""
    rows = []
    for saved, processes, error in [
        *((saved, PROCESSES, error) for saved in (1, 4) for error in _ERRORS), *((1, 5, error) for error in _ERRORS)
    ]:  # fmt: skip
        drawn = functools.partial(simulate_processes, spread=SPREAD, error=error, saved=saved, processes=processes)
        shares = [engine(drawn(np.random.default_rng([seed, 0]), trials, planted=0)).any(axis=1).mean()]
        for count in _PLANTED:
            found = engine(drawn(np.random.default_rng([seed, count]), trials, planted=count))
            shares.append(found[:, :count].mean())
        rows.append([str(saved), str(processes), percent(error), *(percent(float(each)) for each in shares)])
    return table(
        (
            "saved runs", "processes", "error of a process", "runs with a false `slower`",
            *(f"10 % found, if {count} changed" for count in _PLANTED),
        ),
        rows,
    )  # fmt: skip


def compare_table(trials: int, seed: int) -> str:
    """Return how often whole runs of 35 comparisons have a false `slower`, and how often a planted one is found."""
    cases = [
        (saved, spread, error) for saved in (1, 4) for spread, error in ((SPREAD, 0.005), (SPREAD, 0.01), (0.03, 0.005))
    ]
    rows = []
    for saved, spread, error in cases:
        drawn = functools.partial(simulate, spread=spread, error=error, saved=saved)
        for name, judge in JUDGES:
            number = trials if judge is engine else 20 * trials
            shares = [judge(drawn(np.random.default_rng([seed, 0]), number, planted=0)).any(axis=1).mean()]
            for count in _PLANTED:
                found = judge(drawn(np.random.default_rng([seed, count]), number, planted=count))
                shares.append(found[:, :count].mean())
            rows.append([str(saved), percent(spread), percent(error), name, *(percent(float(each)) for each in shares)])
    return table(
        (
            "saved runs", "spread", "error of a measurement", "method", "runs with a false `slower`",
            *(f"10 % found, if {count} changed" for count in _PLANTED),
        ),
        rows,
    )  # fmt: skip


def learn_table(trials: int, seed: int) -> str:
    """Return how many equal machines a learnt profile accepts."""
    rows = []
    for machine in MACHINES:
        for runs in (3, 5, 10, 20):
            cells = []
            for bounds in (engine_bounds, family_bounds(SPREAD)):
                found = learnt(np.random.default_rng([seed, runs]), trials, runs=runs, machine=machine, bounds=bounds)
                cells += [percent(found.each), percent(found.whole), percent(found.margin)]
            rows.append([machine.name, str(runs), *cells])
    heads = ("values kept", "machines accepted", "margin")
    return table(("values vary by", "runs", *heads, *(f"{each}, proposed" for each in heads)), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return the exit code."""
    parts = ("engine", "methods", "designs", "compare", "learn")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(parts):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; use {', '.join(parts)}")
    given, kept = (options.trials, options.seed), True
    tables: dict[str, Callable[[int, int], str]] = {
        "methods": method_tables, "designs": design_table, "compare": compare_tables, "learn": learn_table,
    }  # fmt: skip
    for part in options.parts or parts:
        print(f"## {part}\n", flush=True)
        if part == "engine":
            text, kept = engine_tables(*given)
        else:
            text = tables[part](*given)
        print(text + "\n", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
