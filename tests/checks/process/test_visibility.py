"""VIS: CUDA_VISIBLE_DEVICES, before and after TensorFlow is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import cuda_that_fails, several, variables
from healthy import ANSWERED, broken, nvml_gpu, runtime

from tfgpu_doctor.checks.process.visibility import import_changes_no_variable, visible_devices_hides_nothing
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Environment, Pci
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

NOTHING = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
UUIDS = [f"GPU-3f6f3a5e-0000-0000-0000-00000000000{index}" for index in range(4)]
MIG = "MIG-1f2e3d4c-0000-0000-0000-000000000000"


def four_gpus(value: str, **sections: Any) -> Facts:
    """Four GPUs, of which the value leaves CUDA none."""
    hidden = {"cuda_driver": NOTHING, "runtime": runtime(gpus=(), computations=())}
    return broken(**{**several(4), "environment": variables(CUDA_VISIBLE_DEVICES=value), **hidden, **sections})


# VIS001


def test_a_variable_that_is_not_set_hides_nothing(judge: Judge) -> None:
    assert judge.passes(visible_devices_hides_nothing) == "CUDA_VISIBLE_DEVICES is not set"


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "3",
        "0,1,2,3",
        "3,2,1,0",
        "0, 1",
        " 0 ,\t1 ",
        "+1",
        "00",
        "01",
        UUIDS[0],
        f"{UUIDS[1]},{UUIDS[0]}",
        f"{UUIDS[2]},0",
        f"0,{UUIDS[2]}",
    ],
)
def test_gpus_that_exist_are_visible(judge: Judge, value: str) -> None:
    evidence = judge.passes(visible_devices_hides_nothing, four_gpus(value))
    assert evidence.startswith(f"CUDA_VISIBLE_DEVICES={value!r} leaves ")


def test_a_uuid_may_be_cut_short(judge: Judge) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES="GPU-3f6f3a5e")
    assert judge.passes(visible_devices_hides_nothing, environment=environment, cuda_driver=NOTHING)


@pytest.mark.parametrize("value", [MIG, "MIG-GPU-3f6f3a5e-0000-0000-0000-000000000000/1/0", "MIG-1f2e"])
def test_an_instance_of_mig_is_visible(judge: Judge, value: str) -> None:
    nvml = {"gpus": (nvml_gpu(mig=True, mig_devices=(MIG,)),)}
    assert judge.passes(visible_devices_hides_nothing, environment=variables(CUDA_VISIBLE_DEVICES=value), nvml=nvml)


@pytest.mark.parametrize("value", ["0", "17", "GPU-12345678", MIG, f"0,{MIG}"])
def test_where_the_gpus_are_not_known_what_looks_like_a_name_is_one(judge: Judge, value: str) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES=value)
    for pci in (None, Pci()):
        assert judge.passes(visible_devices_hides_nothing, environment=environment, nvml=None, driver=None, pci=pci)


@pytest.mark.parametrize(
    "value",
    ["-1", "4", "99", "none", "void", "NoDevFiles", "all", "GPU-ffff", MIG, "0x0", "1.0", '"0"', "-1,0", ",0", " "],
)
def test_a_first_entry_that_names_no_gpu_hides_all(judge: Judge, value: str) -> None:
    finding = judge.finding(visible_devices_hides_nothing, four_gpus(value))
    assert (finding.cause, finding.severity, finding.confidence) == ("cuda_visible_devices_hides_gpu", "error", "high")
    assert finding.message == f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU"
    first = value.split(",", maxsplit=1)[0].strip()
    assert finding.evidence == (
        f"its first entry {first!r} names no GPU" if first else "it is set to an empty value",
        "this machine has 4 GPUs, numbered from 0",
    )
    assert finding.fix and finding.fix.commands == ("unset CUDA_VISIBLE_DEVICES",)


def test_one_gpu_is_counted_in_the_singular(judge: Judge) -> None:
    finding = judge.finding(
        visible_devices_hides_nothing, broken(environment=variables(CUDA_VISIBLE_DEVICES="-1"), cuda_driver=None)
    )
    assert "this machine has 1 GPU, numbered from 0" in finding.evidence


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ("0,0", "0"),
        ("01,1", "1"),
        ("3,0,+3", "+3"),
        ("0,1,2,3,0", "0"),
        (f"{UUIDS[1]},{UUIDS[1]}", UUIDS[1]),
        (f"{UUIDS[1]},{UUIDS[0]},{UUIDS[1]}", UUIDS[1]),
    ],
)
def test_a_gpu_that_is_named_twice_hides_all(judge: Judge, value: str, entry: str) -> None:
    finding = judge.finding(visible_devices_hides_nothing, four_gpus(value))
    assert (finding.cause, finding.severity) == ("cuda_visible_devices_hides_gpu", "error")
    assert finding.message == f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU"
    assert finding.evidence[0] == f"its entry {entry!r} names the same GPU as an entry before it: CUDA then lists none"
    assert finding.fix and "each once" in finding.fix.text


@pytest.mark.parametrize("value", ["0,0", f"{UUIDS[0]},{UUIDS[0]}", f"{MIG},{MIG}"])
def test_a_gpu_that_is_named_twice_hides_all_whatever_is_known(judge: Judge, value: str) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES=value)
    unknown = {"nvml": None, "driver": None, "pci": None, "cuda_driver": None}
    assert (
        "names the same GPU"
        in judge.finding(visible_devices_hides_nothing, environment=environment, **unknown).evidence[0]
    )


def test_a_gpu_that_is_named_twice_after_the_end_of_the_list_hides_none_of_the_first(judge: Judge) -> None:
    finding = judge.finding(visible_devices_hides_nothing, four_gpus("0,-1,0"))
    assert finding.message.endswith("ends at its entry '-1', which names no GPU")


@pytest.mark.parametrize("value", ["GPU-", "GPU-3f6f3a5e", f"GPU-3f6f3a5e,{UUIDS[0]}"])
def test_the_beginning_of_several_uuids_hides_all(judge: Judge, value: str) -> None:
    finding = judge.finding(visible_devices_hides_nothing, four_gpus(value))
    assert finding.message == f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU"
    assert finding.evidence[0] == f"its first entry {value.split(',', maxsplit=1)[0]!r} is the beginning of 4 UUIDs"


def test_a_uuid_that_several_sections_of_nvml_list_is_one(judge: Judge) -> None:
    nvml = {"gpus": (nvml_gpu(mig=True, mig_devices=(MIG, MIG)),)}
    environment = variables(CUDA_VISIBLE_DEVICES=MIG)
    assert judge.passes(visible_devices_hides_nothing, environment=environment, nvml=nvml, cuda_driver=NOTHING)


def test_the_beginning_of_several_uuids_ends_the_list(judge: Judge) -> None:
    value = f"{UUIDS[2]},GPU-3f6f"
    finding = judge.finding(visible_devices_hides_nothing, four_gpus(value))
    assert (finding.severity, finding.evidence[0]) == ("warning", f"visible: {UUIDS[2]}")
    assert (
        finding.message
        == f"CUDA_VISIBLE_DEVICES={value!r} ends at its entry 'GPU-3f6f', which is the beginning of 4 UUIDs"
    )


@pytest.mark.parametrize("value", ["0,0", "GPU-3f6f3a5e"])
def test_what_cuda_lists_outweighs_the_syntax(judge: Judge, value: str) -> None:
    machine = broken(**several(4), environment=variables(CUDA_VISIBLE_DEVICES=value))
    assert "CUDA lists 4 GPUs" in judge.passes(visible_devices_hides_nothing, machine)


def test_an_empty_value_hides_all(judge: Judge) -> None:
    finding = judge.finding(visible_devices_hides_nothing, four_gpus(""))
    assert finding.evidence[0] == "it is set to an empty value"


def test_an_empty_value_hides_all_whatever_is_known(judge: Judge) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES="")
    finding = judge.finding(
        visible_devices_hides_nothing, environment=environment, nvml=None, driver=None, pci=None, cuda_driver=None
    )
    assert finding.evidence == ("it is set to an empty value", "the number of GPUs is unknown")


@pytest.mark.parametrize(
    ("value", "wrong", "seen"),
    [("0,4", "4", "0"), ("1,-1,0", "-1", "1"), ("0,1,GPU-ffff,2", "GPU-ffff", "0,1"), (f"{UUIDS[0]},x", "x", UUIDS[0])],
)
def test_a_later_entry_that_names_no_gpu_ends_the_list(judge: Judge, value: str, wrong: str, seen: str) -> None:
    finding = judge.finding(visible_devices_hides_nothing, four_gpus(value))
    assert (finding.cause, finding.severity) == ("cuda_visible_devices_hides_gpu", "warning")
    assert finding.message == f"CUDA_VISIBLE_DEVICES={value!r} ends at its entry {wrong!r}, which names no GPU"
    assert finding.evidence == (f"visible: {seen.replace(',', ', ')}", "this machine has 4 GPUs, numbered from 0")
    assert finding.fix and finding.fix.commands == (f"export CUDA_VISIBLE_DEVICES={seen}",)


@pytest.mark.parametrize(
    "known",
    [
        {"nvml": None, "driver": {"gpus": ("a", "b")}, "pci": None},
        {"nvml": Nvml(attempt=ANSWERED), "driver": Driver(), "pci": several(2)["pci"]},
        {"nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1))}, "driver": None, "pci": None},
    ],
    ids=["the driver", "the bus", "nvml"],
)
def test_any_source_tells_how_many_gpus_there_are(judge: Judge, known: dict[str, Any]) -> None:
    machine = broken(**known, environment=variables(CUDA_VISIBLE_DEVICES="2"), cuda_driver=NOTHING)
    finding = judge.finding(visible_devices_hides_nothing, machine)
    assert "this machine has 2 GPUs, numbered from 0" in finding.evidence


@pytest.mark.parametrize(
    ("value", "nvml"),
    [
        (MIG, {"gpus": (nvml_gpu(mig=True),)}),  # instances that an ordinary user may use and not list
        ("1", {"gpus": (nvml_gpu(0),), "error_code": 15, "error_text": "GPU 1: GPU is lost"}),
    ],
    ids=["MIG", "NVML stopped half-way"],
)
def test_what_cuda_lists_is_visible(judge: Judge, value: str, nvml: dict[str, Any]) -> None:
    machine = broken(environment=variables(CUDA_VISIBLE_DEVICES=value), nvml=nvml)
    assert judge.does_not_object(visible_devices_hides_nothing, machine)


@pytest.mark.parametrize("value", ["0,1,2,3,", "0,1,2,3,4,5,6,7", "3,2,1,0,-1"])
def test_a_list_that_goes_on_after_the_last_gpu_hides_none(judge: Judge, value: str) -> None:
    machine = broken(**several(4), environment=variables(CUDA_VISIBLE_DEVICES=value))
    assert judge.does_not_object(visible_devices_hides_nothing, machine)


def test_an_entry_in_a_command_is_quoted(judge: Judge) -> None:
    value = "GPU-12345678;reboot,none"
    finding = judge.finding(
        visible_devices_hides_nothing,
        environment=variables(CUDA_VISIBLE_DEVICES=value),
        nvml=None,
        driver=None,
        pci=None,
        cuda_driver=None,
    )
    assert finding.fix and finding.fix.commands == ("export CUDA_VISIBLE_DEVICES='GPU-12345678;reboot'",)


def test_a_number_of_gpus_that_is_not_known_is_told_as_such(judge: Judge) -> None:
    finding = judge.finding(
        visible_devices_hides_nothing,
        environment=variables(CUDA_VISIBLE_DEVICES="0,none"),
        nvml=None,
        driver=None,
        pci=None,
        cuda_driver=None,
    )
    assert "0 GPUs" not in str(finding.evidence)


def test_what_is_hidden_is_not_followed_by_its_contrary(judge: Judge) -> None:
    assert "visible" not in str(judge(visible_devices_hides_nothing, four_gpus(""))[1:])


# VIS002

UNUSED = runtime(gpus=(), computations=())


def changed(**values: str) -> Runtime:
    return runtime(gpus=(), computations=(), changed_variables=values)


def test_an_import_that_changes_nothing_passes(judge: Judge) -> None:
    for run in (runtime(), UNUSED):
        assert judge.passes(import_changes_no_variable, runtime=run) == "no variable was changed"


def test_an_import_that_fails_is_not_judged(judge: Judge) -> None:
    run = runtime(version="", gpus=(), changed_variables={"CUDA_VISIBLE_DEVICES": ""})
    assert judge.skips(import_changes_no_variable, runtime=run) == "TensorFlow was not imported"


@pytest.mark.parametrize("value", ["", "-1", "none", "0,0"])
def test_an_import_that_hides_the_gpus_is_an_error(judge: Judge, value: str) -> None:
    finding = judge.finding(import_changes_no_variable, runtime=changed(CUDA_VISIBLE_DEVICES=value))
    assert (finding.cause, finding.severity) == ("cuda_visible_devices_hides_gpu", "error")
    assert f"set CUDA_VISIBLE_DEVICES to {value!r}" in finding.message
    assert all(finding.evidence)
    assert finding.fix and "sitecustomize.py" in finding.fix.text


def test_an_import_that_names_a_gpu_twice_is_told_why_that_hides_it(judge: Judge) -> None:
    finding = judge.finding(import_changes_no_variable, runtime=changed(CUDA_VISIBLE_DEVICES="0,0"))
    assert finding.evidence[-1] == "its entry '0' names the same GPU as an entry before it: CUDA then lists none"


def test_an_import_that_leaves_the_gpus_visible_passes(judge: Judge) -> None:
    run = runtime(changed_variables={"CUDA_VISIBLE_DEVICES": "0", "XLA_FLAGS": ""})
    assert judge.passes(import_changes_no_variable, runtime=run) == "changed: CUDA_VISIBLE_DEVICES, XLA_FLAGS"


def test_other_variables_hide_nothing(judge: Judge) -> None:
    assert judge.passes(import_changes_no_variable, runtime=changed(TF_FORCE_GPU_ALLOW_GROWTH="true"))


@pytest.mark.parametrize("value", ["0", UUIDS[0]])
def test_an_import_that_names_a_gpu_that_exists_hides_nothing(judge: Judge, value: str) -> None:
    machine = broken(environment=Environment(), runtime=changed(CUDA_VISIBLE_DEVICES=value))
    assert judge.does_not_object(import_changes_no_variable, machine)
