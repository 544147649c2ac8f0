"""The table that nvidia-smi prints without options, of drivers 325 to 610."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from tfgpu_doctor.log.readers.smi import ADDRESS, UNKNOWN_ERROR, SmiDocument, compute_mode, version_in, with_slices
from tfgpu_doctor.log.readers.text import number, size, whole
from tfgpu_doctor.model.facts.health import Ecc, GpuHealth, GpuTrouble, MigDevice, Power, Temperature
from tfgpu_doctor.model.facts.nvidia import GpuProcess, NvmlGpu

_WIDEST = 300
_HEAD = re.compile(
    r"NVIDIA-SMI\s+\d[\w.]*\s+(?:Driver|KMD) Version:\s*(\d[\w.]*)(?:\s+CUDA (?:UMD )?Version:\s*(\S+))?"
)
_NAME = re.compile(r"(\d{1,4})\s+(\S.*?)\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!)")
_BUS = re.compile(rf"({ADDRESS})\s+\S+")
_STATE = re.compile(r"\S+?\s+(\d{1,3}C|N/A|ERR!)\s+(P\d{1,2}|N/A|ERR!|\S+)\s+(\S+)\s*/\s*(\S+)")
_MEMORY = re.compile(r"(\d{1,9}\s?Mi?B)\s*/\s*(\d{1,9}\s?Mi?B)")
_LOAD = re.compile(r"(\S+)\s+(\S.*)")
_PROCESS = re.compile(
    r"(\d{1,4})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d{1,9})\s+(?:([CGM](?:\+[CGM])*)\s+)?(\S.*?)\s+(\d{1,9}\s?Mi?B|N/A)"
)
_SLICE = re.compile(r"(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})")
_MIG = {"Enabled": True, "Disabled": False}


def read_tables(lines: Sequence[str]) -> list[SmiDocument]:
    """Every table in a text."""
    found: list[_Table] = []
    table: _Table | None = None
    for place, line in enumerate(lines):
        if "NVIDIA-SMI" in line and (head := _HEAD.search(line[:_WIDEST])):
            table = _Table(place + 1, head[1], version_in(head[2] or ""))
            found.append(table)
        elif table is None or not line.strip(" \t#*"):
            continue
        elif len(line) > _WIDEST or ("|" not in line and "+--" not in line and "+==" not in line):
            table = None
        else:
            table.read(line)
    return [each.document() for each in found]


class _Table:
    """A table while its lines are read: the rows of GPUs, then those of MIG devices, then those of processes."""

    def __init__(self, line: int, driver_version: str, cuda: str) -> None:
        self.line, self.driver_version, self.cuda = line, driver_version, cuda
        self.part = "gpus"
        self.gpus: dict[int, NvmlGpu] = {}
        self.last: int | None = None  # the GPU whose second or third line may follow
        self.states: dict[int, tuple[str, str]] = {}
        self.slices: dict[int, list[MigDevice]] = {}
        self.processes: dict[int, list[GpuProcess]] = {}

    def read(self, line: str) -> None:
        cells = [
            cell.strip() for cell in line.partition("|")[2].split("|")[:-1]
        ]  # what the end of the text cuts is no cell
        if not cells:
            return
        if cells[0].startswith("MIG devices:"):
            self.part = "slices"
        elif cells[0].lower().startswith(("processes:", "compute processes:")):
            self.part = "processes"
        elif self.part == "gpus":
            self._gpu(cells)
        elif self.part == "slices":
            self._slice(cells)
        else:
            self._process(cells)

    def _gpu(self, cells: list[str]) -> None:
        named, bus = _NAME.fullmatch(cells[0]), _BUS.match(cells[1]) if len(cells) > 1 else None
        if named and bus:
            self.last = int(named[1])
            self.gpus[self.last] = _first_line(named, bus[1], cells[2] if len(cells) > 2 else "")
        elif self.last is not None and (state := _STATE.fullmatch(cells[0])):
            self.states[self.last] = (state[1], state[2])
            self.gpus[self.last] = _second_line(self.gpus[self.last], state, cells[1:])
        elif self.last is not None and len(cells) == 3 and not cells[0] and not cells[1]:
            mig = _MIG.get(cells[2].rstrip("*"))
            pending = None if mig is None else mig != cells[2].endswith("*")
            health = msgspec.structs.replace(self.gpus[self.last].health, mig_pending=pending)
            self.gpus[self.last] = msgspec.structs.replace(self.gpus[self.last], mig=mig, health=health)
            self.last = None

    def _slice(self, cells: list[str]) -> None:
        numbers, memory = _SLICE.fullmatch(cells[0]), _MEMORY.match(cells[1]) if len(cells) > 1 else None
        if not numbers or not memory:
            return
        used, total = size(memory[1]), size(memory[2])
        counted = _LOAD.match(cells[2]) if len(cells) > 2 else None
        device = MigDevice(
            memory_total_bytes=total,
            memory_free_bytes=_free(total, used),
            multiprocessors=whole(counted[1]) if counted else None,
            gpu_instance=int(numbers[2]),
            compute_instance=int(numbers[3]),
        )
        self.slices.setdefault(int(numbers[1]), []).append(device)

    def _process(self, cells: list[str]) -> None:
        found = _PROCESS.fullmatch(cells[0])
        if not found:
            return
        name = found[4] if found[4] not in ("N/A", "Insufficient Permissions") else ""
        process = GpuProcess(
            pid=int(found[2]), name=name, computes="C" in (found[3] or "C"), memory_bytes=size(found[5])
        )
        self.processes.setdefault(int(found[1]), []).append(process)

    def document(self) -> SmiDocument:
        gpus = tuple(self._finished())
        troubles = tuple(
            GpuTrouble(
                index=gpu.index,
                name=gpu.name,
                pci_address=gpu.pci_address,
                error_code=UNKNOWN_ERROR,
                error_text="Unknown Error",
            )
            for gpu in gpus
            if self.states.get(gpu.index) == ("ERR!", "ERR!")
        )
        return SmiDocument(
            "nvidia-smi",
            self.line,
            driver_version=self.driver_version,
            driver_cuda=self.cuda,
            count=len(gpus) if self.part == "processes" and gpus else None,
            gpus=gpus,
            troubles=troubles,
            knows_indices=True,
        )

    def _finished(self) -> Iterator[NvmlGpu]:
        for index, gpu in self.gpus.items():
            processes = {process.pid: process for process in self.processes.get(index, ())}
            full = msgspec.structs.replace(gpu, processes=tuple(processes.values()))
            yield with_slices(full, tuple(self.slices[index])) if index in self.slices else full


def _first_line(named: re.Match[str], address: str, errors: str) -> NvmlGpu:
    """The name, the address and the errors that ECC could not correct; a GPU that is divided by MIG shows `On` there."""
    ecc = None
    if errors == "Off":
        ecc = Ecc(enabled=False)
    elif errors == "On" or errors.isdecimal():
        ecc = Ecc(enabled=True, volatile_uncorrected=whole(errors))
    return NvmlGpu(
        index=int(named[1]),
        name="" if named[2] == "ERR!" else named[2],
        pci_address=address.lower(),
        health=GpuHealth(ecc=ecc, persistence_mode={"On": True, "Off": False}.get(named[3])),
    )


def _second_line(gpu: NvmlGpu, state: re.Match[str], cells: list[str]) -> NvmlGpu:
    memory = _MEMORY.fullmatch(cells[0]) if cells else None
    used, total = (size(memory[1]), size(memory[2])) if memory else (None, None)
    load = _LOAD.fullmatch(cells[1]) if len(cells) > 1 else None
    health = msgspec.structs.replace(
        gpu.health,
        temperature=Temperature(gpu_c=whole(state[1])),
        performance_state=whole(state[2].removeprefix("P")),
        power=Power(draw_w=number(state[3]), enforced_limit_w=number(state[4])),
        utilization_percent=whole(load[1]) if load else None,
    )
    return msgspec.structs.replace(
        gpu,
        memory_total_bytes=total,
        memory_free_bytes=_free(total, used),
        compute_mode=compute_mode(load[2]) if load else "",
        health=health,
    )


def _free(total: int | None, used: int | None) -> int | None:
    return None if total is None or used is None else max(0, total - used)
