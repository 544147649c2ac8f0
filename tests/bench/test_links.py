"""The links between the GPUs that CUDA lists, of all that NVML knows."""

from __future__ import annotations

import pathlib

import pytest

from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import GpuHealth, NvLink, Pcie
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, Nvml, NvmlGpu
from tfgpu_doctor.perf_tests.ceilings import link_in_words, linked_by_nvlink
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

LINKS = (NvLink(index=0, active=True), NvLink(index=1, active=False))
BOARDS = (
    NvmlGpu(index=0, pci_address="00000000:01:00.0", health=GpuHealth(pcie=Pcie(max_generation=3, width=8))),
    *(
        NvmlGpu(
            index=place,
            pci_address=f"00000000:{place + 1:02x}:00.0",
            health=GpuHealth(nvlinks=LINKS, pcie=Pcie(max_generation=4, width=16)),
        )
        for place in (1, 2)
    ),
)


@pytest.mark.parametrize(
    ("listed", "linked", "said"),
    [
        ((1, 2), True, "PCIe generation 4 x16"),  # a card for the display stands beside them
        ((0, 1, 2), False, ""),
        ((), False, ""),  # CUDA did not answer: all count
    ],
)
def test_only_what_cuda_lists_counts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, listed: tuple[int, ...], linked: bool, said: str
) -> None:
    answered = Attempt(outcome="answered")
    gpus = tuple(CudaGpu(index=at, pci_address=BOARDS[place].pci_address[4:]) for at, place in enumerate(listed))
    cuda = CudaDriver(attempt=answered, gpus=gpus)
    facts = Facts(nvml=Nvml(attempt=answered, gpus=BOARDS), cuda_driver=cuda)
    (tmp_path / "facts").write_bytes(encode_facts(facts))
    monkeypatch.setenv(FACTS_VARIABLE, str(tmp_path / "facts"))
    assert linked_by_nvlink() is linked
    assert link_in_words().startswith(said)
    assert bool(link_in_words()) is bool(said)
