"""The variables that a target needs: the folders in which the loader finds libraries that it otherwise misses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.facts.resolution import Resolution

_OF_THE_DRIVER = re.compile(r"lib(?:cuda|nvidia-\w+)\.so\.\d+")
_NO_DRIVER = ("/stubs/", "/compat/")  # folders of the toolkit's stub libraries, and of a libcuda for other drivers
_SEPARATORS = ":;"  # of LD_LIBRARY_PATH, which has no way to quote them


@dataclass(frozen=True)
class Needed:
    """Folders for LD_LIBRARY_PATH, and the libraries that the loader does not find with any variable.

    `absent` are those that are not installed, `of_the_driver` those that come with the driver and not with the target;
    `unusable` says for each other one why it cannot be used.
    """

    folders: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    of_the_driver: tuple[str, ...] = ()


def find_needed(resolution: Resolution, target: Target) -> Needed:
    """Return what the variables of this target must contain."""
    folders: dict[str, None] = {}
    absent: dict[str, None] = {}
    unusable: dict[str, None] = {}
    drivers: dict[str, None] = {}
    for library in (*resolution.missing, *resolution.lost_later):
        soname = library.missing_chain[-1] if library.missing_chain else library.soname
        is_drivers = bool(_OF_THE_DRIVER.fullmatch(soname))
        folder = os.path.dirname(_best(library.elsewhere, target, is_drivers))
        if any(mark in folder for mark in _SEPARATORS):
            unusable[
                f"{folder}, which contains {soname}, has a character in its name that LD_LIBRARY_PATH cannot contain"
            ] = None
        elif folder:
            folders[folder] = None
        elif library.error:
            unusable[library.error] = None
        elif library.needed_by_tensorflow:
            (drivers if is_drivers else absent)[soname] = None
    return Needed(tuple(folders), tuple(absent), tuple(unusable), tuple(drivers))


def _best(copies: Iterable[str], target: Target, is_drivers: bool) -> str:
    """Return the copy to use, preferring the target's own; empty if there is none."""
    fit = [copy for copy in copies if not (is_drivers and any(part in copy for part in _NO_DRIVER))]
    own = [copy for copy in fit if copy.startswith(os.path.join(target.prefix, ""))]
    return next(iter([*own, *fit]), "")
