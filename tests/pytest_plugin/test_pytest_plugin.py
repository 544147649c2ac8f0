"""The pytest plugin in real runs of pytest: on this machine, on recorded ones, with several workers."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from doctor_command import clean_environment
from every import every
from healthy import broken, cuda_gpu, gpu, nvml_gpu
from locations import RECORDS
from replayed import NAMES, report_on

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.gpu_demand import (
    Demand,
    DemandError,
    UsableGpu,
    missing,
    read_demand,
    strictest,
    usable_gpus,
    why_no_gpu,
)
from tfgpu_doctor.model.bundle import FACTS, pack
from tfgpu_doctor.model.facts import Facts, decode_facts

TESTS = """
import os, sys
import pytest

@pytest.mark.gpu
def test_any():
    assert "tensorflow" not in sys.modules

@pytest.mark.gpu(memory="10GiB", compute_capability="8.0")
def test_large():
    pass

@pytest.mark.gpu(memory="60GiB")
def test_huge():
    pass

class TestTwo:
    @pytest.mark.gpu(count=2)
    def test_two(self):
        pass

def test_plain():
    assert "tensorflow" not in sys.modules
"""

# pytest-xdist kills a worker that does not end within ten seconds.
ENDLESS = """
import atexit, glob, os, tempfile, time
import pytest

@pytest.mark.gpu
def test_gpu():
    pass

@pytest.mark.parametrize("number", range(2))
def test_never_ends(number):
    if glob.glob(os.path.join(tempfile.gettempdir(), "tfgpu-doctor-*")):
        open("examined", "w").close()
    atexit.register(time.sleep, 300)
"""


def run_pytest(
    folder: pathlib.Path, *arguments: str, machine: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin over the folder, in which `TESTS` are written where it holds none."""
    if not any(folder.glob("test_*.py")):
        (folder / "test_it.py").write_text(TESTS)
    facts = [f"--gpu-facts={RECORDS[machine]}"] if machine else []
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tfgpu_doctor.pytest_plugin", "-p", "no:cacheprovider", "-rsf", "--tb=short",
         "--strict-markers", "-W", "error", f"--basetemp={folder / 'temporary'}", *facts, *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, env=clean_environment(**variables), check=False,
    )  # fmt: skip


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    last = done.stdout.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?|deselected)", last)}


@pytest.fixture
def counting(tmp_path: pathlib.Path) -> tuple[dict[str, str], pathlib.Path]:
    """Variables with which every examination of this machine leaves a line in a file, and that file."""
    log = tmp_path / "examinations"
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "def look(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'tfgpu_doctor.collect.examination':\n"
        f"        with open({str(log)!r}, 'a') as file:\n"
        "            file.write('one\\n')\n"
        "sys.addaudithook(look)\n"
    )
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}, log


def test_tests_run_where_the_gpus_are(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, machine="workstation-healthy")
    assert done.returncode == 0
    assert counts(done) == {"passed": 3, "skipped": 2}
    assert "it needs 1 GPU with 60GiB; TensorFlow has GPU:0 (23.0 GiB free, 8.6)" in done.stdout
    assert "it needs 2 GPUs; TensorFlow has GPU:0" in done.stdout


def test_tests_skip_with_the_root_cause(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, machine="debian-nouveau")
    assert done.returncode == 0
    assert counts(done) == {"passed": 1, "skipped": 4}
    assert (
        done.stdout.count("is bound to the nouveau driver, which does not support CUDA (DRV003, nouveau_loaded)") == 4
    )


def test_a_required_gpu_that_is_missing_is_one_failure(tmp_path: pathlib.Path) -> None:
    """One, however many tests need it, with cause and fix, in JUnit's file as well; the others still run."""
    junit = tmp_path / "junit.xml"
    done = run_pytest(tmp_path, "--require-gpu", f"--junitxml={junit}", machine="debian-nouveau")
    assert done.returncode == 1
    assert counts(done) == {"failed": 1, "passed": 1, "skipped": 4}
    assert "--require-gpu was given, but 4 tests marked gpu cannot run here" in done.stdout
    assert "Install NVIDIA's driver with the distribution's own tool" in done.stdout
    (failure,) = ET.parse(junit).getroot().iter("failure")
    assert "nouveau" in (failure.text or "")


def test_a_required_gpu_that_is_there_fails_nothing(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, "--require-gpu", "-k", "any or large or plain", machine="workstation-healthy")
    assert (done.returncode, counts(done)) == (0, {"passed": 3, "deselected": 2})


def test_a_demand_that_is_not_met_fails_where_a_gpu_is_required(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, "--require-gpu", machine="workstation-healthy")
    assert (done.returncode, counts(done)) == (1, {"failed": 1, "passed": 3, "skipped": 2})
    assert "2 tests marked gpu cannot run here" in done.stdout


MARKED_TWICE = """
import pytest

pytestmark = pytest.mark.gpu(compute_capability="8.0")

@pytest.mark.gpu(count=9)
class TestMany:
    @pytest.mark.gpu(memory="1GiB")
    def test_method(self):
        pass

@pytest.mark.gpu(count=2)
class TestTwo:
    @pytest.mark.gpu(count=1, memory="900MB")
    @pytest.mark.gpu(memory="1GiB")
    def test_method(self):
        pass

    @pytest.mark.parametrize("kind", ["a", pytest.param("b", marks=pytest.mark.gpu(compute_capability="10.0"))])
    def test_parameters(self, kind):
        pass
"""


def test_every_marker_of_a_test_counts(tmp_path: pathlib.Path) -> None:
    """Those of its module, its class, its function and its parameters: the strictest of each argument."""
    (tmp_path / "test_it.py").write_text(MARKED_TWICE)
    done = run_pytest(tmp_path, machine="dgx-8-gpus-healthy")
    assert counts(done) == {"passed": 2, "skipped": 2}, done.stdout
    assert "it needs 9 GPUs with 1GiB, compute capability 8.0; TensorFlow has GPU:0" in done.stdout
    assert "it needs 2 GPUs with compute capability 10.0; TensorFlow has GPU:0" in done.stdout


def test_a_typo_in_the_marker_of_a_class_is_an_error_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(MARKED_TWICE.replace("gpu(count=9)", "gpu(cuont=9)"))
    done = run_pytest(tmp_path, machine="dgx-8-gpus-healthy")
    assert counts(done) == {"error": 1}
    assert "@pytest.mark.gpu: it takes memory, count, compute_capability, not 'cuont'" in done.stdout


def test_the_strictest_of_several_demands() -> None:
    demands = [Demand(memory="900MB"), Demand(count=3, memory="1GiB", compute_capability="9.0"), Demand(2, "", "10.0")]
    assert strictest(demands) == Demand(count=3, memory="1GiB", compute_capability="10.0")
    assert strictest([Demand(memory="1024MiB"), Demand(memory="1GiB")]).memory == "1024MiB"  # as the nearest says it


def test_no_fix_names_an_option_that_pytest_does_not_have(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, "--require-gpu", machine="system-python-that-refuses-pip")
    assert "Use the Python that has TensorFlow (`tfgpu-doctor --python PATH`" in " ".join(done.stdout.split())
    assert "with `--python PATH`" not in done.stdout


def test_this_machine_is_examined_once_and_not_in_pytests_own_process(
    tmp_path: pathlib.Path, counting: tuple[dict[str, str], pathlib.Path]
) -> None:
    variables, log = counting
    done = run_pytest(tmp_path, "-k", "any or plain", **variables)
    assert done.returncode == 0, done.stdout
    assert counts(done)["deselected"] == 3
    assert log.read_text().splitlines() == ["one"]


@pytest.mark.slow
def test_several_workers_examine_once(tmp_path: pathlib.Path, counting: tuple[dict[str, str], pathlib.Path]) -> None:
    pytest.importorskip("xdist")
    variables, log = counting
    done = run_pytest(tmp_path, "-n", "3", "--require-gpu", "-k", "two or plain", **variables)
    assert counts(done)["passed"] + counts(done).get("skipped", 0) == 2, done.stdout
    assert done.returncode == (1 if "failed" in counts(done) else 0)
    assert counts(done).get("failed", 0) == counts(done).get("skipped", 0)
    assert log.read_text().splitlines() == ["one"]


@pytest.mark.slow
def test_workers_examine_by_themselves_where_files_cannot_be_locked(
    tmp_path: pathlib.Path, counting: tuple[dict[str, str], pathlib.Path]
) -> None:
    """As on Lustre without `-o flock`: none can be mounted here, so `flock` itself says what it says there."""
    pytest.importorskip("xdist")
    variables, log = counting
    with (tmp_path / "site/sitecustomize.py").open("a") as file:
        file.write(
            "import errno, fcntl, os\ndef flock(*_):\n    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))\n"
        )
        file.write("fcntl.flock = flock\n")
    done = run_pytest(tmp_path, "-n", "2", "-k", "two or plain", **variables)
    assert (done.returncode, "INTERNALERROR" in done.stdout) == (0, False), done.stdout
    assert set(log.read_text().splitlines()) == {"one"}
    assert list((tmp_path / "temporary").glob("**/*.lock")) == []


@pytest.mark.slow
@every("without", ["tfgpu_doctor.perf_tests.plugin", "no_such_plugin"])
def test_a_worker_that_is_killed_at_its_end_leaves_no_folder(without: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("xdist")
    folder, temporary = tmp_path / without, tmp_path / f"{without}.tmp"
    folder.mkdir()
    temporary.mkdir()
    (folder / "test_it.py").write_text(ENDLESS)
    done = run_pytest(folder, "-n", "2", "-p", f"no:{without}", TMPDIR=str(temporary))
    assert counts(done)["passed"] >= 2, done.stdout
    assert (folder / "examined").exists()
    assert list(temporary.glob("tfgpu-doctor-*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--collect-only",), ("-k", "plain"), ("-m", "not gpu")])
def test_nothing_is_examined_where_no_test_needs_it(
    arguments: tuple[str, ...], tmp_path: pathlib.Path, counting: tuple[dict[str, str], pathlib.Path]
) -> None:
    variables, log = counting
    done = run_pytest(tmp_path, *arguments, **variables)
    assert done.returncode == 0
    assert not log.exists()


def test_a_required_gpu_that_no_test_uses_is_a_failure(
    tmp_path: pathlib.Path, counting: tuple[dict[str, str], pathlib.Path]
) -> None:
    variables, log = counting
    done = run_pytest(tmp_path, "--require-gpu", "-m", "not gpu", **variables)
    assert (done.returncode, counts(done)) == (1, {"failed": 1, "passed": 1, "deselected": 4})
    assert "no test marked gpu was selected" in done.stdout
    assert not log.exists()


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_typos_in_a_marker_are_errors_of_its_file(workers: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_typo.py").write_text(
        "import pytest\n\n@pytest.mark.gpu(memroy='10GiB')\ndef test_it():\n    pass\n"
    )
    done = run_pytest(tmp_path, *workers)
    assert done.returncode in (1, 2)
    assert counts(done) == {"error": 1}
    assert "@pytest.mark.gpu: it takes memory, count, compute_capability, not 'memroy'" in done.stdout
    assert "INTERNALERROR" not in done.stdout


def test_a_ticket_is_a_recorded_machine(tmp_path: pathlib.Path) -> None:
    record = RECORDS["debian-nouveau"].read_bytes()
    (tmp_path / "ticket.zip").write_bytes(pack({FACTS: b"\xef\xbb\xbf" + record}))
    done = run_pytest(tmp_path, "--gpu-facts=ticket.zip")
    assert counts(done) == counts(run_pytest(tmp_path, machine="debian-nouveau"))
    assert "nouveau" in done.stdout


@pytest.mark.parametrize("content", [None, b"{}", b"no JSON", b"PK no zip", pack({"a": b"b"})])
def test_a_record_that_cannot_be_read_is_wrong_usage(content: bytes | None, tmp_path: pathlib.Path) -> None:
    if content is not None:
        (tmp_path / "machine.json").write_bytes(content)
    done = run_pytest(tmp_path, "--gpu-facts=machine.json")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--gpu-facts" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "named", "complaint"),
    [
        (("10GiB",), {}, "named arguments"),
        ((), {"memory": "10 gigs"}, "'10 gigs'"),
        ((), {"memory": 10}, "not 10"),
        ((), {"memory": ""}, "''"),
        ((), {"memory": "0GiB"}, "'0GiB'"),
        ((), {"count": 0}, "not 0"),
        ((), {"count": True}, "not True"),
        ((), {"count": "2"}, "not '2'"),
        ((), {"compute_capability": 8.0}, "not 8.0"),
        ((), {"compute_capability": "sm_80"}, "'sm_80'"),
        ((), {"capability": "8.0"}, "not 'capability'"),
    ],
)
def test_demands_that_cannot_be_meant(arguments: tuple[Any, ...], named: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DemandError, match=re.escape(complaint)):
        read_demand(arguments, named)


@pytest.mark.parametrize(
    ("machine", "named", "met"),
    [
        ("dgx-8-gpus-healthy", {"count": 8}, True),
        ("dgx-8-gpus-healthy", {"count": 9}, False),
        ("workstation-healthy", {"memory": "23GiB"}, True),
        ("workstation-healthy", {"memory": "24GiB"}, False),  # of 24, 23 are free
        ("workstation-healthy", {"compute_capability": "8.6"}, True),
        ("workstation-healthy", {"compute_capability": "8.9"}, False),
        ("workstation-healthy", {"compute_capability": "10.0"}, False),
        ("kubernetes-mig-slice-healthy", {"memory": "10GiB"}, True),
        ("kubernetes-mig-slice-healthy", {"memory": "20GiB"}, False),  # of the slice, not of the board
        ("jetson-healthy", {"memory": "30GB"}, True),  # without NVML
        ("mac-metal-healthy", {}, True),
        ("mac-metal-healthy", {"memory": "1GiB"}, False),  # nobody tells
    ],
)
def test_demands_of_recorded_machines(machine: str, named: dict[str, Any], met: bool) -> None:
    facts = decode_facts(RECORDS[machine].read_bytes())
    assert why_no_gpu(diagnose(facts)) == ""
    assert (missing(read_demand((), named), usable_gpus(facts)) == "") is met


def two_gpus(first: dict[str, Any], second: dict[str, Any], shown: str | None = None, cuda: int = 2) -> Facts:
    """A machine whose GPUs have this free memory (GiB) and compute capability, in TensorFlow's order; CUDA lists so many."""
    given = (first, second)
    return broken(
        nvml={"gpus": tuple(nvml_gpu(place, memory_free_bytes=each.get("free", 23) << 30) for place, each in enumerate(given))},
        cuda_driver={"gpus": tuple(cuda_gpu(place) for place in range(cuda))},
        runtime={
            "gpus": tuple(
                gpu(place, compute_capability=each.get("capability", "8.6")) for place, each in enumerate(given)
            )
        },
        environment={"variables": {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}},
    )  # fmt: skip


SMALL, OLD, LARGE = {"free": 4}, {"capability": "6.1"}, {"free": 23}


@pytest.mark.parametrize(
    ("gpus", "more", "named", "words"),
    [
        ((LARGE, SMALL), {}, {"memory": "10GiB"}, ""),  # a test uses the first
        (
            (SMALL, LARGE), {}, {"memory": "10GiB"},
            "it needs 1 GPU with 10GiB, and a test uses the first that TensorFlow lists: GPU:0 (4.0 GiB free, 8.6) does not "
            "have that; GPU:1 (23.0 GiB free, 8.6) has, and CUDA_VISIBLE_DEVICES=1 selects it",
        ),
        ((SMALL, LARGE), {"shown": "3,2"}, {"memory": "10GiB"}, "CUDA_VISIBLE_DEVICES=2 selects it"),
        ((SMALL, LARGE), {"shown": "GPU-a, GPU-b"}, {"memory": "10GiB"}, "CUDA_VISIBLE_DEVICES=GPU-b selects it"),
        ((OLD, LARGE), {}, {"compute_capability": "8.0"}, "GPU:1 (23.0 GiB free, 8.6) has, and CUDA_VISIBLE_DEVICES=1"),
        ((OLD, LARGE), {"cuda": 3}, {"compute_capability": "8.0"}, "(memory unknown, 8.6) has, and CUDA_VISIBLE_DEVICES can select it"),
        ((SMALL, LARGE), {}, {"memory": "1GiB", "count": 2}, ""),
        ((SMALL, LARGE), {}, {"memory": "10GiB", "count": 2}, "it needs 2 GPUs with 10GiB; TensorFlow has GPU:0 (4.0 GiB"),
        ((SMALL, SMALL), {}, {"memory": "10GiB"}, "it needs 1 GPU with 10GiB; TensorFlow has GPU:0 (4.0 GiB free, 8.6), GPU:1"),
    ],
)  # fmt: skip
def test_the_gpus_that_a_test_uses_must_meet_its_demands(
    gpus: tuple[dict[str, Any], dict[str, Any]], more: dict[str, Any], named: dict[str, Any], words: str
) -> None:
    found = missing(read_demand((), named), usable_gpus(two_gpus(*gpus, **more)))
    assert words in found
    assert bool(found) == bool(words)


def test_of_several_gpus_as_many_are_named_as_a_test_needs() -> None:
    small, *large = (
        UsableGpu(f"GPU:{place}", (4 if place == 0 else 80) << 30, "9.0", True, str(place)) for place in range(8)
    )
    found = missing(Demand(2, "10GiB"), (large[0], small, *large[1:]))
    assert "uses the first 2 that TensorFlow lists: GPU:0 (4.0 GiB free, 9.0) does not have that; GPU:1 (80" in found
    assert found.endswith("GPU:2 (80.0 GiB free, 9.0) have, and CUDA_VISIBLE_DEVICES=1,2 selects them")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("workstation-healthy", "GPU:0 (23.0 GiB free, 8.6)"),
        ("kubernetes-mig-slice-healthy", "GPU:0 (10.0 GiB in total, 8.0)"),  # of a slice, nobody tells what is free
        ("jetson-healthy", "GPU:0 (59.9 GiB in total, 8.7)"),  # without NVML
        ("mac-metal-healthy", "GPU:0 (memory unknown, compute capability unknown)"),
    ],
)
def test_only_memory_that_nvml_calls_free_is_called_so(machine: str, words: str) -> None:
    (gpu,) = usable_gpus(decode_facts(RECORDS[machine].read_bytes()))
    assert str(gpu) == words


@every("machine", NAMES)
def test_no_test_runs_where_tensorflow_does_not_compute(machine: str) -> None:
    report = report_on(machine)
    computes = report.find("GPU004")
    assert (why_no_gpu(report) == "") == (computes is not None and computes.outcome in ("pass", "warn"))
    if report.healthy and not report.quick:
        assert why_no_gpu(report) == ""
