"""Which checks judged only a part of the node's GPUs, and why: such a check does not say that another GPU is mended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tfgpu_doctor.accept import why_not_loaded
from tfgpu_doctor.diagnose.device_names import canonical
from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.knowledge import Knowledge, read_knowledge
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.model.tags import STRESS, UNFIT

JUDGED: Final = ("pass", "warn", "fail")  # the outcomes of a check that judged something


def partly_judged(facts: Facts, report: Report) -> dict[str, str]:
    """Return why each check of single GPUs judged only some of them, by its id; empty if each judged all."""
    why = _why_not_all(facts)
    if not any(why.values()):
        return {}
    knowledge, judged = read_knowledge(), {each.id for each in report.results if each.outcome in JUDGED}
    found = {check.id: why[_source(check, knowledge)] for check in load_checks()[0] if check.id in judged}
    return {id: words for id, words in found.items() if words}


def unlisted(facts: Facts) -> list[str]:
    """Return the GPUs that NVML shows and CUDA does not, by address, of a model that CUDA lists.

    One of another model may be there for the display: CUDA or TensorFlow never uses it.
    """
    nvml = facts.nvml
    seen = _listed_by_cuda(facts)
    if not nvml or not nvml.works or not seen:
        return []
    models = {gpu.name for gpu in nvml.gpus if canonical(gpu.pci_address) in seen}
    shown = ((gpu.name, canonical(gpu.pci_address)) for gpu in nvml.gpus)
    return [address for name, address in shown if name in models and address and address not in seen]


def _source(check: Check, knowledge: Knowledge) -> str:
    """Return the fact in which a check sees single GPUs; empty for one that judges no GPU, or the machine as a whole."""
    if STRESS in check.tags:
        return "stress"
    rows = (knowledge.causes.get(label) for label in check.causes)
    if UNFIT not in check.tags and not any(row and row.returns for row in rows):
        return ""
    if "runtime" in check.needs:
        return "runtime"
    return "nvml" if {"nvml", "cuda_driver"} & set(check.needs) else ""


def _why_not_all(facts: Facts) -> Mapping[str, str]:
    """Return why a fact does not speak of every GPU, by the fact; empty texts where it does."""
    shown = len(facts.nvml.gpus) if facts.nvml and facts.nvml.works else len(_listed_by_cuda(facts))
    hidden = _hidden_from_driver(facts)
    by_driver = f"the driver shows {shown} of {amount(shown + hidden, 'GPU')}" if hidden else ""
    listed = len(facts.runtime.gpus) if facts.runtime else 0
    beside = len(unlisted(facts)) + hidden + _left_out_by_tensorflow(facts)
    by_tensorflow = f"TensorFlow lists {listed} of {amount(listed + beside, 'GPU')}" if beside and listed else ""
    by_load = by_tensorflow or (why_not_loaded(facts, "no GPU was stress-tested") if facts.stress else "")
    return {"": "", "nvml": by_driver, "runtime": by_tensorflow, "stress": by_load}


def _listed_by_cuda(facts: Facts) -> set[str]:
    cuda = facts.cuda_driver
    found = (canonical(gpu.pci_address) for gpu in (cuda.gpus if cuda and cuda.works else ()))
    return {address for address in found if address}


def _hidden_from_driver(facts: Facts) -> int:
    """Return how many GPUs the driver has on the bus, but does not show to this process: those of other jobs or containers."""
    nvml, seen = facts.nvml, _listed_by_cuda(facts)
    if nvml and nvml.works:
        addresses = {canonical(each.pci_address) for each in nvml.gpus}
        addresses |= {canonical(each.pci_address) for each in nvml.troubles if not each.is_refused}
        if "" in addresses:
            return 0  # a lost GPU does not say where it is
        seen = addresses | {canonical(each) for each in nvml.excluded}
    if not seen or not facts.pci or (facts.system and facts.system.wsl):
        return 0
    driven = (each for each in facts.pci.nvidia_gpus if each.driver == "nvidia" and not each.physical_function)
    return sum(canonical(each.address) not in seen for each in driven)


def _left_out_by_tensorflow(facts: Facts) -> int:
    """Return how many GPUs CUDA lists and TensorFlow does not. Where they are of several models, one may be for the display."""
    cuda = facts.cuda_driver.gpus if facts.cuda_driver and facts.cuda_driver.works else ()
    if not facts.runtime or not facts.runtime.gpus_listed or len({gpu.name for gpu in cuda}) != 1:
        return 0
    return max(0, len(cuda) - len(facts.runtime.gpus))
