"""libcuda and NVML opened for real: those of the simulated driver, and broken ones."""

from __future__ import annotations

import ctypes.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from simulated import GPU, Simulate

from tfgpu_doctor.collect.probe import Probe, Request
from tfgpu_doctor.collect.probes import child
from tfgpu_doctor.collect.probes.cuda_driver import cuda_driver
from tfgpu_doctor.collect.probes.nvml import nvml
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, GpuProcess, Nvml

if TYPE_CHECKING:
    from collect.workers.conftest import Interpreter

GENEROUS_S = 58.0  # to end, after the deadline


def host(variables: Mapping[str, str]) -> Host:
    """A host whose loader finds the libraries that the variables name."""
    return Host(environment={"PATH": os.environ["PATH"], **variables})


def within(folder: pathlib.Path) -> dict[str, str]:
    """The variables for libraries in a folder, found first."""
    return {"LD_LIBRARY_PATH": str(folder)}


def ask(probe: Probe, variables: Mapping[str, str], python: str | pathlib.Path = sys.executable) -> Any:
    given = {"host": host(variables), "request": Request(python=str(python))}
    return probe.function(**{name: given[name] for name in probe.parameters})


def ask_cuda(variables: Mapping[str, str]) -> CudaDriver:
    found: CudaDriver = ask(cuda_driver, variables)
    return found


def ask_nvml(variables: Mapping[str, str]) -> Nvml:
    found: Nvml = ask(nvml, variables)
    return found


def ask_in_time(
    variables: Mapping[str, str], python: str | pathlib.Path, program: str, arguments: Sequence[str] = (), *,
    phase: str, options: Sequence[str] = (),
) -> tuple[Attempt, dict[str, Any]]:  # fmt: skip
    """What a program that hangs says by its deadline: a later one as long as it has not come to that phase."""
    for deadline_s in (2.0, 20.0, 60.0):
        started = time.monotonic()
        attempt, answer, _ = child.ask(
            host(variables), str(python), program, arguments, deadline_s=deadline_s, options=options
        )
        assert time.monotonic() - started < deadline_s + GENEROUS_S
        assert attempt.outcome == "timed_out"
        if attempt.phase == phase:
            break
    return attempt, answer


def compiled(place: pathlib.Path, source: str) -> pathlib.Path:
    """A shared library of that source."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not sys.platform.startswith("linux"):
        pytest.skip("building a library needs Linux and a C compiler")
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(place)], input=source, text=True, check=True
    )
    return place


def gpu(index: int, **changes: Any) -> CudaGpu:
    fields = {
        "index": index, "name": GPU, "compute_capability": "8.6", "memory_bytes": 24 << 30,
        "multiprocessors": 82, "kernel_time_limit": False, "pci_address": f"0000:0{index + 1}:00.0",
    }  # fmt: skip
    return CudaGpu(**{**fields, **changes})


@pytest.mark.parametrize("count", [1, 2])
def test_cuda_lists_its_gpus(simulate: Simulate, driver_folder: pathlib.Path, count: int) -> None:
    found = ask_cuda(simulate({"count": count}))
    assert found.works
    assert (found.attempt.phase, found.library_error) == ("", "")
    assert found.library == str(driver_folder / "libcuda.so.1")
    assert (found.init_code, found.init_name, found.cuda_version) == (0, "CUDA_SUCCESS", "12.4")
    assert found.gpus == tuple(gpu(index) for index in range(count))


def test_cuda_is_asked_by_every_interpreter(interpreter: Interpreter, simulate: Simulate) -> None:
    found = ask(cuda_driver, simulate(), python=interpreter.python)
    assert found.works
    assert found.gpus == (gpu(0),)


@pytest.mark.parametrize(
    ("cuda", "version"), [("11.8", "11.8"), ("12.0", "12.0"), ("12.9", "12.9"), ("13.0", "13.0"), ("0.0", "")]
)
def test_the_cuda_version_of_the_driver_is_read(simulate: Simulate, cuda: str, version: str) -> None:
    assert ask_cuda(simulate(cuda=cuda)).cuda_version == version


@pytest.mark.parametrize("capability", ["5.2", "9.0", "12.0"])
def test_the_compute_capability_is_read(simulate: Simulate, capability: str) -> None:
    assert ask_cuda(simulate({"compute_capability": capability})).gpus == (gpu(0, compute_capability=capability),)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (100, "CUDA_ERROR_NO_DEVICE"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        (999, "CUDA_ERROR_UNKNOWN"),
        (777, ""),  # a code that this driver has no name for
    ],
)
def test_a_code_of_cuinit_is_told_with_its_name(simulate: Simulate, code: int, name: str) -> None:
    found = ask_cuda(simulate(faults={"cuInit": code}))
    assert found.attempt.answered
    assert not found.works
    assert (found.init_code, found.init_name, found.gpus) == (code, name, ())
    assert found.cuda_version == "12.4"


def test_no_gpu_is_a_code_of_cuinit(simulate: Simulate) -> None:
    assert ask_cuda(simulate(gpus=[])).init_code == 100


def test_a_cuinit_that_hangs_is_killed_and_placed(simulate: Simulate, driver_folder: pathlib.Path) -> None:
    variables = simulate(faults={"cuInit": "hang"})
    attempt, answer = ask_in_time(variables, sys.executable, "open_libcuda", phase="cuInit", options=("-I", "-S"))
    assert (attempt.outcome, attempt.phase, attempt.stuck) == ("timed_out", "cuInit", False)
    found = child.understand(CudaDriver, attempt, answer)
    assert (found.library, found.init_code, found.works) == (str(driver_folder / "libcuda.so.1"), None, False)


def test_a_cuinit_that_crashes_is_placed(simulate: Simulate, driver_folder: pathlib.Path) -> None:
    found = ask_cuda(simulate(faults={"cuInit": "crash"}))
    assert found.attempt.ending == "was killed by SIGSEGV during 'cuInit'"
    assert found.library == str(driver_folder / "libcuda.so.1")
    assert not found.works


@pytest.mark.parametrize(("probe", "soname"), [(cuda_driver, "libcuda.so.1"), (nvml, "libnvidia-ml.so.1")])
def test_a_missing_library_is_told_in_the_loaders_words(tmp_path: pathlib.Path, probe: Probe, soname: str) -> None:
    if ctypes.util.find_library(soname[3:].partition(".")[0]):
        pytest.skip(f"this machine has a real {soname}")
    found = ask(probe, within(tmp_path))
    assert found.attempt.answered
    assert not found.works
    assert found.library_error.startswith(f"{soname}: cannot open shared object file")


@pytest.mark.parametrize(("probe", "soname"), [(cuda_driver, "libcuda.so.1"), (nvml, "libnvidia-ml.so.1")])
@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "file too short"), (b"\x7fELF\x02\x01\x01", "file too short"), (b"#!/bin/sh\n" * 200, "invalid ELF header")],
)
def test_what_is_no_library_is_told_in_the_loaders_words(
    tmp_path: pathlib.Path, probe: Probe, soname: str, content: bytes, words: str
) -> None:
    (tmp_path / soname).write_bytes(content)
    found = ask(probe, within(tmp_path))
    assert found.attempt.answered
    assert not found.works
    assert words in found.library_error


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.9])
@pytest.mark.parametrize(("probe", "soname"), [(cuda_driver, "libcuda.so.1"), (nvml, "libnvidia-ml.so.1")])
def test_a_library_cut_off_never_breaks_the_doctor(
    simulate: Simulate, driver_folder: pathlib.Path, tmp_path: pathlib.Path, probe: Probe, soname: str, part: float
) -> None:
    whole = (driver_folder / soname).read_bytes()
    (tmp_path / soname).write_bytes(whole[: int(len(whole) * part)])
    found = ask(probe, {**simulate(), **within(tmp_path)})
    assert found.library_error or found.attempt.signal or found.works
    if part < 0.5:
        assert not found.works


def test_a_library_of_another_architecture_is_told(driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if ctypes.util.find_library("cuda"):
        pytest.skip("the loader passes over it and takes the real libcuda.so.1 of this machine")
    content = bytearray((driver_folder / "libcuda.so.1").read_bytes())
    content[18:20] = b"\x15\x00" if content[18] != 0x15 else b"\x3e\x00"  # e_machine: ppc64, or x86-64 there
    (tmp_path / "libcuda.so.1").write_bytes(bytes(content))
    found = ask_cuda(within(tmp_path))
    assert found.library_error
    assert not found.works


def test_a_library_that_is_not_cuda_fails_with_the_missing_symbol(tmp_path: pathlib.Path) -> None:
    compiled(tmp_path / "libcuda.so.1", "int unrelated(void) { return 0; }\n")
    found = ask_cuda(within(tmp_path))
    assert (found.attempt.outcome, found.attempt.phase) == ("failed", "cuInit")
    assert "cuInit" in found.attempt.error
    assert found.library == str(tmp_path / "libcuda.so.1")


def test_a_stub_of_the_toolkit_answers_34(tmp_path: pathlib.Path) -> None:
    source = "int cuInit(unsigned f) { return 34; }\nint cuDriverGetVersion(int *v) { *v = 0; return 34; }\n" \
        "int cuGetErrorName(int c, const char **n) { *n = 0; return 34; }\n"  # fmt: skip
    compiled(tmp_path / "libcuda.so.1", source)
    found = ask_cuda(within(tmp_path))
    assert (found.attempt.outcome, found.init_code, found.init_name, found.cuda_version) == ("answered", 34, "", "")


def test_a_library_that_ends_the_process_while_it_is_opened_is_placed(tmp_path: pathlib.Path) -> None:
    compiled(
        tmp_path / "libcuda.so.1",
        "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n",
    )
    found = ask_cuda(within(tmp_path))
    assert found.attempt.ending == "was killed by SIGABRT during 'opening libcuda.so.1'"


def test_what_a_library_prints_does_not_end_in_success_by_mistake(tmp_path: pathlib.Path) -> None:
    source = "#include <stdio.h>\nint cuInit(unsigned f) { puts(\"{\\\"init_code\\\": 0}\"); fflush(stdout); return 999; }\n" \
        "int cuDriverGetVersion(int *v) { *v = 0; return 3; }\nint cuGetErrorName(int c, const char **n) { return 1; }\n"  # fmt: skip
    compiled(tmp_path / "libcuda.so.1", source)
    found = ask_cuda(within(tmp_path))
    assert (found.init_code, found.works) == (999, False)


def test_the_real_file_behind_the_link_is_named(driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    shutil.copy(driver_folder / "libcuda.so.1", folder / "libcuda.so.550.54.15")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.550.54.15")
    assert ask_cuda(within(folder)).library == str(folder / "libcuda.so.550.54.15")


def test_the_targets_environment_cannot_change_the_question(simulate: Simulate, tmp_path: pathlib.Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a local module was imported')\n")
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    assert ask_cuda({**simulate(), "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "json.py")}).works


@pytest.mark.parametrize("count", [1, 2])
def test_nvml_describes_its_gpus(simulate: Simulate, count: int) -> None:
    found = ask_nvml(simulate({"count": count, "compute_capability": "9.0", "memory_used_bytes": 512 << 20}))
    assert found.works
    assert (found.driver_version, found.error_code, found.library_error) == ("550.54.15", 0, "")
    assert [each.index for each in found.gpus] == list(range(count))
    for each in found.gpus:
        assert (each.name, each.compute_capability) == (GPU, "9.0")
        assert each.pci_address == f"00000000:0{each.index + 1}:00.0"
        assert each.memory_total_bytes == 24 << 30
        assert each.memory_free_bytes == (24 << 30) - (512 << 20)
        assert (each.mig, each.mig_devices, each.processes) == (None, (), ())


@pytest.mark.parametrize("mode", ["default", "prohibited", "exclusive_process"])
def test_the_compute_mode_is_named(simulate: Simulate, mode: str) -> None:
    assert ask_nvml(simulate({"compute_mode": mode})).gpus[0].compute_mode == mode


def test_nvml_without_gpus_works(simulate: Simulate) -> None:
    found = ask_nvml(simulate(gpus=[]))
    assert (found.works, found.gpus) == (True, ())


@pytest.mark.parametrize(("code", "words"), [(18, "mismatch"), (9, "Driver Not Loaded"), (999, "")])
def test_a_code_of_nvml_is_told_with_its_words(simulate: Simulate, code: int, words: str) -> None:
    found = ask_nvml(simulate(faults={"nvmlInit": code}))
    assert found.attempt.answered
    assert not found.works
    assert (found.error_code, found.gpus, found.driver_version) == (code, (), "")
    assert words in found.error_text
    assert found.error_text


def test_an_nvml_that_hangs_is_killed_and_placed(simulate: Simulate) -> None:
    attempt, answer = ask_in_time(
        simulate(faults={"nvmlInit": "hang"}), sys.executable, "open_nvml", [json.dumps(sys.path), "1", "1"],
        phase="nvmlInit", options=("-E", "-S"),
    )  # fmt: skip
    found = child.understand(Nvml, attempt, answer)
    assert (found.attempt.outcome, found.attempt.phase, found.works) == ("timed_out", "nvmlInit", False)


def test_an_nvml_that_crashes_is_placed(simulate: Simulate) -> None:
    found = ask_nvml(simulate(faults={"nvmlInit": "crash"}))
    assert found.attempt.ending == "was killed by SIGSEGV during 'nvmlInit'"
    assert not found.works


def test_a_library_that_is_not_nvml_does_not_work(tmp_path: pathlib.Path) -> None:
    compiled(tmp_path / "libnvidia-ml.so.1", "int unrelated(void) { return 0; }\n")
    found = ask_nvml(within(tmp_path))
    assert not found.works
    assert found.gpus == ()
    assert found.error_text or found.attempt.error


LITTLE = """
#include <string.h>
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int code) { return "as the library says"; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { strcpy(v, "418.67"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
static int thing;
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &thing; return i == 1 ? 15 : 0; }
int nvmlDeviceGetName(void *d, char *name, unsigned n) { strcpy(name, "GPU of a library of long ago"); return 0; }
"""


def test_an_nvml_that_knows_little_describes_what_it_can(tmp_path: pathlib.Path) -> None:
    compiled(tmp_path / "libnvidia-ml.so.1", LITTLE)
    found = ask_nvml(within(tmp_path))
    assert found.attempt.answered, found.attempt.stderr
    assert [each.index for each in found.gpus] == [0, 2]
    assert all("of a library of long ago" in each.name for each in found.gpus)
    assert all((each.memory_total_bytes, each.mig, each.uuid) == (None, None, "") for each in found.gpus)
    assert (found.works, found.error_code) == (True, 0)
    (lost,) = found.troubles
    assert (lost.index, lost.error_code, lost.call) == (1, 15, "nvmlDeviceGetHandleByIndex")
    assert lost.error_text


TENANTS = """
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } Process;
static int answer(unsigned *count, Process *rows, unsigned pid, unsigned long long used) {
  if (*count < 1 || !rows) { *count = 1; return 7; } /* NVML_ERROR_INSUFFICIENT_SIZE */
  *count = 1;
  memset(rows, 0, sizeof *rows);
  rows->pid = pid;
  rows->used = used;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, Process *p) { return answer(n, p, 5001234, 1ull << 30); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, Process *p) { return answer(n, p, 5000900, -1ull); }
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned n) {
  strcpy(name, pid == 5000900 ? "/usr/lib/xorg/Xorg" : NAME);
  return 0;
}
"""


def test_the_processes_on_a_gpu_are_told(tmp_path: pathlib.Path) -> None:
    compiled(tmp_path / "libnvidia-ml.so.1", LITTLE + '#define NAME "python"\n' + TENANTS)
    found = ask_nvml(within(tmp_path))
    assert found.gpus[0].processes == (
        GpuProcess(pid=5000900, name="/usr/lib/xorg/Xorg", computes=False, memory_bytes=None),
        GpuProcess(pid=5001234, name="python", computes=True, memory_bytes=1 << 30),
    )


def test_a_process_of_a_name_of_undecodable_bytes_costs_nothing_else(tmp_path: pathlib.Path) -> None:
    compiled(tmp_path / "libnvidia-ml.so.1", LITTLE + '#define NAME "/home/andr\\xe9/train"\n' + TENANTS)
    found = ask_nvml(within(tmp_path))
    assert found.attempt.answered
    assert [process.pid for process in found.gpus[0].processes] == [5000900, 5001234]


def test_nothing_that_hangs_stays_behind(simulate: Simulate, tmp_path: pathlib.Path) -> None:
    """The child of a driver that hangs, started under a name of its own, is gone when the answer is there."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\necho $$ >"{tmp_path}/pid"\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    attempt, _ = ask_in_time(simulate(faults={"cuInit": "hang"}), wrapper, "open_libcuda", phase="cuInit")
    assert attempt.outcome == "timed_out"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGCONT)
