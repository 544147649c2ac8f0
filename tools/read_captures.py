"""Write tests/machines/recorded: the facts of real machines, as the captures of other projects state them.

    python tools/read_captures.py                    all captures of tools/captures/machines.json in ../shared/captures
    python tools/read_captures.py FOLDER [NAME ...]  from another folder, only these machines
    python tools/read_captures.py --to FOLDER        write the records somewhere else

A fact that a capture does not state is absent. What is written are values: a record holds no text of a capture but
single messages of the kernel. The diagnosis in expected.json is written by hand; only its `source` is written here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import sys
from typing import Any

import msgspec
from captures.documents import header_of, moment_of, sections_of, sysinfo_of, xml_of
from captures.gpus import masked, with_capabilities
from captures.host import (
    driver_of,
    hosting_in_trace,
    hosting_of,
    services_of,
    system_of,
    system_of_kernel,
)
from captures.kernel_log import kernel_log_of

from tfgpu_doctor.log.readers import read_documents
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Nvml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAPTURES = ROOT.parent / "shared/captures"
MACHINES = ROOT / "tests/machines/recorded"
TABLE = ROOT / "tools/captures/machines.json"
_NO_TARGET = "the capture describes the GPUs and their driver; no Python environment was examined"
_UNEXAMINED = ("target", "tensorflow", "runtime")


class Capture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine of the table: the file that states it, and where that file was published."""

    name: str
    file: str  # in the folder of the captures
    repository: str
    path: str  # in that repository
    licence: str
    state: str = ""  # "idle" or "load", where a file shows both
    system: str = ""  # where a value that only this system has shows which it is: "Windows"
    taken: str = ""  # the day, where the file does not say it


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """All machines, and the day on which the files were read."""

    read: str
    machines: tuple[Capture, ...]


def read_table() -> Table:
    """Return the table of the machines."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Table)


def facts_of(capture: Capture, text: str) -> Facts:
    """Return the facts that a capture states, without serial numbers: they name somebody's board, and no check needs them."""
    if capture.state:
        facts = _of_sections(text, capture.state)
    elif capture.file.endswith(".json"):
        facts = _of_sysinfo(sysinfo_of(text))
    else:
        facts = _of_output(text)
    if capture.system:
        facts = msgspec.structs.replace(facts, system=System(os=capture.system, release="", architecture=""))
    if facts.nvml:
        gpus = tuple(msgspec.structs.replace(gpu, serial="") for gpu in facts.nvml.gpus)
        facts = msgspec.structs.replace(facts, nvml=msgspec.structs.replace(facts.nvml, gpus=gpus))
    moment = moment_of(text) or capture.taken
    return msgspec.structs.replace(facts, recorded=moment, unknown=dict.fromkeys(_UNEXAMINED, _NO_TARGET))


def _of_sections(text: str, state: str) -> Facts:
    """A capture of nvidia_gpu_exporter in one state: its lists of MIG devices and NVLinks are of both."""
    sections, header = sections_of(text), header_of(text)
    parts = [
        sections[state, "query (-q)"],
        sections["capabilities", "list (-L)"],
        sections["capabilities", "nvlink -s"],
    ]
    nvml = _nvml("\n".join(parts))
    table = next(
        (body for (when, title), body in sections.items() if when == state and title.startswith("query-gpu")), ""
    )
    os, _, distribution = header["os"].partition(" (")
    return Facts(
        system=System(
            os=os.capitalize(),
            release=header["kernel"],
            architecture=header["arch"],
            distribution=distribution.removesuffix(")"),
        ),
        nvml=with_capabilities(nvml, table) if nvml else None,
    )


def _of_sysinfo(record: dict[str, Any]) -> Facts:
    """A record of SuperBench."""
    system, pci = system_of(record), read_documents(record["PCIe"]["pcie_info"]).pci
    return Facts(
        system=system,
        pci=pci,
        driver=driver_of(record, system, pci),
        nvml=_nvml(xml_of(record["Accelerator"]["nvidia_info"])),
        hosting=hosting_of(record),
        services=services_of(record),
    )


def _of_output(text: str) -> Facts:
    """The output of one command: nvidia-smi, lspci or dmesg."""
    read = read_documents(text)
    other = read.nvml or read.pci
    log = kernel_log_of(read.kernel_log) if read.kernel_log or not other else None
    return Facts(
        system=system_of_kernel(text) if log or "NVRM" in text else None,
        pci=read.pci,
        nvml=masked(read.nvml) if read.nvml else None,
        hosting=hosting_in_trace(text) if log else None,
        kernel_log=log,
    )


def _nvml(text: str) -> Nvml | None:
    nvml = read_documents(text).nvml
    return masked(nvml) if nvml else None


def source_of(capture: Capture, content: bytes, read: str, taken: str) -> dict[str, str]:
    """Return where a machine's facts are from; the blob is git's name of the file's content."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    source = {"repository": capture.repository, "path": capture.path, "blob": blob, "licence": capture.licence}
    return {**source, "state": capture.state, "taken": taken[:10], "read": read}


def write(capture: Capture, content: bytes, read: str, folder: pathlib.Path) -> None:
    """Write a machine's facts and source; its diagnosis stays."""
    facts = facts_of(capture, content.decode("utf-8", "replace"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "facts.json").write_bytes(encode_facts(facts))
    expected = folder / "expected.json"
    known = json.loads(expected.read_text()) if expected.exists() else {}
    known["source"] = {
        name: value for name, value in source_of(capture, content, read, facts.recorded).items() if value
    }
    expected.write_text(json.dumps(known, indent=1) + "\n")


def main() -> int:
    """Write the machines; return 1 if a capture is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=CAPTURES)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--to", type=pathlib.Path, default=MACHINES)
    arguments = parser.parse_args()
    table, missing = read_table(), 0
    for capture in table.machines:
        if arguments.names and capture.name not in arguments.names:
            continue
        path = arguments.folder / capture.file
        if not path.exists():
            missing += 1
            print(f"{capture.name}: {path} does not exist", file=sys.stderr)
            continue
        write(capture, path.read_bytes(), table.read, arguments.to / capture.name)
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
