"""Tags of checks: the rest of the program refers to a check by its tag, not by its id. Plugins may use tags, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

# What an examination must show. `computes`: TensorFlow computes on a GPU. `driver` and `platform`: without TensorFlow, a
# GPU is available to it. `registers`: TensorFlow registers the simulated GPUs. `imports`: TensorFlow works on the CPU.
# `accounts`: every GPU of the machine can be used, or is known to be withheld.
Goal = Literal["computes", "driver", "platform", "registers", "imports", "accounts"]

STRESS: Final = "stress"  # judges what the stress test measured
LIBRARIES: Final = "libraries"  # judges the libraries that TensorFlow opens
VISIBLE_GPUS: Final = "visible-gpus"  # which GPUs the environment lets the process see
UNFIT: Final = "unfit"  # an error of undetermined cause means that a GPU of the machine is not fit for work
GPU_LOST: Final = "gpu-lost"  # finds one GPU of several that TensorFlow cannot use
SUITES_STOPPED: Final = "suites-stopped"  # finds what ends the perf suites early
PARTIAL: Final = "partial-facts"  # judges correctly if most facts, and values in facts, are missing: as in a log
_OF_PLUGIN = "of-plugin:"
NO_DRIVER: Final = "no-driver"  # judges whether there is a driver at all


def requirement(kind: str) -> str:
    """The tag of a check that judges the same as the requirements `kind` of a profile: "speed-ups", "driver"."""
    return f"requirement:{kind}"


def version_of(component: str) -> str:
    """The tag of the check that judges the version of a component: "python", "driver", "numpy"."""
    return f"version-of:{component}"


def of_plugin(name: str) -> str:
    """The tag of a check that a plugin provides; the doctor adds it."""
    return f"{_OF_PLUGIN}{name}"


def plugin_of(tags: Iterable[str]) -> str:
    """The name of the plugin that provides a check; empty for the doctor's own."""
    return next((tag.removeprefix(_OF_PLUGIN) for tag in tags if tag.startswith(_OF_PLUGIN)), "")
