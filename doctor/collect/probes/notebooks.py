"""The Python that notebooks and editors run: Jupyter's kernels, settings, and the notebook that runs this process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.notebooks import EditorSetting, Interpreter, Kernel, Notebooks
from tfgpu_doctor.model.facts.python import Target

# Jupyter's search path for kernels: https://docs.jupyter.org/en/latest/use/jupyter-directories.html (read 2026-11-21)
_SHARED = ("/usr/local/share/jupyter", "/usr/share/jupyter")
_KERNEL_PROGRAM = re.compile(r"(?:^|/)(?:\w*ipykernel(?:_launcher)?|colab_kernel_launcher)(?:\.py)?$")
_INSIDE = (
    ("Jupyter", "JPY_PARENT_PID", ""), ("Jupyter", "JPY_SESSION_NAME", ""), ("PyCharm", "PYCHARM_HOSTED", ""),
    ("VS Code", "VSCODE_PID", ""), ("VS Code", "TERM_PROGRAM", "vscode"),
)  # fmt: skip
_SETTING = re.compile(
    r'^(?:(?!(?<!:)//|/\*)[^\n]){0,1000}?"(?:python\.defaultInterpreterPath|python\.pythonPath)"\s*:\s*"([^"]+)"',
    re.MULTILINE,
)
_EDITOR_FILES = (".vscode/settings.json",)
_PYTHON = re.compile(r"(?:.*[\\/])?i?(?:python|pypy|graalpy)[\w.-]*", re.IGNORECASE)
_NAMES_ONLY = re.compile(r"python(?:\d(?:\.\d+)?)?")  # Jupyter's server replaces such a name with its own Python
_MOST_KERNELS, _MOST_PARENTS = 50, 16


@probe(waits_for="the notebooks' kernels")
def notebooks(host: Host, request: Request, target: Target) -> Notebooks:
    """Read kernel.json of each kernel and the editor's settings, and check whether a kernel started this process."""
    running = _running(host, target)
    shell = _shell(host, target) if _is_kernel(host, "self") else None
    inside = next((name for name, variable, value in _INSIDE if _is_set(host.environment, variable, value)), "")
    return Notebooks(
        kernels=tuple(_kernels(host, target))[:_MOST_KERNELS],
        settings=tuple(_settings(host, target)),
        inside="Jupyter" if running else inside,
        running=running,
        shell=shell,
        shell_has_tensorflow=_has_tensorflow(host, shell.prefix) if shell and shell.prefix else None,
        target_was_named=request.python != sys.executable,
    )


def _is_set(environment: Mapping[str, str], name: str, value: str) -> bool:
    return environment.get(name) == value if value else bool(environment.get(name))


def _kernels(host: Host, target: Target) -> Iterator[Kernel]:
    """The kernels for Python; of two with one name the first counts, as in Jupyter."""
    seen: set[str] = set()
    for folder in _data_folders(host, target):
        for name in host.target_files.names_if_any(f"{folder}/kernels"):
            place = f"{folder}/kernels/{name}"
            row = _json(host.target_files.text_if_any(f"{place}/kernel.json"))
            argv = row.get("argv")
            if name in seen or row.get("language") != "python" or not isinstance(argv, list) or not argv:
                continue
            seen.add(name)
            yield Kernel(
                name=name,
                folder=place,
                interpreter=_started(host, target, str(argv[0]), folder),
                variables=_known_variables(row.get("env")),
            )


def _data_folders(host: Host, target: Target) -> list[str]:
    environment = host.environment
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    places = {"darwin": f"{home}/Library/Jupyter", "win32": f"{environment.get('APPDATA', home)}/jupyter"}
    own = environment.get("JUPYTER_DATA_DIR") or (
        places.get(sys.platform, f"{home}/.local/share/jupyter") if home else ""
    )
    inside = f"{target.prefix}/share/jupyter" if target.prefix else ""
    folders = [*environment.get("JUPYTER_PATH", "").split(os.pathsep), own, inside, *_SHARED]
    return list(dict.fromkeys(os.path.normpath(folder) for folder in folders if folder))


def _known_variables(env: Any) -> dict[str, str]:
    """Only the variables that the knowledge names, as everywhere: any other may be a secret."""
    allowed = read_knowledge().variables
    return {name: str(value) for name, value in env.items() if name in allowed} if isinstance(env, dict) else {}


def _settings(host: Host, target: Target) -> Iterator[EditorSetting]:
    for name in _EDITOR_FILES:
        file = os.path.join(target.working_folder, name)
        found = _SETTING.search(host.target_files.text_if_any(file)) if target.working_folder else None
        if found:
            path = found.group(1).replace("${workspaceFolder}", target.working_folder)
            path = re.sub(r"^~(?=/)|\$\{env:HOME\}|\$\{userHome\}", lambda _: host.environment.get("HOME", ""), path)
            yield EditorSetting(file=file, interpreter=_interpreter(host, target, path, ""))


def _running(host: Host, target: Target) -> Interpreter | None:
    """The Python of the notebook kernel that is this process or its ancestor; only Linux shows parent processes."""
    if _is_kernel(host, "self"):
        return _interpreter(host, target, sys.executable, "")
    parent = _parent(host, "self")
    for _ in range(_MOST_PARENTS):
        if parent in ("", "0", "1"):
            return None
        if _is_kernel(host, parent):
            return _interpreter(host, target, _argv(host, parent)[0], "")
        parent = _parent(host, parent)
    return None


def _is_kernel(host: Host, pid: str) -> bool:
    return any(_KERNEL_PROGRAM.search(word) for word in _argv(host, pid)[1:4])


def _argv(host: Host, pid: str) -> list[str]:
    return host.files.text_if_any(f"/proc/{pid}/cmdline").split("\0")


def _shell(host: Host, target: Target) -> Interpreter | None:
    """The Python that a command in the kernel's shell runs: `!pip install` installs packages there."""
    folders = [folder for folder in host.environment.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    found = (os.path.join(folder, name) for name in ("python", "python3") for folder in folders)
    path = next((path for path in found if host.target_files.exists(path)), "")
    return _interpreter(host, target, path, "") if path else None


def _has_tensorflow(host: Host, prefix: str) -> bool:
    libraries = host.target_files.names_if_any(f"{prefix}/lib")
    return any(
        host.target_files.exists(f"{prefix}/lib/{name}/site-packages/tensorflow/__init__.py")
        for name in libraries
        if name.startswith("python")
    )


def _parent(host: Host, pid: str) -> str:
    found = re.search(r"^PPid:\s*(\d+)", host.files.text_if_any(f"/proc/{pid}/status"), re.MULTILINE)
    return found.group(1) if found else ""


def _started(host: Host, target: Target, program: str, jupyter: str) -> Interpreter:
    """The Python that a kernel starts; `env`, `conda run`, a container or a script may start any."""
    if _PYTHON.fullmatch(program):
        return _interpreter(host, target, program, jupyter)
    return Interpreter(path=program, exists=not os.path.isabs(program) or host.target_files.exists(program))


def _interpreter(host: Host, target: Target, path: str, jupyter: str) -> Interpreter:
    """The Python that a file names; `jupyter` is the data folder of a kernel, which determines what a bare name means."""
    if _NAMES_ONLY.fullmatch(path):
        own = jupyter == os.path.normpath(f"{target.prefix}/share/jupyter")
        return Interpreter(path=path, is_target=True if own else None)
    if not os.path.isabs(path) or "${" in path:
        return Interpreter(path=path)
    if host.target_files.names_if_any(path):  # VS Code also accepts the folder of an environment
        path = os.path.join(path, "bin", "python")
    prefix = _prefix(host, path)
    plain = target.base_prefix in ("", target.prefix)  # a virtual environment's Python is a link to a plain one
    is_target: bool | None = plain and _real(host, path) == _real(host, target.executable)
    if prefix:
        is_target = os.path.normpath(prefix) == os.path.normpath(target.prefix) if target.prefix else None
    elif not is_target and "/shims/" in path:
        is_target = None  # pyenv and others choose the Python when it starts
    return Interpreter(path=path, prefix=prefix, exists=host.target_files.exists(path), is_target=is_target)


def _prefix(host: Host, path: str) -> str:
    """The environment of an interpreter: virtual environments have a pyvenv.cfg, conda's have a folder conda-meta."""
    here = os.path.dirname(path)
    for folder in (os.path.dirname(here), here):
        if any(host.target_files.exists(os.path.join(folder, mark)) for mark in ("pyvenv.cfg", "conda-meta")):
            return folder
    return ""


def _real(host: Host, path: str) -> str:
    try:
        return host.target_files.real_path(path)
    except OSError:
        return path


def _json(text: str) -> dict[str, Any]:
    try:
        row = read_json(text)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
