"""The XML of `nvidia-smi -q -x`, also if its end is missing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.parsers import expat

from tfgpu_doctor.log.readers.nvidia_smi_gpu import gpu_of, indices_of, trouble_of
from tfgpu_doctor.log.readers.nvidia_smi_values import Values, normal
from tfgpu_doctor.log.readers.smi import ADDRESS, SmiDocument, version_in
from tfgpu_doctor.log.readers.text import whole

_START, _END = "<nvidia_smi_log>", "</nvidia_smi_log>"
_MOST_DEEP = 12
_LONGEST_TEXT = 500
_HEADERS = ("driver_version", "kmd_version", "cuda_version", "cuda_umd_version", "attached_gpus")
_SKIPPED = ("supported_clocks", "accounted_processes")


class _Reader:
    """Collects the values of each GPU while expat reads. An element counts once it ends: the text may be cut inside of it."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.headers: dict[str, str] = {}
        self.gpus: list[Values] = []
        self.names: list[str] = []
        self.paths: list[str] = []  # of the open elements inside of a GPU
        self.text = ""
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._finish
        self.parser.CharacterDataHandler = self._append

    def feed(self, text: str) -> bool:
        """Whether the text may go on: no entities, no document types, no error."""
        if "<!" in text:
            return False
        try:
            self.parser.Parse(text + "\n", False)
        except (expat.ExpatError, ValueError):
            return False
        return len(self.names) <= _MOST_DEEP

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self.names.append(name)
        self.text = ""
        if len(self.names) == 2 and name == "gpu":
            address = attributes.get("id", "").lower()
            self.gpus.append(Values(address if re.fullmatch(ADDRESS, address) else ""))
            self.paths = []
        elif len(self.names) > 2 and self.names[1] == "gpu" and self.names[2] not in _SKIPPED:
            path = f"{self.paths[-1]}/{normal(name)}" if self.paths else normal(name)
            self.paths.append(self.gpus[-1].enter(path))

    def _finish(self, name: str) -> None:
        if len(self.names) == 2 and name in _HEADERS:
            self.headers.setdefault(name, self.text)
        elif len(self.names) > 2 and self.names[1] == "gpu" and self.names[2] not in _SKIPPED:
            path = self.paths.pop()
            if self.text.strip():
                self.gpus[-1].put(path, self.text)
        self.names.pop()
        self.text = ""

    def _append(self, text: str) -> None:
        if len(self.text) < _LONGEST_TEXT:
            self.text += text

    def document(self) -> SmiDocument | None:
        driver = self.headers.get("kmd_version") or self.headers.get("driver_version", "")
        gpus = [values for values in self.gpus if values.texts]
        if not gpus and not driver:
            return None
        attached = whole(self.headers.get("attached_gpus", ""))
        indices = indices_of(gpus, attached)
        troubles = (trouble_of(values, index) for index, values in zip(indices, gpus, strict=True))
        return SmiDocument(
            "nvidia-smi -q -x",
            self.line,
            driver_version=version_in(driver),
            driver_cuda=version_in(self.headers.get("cuda_umd_version") or self.headers.get("cuda_version", "")),
            count=attached,
            gpus=tuple(gpu_of(values, index) for index, values in zip(indices, gpus, strict=True)),
            troubles=tuple(trouble for trouble in troubles if trouble),
        )


def read_xml(lines: Sequence[str]) -> list[SmiDocument]:
    """Every output in a text. What stands before the root element, such as a document type, is not read."""
    found: list[_Reader] = []
    reader: _Reader | None = None
    for place, line in enumerate(lines):
        text = line
        if _START in line:
            reader = _Reader(place + 1)
            found.append(reader)
            text = line[line.index(_START) :]
        if reader is None:
            continue
        before, end, _ = text.partition(_END)
        if not reader.feed(before + end) or end:
            reader = None
    documents = (each.document() for each in found)
    return [document for document in documents if document]
