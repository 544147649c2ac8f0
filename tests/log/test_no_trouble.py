"""Logs that are left in peace, and errors that are never passed over."""

from __future__ import annotations

import pytest
from classified import CREATED, example, labels, read, seen
from every import every

from tfgpu_doctor.log.classification import HARMLESS


@pytest.mark.parametrize(
    "log",
    [
        "", "\n\n\n", "Epoch 1/10\n100/100 - loss: 0.5", "Created device /job:localhost/replica:0/task:0/device:GPU:0 with "
        "22000 MB memory:  -> device: 0, name: NVIDIA GeForce RTX 3090, pci bus id: 0000:01:00.0, compute capability: 8.6",
        "All tests passed on the GPU", "Error: could not reach the server, retrying",
        "[]", "[]\n42 integration tests passed on jetson", "Successfully installed tensorflow-2.16.1 numpy-1.26.4",
        'File "/venv/lib/python3.11/site-packages/mlflow/tensorflow.py", line 7, in <module>',
        'File "/home/user/.local/lib/python3.10/site-packages/keras/models.py", line 7, in fit\nKeyError: 5',
        "Using GPU: 0", "No space left on device: /data", "The file system is not yet initialized: system not yet initialized",
        "modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service",
        "crw-rw----+ 1 root video 195, 0 10-20 21:39 /dev/nvidia0", "drwxr-xr-x docker run --rm ubuntu",
        "Using libdevice at /usr/local/cuda/nvvm/libdevice/libdevice.10.bc", "lsmod: nouveau is not loaded",
    ],
)  # fmt: skip
def test_a_log_without_trouble_is_left_in_peace(log: str) -> None:
    assert labels(log) == []


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION: an illegal instruction was encountered", "gpu_kernel_fault"),
        ("AssertionError: Torch not compiled with CUDA enabled", "undetermined"),
        ("failed to synchronize the stop event: CUDA_ERROR_UNKNOWN: unknown error", "undetermined"),
        (
            "failed to allocate 2.96G (3179741184 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            "gpu_out_of_memory",
        ),
        ("NCCL: unhandled system error.\nNCCL WARN Call to ibv_create_qp failed", "nccl_failure"),
        ("2026-11-21 10:00:00.1: E tensorflow/core/common_runtime/session.cc:64] Not found: something", "undetermined"),
        ("tensorflow.python.framework.errors_impl.InternalError: something odd", "undetermined"),
        ("F0000 00:00:1738697930.202924    7665 cuda_event.cc:5] Check failed: nothing known", "undetermined"),
        ("NVRM: Xid (PCI:0000:01:00): 32, pid=1, Channel ID 00000008", "undetermined"),
    ],
)
def test_an_error_of_this_field_is_never_passed_over(log: str, label: str) -> None:
    cause = read(log).causes[0]
    assert (cause.label, cause.confidence == "high") == (label, False)
    assert cause.lines[0] == 1
    assert cause.ask


def test_noise_alone_is_called_harmless() -> None:
    report = read("TF-TRT Warning: Could not find TensorRT\noneDNN custom operations are on. You may see\nnothing\n")
    assert [cause.label for cause in report.causes] == [HARMLESS]
    assert report.causes[0].severity == "info"
    assert [each.name for each in report.noise] == ["noise_tensorrt", "noise_onednn"]


@pytest.mark.parametrize(
    "line",
    [
        "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file",
        "Not creating XLA devices, tf_xla_enable_xla_devices not set",
        "Local rendezvous is aborting with status: OUT_OF_RANGE: End of sequence",
        "computation placer already registered. Please check linkage",
        "Your kernel may have been built without NUMA support.",
        "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",  # TensorFlow prints it, and goes on
        "E external/local_xla/xla/service/slow_operation_alarm.cc:65] Trying algorithm eng0{} for conv (f32[64,3,3,3]{3,2,1,0}) "
        'custom-call(f32[32,3,224,224]{3,2,1,0}), custom_call_target="__cudnn$convBackwardFilter" is taking a while...',
        "W bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 16.54GiB with freed_by_count=0. The "
        "caller indicates that this is not a failure, but this may mean that there could be performance gains if more memory "
        "were available.",
        "W tensorflow/core/kernels/data/prefetch_autotuner.cc:52] Prefetch autotuner tried to allocate 1073741824 bytes after "
        "encountering the first element of size 1073741824 bytes.This already causes the autotune ram budget to be exceeded. To "
        "stay within the ram budget, either increase the ram budget or reduce element size",
        "E0000 00:00:1745000000.123456 40 meta_optimizer.cc:967] remapper failed: INVALID_ARGUMENT: Mutation::Apply error: fanout "
        "'gradient_tape/while/gradients' exist for missing node 'while/BiasAdd'.",
        "W tensorflow/core/kernels/gpu_utils.cc:50] Failed to allocate memory for convolution redzone checking; skipping this "
        "check. This is benign and only means that we won't check cudnn for out-of-bounds reads and writes.",
    ],
)
def test_what_looks_like_trouble_and_is_none(line: str) -> None:
    assert labels(line) == [HARMLESS]


def test_what_pip_says_of_conflicts_is_no_complaint_of_a_person() -> None:
    report = read(
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This "
        "behaviour is the source of the following dependency conflicts.\n"
        "tensorflow-decision-forests 1.11.0 requires tensorflow==2.18.0, but you have tensorflow 2.19.0 which is incompatible.\n"
        "gpu_device.cc:2019] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13757 MB memory:  -> device: 0\n"
    )
    assert report.causes == ()
    assert "tensorflow" not in report.stated


def test_a_protobuf_that_ends_a_program_is_no_noise() -> None:
    end = "    message = factory.GetPrototype(kind)\n" + example("noise_getprototype")
    assert labels(end) == ["protobuf_incompatible"]


def test_noise_beside_a_cause_stays_noise() -> None:
    report = read("TF-TRT Warning: Could not find TensorRT\nNVRM: Xid (PCI:0000:01:00): 48, pid=1\n")
    assert [cause.label for cause in report.causes] == ["hardware_ecc_error"]
    assert len(report.noise) == 1


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("name: GRID K520 major: 3 minor: 0\nI cannot use the GPU", "vgpu_unlicensed"),  # a board, no vGPU
        (
            "The TensorFlow library wasn't compiled to use SSE4.2 instructions, but these are available on your machine and "
            "could speed up CPU computations.",
            "cpu_without_avx",
        ),
        ("It says that these instructions could speed up CPU computations", "workload_too_small_for_gpu"),
        (
            "ERROR: Could not find a version that satisfies the requirement tensorflow==2.16.9",
            "unsupported_python_version",
        ),
        ("ImportError: /v/site-packages/nvidia/cublas/lib/libcublas.so.12: file too short", "library_shadowed"),
        ("W redzone_allocator.cc:318] Internal: Failed to launch ptxas", "gpu_kernel_fault"),
    ],
)
def test_what_only_looks_like_a_cause_is_none(log: str, label: str) -> None:
    assert label not in [cause.label for cause in read(log).causes]


def test_a_backend_of_keras_that_works_is_not_the_one_that_fails() -> None:
    asked = "Keras never finishes a batch on my GPU with TensorFlow. "
    assert labels(asked + "It is set to the torch backend.\n")[:1] == ["keras_backend_not_tensorflow"]
    assert "keras_backend_not_tensorflow" not in labels(asked + "With the pytorch backend it works.\n")


def test_the_engines_that_tf_trt_builds_later_are_no_trouble() -> None:
    log = (
        "W tensorflow/core/framework/op_kernel.cc:1655] OP_REQUIRES failed at trt_engine_resource_ops.cc:183 : Not found: "
        "Container TF-TRT does not exist. (Could not find resource: TF-TRT/TRTEngineOp_0)\n"
        "INFO:tensorflow:Could not find TRTEngineOp_0 in TF-TRT cache. This can happen if build() is not called, which "
        "means TensorRT engines will be built and cached at runtime.\n"
    )
    assert labels(log) == [HARMLESS]


_LOADED = (
    "2024-04-08 20:09:58.2: I tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:424] Loaded cuDNN version 8907\n"
)
_HIDDEN = (
    "With os.environ['CUDA_VISIBLE_DEVICES'] = '3' I get:\n\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no device\n"
)


def test_a_gpu_that_is_hidden_for_a_comparison_is_not_the_trouble() -> None:
    same = "The inference time on CPU and GPU is the same.\n\n"
    assert labels(same + _LOADED + _HIDDEN)[0] == "workload_too_small_for_gpu"
    assert "cuda_visible_devices_hides_gpu" in labels(same + _HIDDEN)
    for asked in ("TensorFlow does not find my GPU.\n\n", "I have an error with TensorFlow.\n\n"):
        assert labels(asked + _LOADED + _HIDDEN)[0] == "cuda_visible_devices_hides_gpu"


def test_another_server_is_no_arm_machine() -> None:
    assert "aarch64_wheel_without_cuda" not in labels("TensorFlow cannot find the GPU on our DGX B200 server.\n")


def test_the_name_of_a_variable_in_code_hides_no_gpu() -> None:
    for code in ("'cuda_visible_devices': cuda_visible_devices,", "assert cuda_visible_devices, 'x'"):
        assert "visible_devices_hide" not in seen(code)
    for code in ("export CUDA_VISIBLE_DEVICES=", 'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")'):
        assert "visible_devices_hide" in seen(code)
    asked = "With Ray and TensorFlow, `CUDA_VISIBLE_DEVICES` is always set to empty string, making the gpus unused.\n"
    assert labels(asked + "$ pip freeze\n")[0] == "cuda_visible_devices_hides_gpu"


@every("line", [
    "Failed to detect NVIDIA driver version.",
    "NOTE: Legacy NVIDIA Driver detected.  Compatibility mode ENABLED.",
    "NOTE: CUDA Forward Compatibility mode ENABLED.",
    "NOTE: MOFED driver for multi-node communication was not detected.",
])  # fmt: skip
def test_a_note_of_an_image_is_no_trouble(line: str) -> None:
    assert labels(line) == [HARMLESS]
    assert labels("NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be\n   insufficient") == []


@every("line", ["GPU is NOT AVAILABLE", "Num GPUs Available:  0", "Default GPU Device: "])
def test_a_program_that_says_that_there_is_no_gpu_is_never_healthy(line: str) -> None:
    cause = read(f"Keras 2.4.0\n{line}\n").causes[0]
    assert (cause.label, cause.confidence) == ("undetermined", "low")
    assert "release" in cause.ask
    assert not read("Num GPUs Available:  0\nNum GPUs Available:  1\n").causes  # another cell has one
    assert not read("primitive types:\n[]\n").causes  # an empty list may be one of anything


def test_an_error_of_the_program_beside_a_gpu_in_use_is_no_cause() -> None:
    created, error = CREATED.format("22000"), "tensorflow.python.framework.errors_impl.InvalidArgumentError: {}"
    shapes = error.format("Assign requires shapes of both tensors to match.")
    assert not read(f"{created}\n{shapes}\n").causes
    assert not read(f"True\n/device:GPU:0\n{shapes}\n").causes
    assert read(f"{shapes}\n").causes[0].label == "undetermined"  # nothing shows a GPU
    assert read(f"{created}\n{error.format('CUDA graph was invalid')}\n").causes[0].label == "undetermined"
    assert (
        read(f"My GPU training fails. Can anyone help me?\n\n{created}\n{shapes}\n").causes[0].label == "undetermined"
    )


def test_red_zones_are_checked_without_ptxas_on_windows_too() -> None:
    line = (
        "W tensorflow/stream_executor/cuda/redzone_allocator.cc:312] Internal: Invoking ptxas not supported on Windows"
    )
    log = f"{CREATED.format('3040')}\n{line}\nRelying on driver to perform ptx compilation.\n"
    assert labels(log) == ["harmless_noise_only"]


def test_code_that_would_print_a_message_has_not_printed_it() -> None:
    said = "No GPU detected, running on CPU."
    assert not read(f'if gpus:\n    run()\nelse:\n    print("{said}")\n').causes
    assert read(f"{said}\n").causes[0].label == "no_nvidia_driver"


@every("line", [
    "RIP: 0010:ext4_readdir+0x20/0x40 [ext4]",
    "[ 1208.1] INFO: task jbd2/sda1-8:300 blocked for more than 120 seconds.",
    "Modules linked in: nvidia_uvm(OE) nvidia(POE) veth ip_tables",
])  # fmt: skip
def test_another_part_of_the_kernel_says_nothing_of_the_gpu(line: str) -> None:
    assert labels(line) == []


def test_a_training_that_shows_its_progress_has_not_stopped() -> None:
    added = "2018-09-18 13:03:07.512768: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1484] Adding visible gpu devices: 0"
    said = "Why is my GPU no faster than a CPU? Can anyone help?\n\n"
    assert "stopped_at_adding" in seen(f"{said}{added}\n\nThat is all.\n")
    assert "stopped_at_adding" not in seen(
        f"{said}{added}\nEpochs: 100%|##########| 300/300 [12:27<00:00,  2.49s/it]\n"
    )
