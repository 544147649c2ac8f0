"""GPU: is there an NVIDIA GPU, is it available, and does TensorFlow use it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import log, message
from built_machines import cuda_that_fails, several, variables, wsl
from healthy import ANSWERED, cuda_gpu, node, nvml_gpu, runtime

from tfgpu_doctor.checks.gpu.compute_mode import compute_mode_lets_in
from tfgpu_doctor.checks.gpu.hardware import gpu_is_in_machine, multiprocessors_suffice
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.machine import Environment, Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import DeviceNodes, Driver, GpuProcess, Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

INTEL = PciDevice(address="0000:00:02.0", vendor="8086", device="46a6", class_code="030000", driver="i915")
AUDIO = PciDevice(address="0000:01:00.1", vendor="10de", device="1aef", class_code="040300")
NVSWITCH = PciDevice(address="0000:05:00.0", vendor="10de", device="22a3", class_code="068000")
NOTHING: dict[str, Any] = {
    "pci": Pci(device_count=40),
    "nvml": None,
    "cuda_driver": None,
    "driver": Driver(),
    "device_nodes": DeviceNodes(),
}


def gpu_of_class(class_code: str) -> Pci:
    return Pci(devices=(PciDevice(address="0000:01:00.0", vendor="10de", device="20b2", class_code=class_code),))


def nodes(*paths: str) -> DeviceNodes:
    return DeviceNodes(nodes=tuple(node(path) for path in paths), opening=ANSWERED)


# GPU001


def test_every_sign_of_a_gpu_is_evidence(judge: Judge) -> None:
    assert judge.passes(gpu_is_in_machine).splitlines() == [
        "PCI device 10de:2204 at 0000:01:00.0: NVIDIA GeForce RTX 3090",
        "NVML lists NVIDIA GeForce RTX 3090",
        "CUDA lists NVIDIA GeForce RTX 3090",
        "/proc/driver/nvidia/gpus lists 0000:01:00.0",
        "/dev/nvidia0 exists",
    ]


@pytest.mark.parametrize(
    ("device", "named"),
    [("20b5", ": NVIDIA A100 80GB PCIe"), ("1e30", ": Quadro RTX 8000 or Quadro RTX 6000"), ("ffff", "")],
)
def test_a_gpu_without_a_driver_is_named_by_its_id(judge: Judge, device: str, named: str) -> None:
    gpu = PciDevice(address="0000:01:00.0", vendor="10de", device=device, class_code="030200")
    told = judge.passes(gpu_is_in_machine, **{**NOTHING, "pci": Pci(devices=(gpu,))})
    assert told == f"PCI device 10de:{device} at 0000:01:00.0{named}"


@pytest.mark.parametrize(
    "sign",
    [
        {"pci": gpu_of_class("030000")},  # a display card
        {"pci": gpu_of_class("030200")},  # one that computes alone
        {"pci": gpu_of_class("038000")},
        {"nvml": Nvml(attempt=ANSWERED, gpus=(nvml_gpu(name=""),))},
        {"cuda_driver": {"gpus": (cuda_gpu(name=""),)}},
        {"driver": Driver(gpus=("0000:01:00.0",))},
        {"device_nodes": nodes("/dev/nvidia7")},
        {"device_nodes": nodes("/dev/dxg")},
        {"system": {"board": "NVIDIA Jetson AGX Orin Developer Kit"}},
    ],
)
def test_one_sign_of_a_gpu_is_enough(judge: Judge, sign: dict[str, Any]) -> None:
    assert judge.passes(gpu_is_in_machine, **{**NOTHING, **sign})


@pytest.mark.parametrize(
    ("sign", "evidence"),
    [
        ({"nvml": Nvml(attempt=ANSWERED, gpus=(nvml_gpu(name=""),))}, "NVML lists a GPU"),
        ({"cuda_driver": {"gpus": (cuda_gpu(name=""),)}}, "CUDA lists a GPU"),
    ],
)
def test_a_gpu_without_a_name_is_a_gpu(judge: Judge, sign: dict[str, Any], evidence: str) -> None:
    assert judge.passes(gpu_is_in_machine, **{**NOTHING, **sign}) == evidence


@pytest.mark.parametrize("devices", [(), (INTEL,), (AUDIO,), (NVSWITCH,), (INTEL, AUDIO)])
def test_without_any_sign_there_is_no_gpu(judge: Judge, devices: tuple[PciDevice, ...]) -> None:
    finding = judge.finding(gpu_is_in_machine, **{**NOTHING, "pci": Pci(devices=devices, device_count=40)})
    assert (finding.cause, finding.severity) == ("no_gpu_in_machine", "error")
    assert finding.message == "there is no NVIDIA GPU in this machine"
    assert "40 devices on the PCI bus" in finding.evidence[0]
    assert ("8086:46a6 at 0000:00:02.0" in str(finding.evidence)) == (INTEL in devices)
    assert finding.fix and "to run on the CPU" in finding.fix.text


def test_a_machine_is_judged_by_its_bus_alone(judge: Judge) -> None:
    unknown: dict[str, Any] = dict.fromkeys(("nvml", "cuda_driver", "driver", "device_nodes"))
    assert judge.finding(gpu_is_in_machine, **unknown, pci=Pci(device_count=3)).cause == "no_gpu_in_machine"


@pytest.mark.parametrize("paths", [(), ("/dev/nvidiactl", "/dev/nvidia-uvm")])
def test_a_bus_that_cannot_be_read_is_no_fault(judge: Judge, paths: tuple[str, ...]) -> None:
    reason = judge.skips(gpu_is_in_machine, **{**NOTHING, "pci": None, "device_nodes": nodes(*paths)})
    assert reason == "the PCI bus cannot be read, and nothing else shows a GPU"


@pytest.mark.parametrize("os", ["Darwin", "Windows"])
@pytest.mark.parametrize("pci", [None, Pci(device_count=0)])
def test_other_systems_hide_their_bus(judge: Judge, os: str, pci: Pci | None) -> None:
    assert os in judge.skips(gpu_is_in_machine, **{**NOTHING, "pci": pci, "system": {"os": os}})


def test_in_wsl_the_gpu_is_behind_a_node(judge: Judge) -> None:
    machine = wsl(2, nvml=None, cuda_driver=None)
    assert judge.passes(gpu_is_in_machine, machine) == "/dev/dxg exists"


def test_a_wsl_without_that_node_has_no_gpu(judge: Judge) -> None:
    finding = judge.finding(gpu_is_in_machine, wsl(2, nvml=None, cuda_driver=None, device_nodes=DeviceNodes()))
    assert (finding.cause, finding.severity) == ("no_gpu_in_machine", "error")
    assert "/dev/dxg" in finding.message
    assert finding.fix and "`wsl --shutdown`, which ends every distribution" in finding.fix.text
    assert finding.fix and "in Windows" in finding.fix.text


def test_a_wsl_whose_nodes_cannot_be_listed_is_not_judged(judge: Judge) -> None:
    assert judge.skips(gpu_is_in_machine, wsl(2, nvml=None, cuda_driver=None, device_nodes=None))


@pytest.mark.parametrize("path", ["/dev/nvhost-gpu", "/dev/nvmap"])
def test_a_jetson_on_another_makers_board_has_its_gpu(judge: Judge, path: str) -> None:
    system = {"architecture": "aarch64", "board": "Connect Tech Boson for Orin NX"}
    assert judge.does_not_object(gpu_is_in_machine, **{**NOTHING, "system": system, "device_nodes": nodes(path)})


@pytest.mark.parametrize(
    ("sections", "sign"),
    [
        ({"nvml": Nvml(attempt=ANSWERED, error_code=18, error_text="Driver/library version mismatch")}, "a loaded driver answers"),
        ({"nvml": Nvml(attempt=ANSWERED, troubles=(GpuTrouble(index=0, error_code=999, error_text="?"),))}, "NVML says of GPU 0"),
        ({"kernel_log": log(message("init_failed", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed!"))}, "RmInitAdapter"),
    ],
    ids=["error", "trouble", "kernel"],
)  # fmt: skip
def test_where_the_bus_is_unknown_the_driver_shows_that_there_is_a_gpu(
    judge: Judge, sections: dict[str, Any], sign: str
) -> None:
    assert sign in judge.passes(gpu_is_in_machine, **{**NOTHING, "pci": None, **sections})


def test_a_driver_that_is_not_loaded_shows_no_gpu(judge: Judge) -> None:
    unloaded = Nvml(attempt=ANSWERED, error_code=9, error_text="Driver Not Loaded")
    assert "nothing else shows a GPU" in judge.skips(gpu_is_in_machine, **{**NOTHING, "pci": None, "nvml": unloaded})


# GPU002

JOB = GpuProcess(pid=4711, name="/usr/bin/python3", memory_bytes=9 << 30)
DESKTOP = GpuProcess(pid=1200, name="/usr/lib/xorg/Xorg", computes=False)
SERVER = GpuProcess(pid=990, name="nvidia-cuda-mps-server", memory_bytes=30 << 20)
UNUSED = runtime(gpus=(), computations=())


def gpus(*given: Any) -> dict[str, Any]:
    return {"gpus": given}


@pytest.mark.parametrize(
    ("mode", "tenants"),
    [
        ("default", ()),
        ("default", (JOB, JOB)),
        ("exclusive_process", ()),
        ("exclusive_thread", ()),
        ("exclusive_process", (DESKTOP,)),
        ("exclusive_process", (SERVER, JOB)),  # from Volta on, a client of MPS has a context of its own
        ("a mode of tomorrow", (JOB,)),
    ],
)
def test_a_mode_that_lets_in_passes(judge: Judge, mode: str, tenants: tuple[GpuProcess, ...]) -> None:
    nvml = gpus(nvml_gpu(compute_mode=mode, processes=tenants))
    assert judge.passes(compute_mode_lets_in, nvml=nvml, runtime=UNUSED) == f"GPU 0: compute mode {mode}"


@pytest.mark.parametrize("mode", ["exclusive_process", "exclusive_thread"])
def test_an_exclusive_gpu_that_is_held_lets_nobody_in(judge: Judge, mode: str) -> None:
    nvml = gpus(nvml_gpu(compute_mode=mode, processes=(DESKTOP, JOB)))
    finding = judge.finding(compute_mode_lets_in, nvml=nvml, cuda_driver=None, runtime=None)
    assert (finding.cause, finding.severity, finding.confidence) == ("exclusive_compute_mode", "error", "high")
    assert f"in compute mode {mode} and in use by /usr/bin/python3 (4711)" in finding.message
    assert "Xorg" not in finding.message
    assert finding.evidence == (f"NVML reports the compute mode {mode}",)
    assert finding.fix and "nvidia-smi -c DEFAULT" in finding.fix.text
    assert finding.fix.commands == ()


def test_a_tenant_without_a_name_is_named_by_its_number(judge: Judge) -> None:
    nvml = gpus(nvml_gpu(compute_mode="exclusive_process", processes=(GpuProcess(pid=4711),)))
    assert "in use by process (4711)" in judge.finding(compute_mode_lets_in, nvml=nvml, runtime=None).message


@pytest.mark.parametrize("tenants", [(), (DESKTOP,)])
def test_a_prohibited_gpu_lets_nobody_in(judge: Judge, tenants: tuple[GpuProcess, ...]) -> None:
    nvml = gpus(nvml_gpu(compute_mode="prohibited", processes=tenants))
    finding = judge.finding(compute_mode_lets_in, nvml=nvml, runtime=None)
    assert finding.cause == "exclusive_compute_mode"
    assert "in compute mode prohibited, in which no process may use it" in finding.message


def test_cuinits_word_for_a_busy_gpu_makes_it_likely(judge: Judge) -> None:
    busy = cuda_that_fails(46, "CUDA_ERROR_DEVICE_UNAVAILABLE")
    finding = judge.finding(compute_mode_lets_in, cuda_driver=busy, runtime=UNUSED)
    assert (finding.cause, finding.severity, finding.confidence) == ("exclusive_compute_mode", "error", "medium")
    assert finding.evidence == ("cuInit returned 46, CUDA_ERROR_DEVICE_UNAVAILABLE",)


@pytest.mark.parametrize(
    ("free", "tenants", "told"),
    [(20, (), True), (23, (), False), (20, (DESKTOP,), True), (20, (SERVER,), False),
     (20, (GpuProcess(pid=1, name="Xorg", computes=False, memory_bytes=4 << 30),), False)],
    ids=["held", "reserved", "little shown", "mps", "by the desktop"],
)  # fmt: skip
def test_an_exclusive_gpu_whose_memory_nobody_is_shown_to_hold(
    judge: Judge, free: int, tenants: Any, told: bool
) -> None:
    held = nvml_gpu(compute_mode="exclusive_process", processes=tenants, memory_free_bytes=free << 30)
    found = judge.findings(compute_mode_lets_in, nvml=gpus(held), runtime=None)
    assert [(each.cause, each.severity, each.confidence) for each in found] == (
        [("exclusive_compute_mode", "warning", "low")] if told else []
    )


def test_each_gpu_is_judged(judge: Judge) -> None:
    held = nvml_gpu(1, compute_mode="prohibited")
    assert (
        "GPU 1"
        in judge.finding(compute_mode_lets_in, nvml=gpus(nvml_gpu(0), held), cuda_driver=None, runtime=None).message
    )


def test_without_gpus_there_is_no_mode(judge: Judge) -> None:
    assert judge.skips(compute_mode_lets_in, nvml=Nvml(attempt=ANSWERED)) == "NVML lists no GPU"


def test_the_server_of_mps_keeps_nobody_out(judge: Judge) -> None:
    nvml = gpus(nvml_gpu(compute_mode="exclusive_process", processes=(SERVER,)))
    assert judge.does_not_object(compute_mode_lets_in, nvml=nvml)


def test_a_gpu_on_which_tensorflow_computes_lets_it_in(judge: Judge) -> None:
    assert judge.does_not_object(
        compute_mode_lets_in, nvml=gpus(nvml_gpu(compute_mode="exclusive_process", processes=(JOB,)))
    )


def test_a_gpu_of_another_user_that_is_hidden_is_no_fault(judge: Judge) -> None:
    mine, theirs = nvml_gpu(0), nvml_gpu(1, compute_mode="exclusive_process", processes=(JOB,))
    assert judge.does_not_object(
        compute_mode_lets_in,
        nvml=gpus(mine, theirs),
        environment=variables(CUDA_VISIBLE_DEVICES="0"),
        runtime=None,
    )


# GPU003


def cards(*counts: int) -> dict[str, Any]:
    return {"gpus": tuple(cuda_gpu(index, multiprocessors=count) for index, count in enumerate(counts))}


@pytest.mark.parametrize("counts", [(82,), (8,), (8, 132), (6,), (1,), (6, 6), (132,) * 8])
def test_enough_multiprocessors_pass(judge: Judge, counts: tuple[int, ...]) -> None:
    evidence = judge.passes(multiprocessors_suffice, cuda_driver=cards(*counts))
    assert evidence.splitlines()[0] == f"GPU 0: {counts[0]} multiprocessors, at least {min(8, *counts, 8)} needed"


@pytest.mark.parametrize(("counts", "least"), [((82, 7), 8), ((82, 3), 8), ((8, 7), 8), ((7, 6), 7)])
def test_a_gpu_with_fewer_than_the_rest_is_left_out(judge: Judge, counts: tuple[int, int], least: int) -> None:
    finding = judge.finding(multiprocessors_suffice, cuda_driver=cards(*counts))
    assert (finding.cause, finding.severity) == ("gpu_below_min_multiprocessor_count", "warning")
    assert "GPU 1" in finding.message
    assert f"it has {counts[1]} multiprocessors, and the minimum is {least}" in finding.message
    assert finding.evidence == (f"TF_MIN_GPU_MULTIPROCESSOR_COUNT is not set; the best GPU has {counts[0]}",)
    assert finding.fix and finding.fix.commands == (f"export TF_MIN_GPU_MULTIPROCESSOR_COUNT={counts[1]}",)


@pytest.mark.parametrize("least", ["3", "0"])
def test_the_variable_lets_a_small_gpu_in(judge: Judge, least: str) -> None:
    environment = variables(TF_MIN_GPU_MULTIPROCESSOR_COUNT=least)
    assert judge.passes(multiprocessors_suffice, cuda_driver=cards(82, 3), environment=environment)


def test_the_variable_keeps_a_large_gpu_out(judge: Judge) -> None:
    environment = variables(TF_MIN_GPU_MULTIPROCESSOR_COUNT="83")
    finding = judge.finding(multiprocessors_suffice, cuda_driver=cards(82), environment=environment)
    assert "it has 82 multiprocessors, and the minimum is 83" in finding.message
    assert "TF_MIN_GPU_MULTIPROCESSOR_COUNT is 83" in finding.evidence[0]


@pytest.mark.parametrize("value", ["", "many", "-1", "1.5"])
def test_a_variable_that_is_no_number_counts_as_not_set(judge: Judge, value: str) -> None:
    environment = variables(TF_MIN_GPU_MULTIPROCESSOR_COUNT=value)
    assert judge.passes(multiprocessors_suffice, cuda_driver=cards(82), environment=environment)
    assert judge.finding(multiprocessors_suffice, cuda_driver=cards(82, 3), environment=environment)


def test_without_gpus_no_multiprocessor_is_missed(judge: Judge) -> None:
    assert judge.skips(multiprocessors_suffice, cuda_driver=cards()) == "CUDA lists no GPU"


def test_a_machine_of_equal_gpus_passes(judge: Judge) -> None:
    assert judge.passes(multiprocessors_suffice, **several(8), environment=Environment())


def test_a_raised_digit_is_no_number(judge: Judge) -> None:
    environment = variables(TF_MIN_GPU_MULTIPROCESSOR_COUNT="²")
    assert judge.passes(multiprocessors_suffice, cuda_driver=cards(82), environment=environment)


def test_a_number_of_multiprocessors_that_is_not_known_is_no_fault(judge: Judge) -> None:
    assert judge.does_not_object(multiprocessors_suffice, cuda_driver=cards(82, 0))
