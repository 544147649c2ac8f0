"""A real Slurm with four nodes on this machine: real daemons and device limits, GPUs of the simulated driver."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from doctor_command import clean_environment, make_target
from simulated import machine, simulate_in

NODES = ("n1", "n2", "n3", "n4")
_PORT = 16817  # of slurmctld in up.sh
_PATIENCE_S = 240.0  # on a busy machine
_PROGRAMS = ("slurmctld", "slurmd", "munged", "srun")
# A node's machine is the one that a file names, as far as the node's device rules allow: to a job without a GPU, the driver
# shows none. The examined Python has no TensorFlow.
_DOCTOR = """#!/bin/bash
machine=$(cat {folder}/machine-"$SLURMD_NODENAME" 2>/dev/null || echo healthy)
{{ : </dev/nvidia0; }} 2>/dev/null || {{ : </dev/nvidia1; }} 2>/dev/null || machine=denied
export TFGPU_DOCTOR_MACHINE={folder}/machines/$machine/machine.txt LD_LIBRARY_PATH={folder}/machines/$machine/driver
[[ $2 == node ]] && printf '%s\\n' "$SLURMD_NODENAME" "${{CUDA_VISIBLE_DEVICES-unset}}" "$(id -u)" >>{folder}/calls
cd {folder} && exec {python} -m tfgpu_doctor "$@"
"""
MACHINES: Mapping[str, tuple[dict[str, Any], ...]] = {
    "healthy": ({}, {}),
    "ecc": ({}, {"ecc": {"volatile_uncorrected": 3}}),  # on the second GPU
}


class Lab:
    """The running cluster; `folder` holds its files, and `doctor` is the command on its nodes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.doctor = folder, folder / "doctor"
        self._conf = folder / "slurm/slurm.conf"
        self._plain = self._conf.read_text()

    def run(self, *argv: str, code: int | None = 0) -> str:
        """The output of a command of Slurm; `code`: the exit code that it must have."""
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environment, timeout=240, check=False)
        assert code is None or done.returncode == code, (argv, done.stdout, done.stderr)
        return done.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(SLURM_CONF=str(self._conf))

    def configure(self, **settings: str) -> None:
        """Add settings to slurm.conf, in place of those of the last call, and let the daemons read them."""
        self._conf.write_text(self._plain + "".join(f"{name}={value}\n" for name, value in settings.items()))
        self.run("scontrol", "reconfigure")
        time.sleep(0.5)

    def be(self, **kinds: str) -> None:
        """Make nodes machines of a kind."""
        for node, kind in kinds.items():
            (self.folder / f"machine-{node}").write_text(kind)

    def state(self, node: str) -> str:
        return self._of_node(node, "State")

    def reason(self, node: str) -> str:
        return self._of_node(node, "Reason")

    def drained(self) -> list[str]:
        """The nodes that are drained or draining."""
        return [node for node in NODES if "DRAIN" in self.state(node)]

    def job(self, number: str, name: str) -> str:
        """A value of a job: JobState, ExitCode."""
        return self._value(self.run("scontrol", "--oneliner", "show", "job", number), name, " ")

    def submit(self, *argv: str) -> str:
        """Submit a job and return its number."""
        output = f"--output={self.folder}/job-%A-%a.out"
        return self.run("sbatch", "--parsable", output, *argv).partition(";")[0]

    def said(self) -> str:
        """What jobs have printed."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("job-*.out")))

    def wait(self, *numbers: str) -> None:
        """Wait for the end of jobs."""
        until(lambda: not self.run("squeue", "--noheader", "--states=PD,R,CG,CF", "-j", ",".join(numbers)))

    def kill(self, node: str) -> None:
        """End a node as a power failure does: its daemon and what runs under it, by their control group."""
        group = pathlib.Path(f"/sys/fs/cgroup/freezer/tf_{node}")
        for file in group.rglob("cgroup.procs"):
            for pid in file.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def revive(self, node: str) -> None:
        """Start a node again."""
        subprocess.run([_scripts() / "node.sh", self.folder / "slurm", node, "2"], check=True, env=self.environment)

    def clean(self) -> None:
        """Put everything back: no job, no script, healthy machines, all nodes in service."""
        self.run("scancel", "--user=root", code=None)
        self.configure()
        for path in (*self.folder.glob("machine-*"), *self.folder.glob("job-*.out"), *self.folder.glob("calls")):
            path.unlink()
        until(lambda: not self.run("squeue", "--noheader"))
        until(self._are_idle)

    def _are_idle(self) -> bool:
        """Put nodes back that are not in service, also those that a script drained only now."""
        states = {node: self.state(node) for node in NODES}
        for node, state in states.items():
            if "DRAIN" in state or "DOWN" in state:
                self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        return set(states.values()) == {"IDLE"}

    def _of_node(self, node: str, name: str) -> str:
        text = self.run("scontrol", "--oneliner", "show", "node", node)
        return self._value(text, name, " [root@" if name == "Reason" else " ")

    @staticmethod
    def _value(text: str, name: str, end: str) -> str:
        return text.partition(f" {name}=")[2].partition(end)[0]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def _scripts() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[3] / "shared/slurm_lab"


def _lacking() -> str:
    """Why there can be no cluster here; empty if there can."""
    if not (_scripts() / "up.sh").is_file():
        return "../shared/slurm_lab is not there"
    if absent := [name for name in _PROGRAMS if not (shutil.which(name) or shutil.which(f"/usr/sbin/{name}"))]:
        return f"{', '.join(absent)} is not installed"
    if os.getuid():
        return "Slurm's daemons need root here"
    if not os.path.isdir("/sys/fs/cgroup/devices"):
        return "the devices controller of cgroup v1 is not mounted"
    return f"another slurmctld listens on port {_PORT}" if _is_taken(_PORT) else ""


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def munges() -> set[int]:
    """The processes of munged, which up.sh starts where there is none."""
    found = subprocess.run(["pgrep", "-x", "munged"], capture_output=True, text=True, check=False)
    return {int(pid) for pid in found.stdout.split()}


def end_if_started(before: set[int]) -> None:
    """End the munged that up.sh started, and wait: the next cluster would take one that ends for its own."""
    started = munges() - before
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    until(lambda: not munges() & started)


@contextlib.contextmanager
def running_lab(folder: pathlib.Path, driver: pathlib.Path) -> Iterator[Lab]:
    """Start the cluster in an empty folder, and end it; one at a time on this machine."""
    with open("/tmp/tfgpu-doctor-slurm-lab.lock", "w") as lock:  # the same for all test processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if why := _lacking():
            pytest.skip(why)
        for kind, gpus in MACHINES.items():
            simulate_in(folder / "machines" / kind, driver, machine(*gpus))
        simulate_in(folder / "machines/denied", driver, {**machine(), "gpus": [], "faults": {"cuInit": 100}})
        target = make_target(folder / "without-tensorflow", None)
        (folder / "tfgpu-doctor.toml").write_text(f'python = "{target}"\n')
        (folder / "doctor").write_text(
            _DOCTOR.format(folder=shlex.quote(str(folder)), python=shlex.quote(sys.executable))
        )
        (folder / "doctor").chmod(0o755)
        slurm, had_munge = folder / "slurm", munges()
        try:
            subprocess.run(
                [_scripts() / "up.sh", slurm, str(len(NODES))], check=True, timeout=_PATIENCE_S, capture_output=True
            )
            yield Lab(folder)
        finally:
            subprocess.run([_scripts() / "down.sh", slurm], check=False, timeout=_PATIENCE_S, capture_output=True)
            until(lambda: not _is_taken(_PORT))
            end_if_started(had_munge)
