"""Measure how many small faults the tests find: a seeded sample is planted in the installed doctor, switched on one by one.

    python tools/measure_mutants.py OUT [--count 300] [--seed 1] [--like OUT/mutants.json] [--workers 2] [--pytest ARGUMENTS]

Run it in a throwaway environment with the project (not editable) and its test dependencies installed: the installed
modules are changed while it runs. First, all tests run once to record which test reaches which fault, including in child
processes. Then, for each fault, these tests run, fastest first, until one fails. OUT stores all results; rerun with the
same OUT and the same options to resume, also after a run that was killed: what it left planted is undone first.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
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

from mutants.installed import make_clean, plant, restore
from mutants.sites import SWITCH, Site, sample, sites_of
from tabulate import tabulate

_FILES = (
    "checks/**/*.py", "diagnose/*.py", "model/report.py", "log/**/*.py", "ticket/*.py", "fix/*.py", "accept/*.py",
    "bench/ratio.py", "bench/regression.py", "bench/verdict.py", "tracing/*.py", "watching/rules.py",
)  # fmt: skip
_TESTS = "tests.jsonl"  # there only if all tests ran


def main() -> None:
    """Plant the faults, run the tests, and count the results."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    package = pathlib.Path(sysconfig.get_path("purelib")) / "tfgpu_doctor"
    original = options.out / "original"
    if why := make_clean(package, original):
        sys.exit(why)
    files = files_of(package)
    chosen = (
        _found_again(package, files, options.like)
        if options.like
        else sample(package, files, options.count, options.seed)
    )
    if why := _other_sample(options, chosen):
        sys.exit(why)
    try:
        plant(package, chosen, original)
        tests = _reach(options)
        _run(options, tests)
    finally:
        if original.is_dir():
            restore(package, original)
    _tell(options, chosen)


def _other_sample(options: argparse.Namespace, chosen: list[Site]) -> str:
    """Write down in OUT which faults are measured how; return why its results are those of others, empty if they are not."""
    file = options.out / "sample.json"
    sites = json.dumps([vars(site) for site in chosen])
    now = {
        "seed": options.seed, "count": options.count, "like": str(options.like.absolute()) if options.like else "",
        "pytest": options.pytest, "faults": hashlib.sha256(sites.encode()).hexdigest(),
    }  # fmt: skip
    if file.exists():
        then = json.loads(file.read_text("utf-8"))
        other = [f"{name} {then.get(name)} is now {value}" for name, value in now.items() if then.get(name) != value]
        return (
            f"{options.out} has the results of another sample: {', '.join(other)}; name another folder" if other else ""
        )
    if (options.out / _TESTS).exists() or _results(options.out):
        return f"{options.out} has results and does not say of which faults ({file.name}); name another folder"
    file.write_text(json.dumps(now, indent=1) + "\n", "utf-8")
    return ""


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


def _environment(**more: object) -> dict[str, str]:
    return {**os.environ, **{name: str(value) for name, value in more.items()}}


def _reach(options: argparse.Namespace) -> dict[int, list[str]]:
    """Map the number of a fault to the tests that reach it and pass without it, fastest first."""
    folder, report = options.out / "reach", options.out / _TESTS
    if not report.exists():
        begun = report.with_name(f"{report.name}.begun")
        begun.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        noting = _environment(TFGPU_MUTANT_REACH=folder.resolve(), TFGPU_MUTANT_TESTS=begun.resolve())
        command = [sys.executable, "-m", "pytest", "-p", f"{SWITCH}.durations", "-n", str(options.workers), "-q"]
        code = subprocess.run([*command, *options.pytest], env=noting, check=False).returncode
        if code not in (0, 1):
            sys.exit(
                f"pytest ended with exit code {code}: not all tests ran, nothing is measured; rerun with the same OUT"
            )
        begun.replace(report)
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
