"""An opt-in pytest plugin (`-p tfgpu_doctor.pytest_plugin`): it skips tests marked `gpu`, with the root cause."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tfgpu_doctor.gpu_demand import Demand
    from tfgpu_doctor.model.facts import Facts

_LARGEST_RECORD_BYTES = 64 << 20
_PATIENCE_S = 1800.0  # limit for another worker's examination, whose own deadlines end it much earlier
_MARKER = (
    "gpu(memory='10GiB', count=1, compute_capability='8.0'): requires this number of GPUs that TensorFlow computes on; the first "
    "that it lists must each have this much free memory and at least this compute capability; otherwise, the test is skipped "
    "with the root cause"
)


@dataclass(frozen=True)
class Verdict:
    """The result of the diagnosis: why there is no GPU, the report on it (both empty if there is one), and the facts."""

    why: str
    page: str
    facts: Facts


_VERDICT: pytest.StashKey[Verdict] = pytest.StashKey()
_RECORD: pytest.StashKey[Facts] = pytest.StashKey()


class GpuMissing(Exception):
    """--require-gpu was given, and the GPUs that tests need are missing."""


class RequiredGpu(pytest.Item):
    """The one failure of --require-gpu."""

    text = ""

    def runtest(self) -> None:
        """Fail with the text."""
        raise GpuMissing(self.text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:  # noqa: ARG002
        """Return the text alone: the failure is not in a test's code."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        """Return its name in the list of failures."""
        return "tfgpu-doctor", None, "--require-gpu"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --require-gpu and --gpu-facts."""
    group = parser.getgroup("tfgpu-doctor")
    group.addoption(
        "--require-gpu", action="store_true", help="fail, once, if tests marked gpu would skip, or if none is selected"
    )
    group.addoption(
        "--gpu-facts", metavar="FILE", help="a recorded machine, or a ticket, instead of this one (check --record)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and reject an unreadable record before the collection."""
    config.addinivalue_line("markers", _MARKER)
    if path := config.option.gpu_facts:
        config.stash[_RECORD] = _read(os.path.join(config.invocation_params.dir, path))


def pytest_unconfigure() -> None:
    """Remove the doctor's temporary folder now: pytest-xdist kills a worker that takes long to end."""
    if scratch := sys.modules.get("tfgpu_doctor.host.scratch"):
        scratch.remove_run_folder()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Report a typo in a marker as an error of its file, as --strict-markers does for a marker's name."""
    report = yield
    wrong = [why for item in report.result or () if isinstance(item, pytest.Item) and (why := _typo(item))]
    if wrong:
        report.outcome, report.longrepr, report.result = "failed", "\n".join(wrong), []
    return report


@pytest.hookimpl(trylast=True)  # tests that -k and -m deselect require nothing
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests whose GPUs are missing; this is decided before any test can use the memory of a GPU."""
    demands = [(item, demand) for item in items if (demand := _demand(item))]
    if config.option.collectonly:
        return
    reasons = _skip(demands, _diagnosed(config)) if demands else []
    if config.option.require_gpu and (reasons or not demands):
        failure: RequiredGpu = RequiredGpu.from_parent(session, name="require-gpu", nodeid="tfgpu-doctor::require-gpu")
        failure.text = _complaint(reasons, _diagnosed(config).page if demands else "")
        items.insert(0, failure)


def _demand(item: pytest.Item) -> Demand | None:
    """Return the demand of all markers of a test, of its class and of its module. Raises DemandError."""
    markers = list(item.iter_markers("gpu"))
    if not markers:
        return None
    from tfgpu_doctor.gpu_demand import read_demand, strictest

    return strictest([read_demand(marker.args, marker.kwargs) for marker in markers])


def _typo(item: pytest.Item) -> str:
    """Return what is wrong with a test's marker; empty if it is valid."""
    if item.get_closest_marker("gpu") is None:
        return ""
    from tfgpu_doctor.gpu_demand import DemandError

    try:
        _demand(item)
    except DemandError as error:
        return f"{item.nodeid}: @pytest.mark.gpu: {error}"
    return ""


def _skip(demands: list[tuple[pytest.Item, Demand]], verdict: Verdict) -> list[str]:
    """Mark the tests whose demands are not met, and return the reasons, one for each."""
    from tfgpu_doctor.gpu_demand import missing, usable_gpus

    gpus = usable_gpus(verdict.facts)
    reasons = []
    for item, demand in demands:
        if reason := verdict.why or missing(demand, gpus):
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}" if verdict.why else reason))
            reasons.append(reason)
    return reasons


def _complaint(reasons: list[str], page: str) -> str:
    """Return the text of the failure of --require-gpu."""
    if not reasons:
        return "--require-gpu was given, but no test marked gpu was selected: this run did not test a GPU"
    tests = "a test marked gpu" if len(reasons) == 1 else f"{len(reasons)} tests marked gpu"
    each = "\n".join(f"- {reason}" for reason in dict.fromkeys(reasons))
    return f"--require-gpu was given, but {tests} cannot run here:\n{each}\n\n{page}".rstrip()


def _diagnosed(config: pytest.Config) -> Verdict:
    """Return the verdict on this machine, or on the recorded one; the diagnosis runs once per session."""
    if _VERDICT not in config.stash:
        from tfgpu_doctor.diagnose.engine import diagnose
        from tfgpu_doctor.diagnose.plugins import load_checks
        from tfgpu_doctor.gpu_demand import why_no_gpu
        from tfgpu_doctor.render.text import render_text

        facts = _facts(config)
        checks, broken = load_checks()
        report = diagnose(facts, checks=checks, broken=broken)
        why = why_no_gpu(report)
        page = render_text(report, width=110, colour=False, verbose=False) if why else ""
        config.stash[_VERDICT] = Verdict(why, page, facts)
    return config.stash[_VERDICT]


def _facts(config: pytest.Config) -> Facts:
    if _RECORD in config.stash:
        return config.stash[_RECORD]
    folders = getattr(
        config, "_tmp_path_factory", None
    )  # how workers share a file, according to pytest-xdist's documentation
    if folders is None or not hasattr(config, "workerinput"):
        return _examine(config)
    return _examine_once(config, str(folders.getbasetemp().parent))


def _examine(config: pytest.Config) -> Facts:
    """Return the facts of this machine for this interpreter, which itself uses neither TensorFlow nor a driver."""
    from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
    from tfgpu_doctor.collect.examination import Interrupted, examine

    try:
        return examine(python=sys.executable, deadline_s=read_configuration(str(config.rootpath)).deadline)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    except Interrupted as error:
        raise KeyboardInterrupt from error


def _examine_once(config: pytest.Config, folder: str) -> Facts:
    """Let the first worker examine the machine; all workers of this run share `folder`."""
    from tfgpu_doctor.host.files import write_whole
    from tfgpu_doctor.host.lock import Busy, Unsupported, acquire
    from tfgpu_doctor.model.facts import encode_facts

    path = os.path.join(folder, "tfgpu-doctor.json")
    try:
        lock = acquire(f"{path}.lock", patience_s=_PATIENCE_S)
    except (Busy, Unsupported, OSError):  # the file system has no locks, or another worker takes too long
        return _examine(config)
    try:
        if not os.path.exists(path):
            write_whole(path, encode_facts(_examine(config)))
        return _read(path)
    finally:
        lock.release(remove=False)


def _read(path: str) -> Facts:
    from tfgpu_doctor.host.files import Files
    from tfgpu_doctor.model.bundle import BundleError, record_of
    from tfgpu_doctor.model.byte_order_mark import in_utf8
    from tfgpu_doctor.model.facts import FactsError, decode_facts

    try:
        content = Files().read_bytes(path, _LARGEST_RECORD_BYTES + 1)
        return decode_facts(in_utf8(record_of(content, _LARGEST_RECORD_BYTES)))
    except (OSError, BundleError, FactsError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise pytest.UsageError(f"--gpu-facts {path}: {why}") from error
