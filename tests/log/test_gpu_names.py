"""GPUs are found in what people write, with the compute capability of https://developer.nvidia.com/cuda-gpus."""

from __future__ import annotations

import re

from every import every
from processor_time import least_seconds

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
    "GTX Titan X": "5.2", "TITAN X Pascal": "6.1", "NVIDIA TITAN X (Pascal)": "6.1", "TITAN Xp": "6.1", "GTX Titan Xp": "6.1",
    "Titan V": "7.0", "TITAN RTX": "7.5", "Titan Z": "3.5", "GTX TITAN": "3.5", "GTX TITAN Black": "3.5",
    "RTX A6000": "8.6", "RTX A4000": "8.6", "A5000": "8.6", "Quadro P5000": "6.1", "Quadro M4000": "5.2", "Quadro K2200": "5.0",
    "Quadro K620": "5.0", "Quadro T1000": "7.5", "Quadro T2000": "7.5",
    "Quadro RTX 3000": "7.5", "Quadro RTX 4000": "7.5", "Quadro RTX 5000": "7.5", "Quadro RTX 8000": "7.5", "Quadro GV100": "7.0",
    "GP100": "6.0", "P2200": "6.1", "T400": "7.5", "RTX A400": "8.6", "RTX PRO 6000": "12.0", "RTX 6000 Ada": "8.9",
    "RTX 500 Ada": "8.9", "RTX 1000 Ada": "8.9", "RTX 2000 Ada": "8.9", "RTX 3000 Ada": "8.9", "RTX 5000 Ada": "8.9",
    "NVIDIA RTX 5000 Ada Generation": "8.9", "RTX A6000 Ada": "8.9",
    "RTX 2050": "8.6", "750 Ti": "5.0", "750ti": "5.0", "780 Ti": "3.5", "GTX 460": "2.1", "GTX 465": "2.0", "GTX 470": "2.0",
    "GT 430": "2.1", "GTX 580": "2.0", "GTX 580M": "2.1", "GT 610": "2.1", "GT 620": "2.1", "GT 720M": "2.1", "GTX 870M": "3.0",
    "GTX 880M": "3.0", "GeForce 820M": "2.1", "GTX 960 M": "5.0",
    "Jetson Nano": "5.3", "Jetson TX1": "5.3", "Jetson TX2": "6.2", "Jetson Xavier NX": "7.2", "Jetson AGX Orin": "8.7",
    "Jetson Orin Nano": "8.7", "a DGX Spark with GB10": "12.1", "Tesla P4": "6.1", "Tesla M4": "5.2", "A2": "8.6",
    "Tesla M10": "5.0", "H800": "9.0", "L20": "8.9", "B300": "10.3", "Tesla C2075": "2.0",
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
        "Tesla Model S", "GeForce", "Quadro", "a titan task", "RTX 20 series", "TITAN X", "GTX 10xx", "RTX 5000", "Apple M1", "Apple M4", "Intel UHD 620",
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


@every(
    "text",
    [
        "nvidia-470",
        "my 2020 laptop",
        "a model with 500 M parameters",
        "HP 840 mobile",
        "Dell OptiPlex 3080",
        "960M weights",
    ],
)
def test_a_number_beside_a_word_of_a_gpu_is_not_always_one(text: str) -> None:
    assert find_gpus(text, KNOWLEDGE) == []


@every(
    "text, capability",
    [
        ("3090", "8.6"), ("960M", "5.0"), ("940MX", "5.0"), ("1060 6GB", "6.1"), ("2 x 3090, 24 GB", "8.6"), ("GPU 2080", "7.5"),
        ("5090 D", "12.0"), ("two 1080", "6.1"),
    ],
    key=lambda text, capability: text,
)  # fmt: skip
def test_a_number_alone_is_a_gpu_where_nothing_else_is_said(text: str, capability: str) -> None:
    assert capabilities(text) == {capability}


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


@every("text", ["GPU: RTX 2060", "i9-9900K, RTX 2060", "two cards - RTX 2060"])
def test_an_rtx_after_a_mark_is_found(text: str) -> None:
    assert capabilities(text) == {"7.5"}


@every("fill", ["gtx", "gtx ", "nvidia", "1080 ", "titan x ", "x", "1x", "a100-", ".1", "rtx 3090, "])
def test_a_text_of_any_length_is_read_soon(fill: str) -> None:
    text = fill * (100_000 // len(fill))
    find_gpus(fill, KNOWLEDGE)
    assert least_seconds(lambda: find_gpus(text, KNOWLEDGE)) < 0.5


# The table of models.


@every("gpu", KNOWLEDGE.gpus, key=lambda gpu: gpu.name)
def test_the_name_of_every_model_gives_its_capability(gpu: GpuModel) -> None:
    assert capabilities(gpu.name) == {gpu.compute_capability}
    assert capabilities(gpu.name.lower().removeprefix("nvidia ")) == {gpu.compute_capability}


A_NUMBER_ALONE = re.compile(r"\d{3,4}M?(?: D| \dGB)?")  # it may be anything: a year, a size
APPLES = ("M4",)  # a chip of Apple's, too
ALIASES = [(alias, gpu.compute_capability) for gpu in KNOWLEDGE.gpus for alias in gpu.aliases]
RELIABLE = [
    (alias, capability) for alias, capability in ALIASES if not A_NUMBER_ALONE.fullmatch(alias) and alias not in APPLES
]


@every("alias, capability", RELIABLE, key=lambda alias, capability: alias, least=200)
def test_another_name_of_a_model_gives_its_capability(alias: str, capability: str) -> None:
    assert capabilities(alias) == {capability}
    assert capabilities(f"I have a {alias} in my machine") == {capability}


@every("alias, capability", [row for row in ALIASES if row not in RELIABLE], key=lambda alias, capability: alias)
def test_a_name_that_may_be_anything_gives_no_capability_in_a_sentence(alias: str, capability: str) -> None:
    assert capabilities(f"I have a {alias} in my machine") == set()
    assert capabilities(alias) == ({capability} if alias not in APPLES else set())


@every("gpu", KNOWLEDGE.gpus, key=lambda gpu: gpu.name)
def test_in_a_sentence_no_other_capability_is_told(gpu: GpuModel) -> None:
    assert capabilities(f"I have a {gpu.name} in my machine") == {gpu.compute_capability}


# The table of series.


def test_a_series_or_model_has_one_row() -> None:
    assert all(re.fullmatch(r"\d{1,2}\.\d", value) for value in KNOWLEDGE.gpu_series.values())
    assert {kind for kind, _ in KNOWLEDGE.gpu_series} == {"series", "model", "titan"}


WORDS = {"quadro rtx": "Quadro RTX 3000", "rtx ada": "RTX 3500 Ada", "rtx pro": "RTX PRO 1000", "x": "GTX TITAN X"}


@every("kind, name", sorted(KNOWLEDGE.gpu_series), key=lambda kind, name: f"{kind} {name}")
def test_every_row_of_the_series_is_reached(kind: str, name: str) -> None:
    text = {"series": f"GTX {name}40" if name != "7" else "GTX 760", "titan": f"TITAN {name}"}.get(kind, name)
    text = f"my GeForce {text}" if kind == "model" and text[0].isdigit() else f"my {WORDS.get(name, text)}"
    assert capabilities(text) == {KNOWLEDGE.gpu_series[kind, name]}, text
