"""Memory that other processes hold shows in how little TensorFlow takes of a GPU that it registers."""

from __future__ import annotations

from every import every
from read_logs import labels, read

CREATED = (
    "I gpu_device.cc:1928] Created device /job:localhost/replica:0/task:0/device:GPU:{index} with {memory} MB memory:  -> "
    "device: {index}, name: {name}, pci bus id: 0000:17:00.0, compute capability: 7.5"
)
LISTED = """name: "/device:CPU:0"
device_type: "CPU"
memory_limit: 268435456
, name: "/device:GPU:0"
device_type: "GPU"
memory_limit: {memory}
locality {{
  bus_id: 1
}}
incarnation: 7
physical_device_desc: "device: 0, name: GeForce GTX 1060 6GB, pci bus id: 0000:01:00.0, compute capability: 6.1"
"""
OOM = "ResourceExhaustedError: OOM when allocating tensor with shape[32,256] on /device:GPU:0 by allocator GPU_0_bfc"
CUDNN = "E cuda_dnn.cc:328] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"
HELD = "gpu_memory_held_by_other_process"


def created(memory: int, name: str = "Quadro RTX 6000", index: int = 0) -> str:
    return CREATED.format(memory=memory, name=name, index=index)


@every("memory, failure, first, confidence", [
    (660, OOM, HELD, "high"),
    (4017, OOM, HELD, "medium"),
    (660, CUDNN, HELD, "high"),
    (4017, CUDNN, HELD, "medium"),
    (22000, OOM, "gpu_out_of_memory", "high"),
    (12000, OOM, "gpu_out_of_memory", "high"),  # such a GPU may be sold with half of the memory
    (22000, CUDNN, "cudnn_init_failed_memory", "medium"),
], key=lambda memory, failure, first, confidence: f"{memory} {failure}")  # fmt: skip
def test_a_failure_beside_little_memory_is_of_another_process(
    memory: int, failure: str, first: str, confidence: str
) -> None:
    cause = read(created(memory), failure).causes[0]
    assert (cause.label, cause.confidence) == (first, confidence)
    if first == HELD:
        assert any(f"({memory} MiB were free of the 24 GiB of such a GPU)" in line for line in cause.evidence)


@every("limit", [
    "tf.config.set_logical_device_configuration(gpus[0],",
    "config.gpu_options.per_process_gpu_memory_fraction = 0.03",
    "    [tf.config.experimental.VirtualDeviceConfiguration(memory_limit=700)])",
    "  MIG 1g.5gb      Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)",
])  # fmt: skip
def test_little_memory_may_be_a_limit(limit: str) -> None:
    assert labels(limit, created(660), OOM)[0] == "gpu_out_of_memory"
    assert labels(limit, created(660)) == []


@every("memory", [1024, 2048, 3000, 5120])
def test_a_round_number_is_a_limit_that_the_program_sets(memory: int) -> None:
    assert labels(created(memory), OOM)[0] == "gpu_out_of_memory"
    assert labels(created(memory + 1), OOM)[0] == HELD


@every(
    "name",
    ["NVIDIA GB10", "Quadro RTX 6000 MIG 1g.3gb", "GRID RTX6000-4Q", "NVIDIA GeForce RTX 3050 Laptop GPU of a kind"],
)
def test_a_part_of_a_gpu_an_unknown_one_and_memory_of_the_machine_tell_nothing(name: str) -> None:
    assert labels(created(660, name), OOM)[0] == "gpu_out_of_memory"


def test_the_gpu_that_ran_out_of_memory_is_the_one_that_had_little() -> None:
    both = (created(660), created(22769, index=1))
    assert labels(*both, OOM)[0] == HELD
    assert labels(*both, OOM.replace("GPU:0", "GPU:1").replace("GPU_0", "GPU_1"))[0] == "gpu_out_of_memory"


def test_without_a_failure_only_a_tenth_is_told_and_with_doubt() -> None:
    (cause,) = read(created(660)).causes
    assert (cause.label, cause.confidence) == (HELD, "low")
    assert cause.ask
    assert labels(created(4017)) == []
    assert labels(created(660), "Epoch 1, step 40, loss: 0.51") == []  # a small model works
    assert labels(created(660), "Epoch 1, step 40, loss: nan")[0] == HELD


def test_a_list_of_devices_shows_it_too() -> None:
    assert labels(LISTED.format(memory=191234048)) == [HELD]
    assert labels(LISTED.format(memory=5059712614)) == []


POOL = "I bfc_allocator.cc:1040] total_region_allocated_bytes_: {0} memory_limit_: {0} available bytes: 0"


def test_a_pool_of_a_few_megabytes_is_what_others_leave() -> None:
    cause = read(POOL.format(37363712), OOM).causes[0]
    assert (cause.label, cause.confidence) == (HELD, "medium")
    assert any("(TensorFlow's pool had 35 MiB in all)" in line for line in cause.evidence)
    assert labels(POOL.format(3736371200), OOM)[0] == "gpu_out_of_memory"
    assert labels(POOL.format(37363712)) == []
    limit = "    [tf.config.LogicalDeviceConfiguration(memory_limit=64)])"
    assert labels(limit, POOL.format(64 << 20), OOM)[0] == "gpu_out_of_memory"
    assert labels(limit, POOL.format(37363712), OOM)[0] == HELD
