"""Interrupt commands at random moments, and count for each command and promise how often it was kept.

    python tools/measure_interrupts.py [--runs 200] [--seed 1] [--only check,fix]

Each run has temporary folder, home and cache of its own. The signal is SIGINT, SIGTERM or SIGHUP, once or twice in a row,
or SIGKILL, after which the next start of the doctor has to remove what the killed one left. A run that ended before its
signal does not count. Run it in an environment with the project, its test dependencies, TensorFlow and a C compiler;
commands that need what is missing are left out. The exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/support"))

from doctor_command import clean_environment, doctor_argv, make_target
from made_up_wheels import make_wheel, offline, pip, tree

MARK = "TFGPU_DOCTOR_INTERRUPTED_RUN"  # an environment variable by which descendants are found, wherever they went
SETTLES_S = 3.0  # for processes that were killed to be gone
JANITOR_S = 15.0  # for a program whose `watch` was killed to be ended
HANGS_S = 60.0
LOOKS_EVERY_S = 0.005
SIGNALS: tuple[tuple[signal.Signals, ...], ...] = (
    (signal.SIGINT,), (signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGINT,) * 2, (signal.SIGTERM,) * 2,
    (signal.SIGTERM, signal.SIGINT), (signal.SIGKILL,),
)  # fmt: skip
INTERRUPTED = 130
# TensorFlow asks for a newer protobuf than the environment has.
OLD_TENSORFLOW = """
import google.protobuf
if google.protobuf.__version__ < "6":
    raise ImportError("google.protobuf is too old: Descriptors cannot be created directly")
__version__ = "2.20.0"
"""
TRAINING = "import time\nfor _ in range(25): time.sleep(0.1)\n"


@dataclass
class Command:
    """A command to interrupt: how long it takes at most, and the environment that it works on."""

    name: str
    arguments: list[str]
    longest_s: float
    weight: int
    target: pathlib.Path | None = None  # copied for each run
    variables: Mapping[str, str] = field(default_factory=dict)

    def argv(self, target: pathlib.Path | None) -> list[str]:
        """The arguments for one run."""
        return doctor_argv(*(str(target) if word == "TARGET" else word for word in self.arguments))


@dataclass
class Run:
    """One interrupted run: where it was, what it was sent, and how it ended."""

    command: Command
    folder: pathlib.Path
    environment: dict[str, str]
    target: pathlib.Path | None
    before: dict[str, tuple[object, ...]]
    sent: tuple[signal.Signals, ...]
    delay_s: float
    code: int | None = None
    output: str = ""
    errors: str = ""
    was_over: bool = False
    too_early: bool = False  # Python itself was starting: no program can answer a signal yet

    @property
    def killed(self) -> bool:
        """Whether nothing could be done at the end of it."""
        return signal.SIGKILL in self.sent

    @property
    def told(self) -> str:
        """What was done in it."""
        names = "+".join(each.name for each in self.sent)
        return f"{self.command.name}, {names} after {self.delay_s:.2f} s, exit code {self.code}"


def main() -> int:
    """Interrupt, look, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of commands, separated by commas")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="interrupts-") as name:
        workshop = pathlib.Path(name)
        commands = [each for each in prepared(workshop) if not options.only or each.name in options.only.split(",")]
        counts: collections.Counter[tuple[str, str, bool]] = collections.Counter()
        number = 0
        while number < options.runs:
            command = draw.choices(commands, [each.weight for each in commands])[0]
            run = interrupted(
                command, workshop / str(number), draw.choice(SIGNALS), draw.uniform(0.0, command.longest_s)
            )
            number += not run.was_over  # otherwise another one takes its place
            for promise, why in judged(run) if not run.was_over else ():
                counts[command.name, promise, not why] += 1
                if why:
                    print(f"{run.told}: {promise}: {why}", flush=True)
            end_descendants(run)
            shutil.rmtree(run.folder, ignore_errors=True)
    show(counts)
    return 1 if any(not kept for _, _, kept in counts) else 0


def prepared(workshop: pathlib.Path) -> Iterator[Command]:
    """Build the environments, and yield the commands that can run here."""
    bare = make_target(workshop / "bare", None)
    yield Command("check", ["check", "--format", "json", "--python", "TARGET"], 1.5, 5, bare)
    yield Command("watch", ["watch", "--no-live", "--", sys.executable, "-c", TRAINING], 4.0, 4)
    if importlib.util.find_spec("tensorflow"):
        yield Command("check TensorFlow", ["check", "--format", "json"], 6.0, 3)
        yield Command("bench", ["bench", "graph_execution", "--budget", "20s", "--format", "json"], 20.0, 2)
    if shutil.which("cc") or importlib.util.find_spec("ziglang"):
        yield Command("rehearse", ["rehearse", "--format", "json", "--python", "TARGET"], 3.0, 4, bare)
        shelf = workshop / "shelf"
        for version in ("3.20.0", "6.31.0"):
            make_wheel(shelf, "protobuf", version, {"google/protobuf/__init__.py": f"__version__ = {version!r}\n"})
        yield Command("fix", ["fix", "--apply", "--yes", "--python", "TARGET"], 6.0, 5, to_fix(workshop / "fix", shelf),
                      offline(shelf))  # fmt: skip


def to_fix(folder: pathlib.Path, shelf: pathlib.Path) -> pathlib.Path:
    """An environment with pip, and with a TensorFlow that asks for a newer protobuf than it has."""
    make_target(folder, OLD_TENSORFLOW)
    subprocess.run([folder / "bin/python", "-m", "ensurepip"], check=True, capture_output=True)
    (info,) = folder.glob("lib/python3*/site-packages/tensorflow-*.dist-info")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.20.0\nRequires-Dist: protobuf>=5.28\n\n"
    )
    pip(folder, "install", "protobuf==3.20.0", wheels=shelf)
    return folder


def interrupted(command: Command, folder: pathlib.Path, sent: tuple[signal.Signals, ...], delay_s: float) -> Run:
    """Run a command, and send it signals after that time."""
    places = {name: folder / name for name in ("tmp", "home", "cache", "work")}
    for place in places.values():
        place.mkdir(parents=True)
    target = folder / "target" if command.target else None
    if command.target and target:
        shutil.copytree(command.target, target, symlinks=True)
    environment = clean_environment(
        TMPDIR=str(places["tmp"]), HOME=str(places["home"]), XDG_CACHE_HOME=str(places["cache"]), **command.variables,
        RUSTUP_HOME=os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")),  # pip asks rustc for its version
        **{MARK: str(folder)},
    )  # fmt: skip
    if path := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] = path  # another version of the doctor
    run = Run(command, folder, environment, target, tree(target) if target else {}, sent, delay_s)
    with open(folder / "out", "wb") as out, open(folder / "errors", "wb") as errors:
        process = subprocess.Popen(
            command.argv(target), stdout=out, stderr=errors, stdin=subprocess.DEVNULL, env=environment, cwd=places["work"],
            start_new_session=True, preexec_fn=hear,  # noqa: PLW1509 - there is one thread
        )  # fmt: skip
        run.too_early = not began_within(process, delay_s)
        run.was_over = process.poll() is not None
        if not run.was_over:
            for number in sent:
                process.send_signal(number)
        try:
            run.code = process.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    run.output, run.errors = ((folder / name).read_text("utf-8", "replace") for name in ("out", "errors"))
    if run.killed:
        settle(run, JANITOR_S if command.name == "watch" else SETTLES_S)
        next_start = doctor_argv("check", "--quick", "--format", "json", *(["--python", str(target)] if target else []))
        subprocess.run(next_start, env=environment, capture_output=True, check=False, cwd=places["work"])
    settle(run, SETTLES_S)
    return run


def began_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait, at most until the process ends; return whether the doctor blocked or caught a signal by then, as its first act."""
    until, began = time.monotonic() + seconds, False
    while process.poll() is None and (left := until - time.monotonic()) > 0:
        began = began or answers(process.pid)
        time.sleep(min(left, LOOKS_EVERY_S))
    return began or answers(process.pid)


def answers(pid: int) -> bool:
    """Whether SIGTERM would wait, or reach a handler: `/proc/PID/status`."""
    try:
        lines = pathlib.Path("/proc", str(pid), "status").read_text().splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk:", "SigCgt:"))]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)


def hear() -> None:
    """In the child, before it becomes the doctor: hear the signals, though this program may run deaf to them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def descendants(run: Run) -> list[int]:
    """The processes that the run left, also those that left its session."""
    mark, found = f"{MARK}={run.folder}".encode(), []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if mark in pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:
                continue
    return found


def settle(run: Run, patience_s: float) -> None:
    """Wait for the last processes to be gone."""
    until = time.monotonic() + patience_s
    while descendants(run) and time.monotonic() < until:
        time.sleep(0.05)


def end_descendants(run: Run) -> None:
    """Kill what a run left."""
    for pid in descendants(run):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def judged(run: Run) -> Iterator[tuple[str, str]]:
    """Each promise, and how it was broken; empty where it was kept."""
    left = sorted(str(path.relative_to(run.folder / "tmp")) for path in (run.folder / "tmp").rglob("*"))
    for name, promise in PROMISES.items():
        yield name, promise(run)
    yield "temporary folder empty", ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")


def exit_code(run: Run) -> str:
    """The code is the documented one."""
    if run.code is None:
        return f"no end within {HANGS_S:.0f} s"
    if run.killed:
        return ""
    ended = {-number for number in run.sent}
    if run.command.name == "watch":  # the program's own end
        allowed = {0, 1, INTERRUPTED, *ended}
    else:
        allowed = {INTERRUPTED, 0, 1, 3} | (ended if run.too_early else set())
    return "" if run.code in allowed else f"exit code {run.code}: {run.errors.strip()[-150:]}"


def document(run: Run) -> str:
    """An interrupted command with a document prints it, complete."""
    if "json" not in run.command.arguments or run.killed or (run.too_early and not run.output):
        return ""
    try:
        json.loads(run.output)
    except ValueError:
        return f"no document: {run.output[:80]!r} {run.errors.strip()[-150:]!r}"
    return ""


def no_traceback(run: Run) -> str:
    """Nobody sees a traceback, or that the doctor itself failed."""
    words = ("Traceback", "the doctor itself failed", "Exception ignored")
    lines = [line for line in run.errors.splitlines() if any(word in line for word in words)]
    if run.command.name == "watch" or run.too_early:  # Python's own, at its start; and that of the program
        lines = [line for line in lines if "Traceback" not in line]
    return lines[0][:150] if lines else ""


def no_process(run: Run) -> str:
    """No process of the run is left."""
    found = [f"{pid} {pathlib.Path('/proc', str(pid), 'cmdline').read_bytes()[:80]!r}" for pid in descendants(run)]
    return ", ".join(found)


def home(run: Run) -> str:
    """The home folder is as it was."""
    return ", ".join(sorted(str(path.relative_to(run.folder)) for path in (run.folder / "home").rglob("*"))[:4])


def working_folder(run: Run) -> str:
    """The working folder is as it was."""
    return ", ".join(path.name for path in (run.folder / "work").iterdir())


def cache(run: Run) -> str:
    """What is in the cache is whole."""
    for path in (run.folder / "cache").glob("tfgpu-doctor/*"):
        if ".part" in path.name:
            return f"{path.name} is left"
        names = ("libcuda.so.1", "libnvidia-ml.so.1") if path.name.startswith("driver-") else ()
        if any(not (path / name).is_file() or not (path / name).stat().st_size for name in names):
            return f"{path.name} is not whole"
    return ""


def target(run: Run) -> str:
    """The target environment is as it was: a fix is undone, or `fix --undo` undoes it; a complete one stays."""
    if run.target is None:
        return ""
    now, record = tree(run.target), run.target / ".tfgpu-doctor"
    if run.command.name == "fix" and run.code == 0:
        return "" if record.is_dir() else "no record of the fix"
    if run.command.name == "fix" and record.exists():
        if not run.killed:
            return "a record is left, though the fix was interrupted in order"
        undone = subprocess.run(
            doctor_argv("fix", "--undo", "--yes", "--python", str(run.target)), env=run.environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if undone.returncode != 0 or record.exists():
            return f"fix --undo: exit code {undone.returncode}, {undone.stderr.strip()[-150:]}"
        now = tree(run.target)
    different = sorted(path for path in {*now, *run.before} if now.get(path) != run.before.get(path))
    return ", ".join(different[:3]) + (f" and {len(different) - 3} more" if len(different) > 3 else "")


PROMISES: dict[str, Callable[[Run], str]] = {
    "exit code": exit_code, "document": document, "no traceback": no_traceback, "no process left": no_process,
    "home unchanged": home, "working folder unchanged": working_folder, "cache whole": cache, "target unchanged": target,
}  # fmt: skip


def show(counts: collections.Counter[tuple[str, str, bool]]) -> None:
    """Print a row for each promise, with a column for each command: how often it was kept, of how many runs."""
    commands = list(dict.fromkeys(name for name, _, _ in counts))
    promises = list(dict.fromkeys(promise for _, promise, _ in counts))
    print("promise".ljust(26), *(name.rjust(18) for name in commands), "all".rjust(12))
    for promise in promises:
        cells = [(counts[name, promise, True], counts[name, promise, False]) for name in commands]
        whole = (sum(kept for kept, _ in cells), sum(broken for _, broken in cells))
        rows = [f"{kept} of {kept + broken}" for kept, broken in [*cells, whole]]
        print(promise.ljust(26), *(row.rjust(18) for row in rows[:-1]), rows[-1].rjust(12))


if __name__ == "__main__":
    sys.exit(main())
