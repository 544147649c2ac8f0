"""From the lines of a log to its causes: one trouble, several, and their evidence."""

from __future__ import annotations

import pytest
from classified import KNOWLEDGE, example, labels, read, seen
from every import every

from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import derive
from tfgpu_doctor.log.last_step import with_last_step
from tfgpu_doctor.log.signatures import Found, Hit


def test_the_compiler_that_cudnn_does_not_find_is_one_cause() -> None:
    assert labels(example("nvrtc_lost"), "tensorflow=2.21.0") == ["cudnn_nvrtc_not_found"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("LLVM ERROR: PTX version 8.5 does not support target 'sm_120a'.", "gpu_compute_capability_too_new"),
        ("LLVM ERROR: PTX version 8.5 does not support target 'sm_100a'.", "gpu_compute_capability_too_new"),
        ("LLVM ERROR: PTX version 7.5 does not support target 'sm_90a'.", "ptxas_too_old_for_gpu"),
        (
            "Could not load library libcudnn_cnn_train.so.8. Error: /usr/local/cuda-11.1/lib64/libcudnn_ops_train.so.8: symbol "
            "_Z22cudnnGenericOp, version libcudnn_ops_infer.so.8 not defined in file libcudnn_ops_infer.so.8 with link time reference",
            "cudnn_version_mismatch",
        ),
        (
            "  Downloading tensorflow-gpu-2.12.0.tar.gz (2.6 kB)\n  error: subprocess-exited-with-error",
            "tensorflow_gpu_package_removed",
        ),
        (
            "[  687.293876] python invoked oom-killer: gfp_mask=0x24280ca, order=0, oom_score_adj=0",
            "container_memory_limit",
        ),
        ("WSL environment detected but no adapters were found: unknown", "no_nvidia_driver"),
        ("ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'", "ptxas_too_old_for_gpu"),
        ("ptxas fatal   : Value 'sm_61' is not defined for option 'gpu-name'", "ptxas_too_new_for_gpu"),
        ("Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 7.0", "ptxas_too_new_for_gpu"),
        ("Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 7.5", "ptxas_too_old_for_gpu"),
        (
            "nvidia 0000:01:00.0: Direct firmware load for nvidia/595.71.05/gsp_ga10x.bin failed with error -2\n"
            "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x56:1904)",
            "gsp_firmware_not_loaded",
        ),
        ("LLVM ERROR: PTX version 7.0 does not support target 'sm_86'.", "ptxas_too_old_for_gpu"),
    ],
)
def test_what_compilers_and_the_driver_refuse(line: str, found: str) -> None:
    assert labels(line) == [found]


def test_wsl_1_is_why_there_are_no_adapters() -> None:
    line = "nvidia-container-cli: initialization error: WSL environment detected but no adapters were found: unknown"
    assert labels(line, "os=Windows with WSL1")[0] == "wsl1_instead_of_wsl2"


@pytest.mark.parametrize(
    "line",
    [
        "E0000 00:00:1743133500.726998 2738871 buffer_comparator.cc:156] Difference at 0: nan, expected 1.65142",
        "E external/xla/xla/service/gpu/autotuning/gemm_fusion_autotuner.cc:1138] Results do not match the reference. This is "
        "likely a bug/unexpected loss of precision.",
        "Results mismatch between different convolution algorithms. This is likely a bug/unexpected loss of precision in cudnn.",
    ],
)
def test_kernels_of_xla_that_disagree_are_a_warning(line: str) -> None:
    (cause,) = read(line).causes
    assert (cause.label, cause.severity, cause.confidence) == ("xla_kernels_disagree", "warning", "medium")


def test_another_end_by_llvm_is_an_error_of_unknown_cause() -> None:
    assert labels("LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync") == ["undetermined"]


def test_two_troubles_are_named_with_their_own_lines() -> None:
    report = read(
        "x\nValueError: Memory growth cannot differ between GPU devices\ny\nDMAR: DRHD: handling fault status reg 2\n"
    )
    lines = {cause.label: cause.lines for cause in report.causes}
    assert lines == {"memory_growth_differs_between_gpus": (2,), "multi_gpu_p2p_iommu_acs": (4,)}


def test_free_memory_is_compared_with_the_total() -> None:
    assert labels("Total memory: 7.92GiB\nFree memory: 190.31MiB") == ["gpu_memory_held_by_other_process"]
    assert labels("Total memory: 7.92GiB\nFree memory: 7.31GiB") == []


def test_evidence_is_short_and_in_the_order_of_the_log() -> None:
    log = "\n".join(f"E{place} failed call to cuInit: UNKNOWN ERROR (34)" for place in range(50))
    (cause, *_) = read(log).causes
    assert list(cause.lines) == sorted(cause.lines)
    assert 1 <= len(cause.evidence) <= 4


def test_hits_of_one_signature_are_not_mixed_with_derived_ones() -> None:
    row = next(row for row in KNOWLEDGE.log_signatures if row.name == "xid")
    found = {"xid": Found(row, 1, [Hit(1, "x", {"xid": "79"})])}
    derive(found, Context({}), KNOWLEDGE)
    assert set(found) == {"xid"}


# What 40 threads that nobody here had read showed (batch 22 of unseen.json).
_ADDING = (
    "2020-01-01 10:00:0{}: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1746] Adding visible gpu devices: 0\n"
)
_NEXT = "2020-01-01 10:00:07.5: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1159] Device interconnect StreamExecutor\n"


@every("log, found", [
    (_ADDING.format("1.0"), ["ptx_jit_startup_delay"]),
    (f"My TensorFlow on a GPU:\n\n```\n{_ADDING.format('1.0')}```\nThat is all.\n", ["ptx_jit_startup_delay"]),
    (_ADDING.format("1.0") + _NEXT, []),
    (_ADDING.format("1.0") + _NEXT + _ADDING.format("8.0") + _NEXT, []),
    ("TensorFlow hangs on my GPU.\n\n" + _ADDING.format("1.0") + _NEXT, ["ptx_jit_startup_delay"]),
], key=lambda log, found: log)  # fmt: skip
def test_a_start_that_goes_on_does_not_wait_for_a_compiler(log: str, found: list[str]) -> None:
    assert labels(log) == found


# What 60 more showed (batch 30).
@every("log, found", [
    ("nvidia-smi -q says:\n    vGPU Software Licensed Product\n        License Status            : Unlicensed\n",
     ["vgpu_unlicensed"]),
    ("`systemctl daemon-reload` causes all running GPU containers to lost gpu devices:\n"
     "Failed to initialize NVML: Unknown Error\n", ["container_lost_gpu_cgroup"]),
    ("The service nvidia-fabricmanager fails with an error on my two RTX 4090:\nrequest to query NVSwitch device information "
     "from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n", ["undetermined"]),
    ("TensorFlow's aarch64 wheels aren't built with CUDA\n", ["aarch64_wheel_without_cuda"]),
    ("InternalError: /job:worker/task:0/device:GPU:1 is joining a group with size 2, but that group has size 3 (group_key=1)\n",
     ["several_strategies_in_one_process"]),
    ("1. If I have `tensorflow-gpu==1.8.0` and `tensorflow==1.8.0` installed, TensorFlow doesn't use the GPU at all\n",
     ["cpu_package_shadows_gpu_package"]),
], key=lambda log, found: log)  # fmt: skip
def test_the_first_cause_of_what_is_said(log: str, found: list[str]) -> None:
    assert labels(log)[:1] == found


def test_what_follows_a_line_that_is_not_kept_is_not_known() -> None:
    """Of a large log only parts are kept: this one's end is another part."""
    hits = {"adding_gpus": [Hit(500, _ADDING, {})]}
    assert "stopped_at_adding" not in with_last_step(hits, [(1, "step 1\nstep 2\n")])
    assert "stopped_at_adding" not in with_last_step(hits, [(499, f"step\n{_ADDING}step\n")])
    assert "stopped_at_adding" in with_last_step(hits, [(1, "step 1\n"), (499, f"step\n{_ADDING}")])


@every("line", [
    "Mar  3 04:05:06 node kernel: RIP: 0010:_nv000123rm+0x1f/0x170 [nvidia]",
    "[   29.798452] IP: [<ffffffffc075549f>] _nv000123rm+0x1f/0x170",
    "RIP: 0010:uvm_gpu_release+0x20/0x40 [nvidia_uvm]",
    "[ 1208.1] INFO: task nvidia-smi:4167 blocked for more than 120 seconds.",
])  # fmt: skip
def test_a_driver_that_fails_in_the_kernel_is_named(line: str) -> None:
    assert labels(line)[:1] == ["gpu_hang"]


# What 40 more such threads showed (batch 23).
_REFUSED = (
    "2024-06-06 09:03:48.670640: F external/local_xla/xla/service/gpu/nvptx_compiler.cc:619] ptxas returned an error during "
    "compilation of ptx to sass: 'INTERNAL: ptxas 12.3.103 has a bug that we think can affect XLA. Please use a different "
    "version.'  If the error message indicates that a file could not be written, please verify that sufficient filesystem "
    "space is provided.\n"
)
_IN_NOTEBOOK = "My TensorFlow on the GPU fails in the notebook, and in the terminal it works.\n\n"


def test_a_ptxas_that_xla_refuses_is_named_with_another_to_install() -> None:
    first = read(_IN_NOTEBOOK + _REFUSED).causes[0]
    assert (first.label, first.confidence) == ("libdevice_or_ptxas_missing", "high")
    assert "12.3.103" in first.fix
    assert "nvidia-cuda-nvcc-cu12" in first.fix
    assert read("Couldn't get ptxas version string: ptxas not found\n").causes[0].fix != first.fix


def test_what_a_person_says_does_not_outrank_a_fatal_line_of_tensorflow() -> None:
    line = "tensorflow/core/x.cc:5] ptxas exited with non-zero error code 2, output: something\n"
    fatal, plain = (f"2024-06-06 09:03:48.6: {level} {line}" for level in "FI")
    absl = "F0000 00:00:1738697930.202924    7665 x.cc:5] ptxas exited with non-zero error code 2\n"
    for ended in (fatal, absl):
        assert labels(_IN_NOTEBOOK + ended)[0] == "ptxas_too_old_for_gpu"
    assert "env_vars_not_inherited_by_ide_or_notebook" in labels(_IN_NOTEBOOK + fatal)
    assert labels(_IN_NOTEBOOK + plain)[0] == "env_vars_not_inherited_by_ide_or_notebook"
    assert labels(_IN_NOTEBOOK + "F0000 00:00:1738697930.202924    7665 x.cc:5] something\n")[:1] == [
        "env_vars_not_inherited_by_ide_or_notebook"
    ], "no signature knows this line"


@every("said, found", [
    ("The training hangs on the GPU. dmesg shows a kernel WARNING of the driver.", ["gpu_hang"]),
    ("The training hangs on the GPU. dmesg shows no errors.", []),
    ("It crashes on the GPU, with many small kernel launches.", []),
    ("It crashes on the GPU, with two other processes on it.", ["gpu_memory_held_by_other_process"]),
], key=lambda said, found: said)  # fmt: skip
def test_a_hang_that_the_kernel_tells_of(said: str, found: list[str]) -> None:
    assert [label for label in labels(f"My TensorFlow.\n\n{said}\n") if label != "undetermined"] == found


_BUILT_FOR = (
    "Can I still run TensorFlow on this GPU? Seems it can still run fine in this container.\n\n"
    "ERROR: This container was built for NVIDIA Driver Release 535.86 or later, but\n"
    "       version 470.57.02 was detected and compatibility mode is UNAVAILABLE.\n\n"
)


def test_the_banner_of_an_image_names_both_drivers() -> None:
    report = read(_BUILT_FOR)
    (first,) = report.causes
    assert (first.label, first.confidence) == ("driver_too_old", "medium")
    assert "535.86" in first.evidence[0]
    assert report.extracted["driver"] == ("470.57.02",)
    certain = read(_BUILT_FOR + "       [[CUDA Driver UNAVAILABLE (cuInit(0) returned 804)]]\n").causes[0]
    assert (certain.label, certain.confidence) == ("driver_too_old", "high")


_FAILED = (
    "ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.  GPU functionality will not be available.\n"
)


@every("line, first", [
    (_FAILED + "   [[ System not yet initialized (error 802) ]]", "fabric_manager_not_running"),
    (_FAILED + "   [[ System has unsupported display driver / cuda driver combination (error 803) ]]",
     "driver_library_version_mismatch"),
    (_FAILED + "   [[ Forward compatibility was attempted on non supported HW (error 804) ]]", "cuda_compat_package_conflict"),
    (_FAILED + "   [[ Unknown error (error 999) ]]", "nvidia_uvm_missing"),
    (_FAILED + "   [[ Initialization error (error 3) ]]\n\n   [[ Possible MIG misconfiguration detected ]]",
     "mig_single_instance_per_process"),
    (_FAILED, "undetermined"),
    ("       [[CUDA Driver UNAVAILABLE (cuInit(0) returned 803)]]", "driver_library_version_mismatch"),
    ("WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.", "container_started_without_gpu"),
    ("ERROR: Detected Tesla K80 GPU, which is not supported by this container", "gpu_compute_capability_too_old"),
    ("WARNING: Detected NVIDIA B200 GPU, which is not yet supported in this version of the container",
     "gpu_compute_capability_too_new"),
    ("ERROR: This container was built for CPUs supporting at least the AVX instruction set, but", "cpu_without_avx"),
], key=lambda line, first: line)  # fmt: skip
def test_the_banner_of_an_image_is_read(line: str, first: str) -> None:
    assert labels(line)[:1] == [first]


@every("said, found", [
    ("We see slow compilation times with XLA on the GPU.", ["undetermined"]),
    ("With Keras on the GPU, the new Adam is slower than the legacy one.", ["undetermined"]),
    ("TensorFlow 2.16 on the GPU is slower than TensorFlow 2.15.", ["undetermined"]),
    ("Training with TensorFlow on my GPU is slow.", ["workload_too_small_for_gpu", "input_pipeline_bound"]),
    ("TensorFlow on the GPU is slower than on the CPU.", ["workload_too_small_for_gpu", "input_pipeline_bound"]),
], key=lambda said, found: said)  # fmt: skip
def test_what_is_slower_than_another_program_is_not_too_small(said: str, found: list[str]) -> None:
    assert labels(f"{said}\n") == found


@every("line, first", [
    ("pycuda._driver.Error: cuInit failed: unknown error", "nvidia_uvm_missing"),
    ("pycuda._driver.RuntimeError: cuInit failed: no CUDA-capable device is detected", "cuda_visible_devices_hides_gpu"),
    ("pycuda._driver.LogicError: cuMemAlloc failed: initialization error", "undetermined"),
])  # fmt: skip
def test_the_texts_of_the_driver_api_count_as_its_codes(line: str, first: str) -> None:
    assert read(f"{line}\n").causes[0].label == first
    assert not read("request 7 failed: unknown error\n").causes


def test_a_placer_without_cuda_is_a_build_without_cuda() -> None:
    line = "InvalidArgumentError: Cannot assign a device. The requested device appears to be a GPU, but CUDA is not enabled."
    found = [cause.label for cause in read(line).causes]
    assert found[0] == "cpu_package_shadows_gpu_package"
    assert "no_nvidia_driver" not in found
    assert read(line, "tensorflow=2.12.0", "os=Windows 11").causes[0].label == "native_windows_no_gpu_build"
    assert read("could not find any TF GPUs\n").causes[0].label == "no_nvidia_driver"


def test_singularity_needs_an_option_and_no_toolkit() -> None:
    text = "My {} container does not see the GPU. How can I train with it?\n"
    found = [cause.label for cause in read(text.format("singularity")).causes]
    assert found[0] == "container_started_without_gpu"
    assert "container_toolkit_missing" not in found
    assert "container_toolkit_missing" in [cause.label for cause in read(text.format("docker")).causes]


def test_slow_beside_an_idle_gpu_is_not_called_little_work() -> None:
    text = "My training is very slow. Here is nvidia-smi:\n\n{}\n"
    row = "| 32%   46C    P8    28W / 250W |  {}MiB / 12066MiB |     {}%      Default |"
    assert [cause.label for cause in read(text.format(row.format(320, 0))).causes] == ["undetermined"]
    assert read(text.format(row.format(11320, 0))).causes[0].label == "workload_too_small_for_gpu"
    assert read(text.format(row.format(420, 37))).causes[0].label == "workload_too_small_for_gpu"
    busy = row.format(11320, 90)
    assert read(text.format(f"{row.format(320, 0)}\n{busy}")).causes[0].label == "workload_too_small_for_gpu"


def test_a_mismatch_beside_a_missing_dnn_library_is_not_of_the_driver() -> None:
    said, label = (
        "My TensorFlow fails on the GPU. Is that because of a version mismatch?\n",
        "driver_library_version_mismatch",
    )
    found = read(f"{said}\nRuntimeError: Unimplemented: DNN library is not found.\n").causes
    assert label not in [each.label for each in found]
    assert label in [each.label for each in read(said).causes]


def test_a_thread_that_cannot_be_created_is_a_limit() -> None:
    line = "F tsl/platform/default/env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread {} creation via pthread_create() failed."
    assert read(line.format("tf_data_private_threadpool")).causes[0].label == "task_limit"


@every("title, first", [
    ("Stuck with importerror: libcublas.so.9.0 in Colab", "cuda_toolkit_wrong_major"),
    ("Stuck with importerror: libssl.so.1.1 in Colab", "undetermined"),
    ("docker: no capabilities with [[gpu]], but the GPU is there", "container_toolkit_missing"),
])  # fmt: skip
def test_an_error_in_a_title_has_lost_its_end(title: str, first: str) -> None:
    assert read(f"{title}\n\nI use tensorflow-gpu 1.12.0. Can anyone help?\n").causes[0].label == first


def test_a_library_that_fails_is_not_an_idle_gpu() -> None:
    seen_gpu = "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]"
    said = f"TensorFlow fails to use my GPU, can anyone help?\n\n{seen_gpu}\n"
    assert read(said).causes[0].label == "workload_too_small_for_gpu"
    found = [
        each.label
        for each in read(
            f"{said}DNN library initialization failed. Look at the errors above for more details.\n"
        ).causes
    ]
    assert found[0] == "cudnn_init_failed_memory"
    assert "workload_too_small_for_gpu" not in found


def test_placements_without_a_device_are_a_list_without_gpu() -> None:
    assert "no_gpu_listed" in seen(
        "I tensorflow/core/common_runtime/direct_session.cc:284] Device mapping: no known devices."
    )


def test_a_product_that_fails_after_a_kernel_died_is_no_gpu_that_is_too_new() -> None:
    product = "E cuda_blas.cc:551] failed to run cuBLAS routine cublasSgemm_v2: CUBLAS_STATUS_EXECUTION_FAILED\n"
    died = "E cuda_driver.cc:1068] failed to synchronize the stop event: CUDA_ERROR_LAUNCH_FAILED\n"
    assert labels(product, "tensorflow=1.3.0")[0] == "gpu_compute_capability_too_new"
    assert labels(died + product, "tensorflow=1.3.0")[0] == "gpu_kernel_fault"


def test_an_allocator_of_a_gpu_is_a_gpu_in_use() -> None:
    said = "TensorFlow does not use my GPU on Windows 11, can anyone help?\n\n"
    line = next(row.example for row in KNOWLEDGE.log_signatures if row.name == "gpu_allocator")
    assert labels(said)[0] == "native_windows_no_gpu_build"
    assert labels(f"{said}{line}\n")[0] == "workload_too_small_for_gpu"


def test_devices_without_a_gpu_are_a_list_without_gpu() -> None:
    listed = "Devices visible to TensorFlow: [_DeviceAttributes(/job:localhost/replica:0/task:0/device:CPU:0, CPU, 268435456)]"
    assert "no_gpu_listed" in seen(listed)
    assert "no_gpu_listed" not in seen(listed.replace(")]", "), _DeviceAttributes(/device:GPU:0, GPU, 1)]"))
    said = "I have one GPU (GPU Radeon RX 580). Upon running, the GPU usage remains low. Can anyone help?"
    assert labels(f"{said}\n\n{listed}\n")[0] == "no_gpu_in_machine"


def test_who_speaks_of_acs_has_no_mismatch_of_the_driver() -> None:
    said = (
        "With several GPUs my training has NaN errors. After I updated the kernel it is the same.{} Can anyone help?\n"
    )
    assert labels(said.format(""))[0] == "driver_library_version_mismatch"
    assert labels(said.format(" I had to disable ACS."))[0] == "multi_gpu_p2p_iommu_acs"
