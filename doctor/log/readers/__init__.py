"""Read the outputs of other tools in a text, as facts of the machine that they were made on."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.log.readers.kernel import read_kernel_log
from tfgpu_doctor.log.readers.linker import read_missing
from tfgpu_doctor.log.readers.nvidia_smi_lists import read_failures, read_lists
from tfgpu_doctor.log.readers.nvidia_smi_query import read_queries
from tfgpu_doctor.log.readers.nvidia_smi_table import read_tables
from tfgpu_doctor.log.readers.nvidia_smi_xml import read_xml
from tfgpu_doctor.log.readers.packages import read_packages, together
from tfgpu_doctor.log.readers.pci import read_pci
from tfgpu_doctor.log.readers.smi import SmiDocument, combine
from tfgpu_doctor.log.readers.system import read_system
from tfgpu_doctor.log.readers.text import LONGEST, plain_lines, without_moments
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Pci, System
from tfgpu_doctor.model.facts.nvidia import Nvml
from tfgpu_doctor.model.facts.python import Distribution


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in a text. What it does not show is None or empty, and says nothing about the machine."""

    nvml: Nvml | None = None
    driver_version: str = ""
    driver_cuda: str = ""  # the newest CUDA that the driver supports, as nvidia-smi shows it
    distributions: tuple[Distribution, ...] = ()
    all_distributions: bool = (
        False  # whether a list names every package: only then one that is missing is not installed
    )
    conda_packages: dict[str, str] = {}  # those that Target has: name to version and build
    python_version: str = ""
    pci: Pci | None = None
    system: System | None = None  # fields that the text does not show are empty
    kernel_log: KernelLog | None = None
    missing_libraries: tuple[str, ...] = ()  # that ldd does not find
    library_files: tuple[str, ...] = ()  # CUDA's libraries that tf_env_collect.sh found
    docker_runtimes: tuple[str, ...] | None = None
    sources: dict[str, int] = {}  # each kind of document that was found, to the line (from 1) where the first begins


def read_documents(text: str) -> Documents:
    """Find the outputs of other tools in a text, whether they are quoted, indented, dated or cut."""
    quoted = plain_lines(text)
    plain, whole = [line[:LONGEST] for line in quoted], without_moments(quoted)
    lines = [line[:LONGEST] for line in whole]
    smi = _of_nvidia_smi(whole, lines)
    listings = read_packages(lines)
    distributions, conda, complete = together(listings)
    pci_line, pci = read_pci(lines)
    kernel_line, kernel_log = read_kernel_log(plain)
    missing_line, missing = read_missing(lines)
    system = read_system(lines)
    sources = {"lspci": pci_line, "kernel log": kernel_line, "ldd": missing_line, **system.sources}
    found = [(each.name, each.line) for each in smi] + [(each.name, each.line) for each in listings]
    for name, line in found:
        sources[name] = min(line, sources.get(name) or line)
    driver = next((each for each in smi if each.driver_version), None)
    return Documents(
        nvml=combine(smi),
        driver_version=driver.driver_version if driver else "",
        driver_cuda=next((each.driver_cuda for each in smi if each.driver_cuda), ""),
        distributions=distributions,
        all_distributions=complete,
        conda_packages=conda,
        python_version=system.python_version,
        pci=pci,
        system=system.fact(),
        kernel_log=kernel_log,
        missing_libraries=missing,
        library_files=system.library_files,
        docker_runtimes=system.docker_runtimes,
        sources={name: line for name, line in sorted(sources.items(), key=lambda item: item[1]) if line},
    )


def _of_nvidia_smi(whole: list[str], lines: list[str]) -> list[SmiDocument]:
    """The outputs of nvidia-smi, the most detailed first. Of several tables, the one with the most GPUs counts."""
    tables = sorted(read_tables(lines), key=lambda each: -len(each.gpus))[:1]
    return [*read_queries(lines), *read_xml(whole), *tables, *read_lists(lines), *read_failures(lines)]
