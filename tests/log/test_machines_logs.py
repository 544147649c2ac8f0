"""Of one machine, `log` and `check` never say different things: the log that each recorded machine would print is classified."""

from __future__ import annotations

import functools
import io
from collections import Counter
from typing import Literal, get_args

import msgspec
import pytest
from every import every
from printed_logs import given_context, printed_log
from replayed import NAMES, facts_of, report_on

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Context, LogCause, Scanner, classify
from tfgpu_doctor.log.readers import read_documents
from tfgpu_doctor.model import UNDETERMINED
from tfgpu_doctor.model.facts.nvidia import Nvml
from tfgpu_doctor.model.report import Report

HARMLESS = "harmless_noise_only"
Verdict = Literal["agree", "allowed", "disagree"]

# Machines of which the text cannot show what `check` reads from the files, and the log names what else explains it.
EXCEPTIONS = {
    "blackwell-compiled-from-ptx": "the same message is the fault elsewhere; only a computation shows that it works",
    "tensorflow-2.21.0-misses-cusolver": "the text does not show which packages are installed",
    "h200-pip-cusolver-not-found": "the text does not show which packages are installed",
    "h200-cudnn-misses-nvrtc": "TensorFlow's log shows it only once XLA has fused a convolution",
    "h200-deep-cudnn-misses-nvrtc": "TensorFlow's log shows it only once XLA has fused a convolution",
    "cusolver-of-another-minor-release": "the text does not show that the toolkit is there, with another copy of one library",
    "user-site-hides-numpy": "the text shows the conflict; which folder is at fault is the second cause",
    "vm-without-gpu": "in a container without a GPU the text is the same whether the machine outside has one",
    "vm-without-gpu-and-cuda": "in a container without a GPU the text is the same whether the machine outside has one",
    "debian-nouveau": "NVIDIA's driver is not installed there, as the log says; only lsmod shows nouveau",
    "older-cudnn-without-its-parts": "the text does not show which copies there are, nor which one is taken",
    "older-protobuf-by-pth-file": "the text names the file, and not that another protobuf is installed",
    "older-cudnn-on-library-path": "the message says which cuDNN was loaded, as the log does, and not from where",
    "torch-after-tensorflow": "the message says which cuDNN was loaded, as the log does, and not what installed it",
}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `check` and `log` say about one machine, and whether both can be true."""

    machine: str
    verdict: Verdict
    checked: tuple[str, ...]
    healthy: bool
    logged: tuple[str, ...]

    def __str__(self) -> str:
        state = "healthy" if self.healthy else "ill"
        checked, logged = ", ".join(self.checked), ", ".join(self.logged)
        return f"{self.machine} ({state}): check {checked or 'nothing'}; log {logged or 'nothing'}"


def compare(machine: str) -> Comparison:
    """Write the log of a machine, classify it, and compare."""
    facts, report, knowledge = facts_of(machine), report_on(machine), read_knowledge()
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO(printed_log(facts).encode()))
    context = Context(given_context(facts))
    causes = classify(scanner.found, context, knowledge, scanner.lines, scanner.kept.texts()).causes
    return Comparison(
        machine=machine,
        verdict=judge(causes, report),
        checked=tuple(cause.label for cause in report.causes),
        healthy=report.healthy,
        logged=tuple(f"{cause.label} ({cause.severity}, {cause.confidence})" for cause in causes),
    )


def judge(causes: tuple[LogCause, ...], report: Report) -> Verdict:
    """Whether the log agrees with the check, says less, or says something else."""
    known = labels_of(report)
    if report.healthy and any(
        is_sure(cause) and cause.severity == "error" and cause.label not in known for cause in causes
    ):
        return "disagree"
    if not causes:
        return "allowed" if report.causes else "agree"
    first = causes[0]
    if first.label in known or (first.label == HARMLESS and report.healthy):
        return "agree"
    return "disagree" if is_sure(first) else "allowed"


def labels_of(report: Report) -> set[str]:
    """The causes that the check names, and those that it reports as consequences."""
    return {cause.label for cause in report.causes} | {
        finding.cause for result in report.results for finding in result.findings
    }


def is_sure(cause: LogCause) -> bool:
    """Whether the log states it, and does not only ask."""
    return cause.confidence != "low" and cause.label != UNDETERMINED


@functools.cache
def compared() -> tuple[Comparison, ...]:
    """Every recorded machine."""
    return tuple(compare(machine) for machine in NAMES)


def test_log_and_check_never_disagree() -> None:
    assert len(compared()) >= 160
    wrong = [str(each) for each in compared() if each.verdict == "disagree" and each.machine not in EXCEPTIONS]
    if wrong:
        counts = Counter(each.verdict for each in compared())
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(Verdict))
        rows = "\n".join(wrong)
        pytest.fail(
            f"of {len(compared())} machines: {said}, {len(EXCEPTIONS)} of them exceptions\n{rows}", pytrace=False
        )


def test_exceptions_are_needed() -> None:
    disagree = {each.machine for each in compared() if each.verdict == "disagree"}
    assert set(EXCEPTIONS) - disagree == set()


def _fits_into_a_table(nvml: Nvml) -> bool:
    """Whether it states what nvidia-smi always shows; some captures of real machines do not."""
    return bool(nvml.driver_version) and all(gpu.name and gpu.memory_total_bytes for gpu in nvml.gpus)


@every("machine", NAMES, least=160)
def test_what_is_printed_can_be_read(machine: str) -> None:
    """Otherwise the comparison would be of machines that the log does not see."""
    facts, text = facts_of(machine), printed_log(facts_of(machine))
    read = read_documents(text)
    if "NVIDIA-SMI" in text and facts.nvml and facts.nvml.gpus and _fits_into_a_table(facts.nvml):
        gpus = read.nvml.gpus if read.nvml else ()
        seen = [(gpu.index, gpu.name, gpu.compute_mode, gpu.mig, gpu.memory_total_bytes) for gpu in gpus]
        assert seen == [
            (gpu.index, gpu.name[:26], gpu.compute_mode, gpu.mig, gpu.memory_total_bytes) for gpu in facts.nvml.gpus
        ]
    messages = facts.kernel_log.messages if facts.kernel_log else ()
    found = read.kernel_log.messages if read.kernel_log else ()
    assert {(each.kind, each.code) for each in found} == {(each.kind, each.code) for each in messages if each.text}
