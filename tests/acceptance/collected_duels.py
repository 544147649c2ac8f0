"""The duels that the suites hold, as pytest collects them: `python tests/acceptance/collected_duels.py` writes the table."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).parent.parent.parent / "doctor/acceptance/duels.json"
_PLUGIN = """
def pytest_collection_finish(session):
    for item in session.items:
        if "duel" in getattr(item, "fixturenames", ()):
            print("DUEL", item.path.stem.removeprefix("test_"), item.name.removeprefix("test_"), sep="\\t")
"""


def collect() -> dict[str, list[str]]:
    """Suite to the names of its duels; a suite that holds none has an empty list."""
    from tfgpu_doctor.bench.run import SUITES, suite_names

    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "print_duels.py").write_text(_PLUGIN)
        plugins = ("no:cacheprovider", "pytest_benchmark.plugin", "tfgpu_doctor.perf_tests.plugin", "print_duels")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-c", f"{SUITES}/pytest.ini", "--rootdir", SUITES,
             *(word for name in plugins for word in ("-p", name)), SUITES],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": folder, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    found: dict[str, list[str]] = {suite: [] for suite in suite_names()}
    for line in done.stdout.splitlines():
        if line.startswith("DUEL\t"):
            _, suite, name = line.split("\t")
            found[suite].append(name)
    return {suite: sorted(names) for suite, names in found.items()}


if __name__ == "__main__":
    document = json.loads(TABLE.read_text()) if TABLE.exists() else {"figures": {}}
    TABLE.write_text(json.dumps({**document, "duels": collect()}, indent=1, ensure_ascii=False) + "\n")
