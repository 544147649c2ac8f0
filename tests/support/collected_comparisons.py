"""What the perf suites measure, by name, as pytest collects them: the table doctor/accept/comparisons.json."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from locations import ROOT

TABLE = ROOT / "doctor/accept/comparisons.json"
_ABOUT = (
    "What the perf suites measure, by name, so that a misspelt name in a profile is refused before anything is measured. "
    "Made by tools/write_generated.py from the suites themselves; metrics are those that a limit of the hardware's bounds, units those of metrics that a requirement in units can name."
)
_PLUGIN = """
def pytest_collection_finish(session):
    for item in session.items:
        kind = "COMPARISON" if "compare" in getattr(item, "fixturenames", ()) else "TEST"
        print(kind, item.path.stem.removeprefix("test_"), item.name.removeprefix("test_"), sep="\\t")
"""


@functools.cache
def collected() -> tuple[tuple[str, str, str], ...]:
    """Kind, suite and name of each test: a COMPARISON, or another TEST."""
    from tfgpu_doctor.bench.names import SUITES

    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "print_tests.py").write_text(_PLUGIN)
        plugins = ("no:cacheprovider", "pytest_benchmark.plugin", "tfgpu_doctor.perf_tests.plugin", "print_tests")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-c", f"{SUITES}/pytest.ini", "--rootdir", SUITES,
             *(word for name in plugins for word in ("-p", name)), SUITES],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": folder, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.startswith(("COMPARISON\t", "TEST\t"))]
    return tuple((kind, suite, name) for kind, suite, name in rows)


def comparisons() -> dict[str, list[str]]:
    """Suite to the names of its comparisons; a suite that holds none has an empty list."""
    from tfgpu_doctor.bench.names import suite_names

    return {
        suite: sorted(name for kind, its, name in collected() if (kind, its) == ("COMPARISON", suite))
        for suite in suite_names()
    }


def metrics() -> dict[str, list[str]]:
    """Those of device_placement that have a limit: a copy within the GPU's memory, and the peak in each precision."""
    from tfgpu_doctor.perf_tests.ceilings import peak_name

    names = [name for _, suite, name in collected() if suite == "device_placement"]
    inside = ["copy in the device" for name in names if name == "bandwidth[in the device]"]
    peaks = [peak_name(name[len("peak[") : -1]) for name in names if name.startswith("peak[")]
    return {"device_placement": sorted([*inside, *peaks])}


def units() -> dict[str, dict[str, str]]:
    """Suite to the metrics that a requirement in units can name, with their units."""
    from tfgpu_doctor.perf_tests import test_mirrored_strategy, test_multi_worker
    from tfgpu_doctor.perf_tests.published import INPUT, STORAGE, TRAINED

    ways = [name[len("bandwidth[") : -1] for _, suite, name in collected() if name.startswith("bandwidth[")]
    sizes = [test_mirrored_strategy.in_words(size) for size in test_mirrored_strategy.SIZES["GPU"]]
    counts = sorted(
        {name[:-1].partition("[")[2] for _, suite, name in collected() if suite == "multi_worker" and "[" in name}
    )
    between = [
        f"all-reduce of {size}, {count} workers" for count in counts for size in test_multi_worker.SIZES.values()
    ]
    return {
        "device_placement": {
            **{f"copy {way}": "GB/s" for way in ways},
            **{name: "TFLOP/s" for name in metrics()["device_placement"] if name.startswith("matmul")},
            "eager dispatch": "us",
        },
        "mirrored_strategy": {
            **{f"all-reduce of {size}": "GB/s" for size in sizes}, "weak scaling": "times one GPU", "strong scaling": "times one GPU",
        },
        "multi_worker": dict.fromkeys(between, "GB/s"),
        "training": {**dict.fromkeys((*TRAINED, INPUT), "samples/s"), STORAGE: "GB/s"},
    }  # fmt: skip


def table() -> str:
    """The content of the file."""
    document = {"about": _ABOUT, "units": units(), "metrics": metrics(), "comparisons": comparisons()}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
