"""Record trainings whose bottleneck is known, with several releases of TensorFlow, and count how often `trace` names it.

    python tools/record_traces.py --python tf-2.15/bin/python --python tf-2.21/bin/python [--runs 3] [PROGRAM ...]
    python tools/record_traces.py --truth truth.json --folder programs --python ...      programs of others
    python tools/record_traces.py --keep tests/tracing/recorded --seconds 1 --python ...    profiles for the tests

Without a folder the programs are those of tests/tracing/programs.py. truth.json is a list of {"program", "verdict",
"also_allowed"}; a program there is FOLDER/PROGRAM.py and takes --seconds. With --keep each profile is kept, compressed,
as RELEASE-PROGRAM.xplane.pb.xz. Each run takes about half a minute; nothing else should run beside it.
Exit code: 0 all verdicts were right, 1 one was not, or something was not recorded, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

from tabulate import tabulate

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "tests/tracing/programs.py"
_TRAIN_S = 120  # the doctor ends the program before


@dataclass
class Program:
    """A training: the command without the interpreter, the verdict that is right, and others that may be said."""

    name: str
    command: str
    verdict: str
    allowed: list[str] = field(default_factory=list)


def absolute(path: str) -> pathlib.Path:
    """A path that means the same in another folder; links stay, because a Python is found by them as part of its venv."""
    return pathlib.Path(os.path.abspath(path))


def interpreter(given: str) -> str:
    """The same for a Python, which may also be a name on PATH."""
    return os.path.abspath(given) if os.sep in given else given


def ours(python: str) -> list[Program]:
    """The programs of the tests; their verdicts stand in them."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(OURS.parent)!r}); import programs; "
        "print(json.dumps({name: row[0] for name, row in programs.PROGRAMS.items()}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    verdicts = json.loads(done.stdout.splitlines()[-1])
    return [
        Program(name, f"{shlex.quote(str(OURS))} {name} --seconds {_TRAIN_S}", verdict)
        for name, verdict in verdicts.items()
    ]


def of_others(truth: pathlib.Path, folder: pathlib.Path) -> list[Program]:
    """Programs whose truth somebody else wrote down."""
    rows = json.loads(truth.read_text("utf-8"))
    return [
        Program(
            row["program"], f"{shlex.quote(str(folder / row['program']))}.py --seconds {_TRAIN_S}", row["verdict"],
            row.get("also_allowed", []),
        )
        for row in rows
    ]  # fmt: skip


def record(python: str, program: Program, seconds: float, keep: pathlib.Path | None) -> dict[str, Any]:
    """Run `trace --record-with`, and return its document; {"verdict": "not recorded"} if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "saved")
        argv = [
            sys.executable, "-m", "tfgpu_doctor", "trace", "--record-with", f"{shlex.quote(python)} {program.command}",
            "--seconds", str(seconds), "--format", "json", "--save", saved,
        ]  # fmt: skip
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=folder, check=False)
        if not done.stdout.startswith("{"):
            said = done.stderr.strip().splitlines()[-1:]
            return {"verdict": "not recorded", "reason": said, "steps": {"mean_ms": 0.0}}
        if keep is not None:
            _keep(pathlib.Path(saved), keep / f"{_release(python)}-{program.name}.xplane.pb.xz")
        document: dict[str, Any] = json.loads(done.stdout)
        return document


def _keep(saved: pathlib.Path, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    profile = max(saved.rglob("*.xplane.pb"), key=lambda each: each.stat().st_mtime)
    path.write_bytes(lzma.compress(profile.read_bytes(), preset=9))


def _release(python: str) -> str:
    code = "import importlib.util as u; print(u.find_spec('tensorflow').submodule_search_locations[0])"
    folder = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    found = sorted(pathlib.Path(folder).parent.glob("tensorflow*-*.dist-info"))
    names = [path.name for path in found if path.name.partition("-")[0] in ("tensorflow", "tensorflow_cpu")]
    return names[0].removesuffix(".dist-info").partition("-")[2]


def main() -> int:
    """Record all, and print what was said and how often it was right; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--python", action="append", required=True, type=interpreter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--truth", type=absolute)
    parser.add_argument("--folder", type=absolute)
    parser.add_argument("--keep", type=absolute)
    options = parser.parse_intermixed_args()
    if bool(options.truth) != bool(options.folder):
        parser.error("--truth and --folder belong together")
    rows, right = [], 0
    known = of_others(options.truth, options.folder) if options.truth else ours(options.python[0])
    if unknown := sorted(set(options.programs) - {each.name for each in known}):
        parser.error(f"no program is named {', '.join(unknown)}; there are {', '.join(each.name for each in known)}")
    for program in [each for each in known if not options.programs or each.name in options.programs]:
        for python in options.python:
            for _ in range(options.runs):
                document = record(python, program, options.seconds, options.keep)
                fits = document["verdict"] in (program.verdict, *program.allowed)
                right += fits
                rows.append(
                    (program.name, _release(python), program.verdict, document["verdict"], "" if fits else "WRONG")
                )
                print(*rows[-1], f"{document['steps']['mean_ms']:.1f} ms", *document.get("reason", ()), flush=True)
    wrong = [row for row in rows if row[-1]]
    print(tabulate(wrong, headers=("program", "release", "true", "said", "")))
    print(f"{right} of {len(rows)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
