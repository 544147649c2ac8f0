"""What people write in a ticket becomes values and symptoms; what programs print does not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from every import every

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import LogSymptom
from tfgpu_doctor.log.context import KEYS, Context
from tfgpu_doctor.log.statements import Statements, _paragraphs, read_statements

SYMPTOMS = read_knowledge().log_symptoms
ASKED = "My TensorFlow doesn't use the GPU. Could anyone help me?\n\n"


def read(text: str, first: int = 1) -> Statements:
    return read_statements([(first, text)], SYMPTOMS)


def stated(text: str) -> dict[str, str]:
    """The values in a text after a question, without which nobody has written it."""
    return read(ASKED + text).values


OLD_FORM = """\
**System information**
- Have I written custom code (as opposed to using a stock example script provided in TensorFlow): yes
- OS Platform and Distribution (e.g., Linux Ubuntu 16.04): Windows 10
- Mobile device (e.g. iPhone 8, Pixel 2, Samsung Galaxy) if the issue happens on mobile device: none
- TensorFlow installed from (source or binary): binary
- TensorFlow version (use command below): v2.0.0
- Python version: 3.7.4
- Bazel version (if compiling from source): none
- GCC/Compiler version (if compiling from source): none
- CUDA/cuDNN version: 10.0 / 7.6
- GPU model and memory: GTX 1060 6GB
"""
NEW_FORM = """\
### Issue type

Support

### Tensorflow Version

2.10

### OS Platform and Distribution

Linux Ubuntu 20.04

### Python version

3.9

### CUDA/cuDNN version

11.2/8.1

### GPU model and memory

RTX 3090 24GB
"""


def test_the_old_form_of_issues_is_read() -> None:
    values = stated(OLD_FORM)
    assert "windows 10" in values["os"].lower()
    assert {key: values[key] for key in ("tensorflow", "python", "cuda", "cudnn", "gpu")} == {
        "tensorflow": "2.0.0", "python": "3.7.4", "cuda": "10.0", "cudnn": "7.6", "gpu": "GTX 1060 6GB",
    }  # fmt: skip


def test_the_form_of_issues_with_headings_is_read() -> None:
    values = stated(NEW_FORM)
    assert Context(values).platform == "linux"
    assert {key: values[key] for key in ("tensorflow", "python", "cuda", "cudnn", "gpu")} == {
        "tensorflow": "2.10", "python": "3.9", "cuda": "11.2", "cudnn": "8.1", "gpu": "RTX 3090 24GB",
    }  # fmt: skip


def test_the_bare_form_of_issues_states_nothing() -> None:
    bare = re.sub(r"(?m): (?:yes|Windows 10|none|binary|v2\.0\.0|3\.7\.4|10\.0 / 7\.6|GTX 1060 6GB)$", ":", OLD_FORM)
    for text in (bare, *bare.splitlines()):
        assert stated(text) == {}


@every(
    "text, expected",
    [
        ("- **CUDA/cuDNN version**: 10.0 / 7.6", {"cuda": "10.0", "cudnn": "7.6"}),
        ("**CUDA/cuDNN version:** CUDA 10.0, cuDNN 7.6.5", {"cuda": "10.0", "cudnn": "7.6.5"}),
        ("CUDA/cuDNN: 10.1/7.6", {"cuda": "10.1", "cudnn": "7.6"}),
        ("> - CUDA/cuDNN version: 10.1", {"cuda": "10.1"}),
        ("CUDA/cuDNN version: N/A", {}),
        ("CUDA Version: 12.4", {"cuda": "12.4"}),
        ("cuDNN SDK: 8.6", {"cudnn": "8.6"}),
        ("* TensorFlow version (use command below): 1.12.0", {"tensorflow": "1.12.0"}),
        ("**TensorFlow version**: v1.12", {"tensorflow": "1.12"}),
        ("tf-gpu = 1.4", {"tensorflow": "1.4"}),
        ("Python: 3.8.10", {"python": "3.8.10"}),
        ("NVIDIA driver: 516.94", {"driver": "516.94"}),
        ("GPU driver version: 470.42.01", {"driver": "470.42.01"}),
        ("Graphics card: GeForce GTX 1080", {"gpu": "GeForce GTX 1080"}),
        ("GPU: RTX 3090", {"gpu": "RTX 3090"}),
        ("GPUs: 2 x Tesla V100", {"gpu": "2 x Tesla V100"}),
        ("GPU support: yes", {}),
        ("GPU available: False", {}),
        ("Operating system: Windows-10-10.0.19041", {"os": "Windows-10-10.0.19041"}),
        ("Installed using: virtualenv", {"install_method": "virtualenv"}),
        ("Python version | 3.8\nCUDA version | 11.2\nGPU | RTX 3090",
         {"python": "3.8", "cuda": "11.2", "gpu": "RTX 3090"}),
    ],
    key=lambda text, expected: text,
)  # fmt: skip
def test_a_line_of_a_form_states_its_values(text: str, expected: dict[str, str]) -> None:
    values = stated(text)
    assert {key: value for key, value in values.items() if key not in ("os", "install_method")} == {
        key: value for key, value in expected.items() if key not in ("os", "install_method")
    }
    assert expected.items() <= values.items()


@every(
    "text, expected",
    [
        ("tensorflow-gpu==1.14", {"tensorflow": "1.14"}),
        ("I have tensorflow_gpu 1.13.1", {"tensorflow": "1.13.1"}),
        ("I use TF2.4", {"tensorflow": "2.4"}),
        ("TF 2.x", {"tensorflow": "2.x"}),
        ("tensorflow 2.5.0rc1", {"tensorflow": "2.5.0rc1"}),
        ("tensorflow>=2.10", {"tensorflow": "2.10"}),
        ("tensorflow[and-cuda]==2.15", {"tensorflow": "2.15"}),
        ("the image tensorflow/tensorflow:2.10.0-gpu", {"tensorflow": "2.10.0"}),
        ("TensorFlow version is 2.10 with CUDA 11.2", {"tensorflow": "2.10", "cuda": "11.2"}),
        ("I installed tensorflow with CUDA 11.2", {"cuda": "11.2"}),
        ("Keras 2.3 with TensorFlow 2.0", {"tensorflow": "2.0"}),
        ("CUDA 11.2 and cuDNN 8.1", {"cuda": "11.2", "cudnn": "8.1"}),
        ("CUDA 10.1 / cuDNN 7.6", {"cuda": "10.1", "cudnn": "7.6"}),
        ("CUDA 11", {"cuda": "11"}),
        ("cuda 11.x", {"cuda": "11.x"}),
        ("CUDA Toolkit v11.2", {"cuda": "11.2"}),
        ("I set CUDA_HOME to /opt/cuda-11.2", {"cuda": "11.2"}),
        ("cudatoolkit=11.2 cudnn=8.1.0", {"cuda": "11.2", "cudnn": "8.1.0"}),
        ("Cuda compilation tools, release 10.2, V10.2.89", {"cuda": "10.2"}),
        ("cudnn 8", {"cudnn": "8"}),
        ("driver 470.42", {"driver": "470.42"}),
        ("the NVIDIA driver version is 535.54.03", {"driver": "535.54.03"}),
        ("I installed nvidia-driver-470", {"driver": "470"}),
        ("python 3.8", {"python": "3.8"}),
        ("with python3.8", {"python": "3.8"}),
        ("Python version 2.7", {"python": "2.7"}),
        ("in C:\\Python37\\Lib", {"python": "3.7"}),
        ("the wheel tensorflow_cpu-cp36-cp36m-win_amd64.whl", {}),
        ("the wheel x-cp310-cp310.whl", {"python": "3.10"}),
        ("我用的是 tensorflow 1.12, CUDA 9.0, cudnn 7.1, 显卡驱动 driver 390.77, 但是不能使用 GPU",
         {"tensorflow": "1.12", "cuda": "9.0", "cudnn": "7.1", "driver": "390.77"}),
        ("安装了 tensorflow-gpu 2.4,python 3.8,还是找不到 GPU", {"tensorflow": "2.4", "python": "3.8"}),
        # Numbers of another kind.
        ("CUDA 8 GPUs", {}),
        ("I have 2 CUDA devices and 8 GPUs", {}),
        ("libcudart.so.11.0 and cudnn64_8.dll", {}),
        ("a GPU of compute capability 3.0", {}),
        ("It takes 2.5 seconds for 3.8 million images", {}),
        ("driver 470", {}),
        ("the tensorflow_gpu folder", {}),
    ],
    key=lambda text, expected: text,
)  # fmt: skip
def test_a_sentence_states_versions(text: str, expected: dict[str, str]) -> None:
    if "cp36" in text:
        expected = {"python": "3.6"}
    values = stated(text)
    assert {key: values[key] for key in KEYS if key in values and key not in ("os", "install_method")} == expected


@every(
    "text, cuda",
    [
        ("nvidia-smi shows CUDA Version 12.2. I installed CUDA 11.2 and cuDNN 8.1.", "11.2"),
        ("`nvidia-smi` says that the CUDA version is 12.2", ""),
        ("nvidia-smi reports driver version 535.54.03 and CUDA version 12.2, I use CUDA 11.2", "11.2"),
        ("nvidia-smi: CUDA 12.2; nvcc: CUDA 11.2", "11.2"),
        ("nvidia-smi output shows RTX 3090, driver 535.54.03, CUDA 12.2", ""),
        ("According to nvidia-smi, CUDA 12.2", ""),
        ("I have CUDA 12.2 (nvidia-smi) and CUDA 11.2 (nvcc)", "11.2"),
        ("CUDA 12.2 from nvidia-smi, CUDA 11.2 from nvcc", "11.2"),
        ("CUDA version 12.2 as shown by nvidia-smi", ""),
        ("My driver supports CUDA 12.2, and I installed CUDA 11.2", "11.2"),
        ("My driver supports up to CUDA 12.2", ""),
        ("- CUDA version: 12.2 (from nvidia-smi)", ""),
        ("- CUDA version: 12.2 (nvidia-smi), 11.2 (nvcc)", "11.2"),
        ("- CUDA version: nvidia-smi 12.2, nvcc 11.2", "11.2"),
        ("- CUDA/cuDNN version: 12.2 (nvidia-smi), 11.2 (nvcc) / 8.1", "11.2"),
        ("- CUDA/cuDNN version: 12.2 (nvidia-smi) / 8.1", ""),
        # What is installed, beside a word of the driver.
        ("nvidia-smi works, CUDA 11.2 and cuDNN 8.1", "11.2"),
        ("I checked nvidia-smi, CUDA 11.2 is there", "11.2"),
        ("nvidia-smi shows my GPU, and I installed CUDA 11.2", "11.2"),
        ("nvcc shows CUDA 11.2, nvidia-smi shows CUDA 12.2", "11.2"),
        ("I have CUDA 11.2, nvidia-smi finds the GPU", "11.2"),
        ("I installed the driver 470.42 and CUDA 11.2", "11.2"),
        ("CUDA 11.2 (driver 470.42)", "11.2"),
    ],
    key=lambda text, cuda: text,
    least=20,
)
def test_the_cuda_of_the_driver_is_no_installed_one(text: str, cuda: str) -> None:
    assert stated(text).get("cuda", "") == cuda


def test_of_several_statements_a_form_counts_before_a_sentence_and_the_first_before_the_others() -> None:
    assert stated("I upgraded from tensorflow 2.4 to tensorflow 2.5.")["tensorflow"] == "2.4"
    assert stated("I've upgraded from tensorflow 2.4.\n\n- TensorFlow version: 2.5")["tensorflow"] == "2.5"


@every(
    "text",
    [
        "- OS Platform and Distribution (e.g., Linux Ubuntu 16.04):",
        "Which system (for example Windows 10 or Ubuntu 20.04, in docker)?",
        "<!-- TensorFlow 2.10, CUDA 11.2 on Windows 10 -->",
        "- [ ] I use docker run on Ubuntu 20.04 with CUDA 11.2",
        "[ ] TensorFlow 2.10",
        "* [] Python 3.8",
    ],
)
def test_the_words_of_a_template_state_nothing(text: str) -> None:
    assert stated(text) == {}


def test_a_ticked_box_is_a_statement() -> None:
    assert stated("- [x] I use conda\n- [ ] I use docker compose") == {"install_method": "conda"}


@every(
    "text, platform, words",
    [
        ("on Windows 11", "windows", ("windows", "!wsl")),
        ("on Win10", "windows", ("windows",)),
        ("I run C:\\Users\\me\\train.py", "windows", ("windows",)),
        ("on WSL2", "linux", ("wsl", "!windows")),
        ("Windows 11 with WSL 2 and Ubuntu 22.04", "linux", ("wsl", "linux", "!windows")),
        ("Windows Subsystem for Linux, WSL", "linux", ("wsl", "!windows")),
        ("on WSL1", "linux", ("wsl", "wsl1")),
        ("on Ubuntu 20.04", "linux", ("linux", "!windows")),
        ("on CentOS 7", "linux", ("linux",)),
        ("Linux Mint 20", "linux", ("linux",)),
        ("I run /home/me/train.py", "linux", ("linux",)),
        ("in /usr/local/cuda", "linux", ("linux",)),
        ("on macOS 14", "macos", ("macos", "!linux")),
        ("on my MacBook", "macos", ("macos",)),
        ("on a machine at work", "", ("!windows", "!linux", "!macos", "!wsl")),
        ("The window of the terminal closes", "", ("!windows",)),
    ],
    key=lambda text, platform, words: text,
)
def test_the_system_is_known_from_what_people_write(text: str, platform: str, words: tuple[str, ...]) -> None:
    context = Context(stated(text))
    assert context.platform == platform
    assert [word for word in words if not context.knows(word)] == []


@every(
    "text, container",
    [
        ("I run it in docker", True),
        ("I use it inside a docker container", True),
        ("I started it with docker run --gpus all", True),
        ("my Dockerfile begins with FROM tensorflow/tensorflow:latest-gpu", True),
        ("with podman", True),
        ("on Kubernetes", True),
        ("with singularity", True),
        ("I run it without docker", False),
        ("I use no docker", False),
        ("I do not use docker", False),
        ("It works outside of docker", False),
        ("without using docker", False),
        ("I have the docker logo on my laptop", False),
        ("I run it on bare metal", False),
    ],
    key=lambda text, container: text,
)
def test_a_container_needs_evidence(text: str, container: bool) -> None:
    assert Context(stated(text)).knows("container") == container


@every(
    "text, word",
    [
        ("installed with pip", "pip"), ("conda install tensorflow-gpu", "conda"), ("in an Anaconda environment", "conda"),
        ("on Google Colab", "hosted"), ("on Kaggle", "hosted"), ("with sbatch", "scheduler"), ("on a Jetson Xavier", "arm"),
        ("on an aarch64 server", "arm"), ("in PyCharm", "ide"), ("in a Jupyter notebook", "ide"), ("on my laptop", "laptop"),
        ("together with PyTorch", "torch"), ("SELinux is on", "selinux"), ("on NixOS", "nix"), ("with optirun", "optimus"),
    ],
    key=lambda text, word: text,
)  # fmt: skip
def test_the_way_of_installing_and_running_is_known_from_what_people_write(text: str, word: str) -> None:
    assert Context(stated(text)).knows(word)


@every(
    "text, expected",
    [
        ("Python version:\nCUDA/cuDNN version: 10.0/7.6", {"cuda": "10.0", "cudnn": "7.6"}),
        ("TensorFlow version:\nPython version: 3.8", {"python": "3.8"}),
        ("CUDA version:\ncuDNN version: 8.1", {"cudnn": "8.1"}),
        ("GPU model and memory:\nExact command: python a.py", {}),
        ("GPU model and memory\n\n- CUDA version: 10.0", {"cuda": "10.0"}),
        ("### GPU model and memory\n\n_No response_", {}),
        ("### Bazel version\n\n_No response_\n\n### CUDA/cuDNN version\n\n11.2", {"cuda": "11.2"}),
        ("- GPU model and memory: N/A", {}),
    ],
    key=lambda text, expected: text,
)
def test_an_empty_field_does_not_take_the_next_line(text: str, expected: dict[str, str]) -> None:
    assert stated(text) == expected


@every("title", ["TensorFlow does not find my GPU", "TensorFlow doesn't find my GPU: why?"])
def test_a_line_of_a_form_after_a_title_is_read(title: str) -> None:
    assert read(f"{title}\n\n- CUDA/cuDNN version: 10.0 / 7.6\n").values == {"cuda": "10.0", "cudnn": "7.6"}


def test_a_table_that_a_person_wrote_is_read() -> None:
    assert stated("| Component | Version |\n|---|---|\n| TensorFlow | 2.10 |\n| CUDA | 11.2 |") == {
        "tensorflow": "2.10",
        "cuda": "11.2",
    }


@every(
    "text, word",
    [
        ("I am not in docker", "container"),
        ("I am not using docker", "container"),
        ("I am not using the docker image", "container"),
        ("- Bazel version (if compiling from source):", ""),
        ("- Bazel version (if compiling from source): none", ""),
        ("I edited it with sudo nano ~/.bashrc", "arm"),
    ],
    key=lambda text, word: text,
)
def test_words_of_another_meaning_tell_nothing_of_the_machine(text: str, word: str) -> None:
    assert not (Context(stated(text)).knows(word) if word else stated(text))


@every("text", ["I use Windows 10.", "I use Windows.", "Windows, Python 3.8", "(Windows)", "Windows Server 2019"])
def test_windows_without_a_number_is_a_system(text: str) -> None:
    assert Context(stated(text)).knows("windows")


def test_the_tag_of_nvidias_image_is_no_release_of_tensorflow() -> None:
    assert "tensorflow" not in stated("I use the image nvcr.io/nvidia/tensorflow:22.03-tf2-py3")


# What programs print.

MESSAGES = """\
2024-05-01 10:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized.
2024-05-01 10:00:01.234567: I gpu_device.cc:1928] Created device GPU:0 with 22134 MB memory: name: NVIDIA GeForce RTX 3090
I0000 00:00:1714557601.234567    4242 service.cc:145] XLA service 0x7f8a initialized for platform CUDA 12.2, TensorFlow 2.15
[  123.456789] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.54.03
tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: driver 470.42, CUDA 11.2
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.42.01    Driver Version: 470.42.01    CUDA Version: 11.4     |
|   0  NVIDIA A100-SXM4-40GB  Off  | 00000000:07:00.0 Off |                 0 |
<driver_version>535.54.03</driver_version>
  File "/home/user/venv/lib/python3.8/site-packages/tensorflow/__init__.py", line 24, in <module>
NVRM: API mismatch: the client has the version 470.42.01
Epoch 1/10, TensorFlow 2.10
1875/1875 [==============================] - 5s 2ms/step, CUDA 11.2
"""


@every("line", MESSAGES.splitlines())
def test_a_line_of_a_program_states_nothing(line: str) -> None:
    found = read(ASKED + line)
    assert found.values == {}
    assert {hit.line for hits in found.symptoms.values() for hit in hits} == {1}


@every(
    "line",
    [
        "    Driver Version                            : 535.104.12",
        "CUDA Version                              : 12.2",
        "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: driver 470.42",
        "(pid=42) E cuda_dnn.cc:378] Loaded runtime CuDNN library: CuDNN 7.0.5",
        "May  1 10:00:00 host kernel: NVRM: API mismatch: the driver version 470.42.01",
        "  Found existing installation: torch    CUDA 11.2",
    ],
)
def test_a_line_of_a_program_states_nothing_wherever_its_mark_is(line: str) -> None:
    assert stated(line) == {}


MODEL = """\
Model: "sequential"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 dense (Dense)               (None, 128)               100480
Total params: 101770 (397.54 KB)
Epoch 1/10
1875/1875 [==============================] - 5s 2ms/step - loss: 0.2941 - accuracy: 0.9145
Epoch 2/10
1875/1875 [==============================] - 4s 2ms/step - loss: 0.1421 - accuracy: 0.9571
"""
LOGS = {
    "training": "".join(f"{line}\n" for line in MESSAGES.splitlines()[:3]) + MODEL,
    "training with absl": "".join(
        f"I1122 10:00:0{second}.123456 140000000000000 train.py:12] step {second}, GPU memory 3000 MB\n" for second in range(9)
    ),
    "checks on GitHub": """\
##[group]Run pip install tensorflow==2.15.0
shell: /usr/bin/bash -e {0}
env:
  pythonLocation: /opt/hostedtoolcache/Python/3.10.13/x64
##[endgroup]
Collecting tensorflow==2.15.0
  Downloading tensorflow-2.15.0-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl (475.2 MB)
Successfully installed absl-py-2.1.0 tensorflow-2.15.0 numpy-1.26.4
============================= test session starts ==============================
platform linux -- Python 3.10.13, pytest-8.0.0, pluggy-1.4.0
tests/test_gpu.py ..........................................             [100%]
============================== 42 passed in 12.34s ==============================
""",
    "checks on GitLab": """\
Running with gitlab-runner 15.0.0 (febb2a09)
Using Docker executor with image tensorflow/tensorflow:2.9.1-gpu ...
Getting source from Git repository
$ nvidia-smi
$ python -m pytest
tests/test_train.py ....                                                 [100%]
4 passed in 20.11s
Job succeeded
""",
    "docker build": """\
Step 1/7 : FROM tensorflow/tensorflow:2.10.0-gpu
 ---> Running in 0123456789ab
Get:1 http://archive.ubuntu.com/ubuntu focal InRelease [265 kB]
Requirement already satisfied: tensorflow==2.10.0 in /usr/local/lib/python3.8/dist-packages (2.10.0)
WARNING: You are using pip version 20.2.4; however, version 23.0 is available.
Removing intermediate container 0123456789ab
Successfully built 0123456789ab
""",
}  # fmt: skip


@every("name, times", [(name, times) for name in LOGS for times in (1, 40)], key=lambda name, times: f"{name}, {times}")
def test_the_log_of_a_program_makes_no_statement(name: str, times: int) -> None:
    assert read(LOGS[name] * times) == Statements({}, {})


def test_the_advice_of_a_program_makes_no_statement() -> None:
    warning = "The name tf.Session is deprecated. Please use tf.compat.v1.Session instead."
    assert read(f"Using TensorFlow backend.\nWARNING:tensorflow:From train.py:3: {warning}\n{MODEL}") == Statements(
        {}, {}
    )


def test_what_does_not_concern_a_gpu_makes_no_statement() -> None:
    assert read("Hello, could anyone help me? My Python 3.8 on Windows 10 is slow.\n") == Statements({}, {})


def test_a_question_above_a_log_is_read_and_the_log_is_not() -> None:
    found = read("Why? TensorFlow 2.15 is not using my GPU.\n\n" + LOGS["training"])
    assert found.values == {"tensorflow": "2.15"}
    assert [hit.line for hit in found.symptoms["prose_gpu_not_used"]] == [1]


@every(
    "line",
    [
        "Mar  3 04:05:06 node7 kernel: Modules linked in: nvidia_uvm(OE) nvidia_drm(POE) nvidia(POE) veth",
        "Mar 13 04:05:06 node7 systemd[1]: nvidia-modprobe failed",
        "**[   29.775289] nvidia-uvm: cannot load**",
        "Tue Mar  3 04:05:06 2020[1]<stderr>:2020-03-03 04:05:06.000007: E tensorflow/core/common_runtime/gpu/gpu_x.cc:9] nvidia-uvm",
        "Free memory: 11.09GiB",
        "totalMemory: 7.79GiB freeMemory: 7.68GiB",
    ],
)  # fmt: skip
def test_a_line_of_a_program_between_those_of_a_person_says_nothing(line: str) -> None:
    assert set(read(ASKED + line + "\n").symptoms) == set(read(ASKED).symptoms)


def test_the_number_of_an_issue_is_no_complaint() -> None:
    assert "prose_error" not in read("TensorFlow on my GPU: see issue #2097, and issues #12.\n").symptoms
    assert "prose_error" in read("I have an issue with TensorFlow on my GPU\n").symptoms


@every(
    "title",
    ["# GPU error with TensorFlow", "# GPU docker takes too long to be ready", "GPU not detected", "# System freezes"],
)
def test_a_title_is_no_field_of_a_form(title: str) -> None:
    values = stated(f"{title}\n\nsomebody wrote this\n\n### GPU model and memory\n\nTesla T4\n\n### OS\n\nUbuntu\n")
    assert (values["gpu"], values["os"]) == ("Tesla T4", "Ubuntu")


def test_what_runs_well_on_the_cpu_is_no_complaint_that_the_gpu_is_not_used() -> None:
    assert lines_of("My TensorFlow code runs fine with CPUs, but crashes with GPUs\n") == []
    assert lines_of("My TensorFlow code runs only with CPUs\n") == [1]


@every(
    "text",
    ["The model takes too long to start", "It takes very long to initialize TensorFlow", "so long to load on the GPU"],
)
def test_a_start_that_takes_too_long_is_understood(text: str) -> None:
    assert "prose_first_start" in read(f"TensorFlow on my GPU:\n\n{text}\n").symptoms


@every(
    "text",
    ["torch 2.1.1 detects the GPU", "The GPU works with torch but not with tensorflow", "cuda to work in PyTorch"],
)
def test_that_pytorch_works_is_understood(text: str) -> None:
    assert "prose_pytorch_works" in read(f"I have TensorFlow on a GPU.\n\n{text}\n").symptoms


# Symptoms.


@every("row", SYMPTOMS, key=lambda row: row.name)
def test_a_symptom_is_found_in_its_example(row: LogSymptom) -> None:
    found = read(f"A question about TensorFlow, please:\n\n{row.example}\n").symptoms
    assert row.name in found
    assert row.example in {hit.text for hit in found[row.name]} | {row.example}
    assert 3 in {hit.line for hit in found[row.name]}


@every("row", SYMPTOMS, key=lambda row: row.name)
def test_a_symptom_has_words_and_a_pattern_that_a_text_decides(row: LogSymptom) -> None:
    assert row.name.startswith("prose_")
    assert row.meaning
    assert re.compile(row.pattern, re.IGNORECASE).search("") is None
    assert not re.search(row.pattern, "The cat sat on the mat.", re.IGNORECASE)


@every(
    "text",
    [
        "Why does TensorFlow not use my GPU?", "How can I make TensorFlow use my GPU?", "TensorFlow only uses the CPU",
        "My GPU is not being detected by TensorFlow", "TensorFlow can't see my GPU", "GPU not recognized by tensorflow",
        "No GPU found by Tensorflow", "Tensorflow ignores my GPU", "Training runs on CPU instead of GPU with TensorFlow",
    ],
)  # fmt: skip
def test_the_most_common_question_is_understood_in_many_words(text: str) -> None:
    assert "prose_gpu_not_used" in read(text).symptoms


def test_the_most_common_question_is_understood_with_the_subject_in_between() -> None:
    for text in (
        "Why doesn't TensorFlow use my GPU?",
        "Why won't TensorFlow 2.10 see my GPU?",
        "Why doesn't it use the GPU?",
    ):
        assert "prose_gpu_not_used" in read(text).symptoms


def test_an_address_of_the_container_toolkit_says_nothing_of_it() -> None:
    asked = "I have TensorFlow on a GPU. See https://github.com/NVIDIA/nvidia-docker/wiki\n"
    assert "prose_toolkit" not in read(asked).symptoms
    assert "prose_toolkit" in read(asked + "\nI use nvidia-docker.\n").symptoms


def test_an_empty_list_of_gpus_is_understood_in_prose() -> None:
    for text in ("tf.config.list_physical_devices(‘GPU’) #  returns [ ]", "tf.test.gpu_device_name() is empty"):
        assert lines_of(f"I have TensorFlow on this machine.\n\n{text}\n") == [3]
    assert lines_of("I have TensorFlow on this machine.\n\nassert tf.config.list_physical_devices('GPU') != []\n") == []


def test_symptoms_have_names_of_their_own() -> None:
    names = [row.name for row in SYMPTOMS] + [row.name for row in read_knowledge().log_signatures]
    assert len(set(names)) == len(names)


def lines_of(text: str, name: str = "prose_gpu_not_used", first: int = 1) -> list[int]:
    return [hit.line for hit in read(text, first).symptoms.get(name, [])]


def test_a_hit_has_the_number_of_its_line() -> None:
    log = "Hello,\n\nI have a question.\n\nTensorFlow is not using my GPU\n"
    assert lines_of(log) == [5]
    assert lines_of(log, first=101) == [105]
    assert lines_of(log * 3) == [5, 10, 15]


def test_a_sentence_that_goes_on_is_found_at_the_line_where_its_words_begin() -> None:
    log = "I tried everything.\nTensorFlow is not\nusing my GPU, and\nit is slow.\nWhat can I do?\n"
    assert lines_of(log) == [2]
    assert lines_of(log, "prose_slow") == [4]
    assert lines_of("I have a GPU.\n" + log) == [3]


def test_a_paragraph_ends_where_a_line_does_not_go_on() -> None:
    assert lines_of("TensorFlow is not\n\nusing my GPU, what can I do?\n") == []
    assert lines_of("TensorFlow is not\nUsing my GPU, what can I do?\n") == []


def test_a_hit_shows_the_part_of_a_long_paragraph_that_matched() -> None:
    (hit,) = read(f"{'Once upon a time. ' * 50}TensorFlow is not using my GPU. {'The end. ' * 50}").symptoms[
        "prose_gpu_not_used"
    ]
    assert "not using my GPU" in hit.text
    assert len(hit.text) < 250
    assert (hit.text.startswith("... "), hit.text.endswith(" ...")) == (True, True)


def test_a_hit_is_printable() -> None:
    (hit,) = read("TensorFlow is not using my GPU \x07\x1b[2J\u202e\n").symptoms["prose_gpu_not_used"]
    assert hit.text.isprintable()


@every(
    "text", ["10%\r20%\r30%\n", "a page\x0canother\n", "one\u2028another\n", "one\x85another\n", "one\r\n"], key=repr
)
def test_lines_are_numbered_as_the_signatures_number_them(text: str) -> None:
    assert lines_of(f"{text}TensorFlow is not using my GPU\n") == [2]


def test_parts_of_a_log_have_numbers_of_their_own() -> None:
    found = read_statements([(1, "I have a GPU.\n"), (5000, "It ends.\nTensorFlow is not using my GPU\n")], SYMPTOMS)
    assert [hit.line for hit in found.symptoms["prose_gpu_not_used"]] == [5001]


# Time: no test fails because the machine is slow; each compares a text with one of a quarter of its length.

LONGEST = 100_000
FILLS = {
    "dashes": "-", "spaces": " ", "stars": "*", "letters": "a", "digits": "1", "dots": ".", "parentheses": "(e.g. ",
    "comments": "<!--", "gpu": "gpu ", "not": "not ", "versions": "cuda version ",
    "lines": "the gpu is not used and it is slow, we use tensorflow with python and cuda\n",
    "lines of letters": "x" * 60 + "\n", "lines of words": "a b c d e f g h\n", "lines of dots": "." * 60 + "\n",
    "names of fields": "Name of things, and more (of it)\n", "empty fields": "a: \n", "titles": "A b\n\n", "items": "- \n",
    "quotes": "> \n",
}  # fmt: skip
SLOW_FILLS = {  # each with the length to begin with: what follows is already too slow
    "line ends": ("\n", 75), "lines of spaces": (" " * 59 + "\n", 600), "lines of tabs": ("\t\n", 300),
    "lines of dashes": ("-" * 60 + "\n", 25_000), "lines of stars": ("*" * 60 + "\n", 6000),
    "lines of bars": ("|" * 60 + "\n", 3000), "tables": ("| a |\n", 300),
    "lines of a program": ("2024-01-01 10:00:00.000: I tensorflow/core/x.cc:5] something\n", 3100),
}  # fmt: skip


def grows_as_the_text(work: Callable[[int], object], shortest: int, longest: int) -> None:
    """Four times the text may take six times as long, and a little more; stop at the first that takes longer."""
    before = None
    length = shortest
    while length <= longest:
        started = time.process_time()
        work(length)
        seconds = time.process_time() - started
        assert before is None or seconds <= 6 * before + 0.2, f"{length} characters: {before:.2f} s -> {seconds:.2f} s"
        before = seconds
        length *= 4


def reading(fill: str) -> Callable[[int], object]:
    return lambda length: read("My TensorFlow does not use the GPU?\n\n" + (fill * (length // len(fill) + 1))[:length])


@pytest.mark.slow
@every("name", FILLS)
def test_reading_takes_time_in_proportion_to_the_length(name: str) -> None:
    grows_as_the_text(reading(FILLS[name]), LONGEST // 16, LONGEST)


@every("name", SLOW_FILLS)
def test_reading_blank_and_ruled_lines_takes_time_in_proportion_to_the_length(name: str) -> None:
    fill, shortest = SLOW_FILLS[name]
    grows_as_the_text(reading(fill), shortest, LONGEST)


def test_a_pattern_sees_only_a_paragraph_of_limited_length() -> None:
    lines = ["a" * 1990, "b" * 100_000, *["c" * 1500] * 100]
    assert max(len(each.text) for each in _paragraphs(lines, 1)) <= 4001


def searching(pattern: re.Pattern[str], fill: str) -> Callable[[int], object]:
    return lambda length: pattern.search((fill * length)[:length])


@every("row", SYMPTOMS, key=lambda row: row.name)
def test_no_pattern_is_slow_on_a_paragraph(row: LogSymptom) -> None:
    pattern = re.compile(row.pattern, re.IGNORECASE)
    for fill in ("-", " ", "a", "1", ".", "gpu ", "not ", "the gpu is not used and it is slow "):
        grows_as_the_text(searching(pattern, fill), 1000, 4000)


@every(
    "line",
    [
        "Linux-6.8.0-45-generic-x86_64-with-glibc2.39",
        "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35",
        "Libc version: glibc-2.35",
    ],
)
def test_the_version_of_the_c_library_is_no_complaint_of_it(line: str) -> None:
    asked = f"I have TensorFlow on a GPU and it does not work.\n\n{line}\n"
    assert "prose_glibc" not in read(asked).symptoms
    assert "prose_glibc" in read(asked + "\nIs my glibc too old?\n").symptoms


# What 40 more threads that nobody here had read showed (batch 23 of unseen.json): what a symptom is, and what only looks so.
_MEANT = [
    ("prose_shm", "It ends with a bus error, and /dev/shm has 64M", "I start it with --shm-size=8g"),
    ("prose_shm", "shm_size: 64mb", "shm_size: 1gb"),
    ("prose_shm", "NCCL says: no space left on /dev/shm", "The kernel uses 48 KB of shared memory per block"),
    ("prose_shm", "I increased the shared memory to 512 MB", "I increased the shared memory to 8 GB"),
    ("prose_shm", "/dev/shm is full", "/dev/shm is 16G and it fails"),
    ("prose_several_programs", "Two Jupyter kernels are open", "There are many small kernel launches per step"),
    ("prose_kernel_warning", "dmesg shows a kernel WARNING of the driver", "dmesg shows nothing"),
    ("prose_slow", "The inference time on CPU and GPU is the same", "[Compiling module a] Very slow compile? If you want"),
    ("prose_gpu_slower", "The time on GPU and CPU is the same", "The loss on GPU and CPU is the same"),
    ("prose_error", "It has a bug", "If you want to file a bug, run with XLA_FLAGS"),
    ("prose_numpy", "numpy 2.0 is incompatible with it", "import numpy as np; print('version', keras.__version__)"),
    ("prose_numpy", "numpy fails to import", "print('numpy version', np.__version__)"),
    ("prose_numpy", "cannot import numpy", "unsupported operand for a numpy array, shape mismatch"),
    ("prose_numpy", "I had to downgrade numpy", "I have numpy 2.1 on this machine"),
    ("prose_gpu_not_used", "I am having trouble getting the GPU recognized", "I had no trouble: the GPU is recognized"),
    ("prose_gpu_not_used", "It keeps defaulting to CPU mode", "By default, it logs a lot"),
    ("prose_gpu_not_used", "I have difficulties to make this model run on GPU", "I have difficulties to read the GPU's manual"),
    ("prose_gpu_not_used", "I have a hard time getting it to work with the GPU", "I have problems training on the GPU: NaN"),
    ("prose_gpu_not_used", "gpus unused in local mode", "unused variables: gpus_total"),
    ("prose_low_utilisation", "The GPUs are idle most of the time", "The workers are idle"),
    ("prose_hang", "The screen is frozen", "$ pip freeze | grep tensorflow"),
    ("prose_hang", "It freezes in the first epoch", "I freeze the layers of a frozen graph"),
    ("prose_hang", "The training froze: it is frozen", 'File "<frozen importlib._bootstrap>", line 1'),
    ("prose_toolkit", "I use nvidia-docker", "   nvidia-docker run --shm-size=1g --ulimit memlock=-1 ..."),
    ("prose_capability_new", "on a B200", "on a B20"),
    ("prose_hidden_device", "the `CUDA_VISIBLE_DEVICES` are always set to empty string", "CUDA_VISIBLE_DEVICES is set to 0"),
    ("prose_hang", "It froze after an hour", "I froze all the layers and the base model"),
    ("prose_hidden_device", "unused (`CUDA_VISIBLE_DEVICES == ''`)", "CUDA_VISIBLE_DEVICES == '0'"),
    ("prose_slow_compile", "We have some slow compilation times", "Compiling is quick and the training is slow"),
    ("prose_slower_than_other", "The new optimizer is slower than the legacy one", "The GPU is slower than the CPU"),
    ("prose_slower_than_other", "TF 2.16 is much slower than TF 2.15", "It is slower than expected"),
    ("prose_capability_new", "I have an RTX 5090", "I have an RTX 5000 Ada"),
    ("prose_capability_new", "A GeForce RTX 5060 Ti", "A Quadro RTX 5000"),
    ("prose_regression", "NaN since tf 2.16", "I use tf 2.16 since May"),
    ("prose_regression", "This is not the case for tensorflow version 2.15", "This is the case for tensorflow 2.15"),
    ("prose_regression", "a regression introduced in May", "a linear regression with two GPUs"),
    ("prose_regression", "It worked fine with version 2.15", "It works with 2 GPUs"),
    ("prose_cpu_wanted", "I do not have a GPU", "Ignore above cudart dlerror if you do not have a GPU set up."),
    ("prose_hot", "Its temperature is 85 C", "Initial temperature: 30 C, Initial power: 37.6W"),
    ("prose_hot", "The GPU throttles at 91C", "Temperature: 58 C to 60 C (48 %)"),
    ("prose_hot", "The temperature is very high", "The softmax has a temperature of 0.85"),
    ("prose_hot", "It is thermally throttled", "I simulate thermal conductivity"),
    ("prose_cudnn_rnn", "LSTM does not use the fused kernel", "Static optimizations will take care of using the fused implementation."),
    ("prose_cudnn_rnn", "the fused implementation of cuDNN", "It uses a fused kernel for the batch normalization"),
    ("prose_nccl", "NCCL fails with an error", "AllReduce:   nccl"),
    ("prose_nccl", "The all-reduce hangs", "AllReduce: ring"),
    ("prose_error", "I get an error", "0 derived errors ignored."),
    ("prose_error", "It ends with an exception", "File ~/lib/a.py:153, in f() 151 except Exception as e:"),
    ("prose_error", "tf.errors.OpError", "1379   except errors.OpError as e:"),
    ("prose_error", "It raises errors", "app.run(main)  # Raises error on invalid flags, unlike tf.app.run()"),
    ("prose_crash", "Python quits", "UserWarning: To exit: use 'exit', 'quit', or Ctrl-D."),
    ("prose_user_site", "There are old packages in ~/.local/lib/python3.8", "File ~/.local/lib/python3.8/site-packages/keras/a.py:15"),
    ("prose_user_site", "pip loads it from /home/a/.local/lib/python3.8", "I have /home/a/.local/lib/python3.8/site-packages"),
]  # fmt: skip


@every("name, meant, other", _MEANT, key=lambda name, meant, other: meant)
def test_a_symptom_is_told_from_what_only_looks_so(name: str, meant: str, other: str) -> None:
    asked = "I have TensorFlow on this machine.\n\n"
    assert name in read(f"{asked}{meant}\n").symptoms
    assert name not in read(f"{asked}{other}\n").symptoms


@every("text, name, said", [
    ("Freeze the first 249 layers of total 252 layers.", "prose_hang", False),
    ("It freezes at the first 249 steps.", "prose_hang", True),
    ("If you depend on functionality not listed there, please file an issue.", "prose_error", False),
    ("I have an issue with it.", "prose_error", True),
    ("I appreciate your help anyway.", "prose_error", False),
    ("Please help me.", "prose_error", True),
    ("name: GRID K520, pci bus id: 0000:00:03.0, compute capability: 3.0", "prose_capability_old", False),
    ("Its compute capability: 3.0", "prose_capability_old", True),
    (" * Running on http://127.0.0.1:5000/ (Press CTRL+C to quit)", "prose_crash", False),
    ("It quits without a word.", "prose_crash", True),
    ("Module: NVIDIA UNIX x86_64 Kernel Module  440.33.01  Wed Nov 13 2019", "prose_kernel_module", False),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15", "prose_kernel_module", False),
    ("The kernel module is missing.", "prose_kernel_module", True),
    ("sess = tf.Session(config=tf.ConfigProto(log_device_placement=True))", "prose_placement", False),
    ("The operation is placed on the CPU.", "prose_placement", True),
    ("Both cpu and gpu versions take the same time.", "prose_both_packages", False),
    ("I installed both cpu and gpu versions.", "prose_both_packages", True),
    ("My GPU is only at 10-20%.", "prose_low_utilisation", True),
    ("My GPU is only at 70-90%.", "prose_low_utilisation", False),
    ('    print("Training is slow.")', "prose_slow", False),
    ('raise RuntimeError("Training is slow.")', "prose_slow", False),
    ("It prints: Training is slow.", "prose_slow", True),
])  # fmt: skip
def test_near_words_that_say_something_else(text: str, name: str, said: bool) -> None:
    assert (name in read(ASKED.replace("Could anyone help me?", "") + text).symptoms) is said
