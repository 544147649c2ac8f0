"""What the text of a ticket states of its machine, and what it does not: a title, or code, is no value of a form."""

from __future__ import annotations

import io

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.file_names import Named, named
from tfgpu_doctor.log.signatures import Scanner
from tfgpu_doctor.log.statements import read_statements

ASKED = "TensorFlow does not use my GPU. What is wrong?\n\n"


def stated(text: str) -> dict[str, str]:
    return read_statements([(1, ASKED + text)], []).values


@pytest.mark.parametrize(
    "line",
    [
        "gpus = tf.config.experimental.list_physical_devices('GPU')",
        "GPU: tf.test.gpu_device_name()",
        "# GPU training hangs / errors: kernel WARN in nv_write (nv.c:30)",
        "GPU = os.environ['CUDA_VISIBLE_DEVICES']",
    ],
)
def test_code_and_titles_are_no_gpu(line: str) -> None:
    assert "gpu" not in stated(line)


@pytest.mark.parametrize("line", ["GPU model and memory: GTX 1080 (8 GB)", "GPU: RTX 2080(8G)", "**GPU**: Tesla V100"])
def test_a_field_of_a_form_is_a_gpu(line: str) -> None:
    assert stated(line)["gpu"] == line.partition(":")[2].strip(" *")


def test_a_title_is_no_way_to_install() -> None:
    assert "install_method" not in stated("# Installation problem: Tensorflow 2.15.0 +")
    assert stated("TensorFlow installed from: binary wheel")["install_method"] == "binary wheel"


@pytest.mark.parametrize("words", ["VS 2022 and CUDA 11.8", "Visual Studio", "cmd.exe", "PowerShell", r"C:\tools"])
def test_programs_of_windows_name_the_system(words: str) -> None:
    assert stated(f"I have {words} installed.")["os"] == "windows"


@pytest.mark.parametrize("words", ["Ubuntu 22.04 and PowerShell", "macOS, not Visual Studio"])
def test_a_named_system_is_surer_than_a_program(words: str) -> None:
    assert "windows" not in stated(f"I have {words} installed.")["os"]
    assert "os" not in stated("I have Visual Studio Code installed.")


@pytest.mark.parametrize("machine", ["jtop", "DGX Spark", "GB10", "GH200", "JetPack 6"])
def test_machines_with_arm_are_known(machine: str) -> None:
    assert Context(stated(f"I run it on this: {machine}")).knows("arm")
    assert not Context(stated("I run it on this: RTX 4090")).knows("arm")


@pytest.mark.parametrize(
    "listed",
    [
        "pip list:\ntensorboard                  2.16.2\ntensorflow                   2.16.1\n",
        "Name: tensorflow\nVersion: 2.16.1\n",
        ">>> print(tf.__version__)\n2.16.1\n",
        ">>> tf.__version__\n'2.16.1'\n",
        "tensorflow                2.16.1                   pypi_0    pypi\n",
    ],
)
def test_what_a_program_lists_is_surer_than_a_title(listed: str) -> None:
    assert stated(f"# TensorFlow 2.15 finds no GPU\n\n{listed}")["tensorflow"] == "2.16.1"


def test_a_form_and_a_sentence_keep_their_release() -> None:
    assert stated("# TensorFlow 2.15 finds no GPU\n\ntensorflow-estimator    2.16.1")["tensorflow"] == "2.15"
    form = "TensorFlow version: 2.17.0\n\ntensorflow                   2.16.1\n"
    assert stated(form)["tensorflow"] == "2.17.0"


def test_the_build_of_conda_is_named() -> None:
    row = "tensorflow                2.15.0          cuda120py311h5cbd_1    conda-forge\n"
    assert "build cuda120py311h5cbd_1" in stated(row)["install_method"]
    without = row.replace("cuda120py311h5cbd_1", "cpu_py311h5cbd_1")
    assert "build" not in stated(without).get("install_method", "")
    assert "build" not in stated(row + without).get("install_method", "")


@pytest.mark.parametrize(
    "line",
    [
        'import * as tf from "@tensorflow/tfjs-node-gpu";',
        "    at Object.<anonymous> (/srv/node_modules/@tensorflow/tfjs-node/dist/index.js:60:18)",
        "I use org.tensorflow:tensorflow-core-platform-gpu",
    ],
)
def test_a_program_in_another_language_is_known(line: str) -> None:
    assert Context(stated(line)).knows("no_python")
    assert not Context(stated(f"import tensorflow as tf\n{line}")).knows("no_python")


def test_a_program_of_pytorch_alone_is_known() -> None:
    said = "My GPU idles, what is wrong?\n\nI train with SLEAP {}.\n"
    for release, alone in (("v1.6.2", True), ("1.4.1", False), ("v1.6.2 and keras", False)):
        values = read_statements([(1, said.format(release))], []).values
        assert Context(values).knows("torch_alone") is alone


@pytest.mark.parametrize("length", [1, 400])
def test_a_program_of_pytorch_is_known_by_what_it_printed(length: int) -> None:
    """Also where nobody asks anything, in a long log."""
    error = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    file = '  File "C:\\env\\Lib\\site-packages\\torch\\_tensor.py", line 522, in backward'
    for line in (error, error.replace(".cuda", ""), file, "import torch, time"):
        for before, alone in (("epoch 1 loss 0.5\n", True), ("import tensorflow as tf\n", False)):
            values = read_statements([(1, before * length), (length + 1, line)], []).values
            assert Context(values).knows("torch_alone") is alone, (line, before)
    values = read_statements([(1, "import torchmetrics, pytorch_lightning\n" * length)], []).values
    assert not Context(values).knows("torch_alone")


# The names of files.


@pytest.mark.parametrize(
    ("files", "cuda", "cudnn"),
    [
        ("libcudart.so.11.0 libcudnn.so.8", "11", "8"),
        ("libcudart.so.12", "12", ""),
        ("libcudart.so.10.1 libcublas.so.10 libcudnn.so.7", "10.1", "7"),
        ("libcublas.so.9.0", "9.0", ""),
        ("libcublas.so.10 libcufft.so.10", "", ""),
        ("cudart64_110.dll cudnn64_8.dll", "11", "8"),
        ("cudart64_101.dll", "10.1", ""),
        ("cudart64_90.dll", "9.0", ""),
        ("cudart64_12.dll cublas64_12.dll", "12", ""),
        ("libcudart.so.10.1 libcudart.so.11.0", "", ""),
        ("libcudnn_ops_infer.so.8", "", "8"),
        ("libcuda.so.1", "", ""),
    ],
)
def test_names_of_files_say_their_versions(files: str, cuda: str, cudnn: str) -> None:
    found = named(files.split())
    assert (found.cuda, found.cudnn) == (cuda, cudnn)


def test_lost_files_are_surer_than_opened_ones() -> None:
    found = named(["libcudart.so.11.0"], ["libcudart.so.10.1", "libcudnn.so.7"])
    assert found == Named("11", "7", "libcudart.so.11.0", "libcudnn.so.7")
    assert found.fits("11.8", "7.6")
    assert not found.fits("12.3", "7.6")
    assert not found.fits("11.8", "8")


def test_a_log_gives_its_files_to_the_context() -> None:
    scanner = Scanner(read_knowledge().log_signatures)
    log = (
        "I tensorflow/stream_executor/platform/default/dso_loader.cc:53] Successfully opened dynamic library libcudart.so.10.1\n"
        "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudnn.so.7'; dlerror: "
        "libcudnn.so.7: cannot open shared object file: No such file or directory\n"
    )
    scanner.scan(io.BytesIO(log.encode()))
    context = Context({}).learning(scanner.found, read_knowledge()).hearing({"os": "linux"})
    assert (context.lost, context.opened) == (("libcudnn.so.7",), ("libcudart.so.10.1",))


@pytest.mark.parametrize(
    ("words", "system"),
    [
        ("Ubuntu 22 across two machines", "ubuntu 22"), ("Ubuntu 18.04 laptop", "ubuntu 18.04"), ("Ubuntu LTS 20.04.6", "ubuntu lts 20.04.6"),
        ("the Ubuntu version", "ubuntu"), ("macOS Sonoma 14.2 here", "macos sonoma 14.2"), ("CentOS Linux 7", "centos linux 7"),
    ],
)  # fmt: skip
def test_the_system_ends_with_its_version(words: str, system: str) -> None:
    assert stated(f"It is {words}.")["os"] == system


def test_the_name_of_a_device_that_python_prints_as_bytes() -> None:
    assert stated("GPU 0 : b'GeForce RTX 2070 with Max-Q Design'")["gpu"] == "GeForce RTX 2070 with Max-Q Design"


def test_the_release_has_many_spellings() -> None:
    assert stated("Tensor Flow Version: 2.2.0")["tensorflow"] == "2.2.0"
    assert "tensorflow" not in stated("The TensorFlow contrib module will not be included in TensorFlow 2.0.")


@pytest.mark.parametrize(
    ("line", "platform"),
    [
        ("I work on an Apple M1 Pro in RStudio", "macos"),
        ("python: /Users/anna/.virtualenvs/r-tensorflow/bin/python", "macos"),
        ("python: C:/Users/anna/python.exe", ""),
        ("python: C:\\Users\\anna\\python.exe", "windows"),
        ("python: /home/anna/.virtualenvs/r-tensorflow/bin/python", "linux"),
    ],
)
def test_a_path_tells_the_system(line: str, platform: str) -> None:
    assert Context(stated(line)).platform == platform
