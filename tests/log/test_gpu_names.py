"""GPUs are found in what people write, with the compute capability of https://developer.nvidia.com/cuda-gpus."""

from __future__ import annotations

import re

import pytest
from every import every

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import GpuModel
from tfgpu_doctor.log.gpu_names import find_gpus

KNOWLEDGE = read_knowledge()
# From NVIDIA's list and its list of legacy GPUs.
SPELLINGS = {
    "1080ti": "6.1", "GTX 1080 Ti": "6.1", "GTX1080": "6.1", "gtx-1070": "6.1", "geforce 1080": "6.1", "Nvidia GTX 1050": "6.1",
    "GeForce GTX 1060 6GB": "6.1", "GT 1030": "6.1", "GTX 1070 Max-Q": "6.1", "GTX 1080 with Max-Q Design": "6.1",
    "MX150": "6.1", "GeForce MX250": "6.1", "MX450": "7.5",
    "GTX 1650": "7.5", "GTX 1660 Super": "7.5", "RTX 2060": "7.5", "RTX2070": "7.5", "rtx 2080ti": "7.5", "2080 Ti": "7.5",
    "two RTX 3090": "8.6", "3090 Ti": "8.6", "RTX 3060 Laptop": "8.6", "RTX3070 Mobile": "8.6", "RTX 3080 10GB": "8.6",
    "RTX 4090": "8.9", "rtx-4080": "8.9", "4070 Ti Super": "8.9", "RTX 4060 Laptop GPU": "8.9", "RTX 5090": "12.0",
    "RTX5070 Ti": "12.0",
    "GTX 980 Ti": "5.2", "GTX 970": "5.2", "GTX 965M": "5.2", "GTX 960M": "5.0", "GTX 850M": "5.0", "GeForce 940MX": "5.0",
    "GTX 750 Ti": "5.0", "GTX 745": "5.0", "GT 730": "3.5", "GT 710": "3.5", "GTX 780": "3.5", "GTX 770": "3.0",
    "GT 750M": "3.0", "GTX 690": "3.0", "GTX 650": "3.0", "GTX 480": "2.0", "GTX 560": "2.1", "GTX 550 Ti": "2.1",
    "Tesla V100 32GB": "7.0", "V100-SXM2": "7.0", "8x A100": "8.0", "A100-SXM4-40GB": "8.0", "A10G": "8.6", "A30": "8.0",
    "A40": "8.6", "Tesla T4": "7.5", "T4": "7.5", "L4": "8.9", "L40S": "8.9", "H100 80GB": "9.0", "H200": "9.0", "GH200": "9.0",
    "B200": "10.0", "Tesla K80": "3.7", "K40c": "3.5", "K20X": "3.5", "Tesla K10": "3.0", "Tesla P100": "6.0", "P40": "6.1",
    "Tesla M60": "5.2", "Tesla M40": "5.2",
    "TITAN X": "5.2", "GTX Titan X": "5.2", "TITAN Xp": "6.1", "Titan V": "7.0", "TITAN RTX": "7.5", "Titan Z": "3.5",
    "GTX TITAN Black": "3.5",
    "RTX A6000": "8.6", "RTX A4000": "8.6", "A5000": "8.6", "Quadro P5000": "6.1", "Quadro M4000": "5.2", "Quadro K2200": "5.0",
    "Quadro K620": "5.0", "Quadro T1000": "7.5", "Quadro T2000": "7.5",
}  # fmt: skip


def capabilities(text: str) -> set[str]:
    return {gpu.compute_capability for gpu in find_gpus(text, KNOWLEDGE)}


@every("spelling", SPELLINGS, least=40)
def test_a_gpu_is_found_however_it_is_written(spelling: str) -> None:
    for text in (
        spelling,
        spelling.upper(),
        spelling.lower(),
        f"I train on my {spelling}.",
        f"GPU {spelling}, 64 GB RAM",
    ):
        assert capabilities(text) == {SPELLINGS[spelling]}, text


@every(
    "text",
    [
        "", "none", "N/A", "no GPU", "2 GPUs", "in 2019", "in the year 2080", "8 GB", "24GB", "4 x 11 GB", "Python 3.8",
        "Ubuntu 20.04", "Windows 10", "CUDA 11.2", "cuDNN 7.6.5", "driver 470.42", "nvidia-driver-535", "batch size 1050",
        "2070 steps", "a 1080p monitor", "port 8080", "1024x768", "ResNet50 and VGG16", "RTX", "GTX", "NVIDIA",
        "Tesla Model S", "GeForce", "Quadro", "a titan task", "RTX 20 series", "GTX 10xx", "Apple M1", "Intel UHD 620",
        "MacBook Pro M2 Max",
        "Intel HD Graphics 4000", "Intel Arc A770", "Radeon RX 580", "AMD RX 5700 XT", "Radeon Pro 5500M", "Vega 64",
        "Intel Core i7-8700", "i9-10900K", "Ryzen 9 5950X", "Xeon E5-2650 v4", "Google TPU v3", "p3.2xlarge", "g4dn.xlarge",
        "ThinkPad T14", "Dell XPS 9560", "a model with 500M parameters", "x", "v 1.0", "H264", "BERT L12",
    ],
    key=lambda text: text or "nothing", least=15,
)  # fmt: skip
def test_other_names_and_numbers_are_no_gpu(text: str) -> None:
    assert find_gpus(text, KNOWLEDGE) == []
    assert find_gpus(f"I have {text} here", KNOWLEDGE) == []


def not_right(*values: object, reason: str) -> object:
    return pytest.param(*values, marks=pytest.mark.xfail(strict=True, reason=reason))


@pytest.mark.parametrize(
    "text",
    [
        not_right("nvidia-470", reason="the package of a driver is taken for a GTX 470"),
        not_right("my 2020 laptop", reason="a year before `laptop` is taken for a GPU"),
        not_right("a model with 500 M parameters", reason="M for million is taken for the M of a laptop's GPU"),
        not_right("HP 840 mobile", reason="a computer's number is taken for a GPU's"),
    ],
)
def test_a_number_beside_a_word_of_a_gpu_is_not_always_one(text: str) -> None:
    assert capabilities(text) & {"2.0", "2.1", "5.0", "7.5"} == set()


def test_several_gpus_are_each_found_once_in_their_order() -> None:
    gpus = find_gpus("a GTX 1080, a Tesla K80 and another gtx  1080 beside the GTX 980M", KNOWLEDGE)
    assert [(gpu.name, gpu.compute_capability) for gpu in gpus] == [
        ("GTX 1080", "6.1"),
        ("Tesla K80", "3.7"),
        ("GTX 980M", "5.2"),
    ]


def test_the_name_that_a_driver_reports_is_found_in_full() -> None:
    (gpu,) = find_gpus(" NVIDIA RTX 5000 Ada Generation Laptop GPU\n", KNOWLEDGE)
    assert (gpu.name, gpu.compute_capability) == ("NVIDIA RTX 5000 Ada Generation Laptop GPU", "8.9")


@pytest.mark.parametrize(
    "text",
    [
        not_right(text, reason="after a mark and a space, `RTX` alone is taken for the model of a TITAN")
        for text in ("GPU: RTX 2060", "i9-9900K, RTX 2060", "two cards - RTX 2060")
    ],
)
def test_an_rtx_after_a_mark_is_found(text: str) -> None:
    assert capabilities(text) == {"7.5"}


# The table of models.


@every("gpu", KNOWLEDGE.gpus, key=lambda gpu: gpu.name)
def test_the_name_of_every_model_gives_its_capability(gpu: GpuModel) -> None:
    assert capabilities(gpu.name) == {gpu.compute_capability}
    assert capabilities(gpu.name.lower().removeprefix("nvidia ")) == {gpu.compute_capability}


# Aliases that give another capability, and aliases and names in a sentence that give none; see the tests below.
WRONG = re.compile(
    r"^(?:RTX )(?:500|1000|2000|3000|5000) Ada|^(?:RTX )?2050$|^TITAN X Pascal$|^7[58]0 Ti$|^Quadro RTX [45]000$"
)
UNKNOWN = re.compile(
    r"^RTX PRO|^RTX (?:3500|4500|6000) Ada|Ada Generation|Jetson|^Orin$|^Xavier$|Tegra|GB10|^GTX TITAN$"
    r"|^(?:Tesla |NVIDIA )?(?:A2|M4|P4|M10)$|^G[VP]100$|^P2200$|^(?:RTX )?A400$|^\d{3}MX?$|^[HL]20$|^H800|^T400"
)
A_NUMBER_ALONE = re.compile(r"\d{3,4}(?: D| \dGB)?")  # it may be anything: a year, a size
ALIASES = [(alias, gpu.compute_capability) for gpu in KNOWLEDGE.gpus for alias in gpu.aliases]
RELIABLE = [
    (alias, capability)
    for alias, capability in ALIASES
    if not WRONG.search(alias) and not UNKNOWN.search(alias) and not A_NUMBER_ALONE.fullmatch(alias)
]


@every("alias, capability", RELIABLE, key=lambda alias, capability: alias, least=200)
def test_another_name_of_a_model_gives_its_capability(alias: str, capability: str) -> None:
    assert capabilities(alias) == {capability}
    assert capabilities(f"I have a {alias} in my machine") == {capability}


@every("gpu", KNOWLEDGE.gpus, key=lambda gpu: gpu.name)
def test_in_a_sentence_no_other_capability_is_told(gpu: GpuModel) -> None:
    for name in (gpu.name, *gpu.aliases):
        if (
            not WRONG.search(name.removeprefix("NVIDIA ").removeprefix("GeForce "))
            and name != "NVIDIA TITAN X (Pascal)"
        ):
            assert capabilities(f"I have a {name} in my machine") <= {gpu.compute_capability}, name


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        *(
            not_right(f"RTX {number} Ada", "8.9", reason="an Ada with a GeForce's number is taken for the GeForce")
            for number in (500, 1000, 2000, 3000, 5000)
        ),
        not_right("my NVIDIA RTX 5000 Ada Generation", "8.9", reason="an Ada is taken for a GeForce in a sentence"),
        *(
            not_right(
                f"my Quadro RTX {number}", "7.5", reason="`quadro` before `rtx` is looked for at the end of the series"
            )
            for number in (3000, 4000, 5000)
        ),
        not_right("RTX 2050", "8.6", reason="it is an Ampere; gpu_series.json has no row for it"),
        not_right("TITAN X Pascal", "6.1", reason="the word after TITAN X is not read"),
        not_right("my NVIDIA TITAN X (Pascal)", "6.1", reason="the word after TITAN X is not read"),
        not_right("750 Ti", "5.0", reason="a model of the table needs GTX before it"),
        not_right("750ti", "5.0", reason="a model of the table needs GTX before it"),
        not_right("780 Ti", "3.5", reason="a model of the table needs GTX before it"),
        not_right("GTX 460", "2.1", reason="the series 4 has GPUs of 2.0 and of 2.1"),
        not_right("GT 430", "2.1", reason="the series 4 has GPUs of 2.0 and of 2.1"),
        not_right("GTX 580", "2.0", reason="the series 5 has GPUs of 2.0 and of 2.1"),
        not_right("GT 610", "2.1", reason="the series 6 has GPUs of Fermi"),
        not_right("GT 620", "2.1", reason="the series 6 has GPUs of Fermi"),
        not_right("GTX 870M", "3.0", reason="the series 8 has GPUs of Kepler"),
        not_right("GTX 880M", "3.0", reason="the series 8 has GPUs of Kepler"),
        not_right("GeForce 820M", "2.1", reason="the series 8 has GPUs of Fermi"),
    ],
)
def test_a_name_that_is_read_wrongly_today(text: str, capability: str) -> None:
    assert capabilities(text) == {capability}


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        not_right(text, capability, reason="neither the pattern nor gpu_series.json knows it")
        for text, capability in (
            ("RTX PRO 6000", "12.0"), ("RTX 6000 Ada", "8.9"), ("Jetson Nano", "5.3"), ("Jetson TX2", "6.2"),
            ("Jetson Xavier NX", "7.2"), ("Jetson AGX Orin", "8.7"), ("a DGX Spark with GB10", "12.1"), ("GTX TITAN", "3.5"),
            ("my Tesla P4", "6.1"), ("M4", "5.2"), ("my A2", "8.6"), ("my Tesla M10", "5.0"), ("my H800", "9.0"),
            ("my L20", "8.9"), ("my T400", "7.5"), ("RTX A400", "8.6"), ("my Quadro GV100", "7.0"), ("GP100", "6.0"),
            ("P2200", "6.1"), ("Tesla C2075", "2.0"), ("my Quadro RTX 8000", "7.5"), ("960M", "5.0"), ("940MX", "5.0"),
            ("3090", "8.6"), ("1060 6GB", "6.1"),
        )
    ],
)  # fmt: skip
def test_a_name_that_is_not_read_today(text: str, capability: str) -> None:
    if text == "RTX A400":
        text = "my RTX A400"
    assert capabilities(text) == {capability}


# The table of series.


def test_a_series_or_model_has_one_row() -> None:
    assert all(re.fullmatch(r"\d{1,2}\.\d", value) for value in KNOWLEDGE.gpu_series.values())
    assert {kind for kind, _ in KNOWLEDGE.gpu_series} == {"series", "model", "titan"}


NOT_REACHED = {"p4", "m4", "a2", "gv100", "gp100", "c2050", "c2070", "c2075"}  # the pattern does not find them


@every("kind, name", sorted(KNOWLEDGE.gpu_series), key=lambda kind, name: f"{kind} {name}")
def test_every_row_of_the_series_is_reached(kind: str, name: str) -> None:
    if name in NOT_REACHED:
        pytest.skip("see test_a_name_that_is_not_read_today")
    text = {"series": f"GTX {name}40" if name != "7" else "GTX 760", "titan": f"TITAN {name}"}.get(kind, name)
    text = f"my GeForce {text}" if kind == "model" and text[0].isdigit() else f"my {text}"
    assert capabilities(text) == {KNOWLEDGE.gpu_series[kind, name]}, text
