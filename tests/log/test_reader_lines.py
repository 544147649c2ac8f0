"""Where the outputs of other tools in a text begin, and what is read of each at its limits."""

from __future__ import annotations

import pytest

from tfgpu_doctor.log.readers import read_documents

XID = "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.\n"
PINS = "".join(f"package-{number}==1.{number}\n" for number in range(6))
TABLE = """\
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   {temperature}  {state}             45W /  400W |      87MiB /  40960MiB |     N/A      Default |
"""


@pytest.mark.parametrize("before", [0, 1, 2, 7])
def test_the_kernel_log_begins_at_its_first_message(before: int) -> None:
    text = "some words\n" * before + "[  100.000001] usb 1-2: new device\n" + XID
    assert read_documents(text).sources == {"kernel log": before + 1}


@pytest.mark.parametrize(
    ("temperature", "state", "troubles"),
    [("ERR!", "ERR!", [0]), (" 45C", "ERR!", []), ("ERR!", "P0  ", []), (" 45C", "P0  ", [])],
)
def test_a_gpu_is_in_trouble_if_neither_its_temperature_nor_its_state_can_be_read(
    temperature: str, state: str, troubles: list[int]
) -> None:
    nvml = read_documents(TABLE.format(temperature=temperature, state=state)).nvml
    assert nvml is not None
    assert [each.index for each in nvml.troubles] == troubles
    assert [each.name for each in nvml.gpus] == ["NVIDIA A100-SXM4-40GB"]


def test_the_list_of_an_old_pip_is_read() -> None:
    rows = ["numpy (1.19.2)", "six (1.15.0, /home/kim/six)", "tensorflow (2.4.1)"]
    read = read_documents("some words\n" + "\n".join(rows) + "\n")
    assert [(each.name, each.version) for each in read.distributions] == [
        ("numpy", "1.19.2"), ("six", "1.15.0"), ("tensorflow", "2.4.1"),
    ]  # fmt: skip
    assert (read.all_distributions, read.sources) == (False, {"pip list": 2})
    assert read_documents("\n".join([*rows, "wheel (0.36)"]) + "\n").all_distributions
    assert read_documents("\n".join(rows[:2]) + "\n").distributions == ()


@pytest.mark.parametrize(
    ("before", "packages"),
    [
        ("", 6),
        ("Packages:\n", 6),
        ("requirements.txt:\n", 0),
        ("My Requirements:\n\n", 0),
        ("Some words\nrequirements.txt:\n", 0),
        ("Some words\nrequirements.txt:\n\n", 0),
        ("requirements.txt:\n\n\n", 6),
    ],
)
def test_what_is_called_requirements_in_the_two_lines_before_is_not_installed(before: str, packages: int) -> None:
    assert len(read_documents(before + PINS).distributions) == packages


def test_only_300_characters_of_a_library_file_are_kept() -> None:
    long = "/usr/local/cuda/" + "x" * 400
    read = read_documents(f"== cuda libs  ====\n/usr/local/cuda/lib64/libcudart.so\n{long}\n\n{long}\n")
    assert read.library_files == ("/usr/local/cuda/lib64/libcudart.so", long[:300])
