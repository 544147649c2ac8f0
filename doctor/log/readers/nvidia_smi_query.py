"""The text of `nvidia-smi -q`, whole or some of its sections (`-d`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.log.readers.nvidia_smi_gpu import gpu_of, indices_of, trouble_of
from tfgpu_doctor.log.readers.nvidia_smi_values import Values, normal
from tfgpu_doctor.log.readers.smi import ADDRESS, SmiDocument, version_in
from tfgpu_doctor.log.readers.text import whole

_TITLE = re.compile(r"\s*=+\s*NVSMI LOG\s*=+\s*")
_GPU = re.compile(rf"(\s*)GPU ({ADDRESS})\s*")
_HEADER = re.compile(
    r"\s*(Timestamp|Driver Version|CUDA Version|KMD Version|CUDA UMD Version|Attached GPUs)\s+: (.{1,100})"
)
_VALUE = re.compile(r"(\s*)([A-Za-z][^:]{0,60}?)\s*: ?(.*)")
_SECTION = re.compile(r"(\s*)([A-Za-z][\w .()/&-]{0,60})")
_MOST_DEEP = 10
_LEFT_OUT = ("[...]", "...", "…")  # a line in place of values that somebody cut out
_FEWEST = 2  # values without which the address of a GPU is not the beginning of its values


@dataclass
class _Query:
    line: int
    headers: dict[str, str] = field(default_factory=dict)
    gpus: list[Values] = field(default_factory=list)
    indent: int = 0  # of the line that names a GPU
    sections: list[tuple[int, str]] = field(default_factory=list)  # the open ones: their indent and path

    def read(self, line: str) -> bool:
        """Whether the line is a part of this output."""
        gpu = _GPU.fullmatch(line)
        if gpu:
            self.indent = len(gpu[1])
            self.gpus.append(Values(gpu[2].lower()))
            self.sections = []
            return True
        if self.gpus:
            return self._value(line)
        header = _HEADER.fullmatch(line)
        if header:
            self.headers.setdefault(header[1], header[2])
        return header is not None

    def _value(self, line: str) -> bool:
        found = _VALUE.fullmatch(line) or _SECTION.fullmatch(line)
        if not found or len(found[1]) <= self.indent:
            return False
        indent, name = len(found[1]), normal(found[2])
        while self.sections and self.sections[-1][0] >= indent:
            self.sections.pop()
        if len(self.sections) < _MOST_DEEP:
            values = self.gpus[-1]
            path = values.enter(f"{self.sections[-1][1]}/{name}" if self.sections else name)
            self.sections.append((indent, path))
            if len(found.groups()) > 2:
                values.put(path, found[3])
        return True

    def document(self) -> SmiDocument | None:
        attached = whole(self.headers.get("Attached GPUs", ""))
        gpus = [values for values in self.gpus if len(values.texts) >= _FEWEST]
        driver = self.headers.get("KMD Version") or self.headers.get("Driver Version", "")
        if not gpus and not driver:
            return None
        indices = indices_of(gpus, attached)
        troubles = (trouble_of(values, index) for index, values in zip(indices, gpus, strict=True))
        cuda = self.headers.get("CUDA UMD Version") or self.headers.get("CUDA Version", "")
        return SmiDocument(
            "nvidia-smi -q",
            self.line,
            driver_version=version_in(driver),
            driver_cuda=version_in(cuda),
            count=attached,
            gpus=tuple(gpu_of(values, index) for index, values in zip(indices, gpus, strict=True)),
            troubles=tuple(trouble for trouble in troubles if trouble),
        )


def read_queries(lines: Sequence[str]) -> list[SmiDocument]:
    """Every output of `nvidia-smi -q` in a text."""
    found: list[_Query] = []
    query: _Query | None = None
    for place, line in enumerate(lines):
        if not line.strip() or place == len(lines) - 1:  # the last line has no end: a cut may have shortened its value
            continue
        if query and (line.strip() in _LEFT_OUT or query.read(line)):
            continue
        query = None
        if ("NVSMI LOG" in line and _TITLE.fullmatch(line)) or _GPU.fullmatch(line):
            query = _Query(place + 1)
            found.append(query)
            query.read(line)
    documents = (each.document() for each in found)
    return [document for document in documents if document]
