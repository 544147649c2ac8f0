"""The simulated machine, from a data file or from the name of a GPU."""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.driver_branches import is_newer_than_branch, last_branch
from tfgpu_doctor.rehearse.completion import complete_gpus
from tfgpu_doctor.rehearse.gpu import MOST_GPUS, Fault, MachineError, Part, PciAddress, SimulatedGpu, WrittenGpu
from tfgpu_doctor.rehearse.gpu_names import UnknownGpu, find_gpu

SOURCES = {"libcuda.so.1": "libcuda.c", "libnvidia-ml.so.1": "libnvidia_ml.c"}  # of the simulated driver
HEADERS = ("machine.h", "nvml_links.h", "nvml_readings.h", "nvml_software.h")
DEFAULT_GPU = "H100"
_LARGEST_BYTES = 1 << 20
_EXAMPLES = {
    "driver": "550.54.15", "cuda": "12.4", "compute_capability": "9.0", "pci_address": "0000:01:00.0", "pci_device": "2330",
}  # fmt: skip
_CALL = re.compile(r"^(?:ENTRY \w+ |(?:NUMBER|TEXT|PROCESSES)\()(cu[A-Z]\w+|nvml[A-Z]\w+)\(?", re.MULTILINE)
DriverVersion = Annotated[str, msgspec.Meta(pattern=r"\A\d{3,4}\.\d{1,3}(\.\d{1,3})?\Z")]


class SimulatedMachine(Part, frozen=True):
    """A complete machine with GPUs and their driver: every omitted field is filled in."""

    driver: DriverVersion
    cuda: Annotated[str, msgspec.Meta(pattern=r"\A\d{1,2}\.\d\Z")]  # the newest CUDA that the driver supports
    gpus: Annotated[tuple[SimulatedGpu, ...], msgspec.Meta(max_length=MOST_GPUS)]
    missing: tuple[Literal["libcuda.so.1", "libnvidia-ml.so.1"], ...] = ()
    excluded_gpus: tuple[PciAddress, ...] = ()  # GPUs that the driver is configured to exclude
    faults: dict[str, Fault] = {}

    @property
    def cuda_devices(self) -> int:
        """The number of devices that CUDA provides to a process that hides none: one MIG device, or else all whole GPUs."""
        if any(gpu.mig_mode and gpu.cuda_devices for gpu in self.gpus):
            return 1
        return sum(not gpu.mig_mode for gpu in self.gpus)


class _WrittenMachine(Part, frozen=True):
    gpus: tuple[WrittenGpu, ...]
    driver: DriverVersion | None = None
    cuda: Annotated[str, msgspec.Meta(pattern=r"\A\d{1,2}\.\d\Z")] | None = None
    missing: tuple[Literal["libcuda.so.1", "libnvidia-ml.so.1"], ...] = ()
    excluded_gpus: tuple[PciAddress, ...] = ()
    faults: dict[str, Fault] = {}


def read_machine(content: bytes, knowledge: Knowledge) -> SimulatedMachine:
    """Return the machine that a JSON document describes. Raises MachineError."""
    if len(content) > _LARGEST_BYTES:
        raise MachineError(f"it is larger than {_LARGEST_BYTES >> 20} MiB")
    try:
        written = decode_json(content, _WrittenMachine)
    except msgspec.ValidationError as error:
        raise MachineError(_in_words(str(error))) from error
    except msgspec.DecodeError as error:
        raise MachineError(f"it is not JSON: {error}") from error
    _validate_calls("faults", written.faults)
    for place, gpu in enumerate(written.gpus):
        _validate_calls(f"gpus[{place}].faults", gpu.faults)
    gpus = complete_gpus(written.gpus, knowledge)
    driver = written.driver or newest_driver(knowledge, [gpu.compute_capability for gpu in gpus])
    return SimulatedMachine(
        driver=driver,
        cuda=written.cuda or cuda_of_driver(driver, knowledge),
        gpus=gpus,
        missing=written.missing,
        excluded_gpus=written.excluded_gpus,
        faults=written.faults,
    )


def machine_for(
    gpu: str, knowledge: Knowledge, *, count: int = 1, driver: str | None = None, **changes: object
) -> SimulatedMachine:
    """Return a healthy machine with `count` GPUs of a model; `changes`: fields of SimulatedGpu. Raises MachineError."""
    try:
        model = find_gpu(gpu, knowledge.gpus)
    except UnknownGpu as error:
        raise MachineError(f"{error}; a file for --machine can describe any other GPU") from error
    document = {"driver": driver, "gpus": [{"name": model.name, "count": count, **changes}]}
    return read_machine(msgspec.json.encode(document), knowledge)


def without_libraries(machine: SimulatedMachine, names: Sequence[str]) -> SimulatedMachine:
    """Return the machine with those driver libraries missing as well."""
    missing = tuple(name for name in SOURCES if name in (*machine.missing, *names))
    return msgspec.structs.replace(machine, missing=missing)


def newest_driver(knowledge: Knowledge, capabilities: Sequence[str | None] = ()) -> str:
    """Return the newest driver in the tables that supports GPUs of these compute capabilities, if one supports them all."""
    drivers = sorted((row.linux for row in knowledge.cuda_toolkits), key=version)
    fit = [driver for driver in drivers if all(supports(driver, each, knowledge) for each in capabilities)]
    return (fit or drivers)[-1]


def supports(driver: str, capability: str | None, knowledge: Knowledge) -> bool:
    """Whether the driver's branch supports GPUs of a compute capability; later branches drop old generations."""
    last = last_branch(capability or "", knowledge)
    return last is None or not is_newer_than_branch(driver, last)


def cuda_of_driver(driver: str, knowledge: Knowledge) -> str:
    """Return the newest CUDA that a driver supports: its branch was released with one toolkit. Raises MachineError."""
    branch = version(driver).major
    known = [row for row in knowledge.cuda_toolkits if row.linux and version(row.linux).major <= branch]
    if not known:
        raise MachineError(
            f"driver: {driver} is older than the doctor's tables, so set `cuda` to the version it supports"
        )
    return max(known, key=lambda row: version(row.linux)).cuda


@functools.cache
def known_calls() -> frozenset[str]:
    """Return the CUDA and NVML calls that the simulated driver implements, and so can make fail."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sources = [Files().read_text(os.path.join(folder, name)) for name in (*SOURCES.values(), *HEADERS)]
    return frozenset(call for source in sources for call in _CALL.findall(source))


def _validate_calls(place: str, faults: Iterable[str]) -> None:
    """Reject an unknown call; a name without version, such as nvmlInit for nvmlInit_v2, stands for every version."""
    known = known_calls() | {call.partition("_v")[0] for call in known_calls()}
    for call in faults:
        if call not in known:
            near = ", ".join(difflib.get_close_matches(call, sorted(known), n=3, cutoff=0.0))
            raise MachineError(f"{place}: the simulated driver has no call {call!r}; similar names: {near}")


def _in_words(error: str) -> str:
    """Return msgspec's message, such as "Expected `int`, got `str` - at `$.gpus[0].count`", with the field in front."""
    what, _, where = error.partition(" - at `$")
    field = where.rstrip("`").removeprefix(".")
    if "matching regex" in what:
        example = _EXAMPLES.get(field.rpartition(".")[2])
        what = f"it must have the form {example}" if example else "it must be one line of text"
    return f"{field}: {what}" if field else what
