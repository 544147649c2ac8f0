"""libcuda of the simulated driver: which devices a process sees, and what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from every import every
from rehearse.children import cuda_says, run
from simulated import Simulate

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.machine import read_machine

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-aabbbbbb-0000-0000-0000-000000000002"
MIG = "MIG-cccccccc-0000-0000-0000-000000000003"
PAIR = ({"name": "L4", "uuid": A}, {"name": "L4", "uuid": B})
DIVIDED = {
    "name": "A100 40GB",
    "mig_mode": True,
    "mig_devices": [
        {"profile": "1g.5gb", "uuid": MIG, "memory_bytes": 5 << 30, "multiprocessors": 14},
        {"profile": "2g.10gb", "memory_bytes": 10 << 30, "multiprocessors": 28},
    ],
}


def addresses(found: Any) -> list[str]:
    return [each["pci"][5:7] for each in found["devices"]]


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (None, ["01", "02"]),
        ("0", ["01"]),
        ("1", ["02"]),
        ("1,0", ["02", "01"]),
        ("0,1", ["01", "02"]),
        (" 0 , 1 ", ["01", "02"]),
        ("0,-1,1", ["01"]),
        ("0,7,1", ["01"]),
        ("0,,1", ["01"]),
        ("1gpu", ["02"]),
        ("0,0", []),
        ("", []),
        ("-1", []),
        ("2", []),
        ("all", []),
        ("NoDevFiles", []),
        (A, ["01"]),
        (f"{B},{A}", ["02", "01"]),
        ("GPU-aaaa", ["01"]),
        ("GPU-aab", ["02"]),
        ("GPU-aa", []),  # of both
        ("GPU-", []),
        (f"{A},1", ["01"]),
        (f"0,{B}", ["01"]),
        (f"{A},{A}", []),
        ("GPU-ffff", []),
        ("MIG-ffff", []),
    ],
)
def test_visible_devices_are_read_as_the_driver_reads_them(
    simulate: Simulate, value: str | None, seen: list[str]
) -> None:
    variables = simulate(*PAIR)
    found = cuda_says(variables if value is None else {**variables, "CUDA_VISIBLE_DEVICES": value})
    assert addresses(found) == seen
    assert found["init"] == (0 if seen else 100)
    assert found["count"] == (len(seen) or -3)  # not initialised


@pytest.mark.parametrize(
    ("order", "names"),
    [(None, ["02", "03", "01"]), ("PCI_BUS_ID", ["01", "02", "03"]), ("FASTEST_FIRST", ["02", "03", "01"])],
)
def test_the_fastest_comes_first(simulate: Simulate, order: str | None, names: list[str]) -> None:
    variables = simulate({"name": "T4"}, {"name": "L4", "count": 2})
    assert addresses(cuda_says(variables if order is None else {**variables, "CUDA_DEVICE_ORDER": order})) == names
    if order == "PCI_BUS_ID":
        assert addresses(cuda_says({**variables, "CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": "0"})) == ["01"]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
        ("0", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
        (MIG, ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
        ("MIG-cccc", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
        ("1", ["NVIDIA A100-SXM4-40GB"]),
    ],
)
def test_a_process_gets_one_mig_device(simulate: Simulate, value: str | None, names: list[str]) -> None:
    gpus = [DIVIDED] if value != "1" else [DIVIDED, {"name": "A100 40GB"}]
    variables = simulate(*gpus)
    found = cuda_says(variables if value is None else {**variables, "CUDA_VISIBLE_DEVICES": value})
    assert [each["name"] for each in found["devices"]] == names
    if value == MIG:
        (device,) = found["devices"]
        assert device["uuid"] == "cccccccc000000000000000000000003"
        assert (device["memory"], device["attributes"][15]) == (5 << 30, 14)


@pytest.mark.parametrize(
    "gpus", [(DIVIDED, {"name": "A100 40GB", "count": 2}), ({"name": "A100 40GB", "count": 2}, DIVIDED)]
)
@pytest.mark.parametrize("order", ["PCI_BUS_ID", "FASTEST_FIRST"])
def test_no_whole_gpu_is_listed_beside_a_mig_device(simulate: Simulate, gpus: tuple[Any, ...], order: str) -> None:
    variables = {**simulate(*gpus), "CUDA_DEVICE_ORDER": order}
    devices = cuda_says(variables)["devices"]
    assert [each["name"] for each in devices] == ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]
    expected = read_machine(json.dumps({"gpus": gpus}).encode(), read_knowledge()).cuda_devices
    assert expected == len(devices)  # what a rehearsal holds TensorFlow's GPUs against
    whole = 0 if gpus[1] is DIVIDED else 1
    if order == "PCI_BUS_ID":
        named = cuda_says({**variables, "CUDA_VISIBLE_DEVICES": str(whole)})["devices"]
        assert [each["name"] for each in named] == ["NVIDIA A100-SXM4-40GB"]


def test_mig_without_a_device_gives_none(simulate: Simulate) -> None:
    assert cuda_says(simulate({"name": "A100", "mig_mode": True}))["init"] == 100


@pytest.mark.slow
@every("model", read_knowledge().gpus, key=lambda model: model.name)
def test_every_gpu_of_the_table_can_be_simulated(simulate: Simulate, model: Any) -> None:
    (device,) = cuda_says(simulate({"name": model.name}))["devices"]
    major, minor = map(int, model.compute_capability.split("."))
    attributes = device["attributes"]
    assert (device["name"], device["memory"]) == (model.name, model.memory_bytes)
    assert (attributes[16 - 1], attributes[75 - 1], attributes[76 - 1]) == (model.multiprocessors, major, minor)
    assert attributes[10 - 1] == 32
    assert attributes[39 - 1] in (1024, 1536, 2048)
    assert attributes[8 - 1] <= attributes[97 - 1] <= attributes[81 - 1]


def test_nothing_answers_before_cuinit(simulate: Simulate) -> None:
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuDeviceGetCount(ctypes.byref(ctypes.c_int())))"
    assert run(code, simulate()).stdout == "3\n"


def test_without_a_machine_there_is_no_gpu(simulate: Simulate) -> None:
    variables = simulate()
    del variables["TFGPU_DOCTOR_MACHINE"]
    assert cuda_says(variables)["init"] == 100
    assert cuda_says({**variables, "TFGPU_DOCTOR_MACHINE": "/nowhere"})["init"] == 100


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("cuDeviceGetName", "name"),
        ("cuDeviceGetPCIBusId", "pci"),
        ("cuDeviceGetUuid", "uuid"),
        ("cuDeviceTotalMem", "memory"),
    ],
)
def test_any_call_can_fail_for_one_gpu(simulate: Simulate, call: str, where: str) -> None:
    first, second = cuda_says(simulate({}, {"faults": {call: 214}}))["devices"]
    assert first[where] not in (214, -214)
    assert second[where] in (214, -214)


def test_a_context_is_refused(simulate: Simulate) -> None:
    code = (
        "import ctypes; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); p = ctypes.c_void_p(); t = ctypes.c_char_p();"
        "code = c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0); c.cuGetErrorString(code, ctypes.byref(t)); print(code, t.value)"
    )
    assert run(code, simulate()).stdout == "801 b'operation not supported'\n"
    assert run(code, simulate(faults={"cuDevicePrimaryCtxRetain": 2})).stdout == "2 b'out of memory'\n"


def test_the_names_of_codes_are_those_of_the_table(simulate: Simulate) -> None:
    code = (
        "import ctypes; c = ctypes.CDLL('libcuda.so.1'); t = ctypes.c_char_p()\n"
        "for code in range(1000):\n"
        "    if c.cuGetErrorName(code, ctypes.byref(t)) == 0: print(code, t.value.decode())"
    )
    lines = (line.split() for line in run(code, simulate()).stdout.splitlines())
    names = {int(number): name for number, name in lines}
    table = {code: row.name for code, row in read_knowledge().cuda_errors.items()}
    assert len(names) >= 15
    assert {code: table.get(code) for code in names} == names
