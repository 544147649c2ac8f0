"""What a text states and shows of its machine is judged by the tables and by the doctor's checks, and nothing else is."""

from __future__ import annotations

import io
import itertools
from typing import Any

from every import every

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import run_checks
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import OlderBuild, Wheels
from tfgpu_doctor.log.classification import classify
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.machine import NOT_A_LINE, judge_facts, judge_versions, needed, partial_facts
from tfgpu_doctor.log.readers import Documents, read_documents
from tfgpu_doctor.log.report import LogCause
from tfgpu_doctor.log.signatures import Hit, Scanner
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import Ecc, GpuHealth
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime, TensorFlow
from tfgpu_doctor.model.tags import PARTIAL

KNOWLEDGE = read_knowledge()
SYSTEMS = {"linux": "Ubuntu 20.04", "windows": "Windows 10", "macos": "macOS 12"}
NOTHING = Documents()


def context(**values: str) -> Context:
    return Context(values)


def judged(**values: str) -> dict[str, Hit]:
    """What is told of the versions that are stated."""
    return dict(judge_versions(context(**values), KNOWLEDGE))


def told(**values: str) -> list[str]:
    return sorted(set(judged(**values)) - {"has_tensor_cores"})


# The versions. What is right comes from https://www.tensorflow.org/install/source#gpu.

FITTING = [
    ("1.4.0", "8.0", "6.0", "3.6"), ("1.5.0", "9.0", "7.0", "3.6"), ("1.12.0", "9.0", "7.4.2", "3.6"),
    ("1.13.1", "10.0", "7.4", "3.7"), ("1.15.0", "10.0", "7.6.5", "3.7"), ("2.0.0", "10.0", "7.4", "3.7"),
    ("2.1.0", "10.1", "7.6", "3.7"), ("2.3.0", "10.1", "7.6", "3.8"), ("2.4.0", "11.0", "8.0", "3.8"),
    ("2.5.0", "11.2", "8.1", "3.9"), ("2.8.0", "11.2", "8.1", "3.10"), ("2.10.0", "11.2", "8.1", "3.10"),
    ("2.12.0", "11.8", "8.6", "3.11"), ("2.14.0", "11.8", "8.7", "3.11"), ("2.15.0", "12.2", "8.9", "3.11"),
    ("2.16.1", "12.3", "8.9", "3.12"), ("2.18.0", "12.5", "9.3", "3.12"), ("2.20.0", "12.5", "9.3", "3.13"),
]  # fmt: skip


@every("tensorflow, cuda, cudnn, python", FITTING, key=lambda tensorflow, cuda, cudnn, python: tensorflow)
def test_versions_that_fit_are_told_to_fit(tensorflow: str, cuda: str, cudnn: str, python: str) -> None:
    minor = ".".join(tensorflow.split(".")[:2])
    for release in (tensorflow, minor, f"v{tensorflow}", f"tensorflow-gpu {minor}", f"{minor}.0rc1"):
        assert told(tensorflow=release, cuda=cuda, cudnn=cudnn, python=python, os="Ubuntu") == ["cuda_fits"]


def builds() -> list[tuple[str, str, str, Wheels | OlderBuild]]:
    """Every release's wheels for a system that a text can name: release, system, architecture, wheels."""
    rows: list[tuple[str, Wheels | OlderBuild]] = []
    rows += [(row.version, build) for row in KNOWLEDGE.older_releases for build in row.platforms]
    rows += [
        (row.version, build)
        for row in KNOWLEDGE.tensorflow_releases
        for build in row.wheels
        if "post" not in row.version
    ]
    named = [(release, build.os, build.architecture, build) for release, build in rows]
    return [row for row in named if row[1] != "macos" or row[2] == "x86_64"]


BUILDS = builds()


def system_of(os: str, architecture: str) -> str:
    return f"{SYSTEMS[os]} aarch64" if architecture == "aarch64" else SYSTEMS[os]


@every("release, os, architecture, build", BUILDS, key=lambda *row: f"{row[:3]}", least=150)
def test_each_release_is_judged_as_its_row_says(
    release: str, os: str, architecture: str, build: Wheels | OlderBuild
) -> None:
    system = system_of(os, architecture)
    pythons = build.pythons
    oldest, newest = pythons[0], pythons[-1]
    has_gpu = [] if build.cuda else ["no_gpu_build"]
    for python in (oldest, newest):
        expected = ["cuda_fits"] if build.cuda else has_gpu
        assert (
            told(tensorflow=release, os=system, cuda=build.cuda or "11.2", cudnn=build.cudnn or "8", python=python)
            == expected
        )
    later = f"3.{int(newest.partition('.')[2]) + 1}"
    assert told(tensorflow=release, os=system, python=later) == sorted([*has_gpu, "python_too_new"])
    assert told(tensorflow=release, os=system, python="2.6") == sorted([*has_gpu, "python_too_old"])
    if build.cuda:
        major, minor = (int(part) for part in f"{build.cuda}.0".split(".")[:2])
        by_minor = (
            ["cuda_of_other_minor"] if major < 11 else ["cuda_fits"]
        )  # since CUDA 11, names have the major version only
        assert told(tensorflow=release, os=system, cuda=f"{major}.{minor + 1}") == by_minor
        assert told(tensorflow=release, os=system, cuda=f"{major - 1}.{minor}") == ["cuda_of_other_major"]
        assert told(tensorflow=release, os=system, cuda=f"{major + 1}.0") == ["cuda_of_other_major"]
        assert told(tensorflow=release, os=system, cudnn=f"{int(build.cudnn.partition('.')[0]) - 1}.0") == [
            "cudnn_does_not_fit"
        ]


@every(
    "values, expected",
    [
        ({"tensorflow": "2.10", "cuda": "11.2; 10.1"}, ["cuda_fits"]),
        ({"tensorflow": "2.10", "cuda": "10.0 and 10.1"}, ["cuda_of_other_major"]),
        ({"tensorflow": "1.14", "cuda": "10.1 and 9.0"}, ["cuda_of_other_minor"]),
        ({"tensorflow": "2.10", "cuda": "11"}, ["cuda_fits"]),
        ({"tensorflow": "2.10", "cuda": "11.x"}, ["cuda_fits"]),
        ({"tensorflow": "1.14", "cuda": "10"}, ["cuda_fits"]),
        ({"tensorflow": "1.14", "cuda": "v10.0.130"}, ["cuda_fits"]),
        ({"tensorflow": "2.18", "cuda": "12.5"}, ["cuda_fits"]),
        ({"tensorflow": "2.10", "cudnn": "8"}, []),
        ({"tensorflow": "2.10", "cudnn": "v7.6.5"}, ["cudnn_does_not_fit"]),
        ({"tensorflow": "2.10", "cudnn": "11.2"}, []),
        ({"tensorflow": "2.18", "cudnn": "8.9"}, ["cudnn_does_not_fit"]),
        ({"tensorflow": "1.15.0", "python": "3.8"}, ["python_too_new"]),
        ({"tensorflow": "1.15.5", "python": "3.5"}, ["python_too_old"]),
        ({"tensorflow": "1.15", "python": "3.5"}, []),
        ({"tensorflow": "1.15.0", "python": "2.7.18"}, []),
        ({"tensorflow": "1.15.0", "python": "2.7", "os": "Windows 10"}, ["python_too_old"]),
        ({"tensorflow": "2.21", "python": "3.9"}, ["python_too_old"]),
        ({"tensorflow": "2.10", "python": "3.11.2"}, ["python_too_new"]),
        ({"tensorflow": "2.10", "python": "Python 3.10 (64 bit)"}, []),
        ({"tensorflow": "2.10", "os": "Windows 10"}, []),
        ({"tensorflow": "2.11", "os": "Windows 10"}, ["no_gpu_build"]),
        ({"tensorflow": "2.11", "os": "Windows 10, WSL2"}, []),
        ({"tensorflow": "2.15", "install_method": "docker run"}, []),
        ({"tensorflow": "2.15", "os": "Ubuntu aarch64"}, ["no_gpu_build"]),
        ({"tensorflow": "2.15", "os": "macOS arm64"}, ["no_gpu_build"]),
        ({"tensorflow": "2.17", "os": "macOS"}, ["no_gpu_build"]),
        ({"tensorflow": "1.4.1", "os": "Windows 10"}, ["no_gpu_build"]),  # it has wheels for Linux and macOS alone
    ],
    key=lambda values, expected: f"{values}",
)
def test_versions_are_judged_as_the_tables_say(values: dict[str, str], expected: list[str]) -> None:
    assert told(**values) == expected


def test_a_container_on_windows_is_judged_as_linux() -> None:
    assert told(tensorflow="2.15", os="Windows 10", install_method="docker run") == []
    facts = partial_facts(context(os="Windows 10", install_method="docker run"), NOTHING, KNOWLEDGE)
    assert facts.system == System(os="Linux", release="", architecture="x86_64", wsl=2)


@every(
    "values, expected",
    [
        ({"tensorflow": "2.3", "gpu": "RTX 3090"}, ["gpu_newer_than_cuda"]),
        ({"tensorflow": "2.4", "gpu": "RTX 3090"}, []),  # code for 8.0, which CUDA 11.0 knows, runs on it
        ({"tensorflow": "2.15", "gpu": "RTX 4090"}, []),
        ({"tensorflow": "2.15", "gpu": "RTX 5090"}, ["gpu_newer_than_cuda"]),
        ({"tensorflow": "2.20", "gpu": "RTX 5090"}, ["gpu_newer_than_cuda"]),
        ({"tensorflow": "1.4", "gpu": "GTX 1080"}, []),
        ({"tensorflow": "1.4", "gpu": "Tesla V100"}, ["gpu_newer_than_cuda"]),
        ({"tensorflow": "1.4", "gpu": "GTX 1080 and RTX 2080"}, ["gpu_newer_than_cuda"]),
        ({"tensorflow": "2.10", "gpu": "Tesla K80"}, []),
        ({"tensorflow": "2.15", "gpu": "RTX 5090", "os": "Windows 11"}, ["no_gpu_build"]),
        ({"tensorflow": "2.15", "gpu": "Radeon RX 580"}, []),
    ],
    key=lambda values, expected: f"{values}",
)
def test_a_gpu_newer_than_the_cuda_of_the_release_is_told(values: dict[str, str], expected: list[str]) -> None:
    assert told(**values) == expected


@every(
    "gpu, has", [("V100", True), ("RTX 2060", True), ("A100", True), ("GTX 1080", False), ("K80", False), ("", False)]
)
def test_tensor_cores_are_told_of_gpus_from_volta_on(gpu: str, has: bool) -> None:
    assert ("has_tensor_cores" in judged(gpu=gpu)) == has


def test_what_is_judged_names_the_versions_and_is_no_line_of_the_log() -> None:
    found = judged(tensorflow="2.10", cuda="10.1", cudnn="7.6", python="3.13", gpu="RTX 5090", os="Ubuntu")
    assert {hit.line for hit in found.values()} == {NOT_A_LINE}
    for name, *words in (
        ("cuda_of_other_major", "2.10", "11.2", "10.1"), ("cudnn_does_not_fit", "2.10", "8", "7.6"),
        ("python_too_new", "2.10", "3.13", "3.7, 3.8, 3.9, 3.10"), ("gpu_newer_than_cuda", "2.10", "11.2", "RTX 5090", "12.8"),
    ):  # fmt: skip
        assert [word for word in words if word not in found[name].text] == [], found[name].text


# What is not known is not judged.


@every(
    "release",
    ["", "1", "2", "1.x", "2.x", "latest", "nightly", "0.12", "1.3", "3.0", "2.99", "22.03", "abc"],
    key=lambda release: release or "nothing",
)
def test_without_a_release_of_the_tables_nothing_is_judged(release: str) -> None:
    values = {
        "cuda": "9.0",
        "cudnn": "5.1",
        "python": "3.13",
        "gpu": "RTX 5090",
        "os": "Windows 11",
        "driver": "390.77",
    }
    known = context(tensorflow=release, **values)
    assert needed(known, KNOWLEDGE) is None
    assert told(tensorflow=release, **values) == []
    assert list(judge_facts(partial_facts(known, NOTHING, KNOWLEDGE))) == []


def test_without_a_system_the_release_is_judged_as_for_linux_but_no_build_is_missed() -> None:
    needs = needed(context(tensorflow="2.15"), KNOWLEDGE)
    assert needs
    assert (needs.minor, needs.cuda, needs.cudnn) == ("2.15", "12.2", "8")
    assert told(tensorflow="2.15", os="some machine") == []


def test_without_a_system_no_driver_is_judged() -> None:
    facts = partial_facts(context(tensorflow="2.15", driver="390.77"), NOTHING, KNOWLEDGE)
    assert facts.system is None
    assert facts.driver
    assert list(judge_facts(facts)) == []


@every("key", ["cuda", "cudnn", "python", "gpu", "driver"])
def test_a_value_without_a_version_is_not_judged(key: str) -> None:
    for value in ("", "yes", "latest", "unknown", "none"):
        values = {"tensorflow": "2.10", "os": "Ubuntu", key: value}
        assert told(**values) == []
        assert list(judge_facts(partial_facts(context(**values), NOTHING, KNOWLEDGE))) == []


def test_where_nothing_is_known_there_are_no_facts() -> None:
    assert partial_facts(context(), NOTHING, KNOWLEDGE) == Facts()


# Partial facts.


def test_the_facts_of_what_is_stated() -> None:
    facts = partial_facts(
        context(tensorflow="2.10.1", os="Windows 11", driver="NVIDIA 516.94", gpu="RTX 3090 and GTX 1080"),
        NOTHING,
        KNOWLEDGE,
    )
    assert facts.system == System(os="Windows", release="", architecture="x86_64")
    assert facts.driver
    assert facts.driver.version == "516.94"
    assert facts.nvml
    assert [(gpu.index, gpu.name, gpu.compute_capability) for gpu in facts.nvml.gpus] == [
        (0, "RTX 3090", "8.6"),
        (1, "GTX 1080", "6.1"),
    ]
    assert facts.tensorflow
    assert (facts.tensorflow.version, facts.tensorflow.cuda_version, facts.tensorflow.cudnn_version) == (
        "2.10.1",
        "11.2",
        "8",
    )
    assert facts.tensorflow.compute_capabilities


@every(
    "os, expected",
    [
        ("Ubuntu 22.04", System(os="Linux", release="", architecture="x86_64")),
        ("Ubuntu aarch64", System(os="Linux", release="", architecture="aarch64")),
        ("Windows 11 with WSL2", System(os="Linux", release="", architecture="x86_64", wsl=2)),
        ("macOS 14", System(os="Darwin", release="", architecture="x86_64")),
        ("Solaris", None),
    ],
    key=lambda os, expected: os,
)
def test_the_system_of_what_is_stated(os: str, expected: System | None) -> None:
    assert partial_facts(context(os=os), NOTHING, KNOWLEDGE).system == expected


def test_a_release_without_a_gpu_build_for_the_system_has_no_facts() -> None:
    assert partial_facts(context(tensorflow="2.15", os="Windows 11"), NOTHING, KNOWLEDGE).tensorflow is None


TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver}              Driver Version: {driver}      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  {name}          Off |   00000000:07:00.0 Off |                    {ecc} |
| N/A   31C    P0             55W /  400W |   20000MiB /  40960MiB |      0%      {mode} |
+-----------------------------------------+------------------------+----------------------+
"""
QUERY = """\
==============NVSMI LOG==============

Driver Version                            : 535.104.12
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : Tesla V100-PCIE-32GB
    GPU Reset Status
        Reset Required                    : No
    FB Memory Usage
        Total                             : 32768 MiB
        Free                              : 31024 MiB
    Compute Mode                          : {mode}
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            Double Bit
                Total                     : {ecc}
"""


def table(driver: str = "550.54.15", name: str = "NVIDIA A100-SXM4-40GB", ecc: str = "0", mode: str = "Default") -> str:
    return TABLE.format(driver=driver, name=name, ecc=ecc, mode=mode.rjust(7))


def facts_of(text: str, **values: str) -> Facts:
    return partial_facts(context(**values), read_documents(text), KNOWLEDGE)


def checks_say(text: str, **values: str) -> list[str]:
    return [name.removeprefix("check:") for name, _ in judge_facts(facts_of(text, **values))]


def test_the_facts_of_a_table_of_nvidia_smi() -> None:
    facts = facts_of(table())
    assert facts.driver
    assert facts.driver.version == "550.54.15"
    assert facts.nvml
    (gpu,) = facts.nvml.gpus
    assert (gpu.name, gpu.compute_capability, gpu.compute_mode) == ("NVIDIA A100-SXM4-40GB", "8.0", "default")
    assert gpu.memory_total_bytes == 40960 << 20


def test_what_a_table_shows_counts_more_than_what_is_stated() -> None:
    facts = facts_of(table(), driver="390.77", gpu="GTX 1080")
    assert facts.driver
    assert facts.nvml
    assert (facts.driver.version, [gpu.name for gpu in facts.nvml.gpus]) == ("550.54.15", ["NVIDIA A100-SXM4-40GB"])


def test_the_facts_of_the_full_output_of_nvidia_smi() -> None:
    facts = facts_of(QUERY.format(ecc=0, mode="Default"))
    assert facts.driver
    assert facts.nvml
    (gpu,) = facts.nvml.gpus
    assert (facts.driver.version, gpu.name, gpu.compute_capability) == ("535.104.12", "Tesla V100-PCIE-32GB", "7.0")


@every(
    "text, values, expected",
    [
        (table(), {}, []),
        (table(), {"tensorflow": "2.18", "os": "Ubuntu"}, []),
        (table(driver="470.82.01"), {}, []),
        (table(driver="470.82.01"), {"tensorflow": "2.18"}, []),
        (table(driver="470.82.01"), {"os": "Ubuntu"}, []),
        (table(driver="470.82.01"), {"tensorflow": "2.18", "os": "Ubuntu"}, ["driver_too_old"]),
        (table(driver="470.82.01"), {"tensorflow": "2.10", "os": "Ubuntu"}, []),
        (table(ecc="7"), {}, ["hardware_ecc_error"]),
        (table(ecc="N/A"), {}, []),
        (table(mode="Prohibited"), {}, ["exclusive_compute_mode"]),
        (table(mode="E. Process"), {}, ["exclusive_compute_mode"]),  # nobody is shown for 20 GB
        (
            table(name="NVIDIA GeForce RTX 5090 "),
            {"tensorflow": "2.15", "os": "Ubuntu"},
            ["gpu_compute_capability_too_new"],
        ),
        (table(name="NVIDIA GeForce RTX 5090 "), {"os": "Ubuntu"}, []),
        (
            table(name="Tesla K10.G1.8GB         "),
            {"tensorflow": "2.15", "os": "Ubuntu"},
            ["gpu_compute_capability_too_old"],
        ),
        (table(name="NVIDIA Unheard-of        "), {"tensorflow": "2.15", "os": "Ubuntu"}, []),
        (QUERY.format(ecc=0, mode="Default"), {"tensorflow": "2.15", "os": "Ubuntu"}, []),
        (QUERY.format(ecc=3, mode="Default"), {}, ["hardware_ecc_error"]),
        (QUERY.format(ecc=0, mode="Prohibited"), {}, ["exclusive_compute_mode"]),
        ("", {"gpu": "A100", "tensorflow": "2.3", "os": "Ubuntu"}, ["ptx_jit_startup_delay"]),
        ("", {"gpu": "GTX 680", "tensorflow": "2.15", "os": "Ubuntu"}, ["gpu_compute_capability_too_old"]),
        ("", {"gpu": "RTX 5090", "tensorflow": "2.15", "os": "Ubuntu"}, ["gpu_compute_capability_too_new"]),
        ("", {"gpu": "RTX 4090", "tensorflow": "2.15", "os": "Ubuntu"}, []),
        ("", {"gpu": "RTX 3060 and RTX 4060"}, []),
        # The driver in WSL is that of Windows, where CUDA 12 needs 528.33; on Linux it needs 525.60.13.
        ("", {"driver": "526.98", "tensorflow": "2.16", "os": "Windows 11, WSL2"}, ["driver_too_old"]),
        ("", {"driver": "526.98", "tensorflow": "2.16", "os": "Ubuntu"}, []),
        ("", {"driver": "451.82", "tensorflow": "2.10", "os": "Windows 10"}, ["driver_too_old"]),
        ("", {"driver": "452.39", "tensorflow": "2.10", "os": "Windows 10"}, []),
        ("", {"driver": "410.48", "tensorflow": "1.15", "os": "Ubuntu"}, []),
        ("", {"driver": "410.47", "tensorflow": "1.15", "os": "Ubuntu"}, ["driver_too_old"]),
        ("", {"driver": "470", "tensorflow": "2.16", "os": "Ubuntu"}, []),  # only its branch is known
    ],
    key=lambda text, values, expected: f"{values} {text[:600]}",
)
def test_the_checks_judge_what_a_text_shows(text: str, values: dict[str, str], expected: list[str]) -> None:
    assert checks_say(text, **values) == expected


# The report.


def causes(text: str, **values: str) -> dict[str, LogCause]:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(text.encode()))
    report = classify(scanner.found, context(**values), KNOWLEDGE, scanner.lines, scanner.kept.texts())
    return {cause.label: cause for cause in report.causes}


def test_the_fix_of_a_check_is_the_fix_of_the_cause() -> None:
    (hit,) = [hit for _, hit in judge_facts(facts_of("", driver="470.82.01", tensorflow="2.16.1", os="Ubuntu"))]
    assert "525.60.13" in hit.groups["fix"]
    cause = causes("A question about TensorFlow", driver="470.82.01", tensorflow="2.16.1", os="Ubuntu")[
        "driver_too_old"
    ]
    assert cause.fix == hit.groups["fix"]
    assert cause.fix != KNOWLEDGE.causes["driver_too_old"].fix
    assert cause.evidence == (hit.text,)
    assert "470.82.01" in hit.text
    assert cause.lines == (NOT_A_LINE,)


def test_the_commands_of_a_fix_are_part_of_it() -> None:
    (hit,) = [hit for _, hit in judge_facts(facts_of(table(mode="Prohibited")))]
    assert "`nvidia-smi -c DEFAULT`" in hit.groups["fix"]
    assert causes(table(mode="Prohibited"))["exclusive_compute_mode"].fix == hit.groups["fix"]


def test_the_fix_of_a_check_names_the_gpu_of_the_table() -> None:
    cause = causes(table(ecc="7"))["hardware_ecc_error"]
    assert "nvidia-smi" in cause.fix
    assert "7 uncorrectable" in " ".join(cause.evidence)


# The checks that judge partial facts.

PARTIAL_CHECKS = [check for check in ALL_CHECKS if PARTIAL in check.tags]
ANSWERED = Attempt(outcome="answered")
LEAST: dict[str, tuple[Any, ...]] = {
    "nvml": (
        Nvml(attempt=ANSWERED),
        Nvml(attempt=ANSWERED, gpus=(NvmlGpu(index=0),)),
        Nvml(attempt=ANSWERED, gpus=(NvmlGpu(index=0, name="NVIDIA A100-SXM4-40GB"), NvmlGpu(index=1))),
        Nvml(attempt=ANSWERED, gpus=(NvmlGpu(index=0, name="GTX 1080", compute_capability="6.1"),)),
        Nvml(attempt=ANSWERED, gpus=(NvmlGpu(index=0, health=GpuHealth(ecc=Ecc(enabled=True))),)),
    ),
    "tensorflow": (
        TensorFlow(version=""),
        TensorFlow(version="2.15.0"),
        TensorFlow(version="2.15.0", built_with_cuda=True, cuda_version="12.2", cudnn_version="8"),
        TensorFlow(version="2.15.0", compute_capabilities=("sm_80", "compute_90")),
    ),
    "system": (
        System(os="", release="", architecture=""),
        System(os="Linux", release="", architecture="x86_64"),
        System(os="Linux", release="", architecture="x86_64", wsl=2),
        System(os="Windows", release="", architecture=""),
    ),
}
OTHERS: dict[str, Any] = {
    "cuda_driver": CudaDriver(attempt=ANSWERED),
    "driver": Driver(),
    "nvml": LEAST["nvml"][1],
    "runtime": Runtime(attempt=ANSWERED),
}


def test_there_are_checks_that_judge_partial_facts() -> None:
    assert len(PARTIAL_CHECKS) >= 9
    assert {name for check in PARTIAL_CHECKS for name in check.needs} <= {*LEAST, "knowledge"}


@every("check", PARTIAL_CHECKS, key=lambda check: check.id)
def test_a_check_of_partial_facts_finds_nothing_where_nothing_is_shown(check: Check) -> None:
    needs = [name for name in check.needs if name != "knowledge"]
    for facts in itertools.product(*(LEAST[name] for name in needs)):
        result = run_checks(Facts(**dict(zip(needs, facts, strict=True))), [check])[check.id]
        assert result.outcome in ("pass", "skip"), f"{facts}: {result.outcome} {result.reason} {result.findings}"
        assert result.outcome == "skip" or result.evidence, "a pass needs evidence"


@every("check", PARTIAL_CHECKS, key=lambda check: check.id)
def test_a_check_of_partial_facts_finds_nothing_in_other_facts_that_are_empty(check: Check) -> None:
    needs = [name for name in check.needs if name != "knowledge"]
    given = {name: OTHERS[name] for name in check.optional if name in OTHERS and name not in needs}
    for facts in itertools.product(*(LEAST[name] for name in needs)):
        result = run_checks(Facts(**given, **dict(zip(needs, facts, strict=True))), [check])[check.id]
        assert result.outcome in ("pass", "skip"), f"{facts}: {result.outcome} {result.reason} {result.findings}"


@every("check", PARTIAL_CHECKS, key=lambda check: check.id)
def test_a_check_of_partial_facts_is_skipped_without_what_it_needs(check: Check) -> None:
    result = run_checks(Facts(), [check])[check.id]
    assert (result.outcome, bool(result.reason)) == ("skip", True)
