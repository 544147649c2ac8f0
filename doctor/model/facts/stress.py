"""Facts of a GPU under load: the levels that put one on it, and what was measured meanwhile."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.redaction import Count, Digest, ModelName, Number, Text, Version

Level = Literal["quick", "standard", "deep", "soak"]
LEVELS: tuple[Level, ...] = ("quick", "standard", "deep", "soak")
STRESS_LEVELS: tuple[Level, ...] = ("deep", "soak")  # those that put a load on the GPUs


class Exactness(Fact, frozen=True):
    """One operation on the same input again and again: how often, and how many elements ever differed from the first."""

    operation: Text  # "matmul", "convolution"
    precision: Text  # "float32", "float16"
    placed_on: Text = ""
    iterations: Count = 0
    elements: Count = 0  # of one result
    mismatches: Count = 0  # elements that differ in any bit, over all iterations
    deviation: Number | None = None  # from a reference in float64, as a share of what rounding allows; 1 is the limit
    digests: tuple[Digest, ...] = ()  # of the parts of the last result, to compare GPUs of one model
    seconds: Number = 0.0
    error: Text = ""


class Speed(Fact, frozen=True):
    """Matrix products one after another for some seconds, waited for: operations a second."""

    precision: Text  # "float32", "tf32", "float16", "bfloat16"
    teraflops: Number | None = None  # 10^12 operations a second
    side: Count = 0  # of the square matrices
    iterations: Count = 0
    seconds: Number = 0.0
    began_s: Number = 0.0  # since the load began
    finite: bool = False  # the last result holds a number
    error: Text = ""


class MemoryPattern(Fact, frozen=True):
    """One pattern written to all memory that was to be had, then read back and compared on the GPU."""

    pattern: Text  # "0x55", "0xAA", "address", "random"
    placed_on: Text = ""
    tested_bytes: Count = 0  # written, read back and compared
    mismatches: Count = 0  # words of 8 bytes
    example: Text = ""  # of a word that differs
    seconds: Number = 0.0
    error: Text = ""


class Readings(Fact, frozen=True):
    """What NVML said of one GPU while it computed; means, unless said otherwise. None where NVML does not tell."""

    samples: Count = 0
    sm_mhz: Number | None = None
    lowest_sm_mhz: Number | None = None
    temperature_c: Number | None = None  # the highest
    power_w: Number | None = None
    utilization_percent: Number | None = None
    reasons: dict[Text, Number] = {}  # why clocks were lowered, and in which share of the samples


class StressRound(Fact, frozen=True):
    """The steps of the load, once over; `--level soak` repeats them."""

    began_s: Number = 0.0  # since the load began
    seconds: Number = 0.0
    exactness: tuple[Exactness, ...] = ()
    speeds: tuple[Speed, ...] = ()
    memory: tuple[MemoryPattern, ...] = ()
    readings: Readings | None = None  # while matrices were multiplied


class StressedGpu(Fact, frozen=True):
    """A GPU that TensorFlow lists, and what the load on it showed."""

    index: Count  # as TensorFlow counts
    name: ModelName = ""
    uuid: Text = ""  # as NVML has it
    compute_capability: Version = ""
    multiprocessors: Count = 0
    mig: bool = False
    untouched: Text = ""  # why no load was put on it; empty where one was
    busy: tuple[Text, ...] = ()  # who else uses it, also where that was overruled
    attempt: Attempt | None = None
    error: Text = ""  # what stopped the load, where TensorFlow raised it
    deterministic: bool = False  # TensorFlow promised equal bits
    free_bytes: Count | None = None  # before the load
    integrated: bool = False  # it shares the host's memory
    max_sm_mhz: Number | None = None
    power_limit_w: Number | None = None
    default_power_limit_w: Number | None = None
    slowdown_c: Number | None = None  # where the hardware lowers the clocks
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
        """Those rounds' that have any."""
        return tuple(each.readings for each in self.rounds if each.readings and each.readings.samples)


class Transfer(Fact, frozen=True):
    """Copies from the host to a GPU, back, or between two GPUs, each waited for; the fastest counts."""

    source: Text  # "host", "GPU:0"
    destination: Text
    host_memory: Text = ""  # "pinned", "pageable"; empty between GPUs, and where the driver did not tell
    copied_bytes: Count = 0  # at a time
    copies: Count = 0
    gb_per_s: Number | None = None  # 10^9 bytes a second
    mismatches: Count = 0  # words of 8 bytes that arrived changed
    pcie_generation: Count | None = None  # of the GPU's link meanwhile, the highest seen
    pcie_width: Count | None = None
    error: Text = ""


class StressTest(Fact, frozen=True):
    """The load that `--level deep` and `--level soak` put on the GPUs, all of them at once."""

    level: Level
    seconds: Number = 0.0
    gpus: tuple[StressedGpu, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    transfers_attempt: Attempt | None = None
    sampling: Attempt | None = None  # of NVML, meanwhile
    sampling_error: Text = ""
    interrupted: bool = False  # by the user: what is missing was not reached

    @property
    def tested(self) -> tuple[StressedGpu, ...]:
        """The GPUs that a load was put on."""
        return tuple(gpu for gpu in self.gpus if not gpu.untouched)
