"""The plugin of pytest as users meet it: their own comparisons, pytest-benchmark's options, and tests that compare nothing."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from doctor_command import clean_environment
from installed import skip_without_tensorflow
from judged import profile_of
from locations import ROOT

from tfgpu_doctor.accept.vocabulary import ProfileError
from tfgpu_doctor.bench.names import why_unusable
from tfgpu_doctor.bench.pytest_document import read_document
from tfgpu_doctor.bench.run import Order, run_suites
from tfgpu_doctor.perf_tests.budget import Passes

# Comparisons of somebody who never saw the doctor's own suites; the sides sleep, so that a busy machine changes little.
# No chance lets load pass: it is five times as fast, and asks for fifty.
OWN = """
import os, time
import pytest
from tfgpu_doctor.perf_tests.runner import Variant

def variant(tf, name, seconds):
    def call():
        with open(os.environ["CALLS"], "a") as file:
            file.write(name + "\\n")
        time.sleep(seconds)
        with tf.device("CPU:0"):
            return tf.constant(1.0) + 1.0
    def verify(result):
        assert float(result) == 2.0
    return Variant(name, call, verify)

def test_parse(compare, tensorflow, metric):
    metric("files", 3, "files")
    compare(variant(tensorflow, "quick parser", 0.002), variant(tensorflow, "slow parser", 0.02), at_least=1.5)

def test_load(compare, tensorflow):
    compare(variant(tensorflow, "one loader", 0.01), variant(tensorflow, "another", 0.05), at_least=50)
"""
STORE = """
def test_store(compare, tensorflow):
    compare(variant(tensorflow, "quick store", 0.002), variant(tensorflow, "slow store", 0.02))
"""
PLAIN = """
import sys
def test_second_in_the_alphabet(): pass
def test_first():
    assert "tensorflow" not in sys.modules and "tfgpu_doctor.bench" not in sys.modules
"""
OF_THE_USER = """
import pytest

@pytest.fixture
def compare():
    return lambda one, other: one == other

def test_equal(compare):
    assert compare(1, 1)
"""
WRAPPED = """
import pytest

@pytest.fixture
def compare(compare):
    return compare
"""
PRINTS = """
def pytest_collection_finish(session):
    for item in session.items:
        print(f"\\nbenchmark: {item.get_closest_marker('benchmark') is not None}")
"""
# Long enough that what a busy machine adds, some milliseconds, is a small part.
SLOWER = OWN.replace('"quick parser", 0.002', '"quick parser", 0.02').replace(
    '"slow parser", 0.02', '"slow parser", 0.2'
)
_KEEPS = ("-q", "-rs", "-p", "no:randomly")
_MORE = (*_KEEPS, "-p", "no:cacheprovider")
_BUDGET = "--tfgpu-budget=10m"  # on a busy machine TensorFlow and the examination alone may take more than a minute


def run_pytest(
    folder: pathlib.Path, *words: str, text: str = OWN, options: tuple[str, ...] = _MORE, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "test_ingest.py").write_text(text)
    environment = {**clean_environment(), "CALLS": str(folder / "calls"), "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *words, "test_ingest.py"], cwd=folder, env=environment, text=True,
        capture_output=True, timeout=600, check=False,
    )  # fmt: skip


def calls(folder: pathlib.Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_tests_that_compare_nothing_are_left_alone(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, "-vv", text=PLAIN)
    assert done.returncode == 0, done.stdout
    assert done.stdout.index("test_second_in_the_alphabet") < done.stdout.index("test_first")


def test_without_pytest_benchmark_it_stays_out_of_the_way(tmp_path: pathlib.Path) -> None:
    done = run_pytest(tmp_path, "-p", "no:benchmark", text=PLAIN, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_pytest(tmp_path, "-p", "tfgpu_doctor.perf_tests.plugin", text=PLAIN, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("words", [("-p", "no:benchmark"), ()], ids=["without pytest-benchmark", "with it"])
@pytest.mark.parametrize("setting", ["--strict-markers", "-Werror"])
def test_a_fixture_of_the_same_name_is_left_alone(tmp_path: pathlib.Path, words: tuple[str, ...], setting: str) -> None:
    done = run_pytest(tmp_path, *words, setting, text=OF_THE_USER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [(OF_THE_USER, "False"), (OWN, "True"), (WRAPPED + OWN, "True")],
    ids=["own", "the doctor's", "wrapped"],
)
def test_what_compares_is_measured_by_pytest_benchmark(tmp_path: pathlib.Path, text: str, found: str) -> None:
    (tmp_path / "conftest.py").write_text(PRINTS)
    done = run_pytest(tmp_path, "--collect-only", text=text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line for line in done.stdout.splitlines() if line.startswith("benchmark: ")} == {f"benchmark: {found}"}


@pytest.mark.parametrize(
    ("conftest", "package", "said"),
    [
        ("", "import distutils_that_is_gone", "TensorFlow cannot be imported: ModuleNotFoundError: No module named 'distutils"),
        ("", "raise AttributeError('_ARRAY_API not found')", "TensorFlow cannot be imported: AttributeError: _ARRAY_API"),
        ("import sys; sys.modules['tensorflow'] = None", "", "SKIPPED"),
    ],
    ids=["lacks a module", "raises", "not installed"],
)  # fmt: skip
def test_a_tensorflow_that_cannot_be_imported_is_no_silent_skip(
    conftest: str, package: str, said: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "path/tensorflow").mkdir(parents=True)
    (tmp_path / "path/tensorflow/__init__.py").write_text(package)
    (tmp_path / "conftest.py").write_text(conftest)
    done = run_pytest(tmp_path, "-rs", text="def test_it(tensorflow): pass\n", PYTHONPATH=str(tmp_path / "path"))
    assert said in done.stdout, done.stdout + done.stderr
    assert ("TensorFlow is not installed in this Python" in done.stdout) == (not package)
    assert done.returncode == (1 if package else 0)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_comparison_without_pytest_benchmark_is_an_error_of_its_own(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    done = run_pytest(tmp_path, "-p", "no:benchmark", "--strict-markers", text=OWN)
    assert done.returncode == 1
    assert "fixture 'benchmark' not found" in done.stdout
    assert "INTERNALERROR" not in done.stdout + done.stderr


def test_the_suites_are_found_in_the_installed_package(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", *_MORE, "--pyargs", "tfgpu_doctor.perf_tests"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), text=True, capture_output=True, check=False)
    assert "test_prefetch" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.tensorflow
class TestWithTensorFlow:
    @pytest.fixture(autouse=True)
    def _tensorflow(self) -> None:
        skip_without_tensorflow()
        if os.path.exists("/proc/driver/nvidia"):
            pytest.skip("this machine has a GPU: a lost comparison fails")

    def test_own_comparisons_are_in_the_table_and_in_the_document(self, tmp_path: pathlib.Path) -> None:
        path = tmp_path / "found.json"
        done = run_pytest(tmp_path, _BUDGET, f"--benchmark-json={path}", "--benchmark-max-time=0.6", text=SLOWER)
        assert done.returncode == 0, done.stdout
        # By what else the machine does:
        assert "1 passed, 1 skipped" in done.stdout or "parse: too noisy" in done.stdout
        assert "load: not shown" in done.stdout or "load: too noisy" in done.stdout
        table = done.stdout[done.stdout.index("benchmark 'ingest/parse': 2 tests") :]
        assert "quick parser" in table
        assert "slow parser" in table
        document = json.loads(path.read_text())
        rows = {row["name"]: row for row in document["benchmarks"]}
        assert set(rows) == {"quick parser", "slow parser", "one loader", "another"}
        times = (rows[name]["stats"]["data"] for name in ("quick parser", "slow parser"))
        ratios = [slow / quick for quick, slow in zip(*times, strict=True)]  # of each round
        assert 0.99 * min(ratios) <= rows["quick parser"]["extra_info"]["ratio"] <= 1.01 * max(ratios)
        assert [row["name"] for row in document["tfgpu_doctor"]["metrics"]] == ["files"]
        read = read_document(path.read_bytes()).bench
        assert [each.key for each in read.comparisons] == ["ingest::parse", "ingest::load"]

    @pytest.mark.slow
    def test_disabled_benchmarks_are_verified_and_not_measured(self, tmp_path: pathlib.Path) -> None:
        done = run_pytest(tmp_path, _BUDGET, "--benchmark-disable")
        assert "2 passed" in done.stdout, done.stdout
        assert sorted(calls(tmp_path)) == sorted(["quick parser", "slow parser", "one loader", "another"])

    @pytest.mark.slow
    def test_the_number_of_rounds_is_at_least_what_was_asked_for(self, tmp_path: pathlib.Path) -> None:
        run_pytest(tmp_path, _BUDGET, "--benchmark-max-time=0.1", "--benchmark-min-rounds=30", "-k", "parse")
        assert calls(tmp_path).count("slow parser") >= 30

    @pytest.mark.slow
    def test_a_lost_comparison_fails_if_asked(self, tmp_path: pathlib.Path) -> None:
        done = run_pytest(tmp_path, _BUDGET, "--tfgpu-strict", "--benchmark-max-time=0.2", "-k", "load")
        assert done.returncode == 1
        assert "Failed: load: " in done.stdout

    @pytest.mark.slow
    def test_x_ends_the_run_with_the_first_that_is_lost_and_lf_measures_it_again(self, tmp_path: pathlib.Path) -> None:
        words = (_BUDGET, "--tfgpu-strict", "--benchmark-max-time=0.2", "-k", "load or store")
        done = run_pytest(tmp_path, *words, "-x", text=OWN + STORE, options=_KEEPS)
        assert "Failed: load: " in done.stdout, done.stdout
        assert "stopping after 1 failures" in done.stdout
        assert set(calls(tmp_path)) == {"one loader", "another"}
        (tmp_path / "calls").unlink()
        done = run_pytest(tmp_path, *words, "--lf", text=OWN + STORE, options=_KEEPS)
        assert "Failed: load: " in done.stdout, done.stdout
        assert set(calls(tmp_path)) == {"one loader", "another"}

    @pytest.mark.slow
    def test_the_installed_suites_measure(self, tmp_path: pathlib.Path) -> None:
        """With all that they need: TensorFlow, the examination of the machine, and pytest-benchmark's table."""
        path = tmp_path / "found.json"
        words = ("-k", "test_retracing or test_dispatch", "--benchmark-max-time=0.3", f"--benchmark-json={path}")
        command = [sys.executable, "-m", "pytest", *_MORE, _BUDGET, *words, "--pyargs", "tfgpu_doctor.perf_tests"]
        done = subprocess.run(
            command, cwd=tmp_path, env=clean_environment(), text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "benchmark 'graph_execution/retracing': 2 tests" in done.stdout
        document = json.loads(path.read_text())
        assert "eager dispatch" in {row["name"] for row in document["tfgpu_doctor"]["metrics"]}
        (comparison,) = read_document(path.read_bytes()).bench.comparisons
        assert comparison.key == "graph_execution::retracing"

    @pytest.mark.slow
    def test_measuring_several_at_a_time_is_refused(self, tmp_path: pathlib.Path) -> None:
        pytest.importorskip("xdist")
        done = run_pytest(tmp_path, "-n", "2")
        assert done.returncode == 1
        assert "measurements at the same time disturb each other: run pytest without -n" in done.stdout

    @pytest.mark.slow
    def test_bench_runs_them_in_several_processes(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "test_ingest.py").write_text(SLOWER)
        variables = {"CALLS": str(tmp_path / "calls")}
        suites = [str(tmp_path / "test_ingest.py")]
        order = Order(journal=str(tmp_path / "journal"), suites=suites, passes=Passes(3, 0.1), variables=variables)
        bench = run_suites(order)
        found = {each.key: each for each in bench.comparisons}
        assert set(found) == {"ingest::parse", "ingest::load"}, bench
        assert found["ingest::parse"].verdict in ("faster", "too noisy")  # by what else the machine does
        assert len(found["ingest::parse"].process_ratios) == 3
        if found["ingest::parse"].verdict == "faster":
            assert min(found["ingest::parse"].process_ratios) > 1.5  # else the interval would not be above that
        assert bench.problems == ()

    @pytest.mark.slow
    def test_the_example_works(self, tmp_path: pathlib.Path) -> None:
        example = ROOT / "examples/acme_benchmarks"
        document = tmp_path / "found.json"
        words = (_BUDGET, "--benchmark-max-time=1", f"--benchmark-json={document}")
        command = [sys.executable, "-m", "pytest", *_MORE, *words]
        done = subprocess.run(
            [*command, str(example / "perf")], cwd=tmp_path, text=True, capture_output=True, check=False,
            env=clean_environment(PYTHONPATH=str(example / "src"), PYTHONDONTWRITEBYTECODE="1"),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        (comparison,) = read_document(document.read_bytes()).bench.comparisons
        assert comparison.key == "ingest::parse"
        assert comparison.ratio
        if comparison.verdict != "too noisy":  # by what else the machine does
            assert (comparison.verdict, comparison.ratio > 2) == ("faster", True)


def test_own_suites_are_checked_before_they_run(tmp_path: pathlib.Path) -> None:
    good, taken, other = (tmp_path / name for name in ("test_ingest.py", "test_pipeline.py", "ingest.py"))
    for path in (good, taken, other):
        path.touch()
    assert why_unusable(str(good), [str(good), "pipeline"]) == ""
    assert "the doctor has a suite of this name" in why_unusable(str(taken), [str(taken)])
    assert "a suite is a file named test_NAME.py" in why_unusable(str(other), [str(other)])
    assert "does not exist" in why_unusable(str(tmp_path / "test_x.py"), [])
    twin = tmp_path / "twin/test_ingest.py"
    assert "two suites of this name" in why_unusable(str(good), [str(good), str(twin)])


def test_a_profile_may_require_an_own_suite(tmp_path: pathlib.Path) -> None:
    suites = 'suites = ["perf/test_ingest.py"]\n'
    profile = profile_of(f'{suites}[speed-ups]\n"ingest/parse" = 1.5\n', tmp_path).profile
    assert profile.speed_ups == {"ingest/parse": 1.5}
    for text, said in (
        ('[speed-ups]\n"ingest/parse" = 1.5\n', "there is no comparison 'ingest/parse'"),
        (f'{suites}[speed-ups]\n"ingest" = 1.5\n', "name the comparisons of your own suite: ingest/NAME"),
        ('suites = ["perf/test_pipeline.py"]\n', "the doctor has a suite 'pipeline' of its own"),
    ):
        with pytest.raises(ProfileError, match=re.escape(said)):
            profile_of(text, tmp_path, "other.toml")


@pytest.mark.parametrize("old", [False, True])
def test_a_pytest_that_is_too_old_for_the_plugin_works_on_without_it(old: bool) -> None:
    code = f"import pytest\nif {old}: del pytest.StashKey  # of pytest 7\nfrom tfgpu_doctor.perf_tests import entry\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "print(getattr(entry, 'pytest_plugins', ()))"], capture_output=True, text=True,
        check=False, env=clean_environment(),
    )  # fmt: skip
    assert done.stdout == ("()\n" if old else "('tfgpu_doctor.perf_tests.plugin',)\n"), done.stderr
