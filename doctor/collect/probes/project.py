"""The requirements in the files of the working folder: packages of TensorFlow, containers with a GPU."""

from __future__ import annotations

import os
import re

from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.byte_order_mark import in_utf8
from tfgpu_doctor.model.facts.project import Project, ProjectRequirement
from tfgpu_doctor.model.facts.python import Target

_REQUIREMENTS = re.compile(
    r"requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|setup\.(?:cfg|py)|environment\.ya?ml|Pipfile"
)
_CONTAINERS = re.compile(r"(?:.*\.)?Dockerfile(?:\..*)?|(?:docker-)?compose[\w.-]*\.ya?ml|devcontainer\.json")
# Name, extras and version; the rest of the line may be an address that contains a password.
_PACKAGE = re.compile(
    r"""(?:^|["'\s-])((?:tensorflow(?:[-_](?:gpu|cpu|macos|metal|intel))?|tf[-_]nightly(?:[-_](?:gpu|cpu))?|tf[-_]keras|keras"""
    r"""|tensorboard)"""
    r"""(?:\[[\w,\s-]*\])?)"""
    r"""(\s*(?:[=<>~!]=|[<>])\s*[\w.*+]+(?:\s*,\s*(?:[=<>~!]=|[<>])\s*[\w.*+]+)*"""  # pip's, in requirements.txt
    r"""|\s*=\s*(?:["'][\w.*+^~<>=!, ]{0,40}|\{\w*|\w[\w.*]*))?"""  # in a Pipfile, of poetry, of conda
    r"""(?=["'\s,;#\]}]|$)""",
    re.IGNORECASE,
)
# YAML writes a key with quotes or without, and a list on one line or on several.
_GPU = re.compile(
    r"""\b(?:runtime|driver)["']?:[ \t]*["']?nvidia\b|\bcapabilities["']?:[\s\w\[,"'-]{0,80}?\bgpu\b"""
    r"""|\bgpus["']?:[ \t]*["']?all\b|\bnvidia\.com/gpu=[\w:.-]+|--gpus(?:[= ][\w"]+)?"""
    r"""|^FROM\s+(?:--platform=\S+\s+)?(?:docker\.io/)?"""
    r"""(?:nvcr\.io/nvidia/[\w./:-]+|nvidia/cuda[\w.:-]*|tensorflow/tensorflow:[\w.-]*gpu[\w.-]*)""",
    re.IGNORECASE | re.MULTILINE,
)
_FOLDERS = ("", ".devcontainer")
_MOST, _MOST_BYTES = 20, 1 << 18


@probe(waits_for="the files of the working folder")
def project(host: Host, target: Target) -> Project:
    """Read the files that name packages or start containers, and keep only the words that matter."""
    if not target.working_folder:
        raise Unavailable("the working folder is not known")
    requirements: list[ProjectRequirement] = []
    containers: list[ProjectRequirement] = []
    for folder in (os.path.join(target.working_folder, name) for name in _FOLDERS):
        for name in host.target_files.names_if_any(folder):
            path = os.path.join(folder, name)
            if _REQUIREMENTS.fullmatch(name):
                lines = _read(host, path)
                asked = _after_pip(lines) if name.startswith("environment") else lines
                requirements += (ProjectRequirement(file=path, words=words) for words in _packages(asked))
            elif _CONTAINERS.fullmatch(name):
                containers += (ProjectRequirement(file=path, words=words) for words in _gpus(_read(host, path)))
    return Project(requirements=tuple(requirements[:_MOST]), gpu_containers=tuple(containers[:_MOST]))


def _read(host: Host, path: str) -> list[str]:
    """The lines of a file without comments, empty if it is not a regular file that can be read."""
    try:
        if host.target_files.status(path).kind != "file":
            return []
        content = host.target_files.read_bytes(path, limit=_MOST_BYTES)
    except OSError:
        return []
    text = in_utf8(content).decode("utf-8", "replace")  # `pip freeze > requirements.txt` of PowerShell 5 is UTF-16
    return [line for line in text.splitlines() if not line.lstrip().startswith(("#", "//"))]


def _after_pip(lines: list[str]) -> list[str]:
    """The packages that an environment.yml installs with pip; conda's own packages have the same names."""
    start = next((place for place, line in enumerate(lines) if re.match(r"\s*-\s*pip\s*:", line)), len(lines))
    return lines[start:]


def _packages(lines: list[str]) -> list[str]:
    found = (match for line in lines for match in _PACKAGE.finditer(line))
    return [
        match.group(1).replace(" ", "") + re.sub(r"""^\s*=\s*["']|\s""", "", match.group(2) or "") for match in found
    ]


def _gpus(lines: list[str]) -> list[str]:
    found = (re.sub(r"""["']""", "", match.group()) for match in _GPU.finditer("\n".join(lines)))
    return [" ".join(words.split()) for words in found]
