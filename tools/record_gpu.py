r"""Run the whole doctor on a machine with an NVIDIA GPU for some minutes, and keep what came out in a few small files.

    python tools/record_gpu.py --list --minutes 30          the plan: what each part answers, and the seconds that it gets
    python tools/record_gpu.py --out gpu --minutes 30       run it; a second call on the same machine adds to it
    python tools/record_gpu.py --out gpu --minutes 9 --only bench
    python tools/record_gpu.py --out gpu --minutes 6 --stand-in     without a GPU: shows that everything runs

Run it from a checkout, with a Python that has tfgpu-doctor[bench] beside TensorFlow. It writes below the folder alone,
needs no network and no root, ends what it started, and leaves a GPU alone that other processes use, unless it is told
--even-if-busy. It changes no setting of the GPU, unless it is told --may-change-gpu. docs/new_gpu.md says what to send in.
A folder of another machine (GPUs, driver, TensorFlow), of another version of the doctor, or of a stand-in is refused.
Exit code: 0 every chosen part is done (by this call, or by an earlier one where this had no time for it), 1 not, 2 wrong
usage, no GPU or a folder of another machine, 130 interrupted.

On a machine without a network, where a folder holds TensorFlow and its CUDA libraries (its env.sh sets PYTHONPATH and
LD_LIBRARY_PATH). Here:

    pip wheel --no-deps --wheel-dir wheels .
    pip download --only-binary :all: --python-version 3.12 --no-deps --dest wheels \
        ahocorasick-rs click jinja2 markupsafe junitparser msgspec nvidia-ml-py packaging platformdirs pyelftools rich \
        markdown-it-py mdurl pygments tabulate pytest pytest-benchmark py-cpuinfo2 pluggy iniconfig scipy

There, with the folder wheels and this checkout:

    . TENSORFLOW/env.sh
    pip install --no-index --no-deps --target doctor-site wheels/*.whl
    export PYTHONPATH=$PYTHONPATH:$PWD/doctor-site
    python3 tools/record_gpu.py --out gpu --minutes 30
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import pathlib
import shutil
import signal
import sys
import uuid
from collections.abc import Sequence

import msgspec
from gpu_run import children, machine, packing, results, resuming, stand_in
from gpu_run.plan import BY_NAME, PARTS, Part, listed
from gpu_run.recording import Recording
from gpu_run.results import Results
from gpu_run.workbench import Setting, Workbench
from tabulate import tabulate

from tfgpu_doctor._project import __version__

_SCRATCH, _STAND_IN = "tmp", "stand-in"
_OURS = {_SCRATCH, _STAND_IN, "machine", "facts.json"}  # what a call leaves that is killed before its first part
_MACHINE_S = 240.0
_WRONG, _INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, run the parts; return the exit code."""
    options = _options(arguments)
    parts = [part for part in PARTS if not options.only or part.name in options.only]
    if options.list:
        print(tabulate(listed(parts, 60 * options.minutes), ("part", "least, s", "wished, s", "given, s", "question")))
        return 0
    folder = pathlib.Path(options.out).absolute()
    earlier, why = _earlier(folder)
    if why:
        return _refuse(why)
    began = dt.datetime.now(dt.timezone.utc)
    now = Results(1, __version__, f"{began:%Y-%m-%dT%H:%M:%SZ}", options.minutes, options.stand_in, {})
    if earlier and (why := resuming.difference(earlier, now)):
        return _refuse(_another_folder(folder, why))
    mark = uuid.uuid4().hex
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return _record(options, parts, folder, earlier, now, mark)
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        children.end_marked(mark)
        for each in (_SCRATCH, _STAND_IN):
            shutil.rmtree(folder / each, ignore_errors=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", help="a folder that is new, empty, or of an earlier call")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--list", action="store_true", help="print the plan and the time of each part; run nothing")
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), metavar="PART", help="only these parts")
    parser.add_argument("--even-if-busy", action="store_true", help="also load a GPU that other processes use")
    parser.add_argument("--may-change-gpu", action="store_true", help="as root: try exclusive mode, and put it back")
    parser.add_argument("--stand-in", action="store_true", help="a processor in place of the GPU")
    options = parser.parse_args(arguments)
    if not options.list and not options.out:
        parser.error("--out DIR is missing")
    if not 0 < options.minutes < 24 * 60:
        parser.error("--minutes is a time of less than a day")
    return options


def _earlier(folder: pathlib.Path) -> tuple[Results | None, str]:
    """The results of an earlier call in the folder, and why the folder cannot be used; what is not ours is left alone."""
    try:
        found = results.read_earlier(folder)
        strangers = found is None and folder.is_dir() and {each.name for each in folder.iterdir()} - _OURS
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, msgspec.DecodeError) as error:
        return None, f"{folder} cannot be used: {error}"
    return found, f"{folder} holds other files: name a new folder, or one of an earlier call" if strangers else ""


def _refuse(why: str, first: Workbench | None = None) -> int:
    """Say why in one line, and leave the folder as it was."""
    if first is not None:
        shutil.rmtree(first.folder, ignore_errors=True)
    print(f"record_gpu: {why}", file=sys.stderr)
    return _WRONG


def _another_folder(folder: pathlib.Path, why: str) -> str:
    return f"{folder} cannot be added to: {why}; choose another folder with --out"


def _tell(line: str) -> None:
    print(f"record_gpu: {line}", file=sys.stderr, flush=True)


def _record(
    options: argparse.Namespace,
    parts: Sequence[Part],
    folder: pathlib.Path,
    earlier: Results | None,
    now: Results,
    mark: str,
) -> int:
    setting = _setting(options, folder, mark)
    first = Workbench("machine", setting, _MACHINE_S)
    facts = machine.record(first)
    if facts is None:
        said = first.commands[-1]
        complaint = (first.folder / f"{said.name}.err").read_text("utf-8", "replace").strip()[-400:]
        return _refuse(
            f"the doctor could not examine this machine ({said.ended or said.exit_code}): {complaint}", first
        )
    names = machine.gpus(facts)
    if not names:
        return _refuse(
            "this machine has no NVIDIA GPU: neither the PCI bus nor NVML nor CUDA lists one (--stand-in simulates one)",
            first,
        )
    now = msgspec.structs.replace(now, machine=machine.head(facts))
    if earlier and (why := resuming.difference(earlier, now)):
        return _refuse(_another_folder(folder, why), first)
    machine.keep_record(first)
    packing.unpack(folder)
    recording = Recording(setting, parts, 60 * options.minutes, now, earlier, tell=_tell, began=first.began)
    recording.cannot_load = _why_not_loaded(first, facts, even_if_busy=options.even_if_busy)
    recording.now = msgspec.structs.replace(now, findings=tuple(first.findings))
    interrupted = recording.run()
    found = recording.pack()
    _tell(f"{len(found.findings)} findings; read {folder / 'report.md'} first")
    return _INTERRUPTED if interrupted else 0 if resuming.all_done(earlier, recording.now) else 1


def _setting(options: argparse.Namespace, folder: pathlib.Path, mark: str) -> Setting:
    """Where everything is, and variables by which caches and temporary files lie below the folder, too."""
    scratch = folder / _SCRATCH
    for each in ("t", "cache", "cuda", "keras"):
        (scratch / each).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # the user's own settings hold; Keras writes its defaults where it finds none
        keras = pathlib.Path(os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras")
        shutil.copy(keras / "keras.json", scratch / "keras")
    variables: dict[str, str | None] = {
        children.MARK: mark, "TMPDIR": str(scratch / "t"), "XDG_CACHE_HOME": str(scratch / "cache"),
        "CUDA_CACHE_PATH": str(scratch / "cuda"), "KERAS_HOME": str(scratch / "keras"), "PYTHONDONTWRITEBYTECODE": "1",
        "TFGPU_DOCTOR_MACHINE": None,
    }  # fmt: skip
    doctor: tuple[str, ...] = (sys.executable, "-m", "tfgpu_doctor")
    if options.stand_in:
        shutil.rmtree(folder / _STAND_IN, ignore_errors=True)
        (folder / _STAND_IN).mkdir()
        variables.update(stand_in.lay_out(folder / _STAND_IN))
        doctor = stand_in.doctor()
    allowed = {"even_if_busy": options.even_if_busy, "may_change_gpu": options.may_change_gpu}
    return Setting(folder, doctor, variables, options.stand_in, **allowed)


def _why_not_loaded(bench: Workbench, facts: dict[str, object], *, even_if_busy: bool) -> str:
    """Why parts that load the GPU do not run; empty if they may."""
    if not machine.used_by_tensorflow(facts):
        return "TensorFlow lists no GPU here: the part diagnose says why"
    busy = machine.others(bench)
    if busy and not even_if_busy:
        said = "; ".join(f"{name}: {signs}" for name, signs in busy.items())
        return f"other processes use the GPU ({said}); set CUDA_VISIBLE_DEVICES to a free one, or give --even-if-busy"
    return ""


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
