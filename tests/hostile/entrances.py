"""Every place where a command reads something that somebody else may have written, with what lies around it."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from locations import RECORDS
from made_up_fleet import MadeUpFleet

from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_write import ingest
from tfgpu_doctor.rehearse.build import BuildError, build_driver

_VENV = ("--python", "venv")
_RECORD = RECORDS[next(iter(RECORDS))]


def _nothing(folder: pathlib.Path) -> None:
    del folder


def _fleet(folder: pathlib.Path) -> None:
    (folder / "reports").mkdir()
    MadeUpFleet(3).write(folder / "reports")


def _folders(*names: str) -> Callable[[pathlib.Path], None]:
    def make(folder: pathlib.Path) -> None:
        for name in names:
            (folder / name).mkdir(parents=True)

    return make


def _fleet_and(name: str) -> Callable[[pathlib.Path], None]:
    def make(folder: pathlib.Path) -> None:
        _fleet(folder)
        (folder / name).mkdir()

    return make


def _store(folder: pathlib.Path) -> None:
    """A store with one run; the tables are replaced by hostile files, which lie where one has been."""
    pytest.importorskip("duckdb", reason="the extra fleet is not installed")
    _fleet(folder)
    ingest(str(folder / "reports"), Store(str(folder / "store"), create=True))


def _target(folder: pathlib.Path) -> None:
    """A virtual environment with a package tensorflow that has nothing in it."""
    base = pathlib.Path(sys.executable).resolve()
    place = folder / f"venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    info = place / "tensorflow-2.18.0.dist-info"
    for each in (folder / "venv/bin", info, place / "tensorflow"):
        each.mkdir(parents=True)
    (folder / "venv/pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (folder / "venv/bin/python").symlink_to(base)
    (folder / "venv/bin/activate").write_text("VIRTUAL_ENV=venv\n")
    (place / "tensorflow/__init__.py").write_text("__version__ = '2.18.0'\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.18.0\n\n")
    (info / "RECORD").write_text("tensorflow/__init__.py,,\n")


def _rehearsed(folder: pathlib.Path) -> None:
    """The same, and in the cache of the attempt's own home the simulated driver, which takes half a second to compile."""
    _target(folder)
    with contextlib.suppress(BuildError):
        built = pathlib.Path(build_driver())
        shutil.copytree(built, folder.parent / "home/cache/tfgpu-doctor" / built.name)


@dataclass(frozen=True)
class Entrance:
    """A file that a command reads."""

    place: str  # of the hostile file, below the working folder; a pattern of files that lie there already, if it has a star
    command: tuple[str, ...]
    around: Callable[[pathlib.Path], None] = _nothing
    most_bytes: int = 700 << 20  # of the doctor or of one of its children


_ROOT = ("check", "--quick", "--root", "root")
ENTRANCES: Mapping[str, Entrance] = {
    "settings": Entrance("tfgpu-doctor.toml", ("check", "--quick")),
    "settings in pyproject.toml": Entrance("pyproject.toml", ("check", "--quick")),
    "check --facts": Entrance("x.json", ("check", "--facts", "x.json", "--format", "json")),
    "ticket --facts": Entrance("x.json", ("ticket", "--facts", "x.json", "-o", "t.zip")),
    "ticket --log": Entrance("x.log", ("ticket", "--facts", str(_RECORD), "--log", "x.log", "-o", "t.zip")),
    "rehearse --machine": Entrance("x.json", ("rehearse", "--machine", "x.json")),
    "accept --facts": Entrance("x.json", ("accept", "run", "--profile", "ci", "--facts", "x.json")),
    "accept --profile": Entrance("x.toml", ("accept", "run", "--profile", "x.toml", "--facts", str(_RECORD))),
    "accept verify": Entrance("x.json", ("accept", "verify", "x.json")),
    "accept verify --key": Entrance("x.key", ("accept", "verify", "x.json", "--key", "x.key")),
    "accept learn": Entrance("x.json", ("accept", "learn", "--facts", "x.json", "--facts", "x.json")),
    "bench --compare": Entrance("x.json", ("bench", "threads", "--compare", "./x.json")),
    "bench --history": Entrance("../home/cache/tfgpu-doctor/results.sqlite", ("bench", "--history")),
    "a cache folder": Entrance("../home/cache/tfgpu-doctor", ("bench", "--history")),
    "trace": Entrance("x.xplane.pb", ("trace", "x.xplane.pb")),
    "trace of events": Entrance("x.trace.json.gz", ("trace", "x.trace.json.gz")),
    "trace --compare": Entrance("x.xplane.pb", ("trace", "x.xplane.pb", "--compare", "x.xplane.pb")),
    "a logdir": Entrance("logs/plugins/profile/1/a.xplane.pb", ("trace", "logs"), _folders("logs/plugins/profile/1")),
    "fleet report": Entrance("reports/n9.json", ("fleet", "report", "reports"), _fleet),
    "fleet retest": Entrance("reports/second", ("fleet", "report", "reports"), _fleet),
    "fleet retest of a node": Entrance("reports/second/n1.json", ("fleet", "report", "reports"),
                                       _fleet_and("reports/second")),
    "fleet expected": Entrance("reports/expected.json", ("fleet", "report", "reports"), _fleet),
    "fleet --expect": Entrance("x.json", ("fleet", "report", "reports", "--expect", "x.json"), _fleet),
    "fleet --golden": Entrance("x.json", ("fleet", "report", "reports", "--golden", "x.json"), _fleet),
    "fleet --known": Entrance("x.toml", ("fleet", "report", "reports", "--known", "x.toml"), _fleet),
    "fleet --history": Entrance("before/n00000.json", ("fleet", "report", "reports", "--history", "before"),
                                _fleet_and("before")),
    "fleet rma": Entrance("reports/n9.json", ("fleet", "rma", "reports", "n9", "-o", "x.zip"), _fleet),
    "fleet act": Entrance("reports/n9.json", ("fleet", "act", "reports", "--on", "slurm"), _fleet),
    "fleet drains": Entrance("reports/n9.json", ("fleet", "drains", "--out", "reports", "--name", "n9"), _fleet),
    "fleet ingest": Entrance("reports/n9.json", ("fleet", "ingest", "reports", "--store", "store"), _fleet),
    "a store": Entrance("store", ("fleet", "history", "--store", "store")),
    "a store's mark": Entrance("store/store.json", ("fleet", "history", "--store", "store"), _folders("store")),
    "a store's table": Entrance("store/*/*/nodes.parquet", ("fleet", "history", "--store", "store"), _store),
    "log": Entrance("x.log", ("log", "x.log")),
    "log as JSON": Entrance("x.log", ("log", "x.log", "--format", "json")),
    "a project's requirements": Entrance("requirements.txt", ("check", *_VENV), _target),
    "a Python": Entrance("some-python", ("check", "--python", "./some-python")),
    "an environment's settings": Entrance("venv/pyvenv.cfg", ("check", "--quick", *_VENV), _target),
    "an environment's Python": Entrance("venv/bin/python", ("check", *_VENV), _target),
    "a package's METADATA": Entrance("venv/lib/*/*/*.dist-info/METADATA", ("check", *_VENV), _target),
    "a package's RECORD": Entrance("venv/lib/*/*/*.dist-info/RECORD", ("check", *_VENV), _target),
    "a package's module": Entrance("venv/lib/*/*/tensorflow/__init__.py", ("check", *_VENV), _target,
                                   most_bytes=6 << 30),  # Python itself reads it, in a child
    "an activate script": Entrance("venv/bin/activate", ("fix", *_VENV), _rehearsed),
    "libraries --root": Entrance("root/etc/ld.so.cache", ("libraries", "--root", "root", "-v"), _folders("root/etc")),
    "os-release": Entrance("root/etc/os-release", _ROOT, _folders("root/etc")),
    "the driver's version": Entrance("root/proc/driver/nvidia/version", _ROOT, _folders("root/proc/driver/nvidia")),
    "the kernel's modules": Entrance("root/proc/modules", _ROOT, _folders("root/proc")),
    "the memory": Entrance("root/proc/meminfo", _ROOT, _folders("root/proc")),
    "the mounts": Entrance("root/proc/self/mountinfo", _ROOT, _folders("root/proc/self")),
    "a device node": Entrance("root/dev/nvidia0", _ROOT, _folders("root/dev")),
    "the PCI bus": Entrance("root/sys/bus/pci/devices/0000:01:00.0", _ROOT, _folders("root/sys/bus/pci/devices")),
    "a GPU's vendor": Entrance("root/sys/bus/pci/devices/0000:01:00.0/vendor", _ROOT,
                               _folders("root/sys/bus/pci/devices/0000:01:00.0")),
    "a control group": Entrance("root/proc/self/cgroup", _ROOT, _folders("root/proc/self")),
}  # fmt: skip
