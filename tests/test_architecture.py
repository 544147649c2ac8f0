"""The layers hold: who may touch the outside world, who may import whom, and how large things may grow."""

from __future__ import annotations

import ast
import pathlib
import sys

from every import every

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(path for folder in ("doctor", "checks", "perf_tests") for path in (ROOT / folder).rglob("*.py"))
# What runs in a child of its own stands outside the layers; benchmarks run inside pytest.
LAYERED = [path for path in SOURCES if "inside" not in path.parts and "perf_tests" not in path.parts]

# Each may import those to its left, and itself.
LAYERS = ("host", "facts", "probes", "knowledge", "checks", "diagnosis", "report", "commands")
LAYER_OF = {
    "host": "host", "bench": "diagnosis", "loader": "probes", "log": "checks", "facts": "facts", "inside": "host", "probe": "probes", "probes": "probes",
    "examination": "probes", "rehearsal": "probes", "knowledge": "host", "rows": "host", "compute_capability": "facts", "requirements": "facts", "model": "facts",
    "checks": "checks", "report": "report", "root_cause": "diagnosis", "summary": "diagnosis", "inventory": "diagnosis", "fleet": "diagnosis", "selection": "diagnosis",
    "acceptance": "diagnosis", "advice": "diagnosis", "bounds": "diagnosis", "diagnosis": "diagnosis", "repair": "diagnosis", "sharing": "diagnosis", "plugins": "commands", "reports": "report", "explanation": "diagnosis",
    "configuration": "commands", "gpu_demand": "diagnosis", "lazy_group": "commands", "pytest_plugin": "commands", "commands": "commands", "cli": "commands", "__init__": "commands", "__main__": "commands",
}  # fmt: skip
RANK = {"host": 0, "facts": 1, "probes": 2, "checks": 3, "diagnosis": 4, "report": 4, "commands": 5}
DOORS = {"subprocess", "ctypes", "socket", "urllib", "http", "multiprocessing"}


def name_of(path: pathlib.Path) -> str:
    """The first word of a module's name inside tfgpu_doctor: host, probes, checks, ..."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "checks" else parts[1]


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


@every("path", LAYERED, key=lambda path: str(path.relative_to(ROOT)))
def test_only_the_host_touches_the_outside_world(path: pathlib.Path) -> None:
    if name_of(path) == "host":
        return
    assert not imports_of(path) & DOORS
    assert not calls_of(path) & {"open", "os.environ", "os.getenv", "os.system", "os.popen"} or path.name == "cli.py"


@every("path", LAYERED, key=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: pathlib.Path) -> None:
    own = RANK[LAYER_OF[name_of(path)]]
    for module in imports_of(path):
        if not module.startswith("tfgpu_doctor."):
            continue
        other = module.split(".")[1]
        if other in LAYER_OF:
            assert RANK[LAYER_OF[other]] <= own, f"{path.relative_to(ROOT)} imports {module}"


@every("path", sorted((ROOT / "checks").glob("*.py")), key=lambda path: path.name)
def test_checks_are_pure(path: pathlib.Path) -> None:
    assert not imports_of(path) & {"os.path.exists", "pathlib", "time", "sys", "platform", "random"}
    modules = {module.split(".")[1] for module in imports_of(path) if module.startswith("tfgpu_doctor.")}
    assert modules <= {"model", "checks", "facts", "knowledge", "rows", "compute_capability", "requirements", "log"}


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
            if "except Exception" in line or "except BaseException" in line or line.strip() == "except:":
                assert "# noqa: BLE001 - " in line or "except BaseException:" in line, f"{path}: {line}"
                found.append(path.relative_to(ROOT).as_posix())
    layered = [path for path in found if "inside" not in path]
    assert layered == [
        "doctor/diagnosis.py", "doctor/examination.py", "doctor/host/files.py", "doctor/plugins.py",
        "perf_tests/answering.py", "perf_tests/referee.py",
    ]  # fmt: skip


def test_the_package_refuses_its_folders_name() -> None:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", "import doctor"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "import tfgpu_doctor" in done.stderr


def test_importing_the_command_imports_nothing_heavy() -> None:
    import subprocess

    code = "import sys, tfgpu_doctor.cli, tfgpu_doctor.commands.check; print(*sys.modules)"
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
