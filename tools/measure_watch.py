"""How good `watch` is: verdicts of programs whose truth is known, hangs, planted troubles, and what watching costs.

    python tools/measure_watch.py verdicts [--truth truth.json --folder programs] [--seconds 60] [PROGRAM ...]
    python tools/measure_watch.py hangs --truth truth.json --folder programs [--patience 400]
    python tools/measure_watch.py planted --truth truth.json --folder programs
    python tools/measure_watch.py cost [--rounds 5]

Without a folder the programs are those of tests/tracing/programs.py. A truth is a list of {"program", "verdict",
"also_allowed"}, of {"program", "kind", "names"} (hangs; a kind of "" means that it must stay silent), or of {"program",
"plant", "expected"} with a plant.py in the folder that has plant(trouble, pid) -> undo; without a folder, neighbours are
planted beside a healthy training and one with a bottleneck of its own. Nothing else should run beside. "not run": there is
nothing to judge, because no training was seen, or the program ended early with an error.
Exit code: 0 all were right, 1 one was not or did not run, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from record_traces import absolute, interpreter
from tabulate import tabulate

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "tests/tracing/programs.py"
# What the report says where no training was seen.
NO_VERDICT = {"no report", "starting", "no_tensorflow", "watching", "outside"}
STOPPED = 17  # the doctor ended a program that hung
QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def ours(python: str) -> list[dict[str, Any]]:
    """The programs of the tests; their verdicts stand in them."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(OURS.parent)!r}); import programs; "
        "print(json.dumps({name: row[0] for name, row in programs.PROGRAMS.items()}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    verdicts = json.loads(done.stdout.splitlines()[-1])
    return [{"program": name, "verdict": verdict} for name, verdict in verdicts.items()]


def command(python: str, row: dict[str, Any], folder: pathlib.Path | None, seconds: float) -> list[str]:
    """How a program is run."""
    file = row["program"] if row["program"].endswith(".py") else row["program"] + ".py"
    words = [str(OURS), row["program"]] if folder is None else [str(folder / file)]
    return [python, *words, "--seconds", str(int(seconds))]


class Watch:
    """`watch` beside a program; its report and its events."""

    def __init__(self, argv: list[str], *options: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.report_path, self.events_path = f"{self.folder.name}/report.json", f"{self.folder.name}/events"
        self.began = time.monotonic()
        self.ended_by_itself: int | None = None
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfgpu_doctor", "watch", "--no-live", "--format", "json", "-o", self.report_path,
             "--events", self.events_path, *options, "--", *argv],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **QUIET}, cwd=self.folder.name,
        )  # fmt: skip

    def events(self) -> list[dict[str, Any]]:
        """What was told so far."""
        try:
            with open(self.events_path) as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            return []

    def end(self) -> dict[str, Any]:
        """End the program by SIGTERM if it still runs, and return the report."""
        self.ended_by_itself = self.process.poll()
        if self.ended_by_itself is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self.report()

    def report(self) -> dict[str, Any]:
        """The report; a word in its place if there is none."""
        try:
            with open(self.report_path) as file:
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return {"verdict": "no report", "timeline": [], "hang": None, "machine": [], "seconds": 0.0}

    def failed_early(self, report: dict[str, Any], seconds: float) -> bool:
        """Whether the program ended with an error before its time."""
        return self.ended_by_itself not in (None, 0, STOPPED) and report["seconds"] < seconds


def verdicts(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Whether the verdict was right at the end, and when it was told first."""
    table = []
    for row in rows:
        watch = Watch(command(arguments.python, row, arguments.folder, arguments.seconds), "--on-hang", "stop")
        try:
            watch.process.wait(arguments.seconds + 120)
        except subprocess.TimeoutExpired:
            pass
        report = watch.end()
        allowed = {row["verdict"], *row.get("also_allowed", [])}
        said = [turn["verdict"] for turn in report["timeline"]]
        # TensorFlow's destructor may hang after a py_function: what was said of the training counts.
        final = (
            report["verdict"] if report["verdict"] != "hang" else ([""] + [each for each in said if each != "hang"])[-1]
        )
        at_s = next((turn["at_s"] for turn in report["timeline"] if turn["verdict"] in allowed), None)
        not_run = final in NO_VERDICT or watch.failed_early(report, arguments.seconds)
        judged = "not run" if not_run else "ok" if final in allowed else "WRONG"
        table.append([row["program"], row["verdict"], final, judged,
                      at_s, " ".join(said), report.get("captures")])  # fmt: skip
        print(*table[-1], flush=True)
    return table


def hangs(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Whether a hang was found, its kind, and what the sentence names."""
    table = []
    for row in rows:
        watch = Watch(command(arguments.python, row, arguments.folder, arguments.seconds))
        until = time.monotonic() + arguments.patience
        found: dict[str, Any] | None = None
        while time.monotonic() < until and watch.process.poll() is None and found is None:
            time.sleep(1)
            found = next((each for each in watch.events() if each["event"] == "hang"), None)
        report = watch.end()
        kind = found["kind"] if found else ""
        words = json.dumps(found) if found else ""
        named = any(name in words for name in row.get("names", [])) if row.get("names") else None
        expected = row.get("kind", "")
        untrained = not expected and report["verdict"] in NO_VERDICT  # silence about a training alone is right
        not_run = found is None and (untrained or watch.failed_early(report, arguments.seconds))
        judged = "not run" if not_run else "ok" if kind == expected else "WRONG"
        table.append([row["program"], expected, kind, judged, named,
                      found and found["seconds"], (found or {}).get("evidence")])  # fmt: skip
        print(*table[-1], flush=True)
    return table


PLANTED = [
    {"program": "healthy_dense", "plant": "neighbours", "expected": "cpu_contention"},
    {"program": "serial_map", "plant": "neighbours", "expected": "cpu_contention"},
    {"program": "decoding", "plant": "neighbours", "expected": "cpu_contention"},
]


def neighbours(trouble: str, pid: int) -> Callable[[], None]:  # noqa: ARG001 - as a plant.py has it
    """Two processes for each CPU that compute without end; return what ends them."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]

    def undo() -> None:
        for each in busy:
            each.kill()
            each.wait()

    return undo


def planted(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Whether a trouble that begins after 40 s is named within 15 s, and not before."""
    plant = neighbours
    if arguments.folder is not None:
        spec = importlib.util.spec_from_file_location("plant", arguments.folder / "plant.py")
        assert spec is not None and spec.loader is not None
        planting = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(planting)
        plant = planting.plant
    table = []
    for row in rows:
        watch = Watch(command(arguments.python, row, arguments.folder, 100))
        time.sleep(40)
        if watch.process.poll() is not None:
            table.append([row["program"], row["plant"], row["expected"], "not run"])
            print(*table[-1], flush=True)
            continue
        before = [each["label"] for each in watch.events() if each["event"] == "machine"]
        children = pathlib.Path(f"/proc/{watch.process.pid}/task/{watch.process.pid}/children").read_text().split()
        pid = next(
            int(each) for each in children if b"janitor" not in pathlib.Path(f"/proc/{each}/cmdline").read_bytes()
        )
        at_s = time.monotonic() - watch.began
        undo = plant(row["plant"], pid)
        try:
            time.sleep(35)
        finally:
            undo()
        told = [each for each in watch.events() if each["event"] == "machine" and each["label"] == row["expected"]]
        turns = [each for each in watch.events() if each["event"] == "verdict"]
        report = watch.end()
        after_s = round(told[0]["seconds"] - at_s, 1) if told else None
        turned = next((round(each["seconds"] - at_s, 1) for each in turns if each["verdict"] == row["expected"]), None)
        not_run = watch.failed_early(report, 100)
        judged = "not run" if not_run else "ok" if told else "WRONG"
        table.append([row["program"], row["plant"], row["expected"], judged, after_s, turned, " ".join(before),
                      " ".join(each["label"] for each in report["machine"])])  # fmt: skip
        print(*table[-1], flush=True)
    return table


STEPS = """
import sys, time, json, statistics
import numpy as np, tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Input((256,)), *[tf.keras.layers.Dense(512, activation="relu") for _ in range(4)],
                             tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam()
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
x, y = tf.random.normal((64, 256)), tf.random.normal((64, 1))
step(x, y)
times, end = [], time.monotonic() + {seconds}
while time.monotonic() < end:
    began = time.perf_counter(); step(x, y).numpy(); times.append(time.perf_counter() - began)
import resource
print(json.dumps([statistics.median(times), statistics.fmean(times), len(times),
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def cost(arguments: argparse.Namespace) -> list[list[Any]]:
    """Steps with and without the watch, interleaved: the median step, the mean step, and the memory."""
    code = STEPS.replace("{seconds}", str(arguments.seconds))
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    for number in range(arguments.rounds):
        for watched in (False, True) if number % 2 else (True, False):
            argv = [arguments.python, "-c", code]
            if watched:
                argv = [sys.executable, "-m", "tfgpu_doctor", "watch", "--no-live", "-o", os.devnull, "--", *argv]
            done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **QUIET}, check=True)
            found[watched].append(json.loads(done.stdout.splitlines()[-1]))
            print(watched, found[watched][-1], flush=True)
    table = []
    for at, name in enumerate(("median step, ms", "mean step, ms", "steps", "peak memory, MiB")):
        scale = (1000, 1000, 1, 1 / 1024)[at]
        plain, watched_ = (statistics.median(row[at] for row in found[each]) * scale for each in (False, True))
        ratio = statistics.median(one[at] / other[at] for one, other in zip(found[True], found[False], strict=True))
        table.append([name, round(plain, 3), round(watched_, 3), f"{ratio:.4f}", f"{watched_ - plain:+.3f}"])
    return table


def main() -> int:
    """Read the arguments, measure, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("verdicts", "hangs", "planted", "cost"))
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--truth", type=absolute)
    parser.add_argument("--folder", type=absolute)
    parser.add_argument("--python", default=sys.executable, type=interpreter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--patience", type=float, default=400.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_intermixed_args()
    if arguments.what == "cost":
        if arguments.programs:
            parser.error(f"cost measures a training of its own: leave out {' '.join(arguments.programs)}")
        print(tabulate(cost(arguments), headers=("", "without", "with", "ratio", "difference")))
        return 0
    rows = json.loads(arguments.truth.read_text("utf-8")) if arguments.truth else []
    rows = rows or (PLANTED if arguments.what == "planted" else ours(arguments.python))
    names = [row["program"] for row in rows]
    if unknown := sorted(set(arguments.programs) - set(names)):
        parser.error(f"no program is named {', '.join(unknown)}; there are {', '.join(names)}")
    rows = [row for row in rows if not arguments.programs or row["program"] in arguments.programs]
    table = {"verdicts": verdicts, "hangs": hangs, "planted": planted}[arguments.what](arguments, rows)
    print(tabulate(table, disable_numparse=True))
    return 0 if all(row[3] == "ok" for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
