"""The bounds of a repair: the folders of the target environment, the only ones that a repair may change."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from tfgpu_doctor.collect.probes.child import NO_CUDA_BYTES, ask
from tfgpu_doctor.fix.plan import PipStep, Plan
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.entries import is_writable, links_to_folders, look, other_owner
from tfgpu_doctor.model.facts.python import Target

RECORD = ".tfgpu-doctor"  # the folder in the environment that contains the undo records
_CONDA_OWN = ("pkgs", "envs")  # in conda's base environment: its cache, and the other environments
_DATA = ("share", "etc", "man")  # where wheels put data, below the prefix
_DEADLINE_S = 20.0
_DEPTH = 3  # of a link among packages: nvidia/cudnn/lib
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")  # begins what pip is asked to install


class NotPossible(Exception):
    """A repair that cannot be carried out; the one-line message says why and what to do."""


class NotRestored(NotPossible):
    """An undo that left a part of the environment changed; the message says what, and how to go on."""


class NoPython(NotPossible):
    """There is no Python at the path that was named."""


@dataclass(frozen=True)
class Bounds:
    """An environment: its prefix, its kind, and the folders that pip writes to; all of them real paths.

    `packages` are the folders of packages among them. `aliases` has the folders that pip reaches by a link, relative to
    the prefix: the real path of each, and the one with the link.
    """

    prefix: str
    kind: Literal["virtual", "conda", "base"]
    places: tuple[str, ...]
    packages: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)

    @property
    def record(self) -> str:
        """The folder of the undo records."""
        return os.path.join(self.prefix, RECORD)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Folders inside the places that no repair changes."""
        conda = [os.path.join(self.prefix, name) for name in _CONDA_OWN] if self.kind == "conda" else []
        return (self.record, *conda)

    def name(self, path: str) -> str:
        """Return a path as the record names it: relative to the prefix, with the parent folders resolved."""
        folder, name = os.path.split(path)
        return os.path.relpath(os.path.join(os.path.realpath(folder), name), self.prefix)

    def names(self, folders: Iterable[str]) -> tuple[str, ...]:
        """Return folders as the record names them."""
        return tuple(os.path.relpath(folder, self.prefix) for folder in folders)


class _Places(msgspec.Struct):
    prefix: str
    virtual: bool
    conda: bool
    paths: dict[str, str]


def find_bounds(host: Host, python: str) -> Bounds:
    """Return the bounds of an interpreter's environment.

    Raises NotPossible if the interpreter does not respond, NoPython if there is none.
    """
    attempt, answer, _ = ask(host, python, "list_places", deadline_s=_DEADLINE_S, memory_bytes=NO_CUDA_BYTES)
    try:
        found = msgspec.convert(answer, _Places)
    except msgspec.ValidationError:
        above = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(python))))
        if look(os.path.join(above, "pyvenv.cfg")):  # its interpreter is broken, but its folder identifies it
            return Bounds(above, "virtual", (above,))
        kind = NotPossible if os.path.exists(python) else NoPython
        raise kind(f"the Python {python} {attempt.ending}: use --python PATH to name one that runs") from None
    return _bounds(found)


def _bounds(found: _Places) -> Bounds:
    """Allow changes anywhere below the prefix of a virtual or conda environment, elsewhere only where pip installs."""
    prefix = os.path.realpath(found.prefix)
    reached = [found.paths[name] for name in ("purelib", "platlib", "scripts") if name in found.paths]
    listed = [os.path.realpath(path) for path in reached]
    packages = [os.path.realpath(found.paths[name]) for name in ("purelib", "platlib") if name in found.paths]
    if found.virtual or found.conda:
        places = [prefix, *listed]
    else:
        above = os.path.realpath(found.paths.get("data", prefix))
        places = [*listed, *(os.path.join(above, name) for name in _DATA)]
        places += [os.path.realpath(found.paths["include"])] if "include" in found.paths else []
    kind: Literal["virtual", "conda", "base"] = "virtual" if found.virtual else "conda" if found.conda else "base"
    aliases = _aliases(prefix, found.prefix, reached)
    return Bounds(prefix, kind, tuple(_outermost(places)), tuple(dict.fromkeys(packages)), aliases)


def _aliases(prefix: str, named: str, reached: Iterable[str]) -> dict[str, str]:
    """Return the real paths of folders and those by which they are reached, where these differ within the prefix."""
    found: dict[str, str] = {}
    for path in reached:
        found.setdefault(os.path.relpath(os.path.realpath(path), prefix), os.path.relpath(path, named))
    return {real: name for real, name in found.items() if real != name and not name.startswith(os.pardir)}


def _outermost(folders: list[str]) -> list[str]:
    """Return the folders that are not inside another of them."""
    listed = list(dict.fromkeys(folders))
    return [each for each in listed if not any(each.startswith(other.rstrip("/") + "/") for other in listed)]


def check_bounds(bounds: Bounds, plan: Plan, target: Target | None) -> None:
    """Raise NotPossible if the steps of a plan cannot be carried out in this environment."""
    if target is None:
        raise NotPossible(f"the Python of {bounds.prefix} did not report its packages: nothing was changed")
    if target.externally_managed:
        raise NotPossible(
            f"the Python at {bounds.prefix} is managed by the system (EXTERNALLY-MANAGED) and is not changed: create a "
            "virtual environment (`python3 -m venv`) and install TensorFlow there"
        )
    folders = [bounds.prefix, *(place for place in bounds.places if look(place))]
    folders += [os.path.dirname(step.path) for step in plan.steps if not isinstance(step, PipStep)]
    closed = next((folder for folder in folders if not is_writable(folder)), None)
    if closed and bounds.kind == "base":
        raise NotPossible(
            f"{closed} is not writable, and {bounds.prefix} is not a virtual environment: create one "
            "(`python3 -m venv`) and install TensorFlow there"
        )
    if closed:
        raise NotPossible(f"{closed} is not writable: the environment is read-only or belongs to another user")
    refuse_root(bounds.prefix)
    if plan.pip_steps:
        _refuse_pip(bounds, plan, target)


def refuse_root(folder: str) -> None:
    """Raise NotPossible if this is root and the folder is another user's: what root writes there would lock that user out."""
    if name := other_owner(folder):
        raise NotPossible(
            f"{folder} belongs to the user {name}, and files of root in it would lock that user out: nothing was changed. Run "
            f"the command as that user, with `sudo -u {name}` or the container's `--user`"
        )


def _refuse_pip(bounds: Bounds, plan: Plan, target: Target) -> None:
    """Raise NotPossible if pip cannot carry out its steps here, or not without writing outside the environment."""
    outside = [each for each in target.distributions if target.user_site and each.folder == target.user_site]
    if not any(each.name == "pip" and each not in outside for each in target.distributions):  # it sees no user site
        raise NotPossible(
            f"the environment {bounds.prefix} has no pip: install it with `{target.executable} -m ensurepip`, or let the "
            "tool that created the environment do what the commands say"
        )
    named = next((each.name for each in outside if each.name in set(_names(plan))), "")
    if named and bounds.kind != "virtual":
        raise NotPossible(
            f"{named} is in {target.user_site}, outside the environment {bounds.prefix}, where the doctor changes nothing: run "
            "the commands yourself, or set PYTHONNOUSERSITE=1 and examine the environment without that folder"
        )
    for folder in bounds.packages:
        for path in links_to_folders(folder, _DEPTH):
            real = os.path.realpath(path)
            if not _is_in(real, bounds.places):
                raise NotPossible(
                    f"{path} is a link to {real}: pip would write through it to files outside of {bounds.prefix}, which no undo "
                    "restores. Remove the link and install its packages here instead, or run the commands yourself"
                )


def _names(plan: Plan) -> Iterator[str]:
    """Yield the canonical names of the distributions that the pip steps name."""
    for step in plan.pip_steps:
        for found in filter(None, map(_NAME.match, step.argv[4:])):
            yield re.sub(r"[-_.]+", "-", found[0]).lower()


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)
