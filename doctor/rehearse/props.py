"""Set up the simulated driver for a program: two libraries on the loader's path, and the machine's file."""

from __future__ import annotations

import os

from tfgpu_doctor.collect.examination import MACHINE_VARIABLE
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.host.scratch import make_links
from tfgpu_doctor.rehearse.flat_text import machine_text
from tfgpu_doctor.rehearse.machine import SOURCES, SimulatedMachine


def lay_out(folder: str, machine: SimulatedMachine, driver: str, library_path: str | None = None) -> dict[str, str]:
    """Put the machine's file and its libraries into an empty folder; return the variables that programs need.

    `driver`: the folder of the built libraries; those that the machine lacks are left out. `library_path`: the current
    LD_LIBRARY_PATH; the driver's folder is put in front of it. Raises OSError.
    """
    file, libraries = os.path.join(folder, "machine.txt"), os.path.join(folder, "driver")
    write_whole(file, machine_text(machine))
    make_links(libraries, {name: os.path.join(driver, name) for name in SOURCES if name not in machine.missing})
    path = f"{libraries}:{library_path}" if library_path else libraries
    return {MACHINE_VARIABLE: file, "LD_LIBRARY_PATH": path}
