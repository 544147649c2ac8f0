"""Measure how many small faults the tests find: a seeded sample is planted in the installed doctor, switched on one by one.

    python tools/measure_mutants.py OUT [--count 300] [--seed 1] [--like OUT/mutants.json] [--workers 2] [--pytest ARGUMENTS]

Run it in a throwaway environment with the project (not editable) and its test dependencies installed: the installed
modules are changed while it runs. First, all tests run once to record which test reaches which fault, including in child
processes. Then, for each fault, these tests run, fastest first, until one fails. OUT stores all results; rerun with the
same OUT to resume.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from typing import Any

from mutants.sites import SWITCH, Site, planted, sample, sites_of
from tabulate import tabulate

_FILES = (
    "checks/**/*.py", "diagnose/*.py", "model/report.py", "log/**/*.py", "ticket/*.py", "fix/*.py", "accept/*.py",
    "bench/ratio.py", "bench/regression.py", "bench/verdict.py", "tracing/*.py", "watching/rules.py",
)  # fmt: skip
_HERE = pathlib.Path(__file__).parent


def main() -> None:
    """Plant the faults, run the tests, and count the results."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    package = pathlib.Path(sysconfig.get_path("purelib")) / "tfgpu_doctor"
    if not package.is_dir():
        sys.exit(f"{package} does not exist: install the project, not editable, in this environment")
    files = files_of(package)
    chosen = (
        _found_again(package, files, options.like)
        if options.like
        else sample(package, files, options.count, options.seed)
    )
    original = options.out / "original"
    shutil.copytree(package, original, dirs_exist_ok=True)
    try:
        _plant(package, chosen)
        tests = _reach(options)
        _run(options, tests)
    finally:
        shutil.rmtree(package)
        shutil.copytree(original, package)
        shutil.rmtree(original)
        shutil.rmtree(package.parent / SWITCH, ignore_errors=True)
    _tell(options, chosen)


def files_of(package: pathlib.Path) -> list[str]:
    """Return the modules that are sampled, relative to the package."""
    return sorted(str(path.relative_to(package)) for pattern in _FILES for path in package.glob(pattern))


def _found_again(package: pathlib.Path, files: list[str], earlier: pathlib.Path) -> list[Site]:
    """Return the faults of an earlier run, matched by file position or by text only; the file may have been renamed."""
    places: dict[tuple[int, str, str], list[Site]] = collections.defaultdict(list)
    for site in (site for file in files for site in sites_of(package, file)):
        places[site.place, site.kind, site.text].append(site)
        places[-1, site.kind, site.text].append(site)
    found = []
    for row in json.loads(earlier.read_text()):
        there = places[row["place"], row["kind"], row["text"]] or places[-1, row["kind"], row["text"]]
        same = [site for site in there if pathlib.Path(site.file).name == pathlib.Path(row["file"]).name] or there
        if len(same) == 1:
            found.append(same[0])
        else:
            print(f"no longer found: {row['file']} {row['line']} {row['kind']} {row['text']!r}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--like", type=pathlib.Path, help="mutants.json of an earlier run, to use the same faults")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for all tests of one fault")
    parser.add_argument("--pytest", default="tests", help="arguments for pytest, as a shell would split them")
    options = parser.parse_args()
    options.pytest = shlex.split(options.pytest)
    return options


def _plant(package: pathlib.Path, chosen: list[Site]) -> None:
    shutil.copytree(_HERE / "mutants", package.parent / SWITCH, dirs_exist_ok=True)
    numbers: dict[str, dict[int, int]] = collections.defaultdict(dict)
    for number, site in enumerate(chosen):
        numbers[site.file][site.place] = number
    for file, places in numbers.items():
        path = package / file
        path.write_text(planted(path.read_text("utf-8"), places), "utf-8")


def _environment(**more: object) -> dict[str, str]:
    return {**os.environ, **{name: str(value) for name, value in more.items()}}


def _reach(options: argparse.Namespace) -> dict[int, list[str]]:
    """Map the number of a fault to the tests that reach it and pass without it, fastest first."""
    folder, report = options.out / "reach", options.out / "tests.jsonl"
    if not report.exists():
        folder.mkdir(exist_ok=True)
        noting = _environment(TFGPU_MUTANT_REACH=folder.resolve(), TFGPU_MUTANT_TESTS=report.resolve())
        command = [sys.executable, "-m", "pytest", "-p", f"{SWITCH}.durations", "-n", str(options.workers), "-q"]
        subprocess.run([*command, *options.pytest], env=noting, check=False)
    seconds: dict[str, float] = collections.defaultdict(float)
    failed = set()
    for line in report.read_text().splitlines():
        test, outcome, duration = json.loads(line)
        seconds[test] += duration
        if outcome != "passed":
            failed.add(test)
    reached: dict[int, set[str]] = collections.defaultdict(set)
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            number, _, test = line.partition("\t")
            reached[int(number)].add(test.rpartition(" (")[0])
    able = seconds.keys() - failed
    return {number: sorted(tests & able, key=lambda test: seconds[test]) for number, tests in reached.items()}


def _run(options: argparse.Namespace, tests: dict[int, list[str]]) -> None:
    done = {result["number"] for result in _results(options.out)}
    waiting = [number for number in sorted(tests) if tests.get(number) and number not in done]
    running = []
    for worker in range(options.workers):
        job = options.out / f"job-{worker}.json"
        faults = {number: tests[number] for number in waiting[worker :: options.workers]}
        results = str((options.out / f"results-{worker}-{int(time.time())}.jsonl").resolve())
        job.write_text(json.dumps({"faults": faults, "results": results, "timeout_s": options.timeout}))
        command = [sys.executable, "-m", "pytest", "-p", f"{SWITCH}.plugin", "-p", "no:xdist", "-q", *options.pytest]
        running.append(subprocess.Popen(command, env=_environment(TFGPU_MUTANT_JOB=job.resolve())))
    for process in running:
        process.wait()


def _results(out: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(out.glob("results-*.jsonl")) for line in file.read_text().splitlines()]


def _tell(options: argparse.Namespace, chosen: list[Site]) -> None:
    verdicts = {result["number"]: result for result in _results(options.out)}
    unreached = {"verdict": "not reached", "by": "", "tests": 0, "seconds": 0.0}
    rows = [{**vars(site), "number": n, **verdicts.get(n, unreached)} for n, site in enumerate(chosen)]
    (options.out / "mutants.json").write_text(json.dumps(rows, indent=1))
    survivors = [
        (row["file"], row["line"], row["kind"], row["text"][:60], row["verdict"])
        for row in rows
        if row["verdict"] in ("survived", "not reached")
    ]
    print(tabulate(survivors, headers=("file", "line", "kind", "text", "verdict")))
    counts = collections.Counter(row["verdict"] for row in rows)
    print(f"\n{len(rows)} faults: {', '.join(f'{count} {word}' for word, count in counts.most_common())}")


if __name__ == "__main__":
    main()
