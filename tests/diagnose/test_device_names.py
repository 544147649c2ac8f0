"""A GPU has one name, whichever table it is in and however it is numbered there."""

from __future__ import annotations

import msgspec
import pytest
from built_machines import several
from healthy import ANSWERED, broken, cuda_gpu, gpu, nvml_gpu, runtime
from stressed import stress, stressed_gpu

from tfgpu_doctor.diagnose.device_names import DeviceNames, canonical
from tfgpu_doctor.diagnose.engine import run_checks
from tfgpu_doctor.diagnose.root_cause import rank_causes
from tfgpu_doctor.model import Figure, Finding, Yielded, check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import Nvml
from tfgpu_doctor.model.report import Result


def uuid(number: int) -> str:
    return f"GPU-3f6f3a5e-0000-0000-0000-00000000000{number}"


def lost(number: int) -> GpuTrouble:
    return GpuTrouble(index=number, call="nvmlDeviceGetHandleByIndex", error_code=15, error_text="GPU is lost")


def with_lost(number: int, *, of: int = 3, **sections: object) -> Facts:
    """A machine one of whose GPUs NVML cannot read, and CUDA does not list."""
    machine = several(of)
    machine["nvml"] = {"gpus": tuple(nvml_gpu(i) for i in range(of) if i != number), "troubles": (lost(number),)}
    machine["cuda_driver"] = {"gpus": tuple(cuda_gpu(i) for i in range(of) if i != number)}
    return broken(**{**machine, **sections})


def without_uuids(of: int = 2) -> tuple[object, ...]:
    return tuple(nvml_gpu(i, uuid="") for i in range(of))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("0000:01:00", "0000:01:00.0"),
        ("01:00.0", "0000:01:00.0"),
        ("01:00", "0000:01:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("0001:00:00.0", "0001:00:00.0"),
        ("00000001:00:00.0", "0001:00:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0000:01:00.4", "0000:01:00.4"),
        ("", ""),
        ("odd", ""),
        ("GPU 1", ""),
        ("0000:01:00.9", ""),
    ],
)
def test_an_address_has_one_spelling(written: str, meant: str) -> None:
    assert canonical(written) == meant


@pytest.mark.parametrize(
    "said",
    ["GPU 1", "CUDA GPU 1", "/GPU:1", "GPU:1", "/physical_device:GPU:1", "/job:localhost/replica:0/task:0/device:GPU:1",
     "0000:02:00.0", "00000000:02:00.0", "0000:02:00", uuid(1)],
)  # fmt: skip
def test_every_name_of_a_gpu_leads_to_its_uuid(said: str) -> None:
    assert DeviceNames(broken(**several(3))).name(said) == uuid(1)


def test_without_a_uuid_every_name_leads_to_the_address() -> None:
    names = DeviceNames(broken(**{**several(2), "nvml": {"gpus": without_uuids()}}))
    said = ("GPU 1", "CUDA GPU 1", "/GPU:1", "00000000:02:00.0", "0000:02:00")
    assert {names.name(each) for each in said} == {"0000:02:00.0"}


def test_cudas_order_may_be_another_than_nvmls() -> None:
    """CUDA puts the fastest GPU first."""
    facts = several(2)
    facts["cuda_driver"] = {"gpus": (cuda_gpu(0, pci_address="0000:02:00.0"), cuda_gpu(1, pci_address="0000:01:00.0"))}
    names = DeviceNames(broken(**facts))
    assert (names.name("GPU 0"), names.name("CUDA GPU 0"), names.name("/GPU:0")) == (uuid(0), uuid(1), uuid(1))


def test_without_nvml_the_load_knows_the_uuid_of_an_address() -> None:
    names = DeviceNames(
        broken(**{**several(2), "nvml": None}, stress=stress(stressed_gpu(0), stressed_gpu(1, uuid=uuid(7))))
    )
    assert (names.name("0000:02:00"), names.name("/GPU:1")) == (uuid(7), uuid(7))


def test_tensorflow_may_omit_a_gpu() -> None:
    """One of another model: the others are in CUDA's order."""
    facts = several(3)
    old = cuda_gpu(0, name="Quadro K620", multiprocessors=3)
    facts["cuda_driver"] = {"gpus": (old, cuda_gpu(1), cuda_gpu(2))}
    facts["runtime"] = runtime(gpus=(gpu(0), gpu(1)))
    names = DeviceNames(broken(**facts))
    assert (names.name("/GPU:0"), names.name("/GPU:1")) == (uuid(1), uuid(2))


def test_which_of_two_alike_tensorflow_omits_is_unknown() -> None:
    facts = several(2)
    facts["runtime"] = runtime(gpus=(gpu(0),))
    assert DeviceNames(broken(**facts)).name("/GPU:0") == "/GPU:0"


def test_a_lost_gpu_without_an_address_is_the_one_that_is_left_on_the_bus() -> None:
    names = DeviceNames(with_lost(1))
    assert names.name("GPU 1") == names.name("0000:02:00") == "0000:02:00.0"
    assert names.name("GPU 2") == uuid(2)


def test_the_driver_tells_the_addresses_where_the_bus_cannot_be_read() -> None:
    listed = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
    assert DeviceNames(with_lost(1, pci=None, driver={"gpus": listed})).name("GPU 1") == "0000:02:00.0"


def test_two_lost_gpus_are_not_mistaken_for_each_other() -> None:
    facts = broken(with_lost(1), nvml={"gpus": (nvml_gpu(0),), "troubles": (lost(1), lost(2))})
    assert (DeviceNames(facts).name("GPU 1"), DeviceNames(facts).name("GPU 2")) == ("GPU 1", "GPU 2")


@pytest.mark.parametrize("change", [{"driver": "vfio-pci"}, {"physical_function": "0000:01:00.0"}])
def test_what_another_driver_has_is_not_the_lost_gpu(change: dict[str, str]) -> None:
    card = PciDevice(address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia")
    other = msgspec.structs.replace(card, address="0000:02:00.0", **change)
    rows = (card, other)
    nvml = Nvml(attempt=ANSWERED, gpus=(nvml_gpu(0),), troubles=(lost(1),))
    assert DeviceNames(broken(pci=Pci(devices=rows), nvml=nvml)).name("GPU 1") == "GPU 1"


def test_an_excluded_gpu_is_not_the_lost_one() -> None:
    facts = broken(with_lost(1, of=2), nvml={"excluded": ("00000000:02:00.0",)})
    assert DeviceNames(facts).name("GPU 1") == "GPU 1"


def test_a_trouble_keeps_the_identity_that_was_known_before() -> None:
    hangs = GpuTrouble(
        index=1, uuid=uuid(1), pci_address="00000000:02:00.0", call="nvmlDeviceGetMemoryInfo", seconds=15.0
    )
    names = DeviceNames(broken(with_lost(1), nvml={"troubles": (hangs,)}))
    assert names.name("GPU 1") == names.name("0000:02:00") == uuid(1)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("GPU 1", "GPU 1"),
        ("CUDA GPU 1", "CUDA GPU 1"),
        ("GPU:1", "/GPU:1"),
        ("0000:02:00", "0000:02:00.0"),
        ("odd", "odd"),
    ],
)
def test_a_gpu_of_which_nothing_else_is_known_keeps_its_name(said: str, name: str) -> None:
    assert DeviceNames(Facts()).name(said) == name


def test_the_findings_of_every_check_get_the_names() -> None:
    """Also those of a plug-in, which need not know who else names the GPU."""

    @check("ACME001", "it is well")
    def names_it_twice(nvml: Nvml) -> Yielded:
        figure = Figure("sparks", 3, device="0000:02:00")
        yield Finding("it sparks", devices=("0000:02:00", "GPU 1", ""), figures=(figure, Figure("fans", 2)))

    (finding,) = run_checks(broken(**several(2)), (names_it_twice,))["ACME001"].findings
    assert finding.devices == (uuid(1),)
    assert finding.figures == (Figure("sparks", 3, device=uuid(1)), Figure("fans", 2))


def test_a_root_cause_keeps_the_figure_of_its_first_finding() -> None:
    """Findings of one cause may measure the same twice: a copy there, and a copy back."""
    found = Result(
        id="ACME001", title="it is well", outcome="fail",
        findings=tuple(
            Finding("it sparks", cause="hardware_faulty_gpu", devices=(uuid(1),), figures=(Figure("sparks", many),))
            for many in (3, 4)
        ),
    )  # fmt: skip
    (cause,) = rank_causes([found])
    assert cause.figures == (Figure("sparks", 3),)
    assert cause.devices == (uuid(1),)
