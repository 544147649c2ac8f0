"""The GPUs of a report: one card for each that this process may use, and no fault on a sound one."""

from __future__ import annotations

import pytest
from healthy import broken, nvml_gpu

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.machine import PciDevice
from tfgpu_doctor.render import render

LOST = GpuTrouble(
    index=0,
    name="NVIDIA GeForce RTX 3090",
    pci_address="00000000:01:00.0",
    call="nvmlDeviceGetPowerUsage",
    error_code=15,
    error_text="GPU is lost",
)


@pytest.mark.parametrize(("code", "text"), [(4, "Insufficient Permissions"), (17, "Operating System")])
def test_gpus_that_this_job_was_not_given_have_no_card(code: int, text: str) -> None:
    call = "nvmlDeviceGetHandleByIndex"
    others = tuple(GpuTrouble(index=each, call=call, error_code=code, error_text=text) for each in range(1, 8))
    report = diagnose(broken(nvml={"count": 8, "gpus": (nvml_gpu(),), "troubles": others}))
    assert report.healthy
    assert [(card.index, card.trouble) for card in report.gpus] == [(0, "")]
    page = render(report, "html")
    assert "faulty" not in page
    assert '<h2 id="gpus-title">1 GPU</h2>' in page


def test_where_no_gpu_of_nvml_may_be_used_those_of_cuda_are_shown() -> None:
    refused = GpuTrouble(
        index=0, call="nvmlDeviceGetHandleByIndex", error_code=4, error_text="Insufficient Permissions"
    )
    report = diagnose(broken(nvml={"count": 1, "gpus": (), "troubles": (refused,)}))
    assert [(card.index, card.compute_capability, card.trouble) for card in report.gpus] == [(0, "8.6", "")]


@pytest.mark.parametrize(("device", "name"), [("2204", "NVIDIA GeForce RTX 3090"), ("ffff", "NVIDIA device ffff")])
def test_without_nvml_and_cuda_a_gpu_has_the_name_of_its_device_id(device: str, name: str) -> None:
    found = PciDevice(address="0000:01:00.0", vendor="10de", device=device, class_code="030000")
    report = diagnose(broken(nvml=None, cuda_driver=None, pci={"devices": (found,)}))
    assert [card.name for card in report.gpus] == [name]


def test_a_gpu_that_is_lost_while_it_is_read_has_one_card() -> None:
    report = diagnose(broken(nvml={"count": 1, "gpus": (nvml_gpu(),), "troubles": (LOST,)}))
    (card,) = report.gpus
    assert (card.index, card.name, card.trouble) == (0, nvml_gpu().name, "GPU is lost")
    assert card.memory_total_bytes == nvml_gpu().memory_total_bytes
    page = render(report, "html")
    assert '<h2 id="gpus-title">1 GPU</h2>' in page
    assert page.count('<article class="card gpu') == 1


def test_a_gpu_that_could_not_be_read_at_all_has_its_place_among_the_others() -> None:
    report = diagnose(broken(nvml={"count": 2, "gpus": (nvml_gpu(1),), "troubles": (LOST,)}))
    assert [(card.index, card.trouble) for card in report.gpus] == [(0, "GPU is lost"), (1, "")]
