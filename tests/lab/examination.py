"""One machine of the lab, built and examined by the doctor's real command."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from doctor_command import clean_environment, doctor_argv
from lab import targets
from lab.machine import Machine
from lab.place import Place
from lab.roots import let_go
from made_up_root import make_gpu_root

from tfgpu_doctor.collect.examination import MACHINE_VARIABLE
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.build import build_driver
from tfgpu_doctor.rehearse.flat_text import machine_text
from tfgpu_doctor.rehearse.machine import SimulatedMachine, read_machine

# Further marks of containers and batch jobs, which the machine that runs the tests may bear.
_MARKS = ("KUBERNETES", "APPTAINER", "SINGULARITY", "LSB_", "PBS_", "XLA_", "container")
_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"  # a ptxas of this machine's own would be XLA's first choice
_DEADLINE_S = 600


@dataclass(frozen=True)
class Answer:
    """What the doctor said of a machine."""

    document: dict[str, Any]
    seconds: float

    @property
    def labels(self) -> list[str]:
        """Those of the causes, the first one first; notes are no causes."""
        return [cause["label"] for cause in self.document["causes"]]

    @property
    def first_words(self) -> str:
        """All that is said of the first cause."""
        first: dict[str, Any] = next(iter(self.document["causes"]), {})
        return " ".join([first.get("title", ""), *first.get("evidence", ())])


def examine(machine: Machine, folder: pathlib.Path, targets: pathlib.Path) -> Answer:
    """Build the machine in an empty folder, and ask the doctor."""
    place = Place(folder, targets, machine.target)
    try:
        variables = build(machine, place)
        under = [place.filled_in(word) for word in machine.under]
        return check(place, *machine.options, under=under, **variables)
    finally:
        let_go(place)


def build(machine: Machine, place: Place) -> dict[str, str]:
    """Make everything that the machine is; gives the variables of its processes."""
    simulated = read_machine(json.dumps(machine.driver).encode(), read_knowledge())
    make_gpu_root(place.root, gpus=max(1, len(simulated.gpus)))
    for change in machine.done:
        change(place)
    own = {name: place.filled_in(value) for name, value in machine.variables.items()}
    return {**_install_driver(machine, place, simulated), **own}


def _install_driver(machine: Machine, place: Place, simulated: SimulatedMachine) -> dict[str, str]:
    """Lay the simulated driver out as the real one is; gives the variables that the loader and it need."""
    built, libraries = pathlib.Path(build_driver()), place.folder / "driver"
    own = place.folder / machine.libcuda.format(version=simulated.driver)
    for name, file in (("libcuda.so.1", own), ("libnvidia-ml.so.1", libraries / f"libnvidia-ml.so.{simulated.driver}")):
        file.parent.mkdir(parents=True, exist_ok=True)
        if name not in simulated.missing:
            file.write_bytes((built / name).read_bytes())
            if file.name != name:
                (file.parent / name).symlink_to(file.name)
    text = place.folder / "machine.txt"
    text.write_bytes(machine_text(simulated))
    path = [str(own.parent), str(libraries), *(place.filled_in(each) for each in machine.library_path)]
    return {MACHINE_VARIABLE: str(text), "LD_LIBRARY_PATH": ":".join(dict.fromkeys(path))}


def check(place: Place, *options: str, under: Sequence[str] = (), **variables: str) -> Answer:
    """What the doctor says of a place, its command run under another one where that is named."""
    argv = doctor_argv("check", "--python", str(place.environment), "--root", str(place.root), "--format", "json")
    started = time.monotonic()
    done = run([*under, *argv, *options], place.folder, **variables)
    assert done.stderr == "", done.stderr
    return Answer(json.loads(done.stdout), time.monotonic() - started)


def run(command: Sequence[str], folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in an environment that tells nothing of this machine."""
    kept = {name: value for name, value in clean_environment().items() if not name.startswith(_MARKS)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_DEADLINE_S, cwd=folder, check=False,
        env={**kept, "PATH": _PATH, **variables},
    )  # fmt: skip


def why_not(machine: Machine) -> str:
    """Why this machine cannot be made by this user here; empty where it can."""
    if machine.only_of not in ("", targets.NEWEST):
        return f"what is expected of it holds for TensorFlow {machine.only_of}"
    if machine.as_root and os.geteuid() != 0:
        return "only root can make it"
    unshare = [word for word in machine.under if word == "unshare" or word.startswith("--")]
    if unshare and subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        return "the kernel lets this user make no namespaces"
    return ""
