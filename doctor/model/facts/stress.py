"""Facts of GPUs under stress: the levels with a stress test, and its measurements."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.redaction import Count, Digest, ModelName, Number, Text, Version

Level = Literal["quick", "standard", "deep", "soak"]
LEVELS: tuple[Level, ...] = ("quick", "standard", "deep", "soak")
STRESS_LEVELS: tuple[Level, ...] = ("deep", "soak")  # those that stress-test the GPUs


class Exactness(Fact, frozen=True):
    """One operation on the same input repeatedly: how often, and how many elements ever differed from the first result."""

    operation: Text  # "matmul", "convolution"
    precision: Text  # "float32", "float16"
    placed_on: Text = ""
    iterations: Count = 0
    elements: Count = 0  # of one result
    mismatches: Count = 0  # elements that differ in any bit, over all iterations
    deviation: Number | None = None  # from a reference in float64, as a share of the rounding limit; 1 is the limit
    digests: tuple[Digest, ...] = ()  # of the parts of the last result, to compare GPUs of one model
    seconds: Number = 0.0
    error: Text = ""


class Speed(Fact, frozen=True):
    """Successive matrix products for some seconds, until they are complete; operations per second."""

    precision: Text  # "float32", "tf32", "float16", "bfloat16"
    teraflops: Number | None = None  # 10^12 operations per second
    side: Count = 0  # of the square matrices
    iterations: Count = 0
    seconds: Number = 0.0
    began_s: Number = 0.0  # since the start of the stress test
    finite: bool = False  # the last result contains a number
    error: Text = ""


class MemoryPattern(Fact, frozen=True):
    """One pattern written to all available memory, then read back and compared on the GPU."""

    pattern: Text  # "0x55", "0xAA", "address", "random"
    placed_on: Text = ""
    tested_bytes: Count = 0  # written, read back and compared
    mismatches: Count = 0  # words of 8 bytes
    example: Text = ""  # of a word that differs
    seconds: Number = 0.0
    error: Text = ""


class Readings(Fact, frozen=True):
    """NVML's readings of one GPU while it computed; means, unless stated otherwise. None if NVML does not report it."""

    samples: Count = 0
    sm_mhz: Number | None = None
    lowest_sm_mhz: Number | None = None
    temperature_c: Number | None = None  # the highest
    power_w: Number | None = None
    utilization_percent: Number | None = None
    reasons: dict[Text, Number] = {}  # why clocks were lowered, and in which share of the samples


class StressRound(Fact, frozen=True):
    """The steps of the stress test, once; `--level soak` repeats them."""

    began_s: Number = 0.0  # since the start of the stress test
    seconds: Number = 0.0
    exactness: tuple[Exactness, ...] = ()
    speeds: tuple[Speed, ...] = ()
    memory: tuple[MemoryPattern, ...] = ()
    readings: Readings | None = None  # while matrices were multiplied


class StressedGpu(Fact, frozen=True):
    """A GPU that TensorFlow lists, and the results of its stress test."""

    index: Count  # TensorFlow's index
    name: ModelName = ""
    uuid: Text = ""  # from NVML
    compute_capability: Version = ""
    multiprocessors: Count = 0
    mig: bool = False
    untouched: Text = ""  # why it was not stress-tested; empty if it was
    busy: tuple[Text, ...] = ()  # its other users, also if they were overruled
    attempt: Attempt | None = None
    phase_s: Number | None = None  # how long the attempt's last phase lasted, if the attempt did not complete
    error: Text = ""  # the exception that stopped the stress test, if TensorFlow raised it
    deterministic: bool = False  # TensorFlow guaranteed identical bits
    free_bytes: Count | None = None  # before the stress test
    integrated: bool = False  # it shares the host's memory
    max_sm_mhz: Number | None = None
    power_limit_w: Number | None = None
    default_power_limit_w: Number | None = None
    slowdown_c: Number | None = None  # the temperature at which the hardware lowers the clocks
    rounds: tuple[StressRound, ...] = ()

    @property
    def exactness(self) -> tuple[Exactness, ...]:
        """Of all rounds."""
        return tuple(each for round_ in self.rounds for each in round_.exactness)

    @property
    def speeds(self) -> tuple[Speed, ...]:
        """Of all rounds."""
        return tuple(each for round_ in self.rounds for each in round_.speeds)

    @property
    def memory(self) -> tuple[MemoryPattern, ...]:
        """Of all rounds."""
        return tuple(each for round_ in self.rounds for each in round_.memory)

    @property
    def readings(self) -> tuple[Readings, ...]:
        """Those of all rounds that have any."""
        return tuple(each.readings for each in self.rounds if each.readings and each.readings.samples)


class Transfer(Fact, frozen=True):
    """Copies from the host to a GPU, back, or between two GPUs, each until it is complete; the fastest counts."""

    source: Text  # "host", "GPU:0"
    destination: Text
    host_memory: Text = ""  # "pinned", "pageable"; empty between GPUs, and if the driver did not report it
    copied_bytes: Count = 0  # per copy
    copies: Count = 0
    gb_per_s: Number | None = None  # 10^9 bytes per second
    mismatches: Count = 0  # words of 8 bytes that arrived changed
    pcie_generation: Count | None = None  # of the GPU's link during the copy, the highest seen
    pcie_width: Count | None = None
    error: Text = ""


class StressTest(Fact, frozen=True):
    """The stress test of `--level deep` and `--level soak`, on all GPUs at once."""

    level: Level
    seconds: Number = 0.0
    gpus: tuple[StressedGpu, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    transfers_attempt: Attempt | None = None
    transfers_phase_s: Number | None = None  # as `phase_s` of a GPU
    transfers_error: Text = ""  # the exception that stopped the copies, other than that of a transfer
    sampling: Attempt | None = None  # of NVML, during the test
    sampling_error: Text = ""
    interrupted: bool = False  # by the user: missing results were not reached

    @property
    def tested(self) -> tuple[StressedGpu, ...]:
        """The GPUs that were stress-tested."""
        return tuple(gpu for gpu in self.gpus if not gpu.untouched)
