"""Run the tests that wait for something repeatedly next to busy processes, and count which of them fail how often.

    python tools/measure_flaky.py [--runs 10] [--busy 1] [--workers 2] [PYTEST ARGUMENT ...]

Run it in an environment with the project and its test dependencies. `--full` in the arguments adds the slow tests; a path in
them, as tests/watching or tests/fix/test_killed.py::test_it, replaces all tests. Exit code: 0 no run failed, 1 one did.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

_TAIL_LINES = 15
_BUSY = [sys.executable, "-c", "while True: sum(range(10**6))"]


def paths_in(arguments: list[str]) -> list[str]:
    """Return the arguments that name tests by their path, also as path::name; what follows -k is part of a name."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [each for before, each in pairs if before != "-k" and os.path.exists(each.partition("::")[0])]


def failed_tests(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the tests that failed, and pytest's line about each; of a run that failed otherwise its exit code and last words."""
    found = {test: line for line, test in re.findall(r"^(?:FAILED|ERROR) ((\S+).*)", done.stdout, re.MULTILINE)}
    if done.returncode not in (0, 1) or (done.returncode == 1 and not found):
        told = done.stderr.strip() or done.stdout.strip() or "it printed nothing"
        last = "\n    ".join(told.splitlines()[-_TAIL_LINES:])
        what = {4: "wrong usage", 5: "no tests were collected"}.get(done.returncode, "the run failed")
        found[f"pytest ended with exit code {done.returncode}"] = f"exit code {done.returncode}, {what}:\n    {last}"
    return found


def main() -> int:
    """Run the tests, count the failures, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, default=1, help="number of processes that compute continuously")
    parser.add_argument("--workers", type=int, default=2)
    options, more = parser.parse_known_args()
    failed: collections.Counter[str] = collections.Counter()
    busy = [subprocess.Popen(_BUSY) for _ in range(options.busy)]
    try:
        for number in range(options.runs):
            command = [sys.executable, "-m", "pytest", "-m", "timed", "-n", str(options.workers), "-q", *more]
            command += [] if paths_in(more) else ["tests"]
            whole_lines = {**os.environ, "COLUMNS": "1000"}  # pytest cuts the reason of a failure at the line's end
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=whole_lines)
            found = failed_tests(done)
            failed.update(found.keys())
            last = (done.stdout.strip().splitlines() or ["nothing on standard output"])[-1]
            print(f"run {number + 1}: {last}", *found.values(), sep="\n  ", flush=True)
            if found:
                with tempfile.NamedTemporaryFile("w", prefix="flaky-", suffix=".txt", delete=False) as file:
                    file.write(done.stdout + done.stderr)
                print(f"  all that it printed: {file.name}", flush=True)
    finally:
        for process in busy:
            process.kill()
    for test, times in failed.most_common():
        print(f"{times} of {options.runs}  {test}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
