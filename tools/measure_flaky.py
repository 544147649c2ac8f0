"""Run the tests that wait for something repeatedly next to busy processes, and count which of them fail how often.

    python tools/measure_flaky.py [--runs 10] [--busy 1] [--workers 2] [PYTEST ARGUMENT ...]

Run it in an environment with the project and its test dependencies. `--full` in the arguments adds the slow tests.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

_BUSY = [sys.executable, "-c", "while True: sum(range(10**6))"]


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
            whole_lines = {**os.environ, "COLUMNS": "1000"}  # pytest cuts the reason of a failure at the line's end
            done = subprocess.run([*command, "tests"], capture_output=True, text=True, check=False, env=whole_lines)
            found = re.findall(r"^(?:FAILED|ERROR) ((\S+).*)", done.stdout, re.MULTILINE)
            failed.update(test for _, test in found)
            said = (line for line, _ in found)
            print(f"run {number + 1}: {done.stdout.strip().splitlines()[-1]}", *said, sep="\n  ", flush=True)
            if found:
                with tempfile.NamedTemporaryFile("w", prefix="flaky-", suffix=".txt", delete=False) as file:
                    file.write(done.stdout)
                print(f"  all that it printed: {file.name}", flush=True)
    finally:
        for process in busy:
            process.kill()
    for test, times in failed.most_common():
        print(f"{times} of {options.runs}  {test}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
