"""A training with a package tensorflow that is none, which the doctor records through its socket."""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable

from doctor_command import clean_environment

from tfgpu_doctor.host.recorded_program import RecordedProgram
from tfgpu_doctor.host.talk import Talk
from tfgpu_doctor.tracing.recording import STARTUP

LONG_S = 120.0  # for what takes a second: nothing fails because the machine is slow
TENSORFLOW = """
import os
__version__ = "2.99.1"
class profiler:
    class experimental:
        folder = ""
        @staticmethod
        def start(folder, options=None):
            if os.path.exists("refuse"): raise RuntimeError("Another profiler is running.")
            profiler.experimental.folder = folder
            open(os.path.join(folder, "started"), "w").write(str(options))
        @staticmethod
        def stop():
            if os.path.exists("refuse"): raise ValueError("nothing\\nwas recorded")
            open(os.path.join(profiler.experimental.folder, "stopped"), "w").close()
            prepared = sorted(os.listdir("profiles")) if os.path.exists("profiles") else ()
            if prepared: os.rename(os.path.join("profiles", prepared[0]), os.path.join(profiler.experimental.folder, "plugins"))
"""
TRAIN = """
import os, sys, time, tensorflow
def load_rows():
    end = time.monotonic() + 0.005
    while time.monotonic() < end: pass
    time.sleep(0.015)
def main():
    while not os.path.exists("end"):
        load_rows()
        print(sys.getswitchinterval(), file=open("interval.new", "w"), flush=True)
        os.replace("interval.new", "interval")
main()
print("trained", flush=True)
sys.exit(4)
"""


def write_training(folder: pathlib.Path) -> None:
    """The package, a program train.py, and a folder for what it records."""
    (folder / "tensorflow").mkdir()
    (folder / "tensorflow/__init__.py").write_text(TENSORFLOW)
    (folder / "train.py").write_text(TRAIN)
    (folder / "kept").mkdir()


def recorded(*words: str, **variables: str) -> RecordedProgram:
    return RecordedProgram([sys.executable, *words], environment=clean_environment(**variables), startup=STARTUP)


def wait_for(what: Callable[[], object], program: RecordedProgram | None = None) -> None:
    until = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < until, "it has not come to be"
        program.wait(0.05) if program and program.exit_code is None else time.sleep(0.05)


def training(program: RecordedProgram) -> Talk:
    """The connection to a program that has imported TensorFlow."""
    wait_for(program.ready, program)
    (talk,) = program.ready()
    return talk


def ended(program: RecordedProgram) -> int | None:
    wait_for(lambda: program.exit_code is not None, program)
    code: int | None = program.exit_code
    return code


def folder_of(program: RecordedProgram) -> pathlib.Path:
    return pathlib.Path(program.folder)
