"""The programs that run in child processes, for real, on every version of Python that is here."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest
from every import every

import tfgpu_doctor.collect.workers
from tfgpu_doctor.checks.python.without_wheels import older_python
from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes import child
from tfgpu_doctor.collect.probes.runtime import runtime
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.python import Target

if TYPE_CHECKING:
    from collect.workers.conftest import Interpreter

FOLDER = pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
PROGRAMS = [path for path in FILES if path.name != "__init__.py"]
ALLOWED = {
    "run_tensorflow.py": {"tensorflow"}, "read_xla_flags.py": {"tensorflow"}, "open_nvml.py": {"pynvml"}, "sample_nvml.py": {"pynvml"},
    "stress_process.py": {"tensorflow"}, "stress_gpu.py": {"numpy"}, "stress_links.py": {"numpy"}, "run_suites.py": {"pytest"},
    "ray_driver.py": {"ray", "tfgpu_doctor"}, "run_plugin.py": {"msgspec", "tfgpu_doctor"},
}  # fmt: skip
BESIDE = {path.stem for path in FILES}  # a program may be more than one file
NAMES = {"describe_target", "open_device_nodes", "open_libcuda", "open_nvml", "run_tensorflow"}


def imported(tree: ast.AST) -> set[str]:
    """Every module that is imported anywhere in a file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_a_version_of_python_is_tried(version: str, tried_versions: tuple[str, ...]) -> None:
    if version not in tried_versions:
        pytest.skip(f"there is no Python {version} on this machine")


def test_the_programs_are_there() -> None:
    assert {path.stem for path in PROGRAMS} >= NAMES


@every("path", FILES, key=lambda path: path.name)
def test_a_program_needs_the_standard_library_alone(path: pathlib.Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert imported(tree) - set(sys.stdlib_module_names) - BESIDE <= ALLOWED.get(path.name, set())


@every("path", FILES, key=lambda path: path.name)
def test_an_older_python_can_read_a_program(path: pathlib.Path) -> None:
    """A SyntaxError of a program would be told as TensorFlow's; TensorFlow 2.4 to 2.11 has wheels for Python 3.7."""
    ast.parse(path.read_text(), feature_version=(3, 7))


OF_2_3 = """
import types
__version__ = "2.3.4"
class Gpu: name = "/physical_device:GPU:0"
grown = []
config = types.SimpleNamespace(
    list_physical_devices=lambda kind: [Gpu],
    experimental=types.SimpleNamespace(
        get_memory_growth=lambda device: device in grown, set_memory_growth=lambda device, on: grown.append(device)
    ),
)
"""


def test_a_tensorflow_that_tells_no_details_of_a_gpu_is_used(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tensorflow.py").write_text(OF_2_3)
    done = subprocess.run(
        [sys.executable, str(FOLDER / "run_tensorflow.py"), "GPU", "list"], cwd=tmp_path, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    said = {name: value for line in done.stdout.splitlines() for name, value in json.loads(line).items()}
    assert "use_error" not in said, said
    assert [each["name"] for each in said["gpus"]] == ["/physical_device:GPU:0"]
    assert said["growth_set"]


@every("path", PROGRAMS, key=lambda path: path.name)
def test_no_annotation_of_a_program_runs(path: pathlib.Path) -> None:
    first = next(node for node in ast.parse(path.read_text()).body if not isinstance(node, ast.Expr))
    assert isinstance(first, ast.ImportFrom)
    assert (first.module, [alias.name for alias in first.names]) == ("__future__", ["annotations"])


@every("path", PROGRAMS, key=lambda path: path.name)
def test_a_program_does_nothing_of_typing_when_it_runs(path: pathlib.Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if "typing" in imported(ast.Module([node], [])):
            assert isinstance(node, ast.If)
            assert ast.unparse(node.test) == "TYPE_CHECKING"
    assert "TYPE_CHECKING = False" in path.read_text() or "TYPE_CHECKING" not in path.read_text()


def test_the_programs_compile_everywhere(interpreter: Interpreter, tmp_path: pathlib.Path) -> None:
    source = "import sys\nfor path in sys.argv[1:]:\n with open(path, encoding='utf-8') as file: compile(file.read(), path, 'exec')"
    done = interpreter.run("-W", "error", "-c", source, *PROGRAMS, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


CANONICAL = """
import importlib.metadata, json, re, sys
rows = []
for found in importlib.metadata.distributions():
    name = re.sub(r"[-_.]+", "-", found.metadata["Name"] or "").lower()
    rows.append([name, found.version, str(found.locate_file("")).rstrip("/")])
sys.stdout.write(json.dumps(rows))
"""
DISTRIBUTIONS = (  # folder name, Name, Version
    ("tensorflow-2.20.0.dist-info", "tensorflow", "2.20.0"),
    ("nvidia_cudnn_cu12-9.3.0.75.dist-info", "nvidia-cudnn-cu12", "9.3.0.75"),
    ("ruamel.yaml-0.18.6.dist-info", "ruamel.yaml", "0.18.6"),
    ("ruamel.yaml.clib-0.2.12.dist-info", "ruamel.yaml.clib", "0.2.12"),
    ("Keras_Preprocessing-1.1.2.dist-info", "Keras-Preprocessing", "1.1.2"),
    ("torch-2.4.1+cu121.dist-info", "torch", "2.4.1+cu121"),
    ("zope.interface-6.0.post1.dist-info", "zope.interface", "6.0.post1"),
    ("numpy-2.1.0rc1.dist-info", "numpy", "2.1.0rc1"),
    ("backports.zoneinfo-0.2.1.dist-info", "backports.zoneinfo", "0.2.1"),
    ("a__b-1!2.0.dist-info", "a__b", "1!2.0"),
)
METADATA = """\
Metadata-Version: 2.1
Name: {0}
Version: {1}
Summary: for a test
Requires-Dist: absl-py>=1.0.0
Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"

The description.

Name: not-this
Version: 0
Requires-Dist: nothing-of-the-description
"""


def furnish(site: pathlib.Path) -> None:
    """Put distributions of every form into a folder, as pip, conda, distutils and `setup.py develop` leave them."""
    for folder, name, version in DISTRIBUTIONS:
        info = site / folder
        info.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA.format(name, version))
        (info / "RECORD").write_text(f"{folder}/METADATA,,\n{folder}/RECORD,,\n")
        (info / "INSTALLER").write_text("pip\n")
    (site / DISTRIBUTIONS[0][0] / "RECORD").write_text(
        "../../../bin/saved_model_cli,sha256=x,1\ntensorflow/__init__.py,sha256=y,2\ntensorflow/_api/v2/__init__.py,,\n"
    )
    (site / DISTRIBUTIONS[1][0] / "INSTALLER").write_text("uv")
    (site / DISTRIBUTIONS[2][0] / "INSTALLER").unlink()
    (site / DISTRIBUTIONS[3][0] / "RECORD").unlink()
    (site / "wrapt-1.14.1-py3.9.egg-info").mkdir()
    (site / "wrapt-1.14.1-py3.9.egg-info/PKG-INFO").write_text(METADATA.format("wrapt", "1.14.1"))
    (site / "PyYAML-5.3.1-py3.9.egg-info").write_text(METADATA.format("PyYAML", "5.3.1"))  # distutils: a file
    (site / "my_project.egg-info").mkdir()
    (site / "my_project.egg-info/PKG-INFO").write_text(METADATA.format("my.project", "0.3.dev0"))
    (site / "tensorflow/python/platform").mkdir(parents=True)
    (site / "tensorflow/__init__.py").write_text("raise SystemExit('nobody may import this')\n")
    (site / "tensorflow/python/platform/build_info.py").write_text("raise SystemExit('nor this')\n")
    for library in ("cudnn/lib/libcudnn.so.9", "cudnn/lib/libcudnn_ops.so.9", "cu13/lib/libcudart.so.13"):
        (site / "nvidia" / library).parent.mkdir(parents=True, exist_ok=True)
        (site / "nvidia" / library).touch()
    (site / "nvidia/cudnn/lib/__init__.py").touch()
    (site / "nvidia/cudnn/include").mkdir()
    (site / "nvidia/cublas/bin").mkdir(parents=True)
    (site / "nvidia/cublas/bin/cublas64_12.dll").touch()


@pytest.fixture(scope="session")
def furnished(interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A site-packages for each interpreter, which it has through $PYTHONPATH."""
    site = tmp_path_factory.mktemp("furnished") / "site-packages"
    furnish(site)
    return site


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An empty working folder."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="session")
def description(interpreter: Interpreter, furnished: pathlib.Path, elsewhere: pathlib.Path) -> dict[str, Any]:
    """What is said of the furnished site-packages."""
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(furnished))
    return answer


def described(answer: dict[str, Any], name: str) -> dict[str, Any]:
    (row,) = [row for row in answer["distributions"] if row["name"] == name]
    return dict(row)


def test_the_interpreter_is_described(
    interpreter: Interpreter, description: dict[str, Any], elsewhere: pathlib.Path, furnished: pathlib.Path
) -> None:
    assert description["executable"] == str(interpreter.python)
    assert description["version"].startswith("%d.%d." % interpreter.version)
    assert description["bits"] in (32, 64)
    assert description["prefix"] == str(interpreter.prefix)
    assert os.path.realpath(interpreter.base).startswith(os.path.realpath(description["base_prefix"]))
    assert description["working_folder"] == str(elsewhere)
    assert description["search_path"][0] == str(furnished)
    assert description["search_path"][-1] == str(interpreter.site)
    assert not any(path.endswith("inside") for path in description["search_path"])
    assert (description["user_site"], description["externally_managed"]) == ("", False)
    assert (description["conda_packages"], description["local_modules"]) == ({}, [])
    assert description["is_of_one_tool"] is False


def test_the_description_is_the_fact(description: dict[str, Any]) -> None:
    fact = child.understand(Target, Attempt(outcome="answered", exit_code=0), description)
    assert fact.attempt.answered, fact.attempt.error
    assert fact.version == description["version"]


def test_distributions_are_those_of_importlib_metadata(
    interpreter: Interpreter, description: dict[str, Any], furnished: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    done = interpreter.run("-c", CANONICAL, cwd=elsewhere, PYTHONPATH=str(furnished))
    expected = [row for row in json.loads(done.stdout) if row[2] == str(furnished)]
    assert len(expected) == len(DISTRIBUTIONS) + 3
    found = [[row["name"], row["version"], row["folder"]] for row in description["distributions"]]
    assert sorted(row for row in found if row[2] == str(furnished)) == sorted(expected)


def test_requirements_and_installer_are_read(description: dict[str, Any]) -> None:
    tensorflow = described(description, "tensorflow")
    assert tensorflow["installer"] == "pip"
    assert tensorflow["requires"] == [
        "absl-py>=1.0.0",
        'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',
    ]
    assert described(description, "nvidia-cudnn-cu12")["installer"] == "uv"
    assert described(description, "ruamel-yaml")["installer"] == ""


def test_the_package_and_its_owner_are_found(description: dict[str, Any], furnished: pathlib.Path) -> None:
    assert description["tensorflow_file"] == str(furnished / "tensorflow/__init__.py")
    assert description["tensorflow_owners"] == ["tensorflow"]


def test_libraries_of_wheels_are_listed(description: dict[str, Any], furnished: pathlib.Path) -> None:
    assert description["nvidia_libraries"] == [
        str(furnished / "nvidia" / name)
        for name in (
            "cu13/lib/libcudart.so.13",
            "cublas/bin/cublas64_12.dll",
            "cudnn/lib/libcudnn.so.9",
            "cudnn/lib/libcudnn_ops.so.9",
        )
    ]


def test_an_environment_without_packages_has_none(interpreter: Interpreter, elsewhere: pathlib.Path) -> None:
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere)
    assert [row for row in answer["distributions"] if row["folder"] == str(interpreter.site)] == []
    assert (answer["tensorflow_file"], answer["tensorflow_owners"], answer["nvidia_libraries"]) == ("", [], [])


def test_what_lies_in_site_packages_itself_is_described(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    venv = tmp_path / "venv"
    shutil.copytree(interpreter.prefix, venv, symlinks=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    furnish(site)
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=venv / "bin/python")
    assert answer["prefix"] == str(venv)
    assert described(answer, "tensorflow")["folder"] == str(site)
    assert answer["tensorflow_file"] == str(site / "tensorflow/__init__.py")


def test_two_owners_are_both_named(interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path) -> None:
    for name in ("tensorflow", "tensorflow_cpu"):
        (tmp_path / f"{name}-2.20.0.dist-info").mkdir()
        (tmp_path / f"{name}-2.20.0.dist-info/RECORD").write_text("tensorflow/__init__.py,sha256=x,1\n")
    (tmp_path / "tensorflow_io-1.0.dist-info").mkdir()
    (tmp_path / "tensorflow_io-1.0.dist-info/RECORD").write_text(
        "a/tensorflow/__init__.py,,\ntensorflow_io/__init__.py,,\n"
    )
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(tmp_path))
    assert answer["tensorflow_owners"] == ["tensorflow", "tensorflow-cpu"]


def test_an_owner_of_any_name_is_found(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").touch()
    for name, file in (
        ("our_learning-2.20.0", "tensorflow/__init__.py"),
        ("tensorflow_io-1.0", "tensorflow_io/__init__.py"),
    ):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/RECORD").write_text(f"{file},sha256=x,1\n")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(tmp_path))
    assert answer["tensorflow_owners"] == ["our-learning"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_long_lists_of_other_packages_are_not_read(tmp_path: pathlib.Path) -> None:
    """A network file system may take long for each."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").touch()
    for name in ("tensorflow", "scipy"):
        (tmp_path / f"{name}-2.20.0.dist-info").mkdir()
        (tmp_path / f"{name}-2.20.0.dist-info/RECORD").write_text(f"{name}/__init__.py,sha256=x,1\n")
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=open,openat", sys.executable, str(FOLDER / "describe_target.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("strace cannot trace here")
    assert f"{tmp_path}/tensorflow-2.20.0.dist-info/RECORD" in done.stderr
    assert f"{tmp_path}/scipy-2.20.0.dist-info/RECORD" not in done.stderr


def test_what_pip_left_behind_owns_nothing(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    for name in ("tensorflow", "~ensorflow"):
        (tmp_path / f"{name}-2.20.0.dist-info").mkdir()
        (tmp_path / f"{name}-2.20.0.dist-info/METADATA").write_text(METADATA.format("tensorflow", "2.20.0"))
        (tmp_path / f"{name}-2.20.0.dist-info/RECORD").write_text("tensorflow/__init__.py,sha256=x,1\n")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(tmp_path))
    assert answer["tensorflow_owners"] == ["tensorflow"]


def test_broken_metadata_costs_nothing_else(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    (tmp_path / "-1.0.dist-info").mkdir()
    (tmp_path / ".dist-info").mkdir()
    (tmp_path / "noversion.dist-info").mkdir()
    (tmp_path / "file-1.0.dist-info").write_text("a file where a folder belongs")
    (tmp_path / "junk-1.0.dist-info").mkdir()
    for name in ("METADATA", "RECORD", "INSTALLER"):
        (tmp_path / "junk-1.0.dist-info" / name).write_bytes(b"\xff\xfe\0\n\n\xc3")
    (tmp_path / "tensorflow-2.20.0.dist-info").mkdir()
    (tmp_path / "tensorflow-2.20.0.dist-info/METADATA").mkdir()
    (tmp_path / "nvidia").write_text("a file")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(tmp_path))
    assert described(answer, "tensorflow") == {
        "name": "tensorflow", "version": "2.20.0", "folder": str(tmp_path), "installer": "", "requires": [],
    }  # fmt: skip
    assert described(answer, "noversion")["version"] == ""


def test_names_of_undecodable_bytes_are_told(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    try:
        os.mkdir(os.fsencode(site) + b"/caf\xe9-1.0.dist-info")
        os.makedirs(os.fsencode(site) + b"/nvidia/caf\xe9/lib/libcudnn.so.9")
    except OSError:
        pytest.skip("the file system takes no such names")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(site))
    (row,) = [row for row in answer["distributions"] if row["folder"] == str(site)]
    assert (os.fsencode(row["name"]), row["version"]) == (b"caf\xe9", "1.0")
    assert len(answer["nvidia_libraries"]) == 1


def test_the_packages_of_the_user_are_described(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    venv = tmp_path / "venv"
    shutil.copytree(interpreter.prefix, venv, symlinks=True)
    settings = (venv / "pyvenv.cfg").read_text().replace("packages = false", "packages = true")
    (venv / "pyvenv.cfg").write_text(settings)
    user = tmp_path / "user" / "lib" / ("python%d.%d" % interpreter.version) / "site-packages"
    furnish(user)
    (answer,) = interpreter.answers(
        "describe_target", cwd=elsewhere, python=venv / "bin/python", PYTHONUSERBASE=str(tmp_path / "user")
    )
    assert answer["user_site"] == str(user)
    assert described(answer, "tensorflow")["folder"] == str(user)
    (without,) = interpreter.answers(
        "describe_target", cwd=elsewhere, python=venv / "bin/python", PYTHONUSERBASE=str(tmp_path / "user"), PYTHONNOUSERSITE="1"
    )  # fmt: skip
    assert (without["user_site"], without["tensorflow_file"]) == ("", "")


def test_the_packages_of_conda_are_described(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    prefix = tmp_path / "conda"
    shutil.copytree(interpreter.prefix, prefix, symlinks=True)
    (prefix / "conda-meta").mkdir()
    for name in (
        "tensorflow-base-2.17.0-cuda120py312h02ad3e0_203.json", "cudatoolkit-11.8.0-h6a678d5_0.json", "history",
        "cudnn-8.9.2.26-cuda11_0.json", "cuda-version-12.4-hbda6634_3.json", "numpy-1.26.4-py312hc5e2394_0.json",
        "_tflow_select-2.3.0-mkl.json", "libcudnn-9.3.0.75-hf7e9902_0.json",
    ):  # fmt: skip
        (prefix / "conda-meta" / name).write_text("{}")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=prefix / "bin/python")
    assert answer["conda_packages"] == {
        "tensorflow-base": "2.17.0 cuda120py312h02ad3e0_203",
        "cudatoolkit": "11.8.0 h6a678d5_0",
        "cudnn": "8.9.2.26 cuda11_0",
        "cuda-version": "12.4 hbda6634_3",
        "_tflow_select": "2.3.0 mkl",
        "libcudnn": "9.3.0.75 hf7e9902_0",
    }


def test_the_library_path_that_activation_sets_is_told(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    prefix = tmp_path / "conda"
    shutil.copytree(interpreter.prefix, prefix, symlinks=True)
    (prefix / "bin/activate").write_text("export PATH=/bin\nexport SECRET=1\n  export LD_LIBRARY_PATH=/opt/cuda\n")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=prefix / "bin/python")
    assert answer["exports"] == {"LD_LIBRARY_PATH": "/opt/cuda"}
    (prefix / "etc/conda/activate.d").mkdir(parents=True)
    (prefix / "etc/conda/activate.d/env_vars.sh").write_text("export LD_LIBRARY_PATH=$CONDA_PREFIX/lib\n")
    (prefix / "etc/conda/activate.d/readme.txt").write_text("export XLA_FLAGS=no\n")
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=prefix / "bin/python")
    assert answer["exports"] == {"LD_LIBRARY_PATH": "$CONDA_PREFIX/lib"}


@pytest.mark.parametrize(
    ("state", "script", "told"),
    [
        ('{"env_vars": {"LD_LIBRARY_PATH": "/opt/cuda/lib", "SECRET": "1"}}', "", {"LD_LIBRARY_PATH": "/opt/cuda/lib"}),
        (
            '{"env_vars": {"LD_LIBRARY_PATH": "/opt/cuda/lib"}}',
            "export LD_LIBRARY_PATH=/later\n",
            {"LD_LIBRARY_PATH": "/later"},
        ),
        ('{"env_vars": {"LD_LIBRARY_PATH": "***unset***"}}', "", {}),
        ('{"env_vars": {"LD_LIBRARY_PATH": 3}}', "", {}),
        ('{"env_vars": ["LD_LIBRARY_PATH"]}', "", {}),
        ('["env_vars"]', "", {}),
        ('{"env_vars": ', "", {}),
        ("[" * 100_000, "", {}),
        ("{}", "LD_LIBRARY_PATH=/a\nXLA_FLAGS=--b\nexport LD_LIBRARY_PATH XLA_FLAGS\n",
         {"LD_LIBRARY_PATH": "/a", "XLA_FLAGS": "--b"}),
        ("{}", "LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH; export LD_LIBRARY_PATH\r\n", {"LD_LIBRARY_PATH": "/a:$LD_LIBRARY_PATH"}),
        ("{}", "export  LD_LIBRARY_PATH=$(python -c 'import x; print(1)')/lib\n",
         {"LD_LIBRARY_PATH": "$(python -c 'import x; print(1)')/lib"}),
        ("{}", "LD_LIBRARY_PATH=/not/exported\nexport PATH\nexport XLA_FLAGS\n", {}),
        ("{}", "export LD_LIBRARY_PATH=/new\ndeactivate () {\n LD_LIBRARY_PATH=\"$_OLD_PATH\"\n export LD_LIBRARY_PATH\n}\n",
         {"LD_LIBRARY_PATH": "/new"}),
        ("{}", "LD_LIBRARY_PATH=/a python x.py\nexport LD_LIBRARY_PATH\n", {}),
    ],
)  # fmt: skip
def test_the_variables_that_conda_saves_are_told(  # by `conda env config vars set`
    state: str,
    script: str,
    told: dict[str, str],
    interpreter: Interpreter,
    tmp_path: pathlib.Path,
    elsewhere: pathlib.Path,
) -> None:
    prefix = tmp_path / "conda"
    shutil.copytree(interpreter.prefix, prefix, symlinks=True)
    (prefix / "bin/activate").unlink(missing_ok=True)
    for place, text in (("conda-meta/state", state), ("etc/conda/activate.d/x.sh", script)):
        (prefix / place).parent.mkdir(parents=True)
        (prefix / place).write_text(text)
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=prefix / "bin/python")
    assert answer["exports"] == told


@pytest.mark.parametrize("name", ["cudnn.json", "tensorflow-2.17.json"])
def test_an_odd_record_of_conda_costs_nothing_else(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path, name: str
) -> None:
    prefix = tmp_path / "conda"
    shutil.copytree(interpreter.prefix, prefix, symlinks=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / name).write_text("{}")
    done = interpreter.run(FOLDER / "describe_target.py", cwd=elsewhere, python=prefix / "bin/python")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_python_that_the_system_manages_is_told(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    show = "import os, sys; print(os.path.dirname(os.__file__))"
    original = pathlib.Path(interpreter.run("-c", show, cwd=elsewhere, python=interpreter.base).stdout.strip())
    library = tmp_path / "home" / "lib" / original.name
    library.mkdir(parents=True)
    for entry in original.iterdir():
        if entry.name not in ("EXTERNALLY-MANAGED", "site-packages", "dist-packages"):
            (library / entry.name).symlink_to(entry)
    home = str(tmp_path / "home")
    (plain,) = interpreter.answers("describe_target", cwd=elsewhere, python=interpreter.base, PYTHONHOME=home)
    (library / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=use apt\n")
    (managed,) = interpreter.answers("describe_target", cwd=elsewhere, python=interpreter.base, PYTHONHOME=home)
    assert plain["prefix"] == managed["prefix"] == home
    assert (plain["externally_managed"], managed["externally_managed"]) == (False, True)


@pytest.mark.parametrize("record", ["pipx_metadata.json", "uv-receipt.toml"])
def test_an_environment_of_one_tool_is_told(
    interpreter: Interpreter, record: str, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    """pipx and `uv tool` leave a record in each environment that they make."""
    environment = tmp_path / "venvs/tfgpu-doctor"
    interpreter.run("-m", "venv", "--without-pip", str(environment), cwd=elsewhere, python=interpreter.base)
    (environment / record).touch()
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=environment / "bin/python")
    assert (answer["prefix"], answer["is_of_one_tool"]) == (str(environment), True)


@pytest.mark.parametrize(("tag", "is_of_one"), [("CACHEDIR.TAG", True), ("notes.txt", False)])
def test_an_environment_in_the_cache_of_uv_is_of_one_tool(
    interpreter: Interpreter, tag: str, is_of_one: bool, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    """Where `uvx tfgpu-doctor` runs."""
    environment = tmp_path / "uv/archive-v0/525PqRjeKlEml9Sp"
    interpreter.run("-m", "venv", "--without-pip", str(environment), cwd=elsewhere, python=interpreter.base)
    (tmp_path / "uv" / tag).touch()
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, python=environment / "bin/python")
    assert answer["is_of_one_tool"] is is_of_one


def test_a_layer_of_uv_run_is_its_projects(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    """Where `uv run --with tfgpu-doctor tfgpu-doctor` runs; it sees the project's packages."""
    project, layer = tmp_path / "project/.venv", tmp_path / "uv/builds-v0/.tmpIUxDYD"
    for environment in (project, layer):
        interpreter.run("-m", "venv", "--without-pip", str(environment), cwd=elsewhere, python=interpreter.base)
    (tmp_path / "uv/CACHEDIR.TAG").touch()
    with (layer / "pyvenv.cfg").open("a") as file:
        file.write(f"extends-environment = {project}\n")
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path / "project", python=layer / "bin/python")
    assert (answer["extends"], answer["is_of_one_tool"], answer["beside"]) == (str(project), False, "")
    fact = child.understand(Target, Attempt(outcome="answered", exit_code=0), answer)
    assert os.path.samefile(fact.lasting_python, project / "bin/python")
    assert not fact.externally_managed


def test_an_environment_in_the_working_folder_is_told(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path)
    assert (answer["beside"], answer["extends"]) == ("", "")
    interpreter.run("-m", "venv", "--without-pip", str(tmp_path / ".venv"), cwd=elsewhere, python=interpreter.base)
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path)
    assert answer["beside"] == str(tmp_path / ".venv")
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path, python=tmp_path / ".venv/bin/python")
    assert answer["beside"] == ""


def test_the_kind_of_a_python_is_told(interpreter: Interpreter, elsewhere: pathlib.Path) -> None:
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere)
    show = "import sys, sysconfig; print(sys.implementation.name, bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
    name, free = interpreter.run("-c", show, cwd=elsewhere).stdout.split()
    assert (answer["implementation"], str(answer["free_threaded"])) == (name, free)


@pytest.mark.parametrize(("value", "told"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_what_pip_is_told_of_system_packages_is_told(
    interpreter: Interpreter, value: str, told: bool, elsewhere: pathlib.Path
) -> None:
    (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PIP_BREAK_SYSTEM_PACKAGES=value)
    assert answer["breaks_system_packages"] is told


@pytest.mark.parametrize("version", ["3.6", "2.7"])
def test_a_python_that_cannot_read_the_program_is_known_by_its_complaint(version: str, tmp_path: pathlib.Path) -> None:
    python = old_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    attempt, _, _ = child.ask(Host(), str(python), "describe_target", deadline_s=60.0)
    assert older_python(attempt) == ("Python 3.6" if version == "3.6" else "a Python before 3.6")
    folder = tmp_path / "hiding"
    folder.mkdir()
    (folder / "json.py").write_text("def broken(:\n")
    host = Host(environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)})
    attempt, _, _ = child.ask(host, sys.executable, "describe_target", deadline_s=60.0)
    assert attempt.error.startswith("SyntaxError")
    assert older_python(attempt) == ""


def old_python(version: str) -> pathlib.Path | None:
    """A Python older than those that the programs are for, as pyenv or a Linux distribution has it."""
    found = [
        *pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
        pathlib.Path(f"/usr/bin/python{version}"),
    ]
    return next((each for each in found if each.exists()), None)


def test_a_local_module_hides_the_package(
    interpreter: Interpreter, furnished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name in ("tensorflow.py", "train.py", "models.py"):
        (tmp_path / name).touch()
    (tmp_path / "numpy").mkdir()  # without an __init__.py it hides nothing
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras/__init__.py").touch()
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path, PYTHONPATH=str(furnished))
    assert answer["tensorflow_file"] == str(tmp_path / "tensorflow.py")
    assert answer["local_modules"] == [str(tmp_path / "keras/__init__.py"), str(tmp_path / "tensorflow.py")]
    assert answer["working_folder"] == str(tmp_path)


def test_a_local_module_of_the_name_of_a_standard_one_is_told(interpreter: Interpreter, tmp_path: pathlib.Path) -> None:
    (tmp_path / "inspect.py").write_text("raise SystemExit('nobody may import this')\n")
    (tmp_path / "random").mkdir()
    (tmp_path / "random/__init__.py").touch()
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path)
    assert answer["local_modules"] == [str(tmp_path / "inspect.py"), str(tmp_path / "random/__init__.py")]


def test_with_a_safe_path_local_modules_hide_nothing(
    interpreter: Interpreter, furnished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "tensorflow.py").touch()
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path, PYTHONPATH=str(furnished), PYTHONSAFEPATH="1")
    safe = interpreter.version >= (3, 11)
    expected = furnished / "tensorflow/__init__.py" if safe else tmp_path / "tensorflow.py"
    assert answer["tensorflow_file"] == str(expected)
    assert answer["local_modules"] == ([] if safe else [str(tmp_path / "tensorflow.py")])
    assert answer["search_path"][0] == str(furnished)


def test_an_empty_entry_of_the_python_path_is_the_working_folder(
    interpreter: Interpreter, tmp_path: pathlib.Path
) -> None:
    furnish(tmp_path)
    (answer,) = interpreter.answers("describe_target", cwd=tmp_path, PYTHONPATH=":/missing", PYTHONSAFEPATH="1")
    assert answer["tensorflow_owners"][:1] == ["tensorflow"]


def test_a_working_folder_that_was_removed_costs_nothing_else(
    interpreter: Interpreter, furnished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && exec "$2" "$3"'
    program = str(FOLDER / "describe_target.py")
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(gone), str(interpreter.python), program], capture_output=True, text=True,
        env={"PYTHONPATH": str(furnished)}, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tensorflow_owners"] == ["tensorflow"]


def test_a_folder_without_permission_costs_nothing_else(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    furnish(tmp_path)
    closed = tmp_path / "nvidia/cudnn/lib"
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("the one who runs the tests may read everything")
        (answer,) = interpreter.answers("describe_target", cwd=elsewhere, PYTHONPATH=str(tmp_path))
        assert str(tmp_path / "nvidia/cu13/lib/libcudart.so.13") in answer["nvidia_libraries"]
    finally:
        closed.chmod(0o755)


def test_opening_files_says_how_it_went(interpreter: Interpreter, tmp_path: pathlib.Path) -> None:
    (tmp_path / "nvidia0").touch()
    (tmp_path / "folder").mkdir()
    paths = [str(tmp_path / name) for name in ("nvidia0", "missing", "folder", "nvidia0/below")]
    answers = interpreter.answers("open_device_nodes", *paths, cwd=tmp_path)
    assert [row["phase"] for row in answers if "phase" in row] == [f"opening {path}" for path in paths]
    opened = {path: error for row in answers for path, error in row.get("opened", {}).items()}
    assert opened == dict(zip(paths, ("", "ENOENT", "EISDIR", "ENOTDIR"), strict=True))


def test_opening_a_file_without_permission_says_so(interpreter: Interpreter, tmp_path: pathlib.Path) -> None:
    (tmp_path / "nvidia0").touch(mode=0o444)
    if os.access(tmp_path / "nvidia0", os.W_OK):
        pytest.skip("the one who runs the tests may write everything")
    answers = interpreter.answers("open_device_nodes", tmp_path / "nvidia0", cwd=tmp_path)
    assert answers[-1] == {"opened": {str(tmp_path / "nvidia0"): "EACCES"}}


def test_opening_nothing_says_nothing(interpreter: Interpreter, tmp_path: pathlib.Path) -> None:
    assert interpreter.answers("open_device_nodes", cwd=tmp_path) == []


def install_tensorflow(site: pathlib.Path, source: str) -> pathlib.Path:
    """A package tensorflow that does this when it is imported."""
    (site / "tensorflow").mkdir(parents=True)
    (site / "tensorflow/__init__.py").write_text(textwrap.dedent(source))
    return site


def run_tensorflow(interpreter: Interpreter, site: pathlib.Path, cwd: pathlib.Path, **variables: str) -> dict[str, Any]:
    """The merged answer of the program that imports TensorFlow."""
    merged: dict[str, Any] = {}
    for row in interpreter.answers("run_tensorflow", "GPU", cwd=cwd, python=None, PYTHONPATH=str(site), **variables):
        merged.update(row)
    return merged


def test_a_missing_tensorflow_is_an_import_error(interpreter: Interpreter, elsewhere: pathlib.Path) -> None:
    answer = run_tensorflow(interpreter, elsewhere, elsewhere)
    assert answer["import_error"] == "ModuleNotFoundError: No module named 'tensorflow'"
    assert answer["phase"] == "importing TensorFlow"
    assert "gpus_listed" not in answer


def test_an_import_that_raises_is_told_with_its_traceback(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    site = install_tensorflow(
        tmp_path, "def load():\n    raise ImportError('libcudart.so.12: cannot\\nopen')\nload()\n"
    )
    answer = run_tensorflow(interpreter, site, elsewhere)
    assert answer["import_error"] == "ImportError: libcudart.so.12: cannot open"
    assert any(str(site / "tensorflow/__init__.py") in line for line in answer["import_traceback"])


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Odd(BaseException):\n    def __str__(self): raise ValueError\nraise Odd()", "tensorflow.Odd: <"),
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('x' * 100000)", "RuntimeError: xxx"),
        ("raise ImportError('caf\\udce9')", "ImportError: caf\udce9"),
    ],
)  # fmt: skip
def test_whatever_an_import_raises_is_told(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path, source: str, error: str
) -> None:
    answer = run_tensorflow(interpreter, install_tensorflow(tmp_path, source), elsewhere)
    assert error in answer["import_error"]
    assert len(answer["import_error"]) <= 2000
    assert len(answer["import_traceback"]) <= 40


def test_an_exception_that_cannot_be_read_names_no_culprit(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    source = """
        class Odd(AttributeError):
            def __str__(self):
                raise ValueError('no')
        try:
            raise ImportError('first', name=3, path=4)
        except ImportError as error:
            raise Odd() from error
    """
    answer = run_tensorflow(interpreter, install_tensorflow(tmp_path, source), elsewhere)
    assert "Odd" in answer["import_error"]
    assert [row for row in answer["culprits"] if row["named"]] == []


def test_what_tensorflow_prints_does_not_spoil_the_answer(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    source = """
        import os, subprocess, sys
        print('printed', flush=True)
        os.write(1, b'written\\n')
        subprocess.run(['echo', 'by a child'], check=True)
        sys.__stdout__.write('{"version": "a lie"}\\n')
        sys.__stdout__.flush()
        raise ImportError('in the end')
    """
    site = install_tensorflow(tmp_path, source)
    program = FOLDER / "run_tensorflow.py"
    done = interpreter.run(program, "GPU", cwd=elsewhere, PYTHONPATH=str(site))
    assert [sorted(json.loads(line)) for line in done.stdout.splitlines()] == [
        ["phase"],
        ["import_error", "import_traceback"],
        ["culprits", "import_path"],
    ]
    for text in ("printed", "written", "by a child", "a lie"):
        assert text in done.stderr


MADE_UP = """
    import contextlib, os, types
    __version__ = '2.99.0'
    os.environ['CUDA_VISIBLE_DEVICES'] = '-1'
    os.environ['OF_NO_INTEREST'] = '1'
    soft = []
    grown = []

    class Device:
        def __init__(self, name):
            self.name = name

    def set_memory_growth(device, on):
        grown.append(device.name)

    def details(device):
        if device.name.endswith('1'):
            return {}
        return {'device_name': 'NVIDIA Made-Up', 'compute_capability': (8, 6)}

    config = types.SimpleNamespace(
        list_physical_devices=lambda kind: [Device('/physical_device:%s:%d' % (kind, index)) for index in range(2)],
        set_soft_device_placement=soft.append,
        experimental=types.SimpleNamespace(
            get_device_details=details,
            get_memory_growth=lambda device: None,
            set_memory_growth=set_memory_growth,
        ),
    )

    @contextlib.contextmanager
    def device(name):
        if soft != [False] or len(grown) != 2:
            raise AssertionError('computed before it was set up')
        if name == '/GPU:1':
            raise RuntimeError('CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error')
        yield
"""


def test_devices_are_described_and_computed_on(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    answer = run_tensorflow(interpreter, install_tensorflow(tmp_path, MADE_UP), elsewhere, CUDA_VISIBLE_DEVICES="0,1")
    assert (answer["version"], answer["gpus_listed"]) == ("2.99.0", True)
    assert answer["gpus"] == [
        {
            "name": "/physical_device:GPU:0",
            "description": "NVIDIA Made-Up",
            "compute_capability": "8.6",
            "memory_growth": None,
        },
        {"name": "/physical_device:GPU:1", "description": "", "compute_capability": "", "memory_growth": None},
    ]
    rows = {(row["operation"], row["device"]): row for row in answer["computations"]}
    assert set(rows) == {(operation, f"/GPU:{index}") for operation in ("matmul", "convolution") for index in (0, 1)}
    assert all("largest_error" not in row for row in rows.values())  # this tensorflow has no arithmetic at all
    assert all("AttributeError" in row["error"] for row in rows.values())
    assert answer["changed_variables"] == {"CUDA_VISIBLE_DEVICES": "-1"}
    assert "use_error" not in answer


def test_what_the_start_of_python_changes_is_told(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    site = install_tensorflow(tmp_path, "__version__ = '2.99.0'")
    (site / "sitecustomize.py").write_text("import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n")
    answer = run_tensorflow(interpreter, site, elsewhere, CUDA_VISIBLE_DEVICES="0")
    assert answer["changed_variables"] == {"CUDA_VISIBLE_DEVICES": "-1"}


@pytest.mark.parametrize(
    ("source", "use_error"),
    [
        ("__version__ = '2.99.0'\n", "AttributeError: module 'tensorflow' has no attribute 'config'"),
        ("", "AttributeError: module 'tensorflow' has no attribute '__version__'"),
        (
            "import types\n__version__ = '2.99.0'\ndef broken(kind): raise RuntimeError('cudaGetDevice() failed')\n"
            "config = types.SimpleNamespace(list_physical_devices=broken)\n",
            "RuntimeError: cudaGetDevice() failed",
        ),
    ],
)
def test_a_tensorflow_that_cannot_be_used_says_why(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path, source: str, use_error: str
) -> None:
    answer = run_tensorflow(interpreter, install_tensorflow(tmp_path, source), elsewhere)
    assert answer["use_error"].startswith(use_error)
    assert "gpus_listed" not in answer


def test_a_tensorflow_without_a_gpu_has_listed_none(
    interpreter: Interpreter, tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    source = (
        "import types\n__version__ = '2.99.0'\nconfig = types.SimpleNamespace(list_physical_devices=lambda kind: [])\n"
    )
    answer = run_tensorflow(interpreter, install_tensorflow(tmp_path, source), elsewhere)
    assert (answer["gpus_listed"], answer["gpus"], "computations" in answer) == (True, [], False)


def test_a_module_in_the_working_folder_is_imported_as_a_users_program_would(
    interpreter: Interpreter, tmp_path: pathlib.Path
) -> None:
    site = install_tensorflow(tmp_path / "site", "raise ImportError('the installed one')")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/tensorflow.py").write_text("raise ImportError('the local one')\n")
    assert run_tensorflow(interpreter, site, tmp_path / "work")["import_error"] == "ImportError: the local one"
    expected = "the installed one" if interpreter.version >= (3, 11) else "the local one"
    answer = run_tensorflow(interpreter, site, tmp_path / "work", PYTHONSAFEPATH="1")
    assert answer["import_error"] == f"ImportError: {expected}"


def ask_for_runtime(python: str | pathlib.Path, site: pathlib.Path, deadline_s: float = 120.0) -> Any:
    """The fact of the probe `runtime`, with its real child."""
    host = Host(environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)})
    return runtime.function(host=host, request=Request(python=str(python), deadline_s=deadline_s))


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT"])
def test_a_tensorflow_that_dies_is_a_fact(interpreter: Interpreter, tmp_path: pathlib.Path, name: str) -> None:
    source = f"import os, signal, sys; sys.stderr.write('about to die\\n'); sys.stderr.flush(); os.kill(os.getpid(), signal.{name})"
    found = ask_for_runtime(interpreter.python, install_tensorflow(tmp_path, source))
    assert (found.attempt.outcome, found.attempt.signal) == ("killed_by_signal", name)
    assert found.attempt.phase == "importing TensorFlow"
    assert "about to die" in found.attempt.stderr
    assert not found.gpus_listed


def test_a_tensorflow_that_leaves_is_a_fact(interpreter: Interpreter, tmp_path: pathlib.Path) -> None:
    found = ask_for_runtime(interpreter.python, install_tensorflow(tmp_path, "import os; os._exit(5)"))
    assert (found.attempt.outcome, found.attempt.exit_code) == ("failed", 5)
    assert found.attempt.phase == "importing TensorFlow"
    quiet = ask_for_runtime(interpreter.python, install_tensorflow(tmp_path / "quiet", "import os; os._exit(0)"))
    assert not quiet.gpus_listed
    assert quiet.import_error == ""


def test_a_tensorflow_that_hangs_is_a_fact(tmp_path: pathlib.Path) -> None:
    source = """
        import os, sys, time
        open(os.path.join(os.path.dirname(__file__), 'pid'), 'w').write(str(os.getpid()))
        time.sleep(1000)
    """
    site = install_tensorflow(tmp_path, source)
    note = site / "tensorflow/pid"
    for deadline_s in (2.0, 20.0, 60.0):  # a later one as long as the import has not come that far
        started = time.monotonic()
        found = ask_for_runtime(sys.executable, site, deadline_s=deadline_s)
        assert time.monotonic() - started < deadline_s + 58
        if found.attempt.phase == "importing TensorFlow" and note.exists() and note.read_text():
            break
    assert (found.attempt.outcome, found.attempt.stuck) == ("timed_out", False)
    assert found.attempt.phase == "importing TensorFlow"
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.usefixtures("own_tmpdir")
def test_a_child_dies_with_the_one_that_asked(tmp_path: pathlib.Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux kills a child with its parent")
    source = """
        import os, time
        open(os.path.join(os.path.dirname(__file__), 'pid.part'), 'w').write(str(os.getpid()))
        os.rename(os.path.join(os.path.dirname(__file__), 'pid.part'), os.path.join(os.path.dirname(__file__), 'pid'))
        time.sleep(1000)
    """
    site = install_tensorflow(tmp_path, source)
    asking = (
        "import sys\nfrom tfgpu_doctor.host import Host\nfrom tfgpu_doctor.collect.probes.child import ask\n"
        "ask(Host(), sys.executable, 'run_tensorflow', ['GPU'], deadline_s=500)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", asking], env={**os.environ, "PYTHONPATH": str(site)})
    note = site / "tensorflow/pid"
    try:
        assert becomes_true(note.exists)
    finally:
        parent.kill()
        parent.wait()
    pid = int(note.read_text())
    try:
        assert becomes_true(lambda: not is_running(pid))
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def becomes_true(condition: Any) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return bool(condition())


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet waited for does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
