"""What looks like a trouble and is none beside something else in the same text; each with the near case that is one."""

from __future__ import annotations

from every import every
from read_logs import labels, read

from tfgpu_doctor.log.classification import HARMLESS
from tfgpu_doctor.log.page import render_log

LOST = "W tensorflow/stream_executor/platform/default/dso_loader.cc:59] Could not load dynamic library '{0}'; dlerror: {0}: cannot"
CUDART = LOST.format("libcudart.so.10.1")
IGNORE = (
    "I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up"
)
JAX = CUDART.replace("W tensorflow/", "W external/org_tensorflow/tensorflow/")
NO_DRIVER = "E cuda_driver.cc:269] failed call to cuInit: UNKNOWN ERROR (303)"
OOM = "ResourceExhaustedError: OOM when allocating tensor with shape[32,256] on /device:GPU:0 by allocator GPU_0_bfc"
LATE = "Virtual devices cannot be modified after being initialized"
PTXAS = "W tensorflow/stream_executor/cuda/redzone_allocator.cc:312] Not found: ./bin/ptxas not found"
RELYING = "Relying on driver to perform ptx compilation. This message will be only logged once."
GONE = "/job:localhost/replica:0/task:0/device:GPU:2 unknown device."
TENSORRT = LOST.format("libnvinfer.so.6")


def test_an_error_that_ends_a_run_is_before_a_feature_that_fails() -> None:
    assert labels(LATE, OOM)[:2] == ["gpu_out_of_memory", "device_config_after_init"]
    assert labels(LATE) == ["device_config_after_init"]
    assert labels(LATE, "failed call to cuInit: UNKNOWN ERROR (303)")[0] == "device_config_after_init"  # less certain


def test_cudart_alone_is_what_every_machine_without_a_gpu_prints() -> None:
    """And one with a GPU and without CUDA, until an operation runs: it is not called healthy."""
    report = read(CUDART, IGNORE, "Accuracy: 0.98")
    assert [(cause.label, cause.confidence) for cause in report.causes] == [
        ("gpu_libs_not_found", "low"),
        (HARMLESS, "low"),
    ]
    assert labels(JAX, "result: 3.14")[0] == HARMLESS


@every("name, lines, given", [
    ("a GPU is given", (CUDART, IGNORE), {"gpu": "RTX 2080"}),
    ("a CUDA is given", (CUDART, IGNORE), {"cuda": "10.1"}),
    ("another library is missing", (CUDART, IGNORE, LOST.format("libcublas.so.10")), {}),
    ("a list of GPUs is empty", (CUDART, IGNORE, "Num GPUs Available:  0"), {}),
    ("somebody complains", ("Why does TensorFlow not use my GPU?", "", CUDART, IGNORE), {}),
    ("the driver answers", (CUDART, IGNORE, "Successfully opened dynamic library libcuda.so.1"), {}),
    ("nothing says that it may be ignored", (CUDART,), {}),
], key=lambda name, lines, given: name)  # fmt: skip
def test_cudart_beside_a_gpu_is_missing(name: str, lines: tuple[str, ...], given: dict[str, str]) -> None:
    assert HARMLESS not in labels(*lines, **given), name


def test_without_a_driver_no_other_cuda_is_claimed() -> None:
    found = labels(CUDART, LOST.format("libcuda.so.1"), NO_DRIVER)
    assert found[0] == "no_nvidia_driver"
    assert "cuda_toolkit_wrong_major" not in found
    assert labels(CUDART, cuda="11.2")[0] == "cuda_toolkit_wrong_major"


@every("asked, known, is_trouble", [
    (GONE, "Num GPUs Available:  2", False),
    (GONE, "Executing op MatMul in device /job:localhost/replica:0/task:0/device:GPU:0", False),
    (GONE, "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]", False),
    (GONE, "Num GPUs Available:  3", True),
    (GONE, "Accuracy: 0.98", True),
    (GONE.replace("GPU:2", "GPU:0"), "Num GPUs Available:  2", True),
], key=lambda asked, known, is_trouble: asked + known)  # fmt: skip
def test_an_index_beyond_the_last_gpu_is_no_missing_library(asked: str, known: str, is_trouble: bool) -> None:
    assert labels(known, asked) == (["gpu_libs_not_found"] if is_trouble else [])


def test_the_red_zones_are_checked_without_ptxas() -> None:
    assert labels(PTXAS, RELYING, "Done warm up") == [HARMLESS]
    exited = "W redzone_allocator.cc:314] Internal: ptxas exited with non-zero error code 65280, output: "
    assert labels(exited, RELYING, "Epoch 2/3") == [HARMLESS]
    assert (
        labels(PTXAS, RELYING, "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.")[0]
        == "libdevice_or_ptxas_missing"
    )
    assert labels(PTXAS.replace("redzone_allocator", "asm_compiler"))[0] == "libdevice_or_ptxas_missing"


def test_an_empty_list_beside_a_gpu_in_use_is_a_list_of_something() -> None:
    assert "native_windows_no_gpu_build" not in labels("[]", OOM, os="Windows 10")
    assert labels("[]", os="Windows 10") == ["native_windows_no_gpu_build"]
    assert "native_windows_no_gpu_build" in labels("Num GPUs Available:  0", OOM, os="Windows 10")


def test_many_lines_about_tensorrt_are_no_other_library() -> None:
    lines = [f"2021-06-03 10:{minute:02}:59.1: {TENSORRT}; LD_LIBRARY_PATH: /opt/{minute}" for minute in range(60)]
    lines[1::2] = [f"{line[:21]}: W py_utils.cc:89] Cannot dlopen some TensorRT libraries." for line in lines[1::2]]
    assert labels(*lines) == [HARMLESS]
    assert "gpu_libs_not_found" in labels(
        "dso_loader.cc:55] Could not load dynamic library 'libhdfs.so'; dlerror: x", *lines
    )


def test_a_harmless_line_is_told_once() -> None:
    numa = "I cuda_gpu_executor.cc:936] successful NUMA node read from SysFS had negative value (-1), but there must be at least "
    report = read(
        numa + "one NUMA node, so returning NUMA node zero", numa + "one NUMA node, so returning NUMA node zero"
    )
    assert [(each.name, each.count) for each in report.noise] == [("noise_numa", 2)]
    assert [each.name for each in read("could not determine NUMA node of the GPU").noise] == ["numa_text"]


def test_an_error_that_is_cut_off_has_no_name() -> None:
    line = "E op_kernel.cc:1829] INTERNAL: 'cuLaunchKernel(function, gridX)' failed with "
    line += "." * (275 - len(line)) + " CUDA_ERROR_INVALID_HANDLE in the last of all its calls"
    assert read(line).extracted["error"] == ("CUDA_ERROR_INVALID_HANDLE",)


@every("line", [
    "I gpu_device.cc:975] Creating TensorFlow device (/gpu:0) -> (device: 0, name: Tesla K80, pci bus id: 0000:05:00.0)",
    "Executing op MatMul in device /job:localhost/replica:0/task:0/device:GPU:0",
])  # fmt: skip
def test_what_shows_that_a_gpu_is_used(line: str) -> None:
    report = read("Accuracy: 0.98", line)
    assert report.gpu_used
    assert report.gpu_used.line == 2
    assert "Line 2 shows that TensorFlow uses a GPU" in render_log(report)
    assert read(line.replace("GPU:0", "CPU:0").replace("/gpu:0", "/cpu:0")).gpu_used is None


@every("line, other", [
    ("Num GPUs Available:  1", "Num GPUs Available:  0"),
    ("Default GPU Device: /device:GPU:0", "Default GPU Device: "),
    ("[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]", "[PhysicalDevice(name='/physical_device:XLA_GPU:0')]"),
    ("GPU is available", "print(f'GPU is available: {found}')"),
], key=lambda line, other: line)  # fmt: skip
def test_what_shows_that_a_gpu_is_seen(line: str, other: str) -> None:
    report = read("Accuracy: 0.98", line)
    assert (report.causes, report.gpu_used) == ((), None)
    assert "Line 2 shows that TensorFlow sees a GPU" in render_log(report)
    assert "sees a GPU" not in render_log(read("Accuracy: 0.98", other))


def test_the_name_of_a_gpu_of_old_releases_is_read() -> None:
    line = "I gpu_device.cc:975] Creating TensorFlow device (/gpu:0) -> (device: 0, name: Tesla K80, pci bus id: 0000:05:00.0)"
    assert read(line).extracted["gpu"] == ("Tesla K80",)


def test_a_cpu_that_is_not_used_is_no_library_that_is_missing() -> None:
    """Nothing but the complaint: the doctor does not guess."""
    assert labels("Why does TensorFlow not use my GPU?") == ["undetermined"]


def test_what_works_in_python_and_not_in_r_lacks_the_variables_of_the_shell() -> None:
    asked = "I use reticulate in RStudio. TensorFlow does not use my GPU, but from the terminal it works."
    assert labels(asked)[0] == "env_vars_not_inherited_by_ide_or_notebook"
    assert labels(asked.replace("reticulate in RStudio", "Keras"))[:1] != ["env_vars_not_inherited_by_ide_or_notebook"]


def test_cudart_before_an_exception_of_the_program_is_noise_first() -> None:
    trace = ("Traceback (most recent call last):", '  File "main.py", line 2, in <module>')
    for error in ("KeyError: 'train'", "ValueError: no such column", "  for entry in entries("):
        found = read(CUDART, IGNORE, *trace, error).causes
        assert [(cause.label, cause.confidence) for cause in found] == [
            (HARMLESS, "low"),
            ("gpu_libs_not_found", "low"),
        ]
    assert labels("The command fails. Any help?", "", CUDART, IGNORE, *trace, "KeyError: 'train'")[0] == HARMLESS
    assert HARMLESS not in labels(CUDART, IGNORE, *trace, "RuntimeError: no CUDA GPUs are available")
    assert labels(*trace, "KeyError: 'train'", CUDART, IGNORE)[0] == "gpu_libs_not_found"  # it is before


def test_a_library_that_is_opened_later_was_not_missing_in_the_end() -> None:
    lost, opened = LOST.format("libcudnn.so.7"), "I dso_loader.cc:44] Successfully opened dynamic library libcudnn.so.7"
    cannot = (
        "W gpu_device.cc:1598] Cannot dlopen some GPU libraries. Please make sure the missing libraries are installed"
    )
    assert labels(lost, cannot, opened) == []
    assert labels(opened, lost)[0] == "gpu_libs_not_found"
    assert labels(lost, opened.replace("so.7", "so.8"))[0] == "gpu_libs_not_found"
    morning, evening = "2023-03-03 08:21:08.294133: ", "2023-03-03 19:13:03.832709: "
    assert labels(evening + opened, morning + lost) == []  # as the cells of a notebook, in another order
    assert labels(morning + opened, evening + lost)[0] == "gpu_libs_not_found"
    assert labels(lost, LOST.format("libcublas.so.10"), cannot, opened)[0] == "gpu_libs_not_found"
