"""Who may touch the outside world, and how large things may grow. Who may import whom is checked by import-linter."""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from collections.abc import Iterator

import pytest
from every import every
from locations import ROOT, TESTS
from timed import TIMED

SOURCES = sorted(path for folder in ("doctor", "checks", "perf_tests") for path in (ROOT / folder).rglob("*.py"))
# What runs in a child or in the user's program may touch the world; benchmarks run inside pytest.
PURE = [path for path in SOURCES if not {"workers", "startup", "host", "perf_tests"} & set(path.parts)]

# `pathlib` opens files by its methods, whatever the variables are called.
DOORS = {"subprocess", "ctypes", "socket", "urllib", "http", "multiprocessing", "sqlite3", "pathlib", "shelve", "dbm"}
OPENS = {
    "open", "io.open", "os.open", "os.fdopen", "codecs.open", "gzip.open", "gzip.GzipFile", "bz2.open", "bz2.BZ2File",
    "lzma.open", "lzma.LZMAFile", "tarfile.open", "zipfile.ZipFile", "fileinput.input", "tokenize.open", "linecache.getline",
    "sqlite3.connect", "os.environ", "os.getenv", "os.system", "os.popen", "os.mkfifo", "runpy.run_path",
}  # fmt: skip


def imports_of(path: pathlib.Path) -> set[str]:
    """Every module that a file imports, whole names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def calls_of(path: pathlib.Path) -> set[str]:
    """What a file calls or reads, as dotted names."""
    tree = ast.parse(path.read_text("utf-8"))
    names = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return names | {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def touched_by(source: str) -> set[str]:
    """What a module imports or names that opens something of the outside world by itself; in memory it may open anything."""
    tree = ast.parse(source)
    named = dict(_imported(tree))
    found = {name for name in named.values() if {name, name.split(".", maxsplit=1)[0]} & (DOORS | OPENS)}
    found = {name for name in found if not name.startswith("urllib.parse")}  # it opens nothing
    in_memory = set()
    held = {name.id for node in ast.walk(tree) if isinstance(node, ast.Assign) and _is_in_memory(node.value, set())
            for name in node.targets if isinstance(name, ast.Name)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if node.args and _is_in_memory(node.args[0], held):
                in_memory.add(node.func)
            if isinstance(node.func, ast.Attribute) and _is_of_a_path(node.func.attr, node.args):
                found.add(ast.unparse(node.func))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and node not in in_memory:
            first, _, rest = ast.unparse(node).partition(".")
            whole = ".".join(filter(None, (named.get(first, first), rest)))
            found |= {whole} & OPENS
    return found


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that imports bind, and what each stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".", maxsplit=1)[0]
                yield alias.asname or whole, whole
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _is_in_memory(node: ast.expr, held: set[str]) -> bool:
    """Whether it is bytes in memory or an open stream: io.BytesIO(...), io.BufferedReader(...), or a variable that holds such."""
    return ast.unparse(node).startswith(("io.BytesIO(", "io.BufferedReader(")) or (
        isinstance(node, ast.Name) and node.id in held
    )


def _is_of_a_path(method: str, arguments: list[ast.expr]) -> bool:
    """Whether a method is one of `pathlib`: the door's methods of these names are given a path, and none of them writes."""
    first = arguments[0] if arguments else ast.Constant("")
    names_path = not isinstance(first, ast.Constant) or "/" in str(first.value)
    return method in {"write_text", "write_bytes"} or (method in {"read_text", "read_bytes"} and not names_path)


@every("path", PURE, key=lambda path: str(path.relative_to(ROOT)))
def test_only_the_host_touches_the_outside_world(path: pathlib.Path) -> None:
    assert not imports_of(path) & DOORS
    allowed = {"os.environ"} if path == ROOT / "doctor/cli/main.py" else set()
    assert touched_by(path.read_text("utf-8")) - allowed == set()


@pytest.mark.parametrize(
    "line",
    [
        "import pathlib", "from pathlib import Path", "import sqlite3 as kept", "from sqlite3 import connect",
        "os.open(path, os.O_RDONLY)", "place.read_text()", "(folder / name).read_bytes()", "place.read_text(encoding='utf-8')",
        "gzip.open(path)", "open(path)", "from os import open as begin", "from gzip import open", "import gzip as g; g.open(path)",
        "zipfile.ZipFile(path)", "tarfile.open(name=path)", "reads = open", "place.write_text(text)", "os.getenv('HOME')",
        "import os as system; system.open(path, 0)", "import urllib.request",
    ],
)  # fmt: skip
def test_another_door_is_seen(line: str) -> None:
    assert touched_by(line)


@pytest.mark.parametrize(
    "line",
    [
        "Files().read_text(path)", "files.read_bytes(path, 7)", "gzip.open(io.BytesIO(content))", "import gzip", "import os",
        "bz2.open(io.BufferedReader(stream))",
        "zipfile.ZipFile(packed, 'w')", "bundle.open(FACTS)", "from urllib.parse import quote", "os.listdir(folder)",
    ],
)  # fmt: skip
def test_what_opens_nothing_is_let_be(line: str) -> None:
    assert touched_by(f"packed = io.BytesIO()\n{line}") == set()


@every("path", sorted((ROOT / "checks").glob("*.py")), key=lambda path: path.name)
def test_checks_are_pure(path: pathlib.Path) -> None:
    assert not imports_of(path) & {"os.path.exists", "pathlib", "time", "sys", "platform", "random"}
    modules = {module.split(".")[1] for module in imports_of(path) if module.startswith("tfgpu_doctor.")}
    assert modules <= {"model", "checks", "knowledge", "log"}


@every("path", SOURCES, key=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: pathlib.Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            lines = (node.end_lineno or 0) - node.lineno + 1 - len(docstring.splitlines())
            assert lines <= 50, f"{node.name} has {lines} lines"


def test_no_module_is_named_after_another() -> None:
    taken = sys.stdlib_module_names | {
        "click",
        "rich",
        "msgspec",
        "packaging",
        "tabulate",
        "elftools",
        "pynvml",
        "tensorflow",
        "numpy",
    }
    assert [str(path) for path in SOURCES if path.stem in taken] == []


def test_no_module_has_an_empty_name() -> None:
    banned = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
    assert [str(path) for path in SOURCES if path.stem in banned] == []


def test_broad_excepts_are_few_and_have_their_reason() -> None:
    found = []
    for path in SOURCES:
        for line in path.read_text("utf-8").splitlines():
            if re.search(r"except \(?(Base)?Exception", line) or line.strip() == "except:":
                assert "# noqa: BLE001 - " in line or "except BaseException:" in line, f"{path}: {line}"
                found.append(path.relative_to(ROOT).as_posix())
    assert [path for path in found if "workers" not in path and "startup" not in path] == [
        "doctor/cli/entry.py", "doctor/collect/examination.py", "doctor/diagnose/engine.py", "doctor/host/files.py",
        "doctor/watching/beside.py",
        "perf_tests/answering.py", "perf_tests/fixtures.py", "perf_tests/runner.py", "perf_tests/test_files.py",
    ]  # fmt: skip


def test_the_package_refuses_its_folders_name() -> None:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", "import doctor"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "import tfgpu_doctor" in done.stderr


def test_importing_the_command_imports_nothing_heavy() -> None:
    import subprocess

    code = "import sys, tfgpu_doctor.cli.main, tfgpu_doctor.cli.check_command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "rich",
        "packaging",
        "tabulate",
        "elftools",
        "pynvml",
        "tensorflow",
        "numpy",
        "importlib.metadata",
        "asyncio",
    }
    assert not heavy & set(done.stdout.split())


def test_the_files_of_timed_tests_exist() -> None:
    assert [name for name in TIMED if not (TESTS / name).is_file()] == []


def test_json_of_others_comes_through_one_door() -> None:
    """`host.json_text`: elsewhere a document that is nested too deep ends the doctor. Those named have a guard of their own."""
    own = {
        "doctor/host/json_text.py", "doctor/model/facts/__init__.py", "doctor/model/facts/bench.py", "doctor/accept/canonical.py",
        "doctor/accept/vocabulary.py", "doctor/knowledge/reading.py", "doctor/tracing/startup/recorder.py",
    }  # fmt: skip
    reads = re.compile(r"\bjson\.(?:loads?|decode)\(")
    inside = (path for path in SOURCES if not {"workers", "perf_tests"} & {*path.relative_to(ROOT).parts})
    places = {path.relative_to(ROOT).as_posix(): path for path in inside}
    found = {place for place, path in places.items() if reads.search(path.read_text("utf-8"))}
    assert found - own == set()
    assert own <= places.keys()
