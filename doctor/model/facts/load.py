"""Facts of a GPU under load: the levels that put one on it, and what was measured meanwhile."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Attempt, Fact

Level = Literal["quick", "standard", "deep", "soak"]
LEVELS: tuple[Level, ...] = ("quick", "standard", "deep", "soak")
LOADING: tuple[Level, ...] = ("deep", "soak")  # those that put a load on the GPUs


class Exactness(Fact, frozen=True):
    """One operation on the same input again and again: how often, and how many elements ever differed from the first."""

    operation: str  # "matmul", "convolution"
    precision: str  # "float32", "float16"
    placed_on: str = ""
    iterations: int = 0
    elements: int = 0  # of one result
    mismatches: int = 0  # elements that differ in any bit, over all iterations
    deviation: float | None = None  # from a reference in float64, as a share of what rounding allows; 1 is the limit
    digests: tuple[str, ...] = ()  # of the parts of the last result, to compare GPUs of one model
    seconds: float = 0.0
    error: str = ""


class Speed(Fact, frozen=True):
    """Matrix products one after another for some seconds, waited for: operations a second."""

    precision: str  # "float32", "tf32", "float16", "bfloat16"
    teraflops: float | None = None  # 10^12 operations a second
    side: int = 0  # of the square matrices
    iterations: int = 0
    seconds: float = 0.0
    began_s: float = 0.0  # since the load began
    finite: bool = False  # the last result holds a number
    error: str = ""


class MemoryPattern(Fact, frozen=True):
    """One pattern written to all memory that was to be had, then read back and compared on the GPU."""

    pattern: str  # "0x55", "0xAA", "address", "random"
    placed_on: str = ""
    tested_bytes: int = 0  # written, read back and compared
    mismatches: int = 0  # words of 8 bytes
    example: str = ""  # of a word that differs
    seconds: float = 0.0
    error: str = ""


class Readings(Fact, frozen=True):
    """What NVML said of one GPU while it computed; means, unless said otherwise. None where NVML does not tell."""

    samples: int = 0
    sm_mhz: float | None = None
    lowest_sm_mhz: float | None = None
    temperature_c: float | None = None  # the highest
    power_w: float | None = None
    utilization_percent: float | None = None
    reasons: dict[str, float] = {}  # why clocks were lowered, and in which share of the samples


class LoadRound(Fact, frozen=True):
    """The steps of the load, once over; `--level soak` repeats them."""

    began_s: float = 0.0  # since the load began
    seconds: float = 0.0
    exactness: tuple[Exactness, ...] = ()
    speeds: tuple[Speed, ...] = ()
    memory: tuple[MemoryPattern, ...] = ()
    readings: Readings | None = None  # while matrices were multiplied


class LoadedGpu(Fact, frozen=True):
    """A GPU that TensorFlow lists, and what the load on it showed."""

    index: int  # as TensorFlow counts
    name: str = ""
    uuid: str = ""  # as NVML has it
    compute_capability: str = ""
    multiprocessors: int = 0
    mig: bool = False
    untouched: str = ""  # why no load was put on it; empty where one was
    busy: tuple[str, ...] = ()  # who else uses it, also where that was overruled
    attempt: Attempt | None = None
    error: str = ""  # what stopped the load, where TensorFlow raised it
    deterministic: bool = False  # TensorFlow promised equal bits
    free_bytes: int | None = None  # before the load
    integrated: bool = False  # it shares the host's memory
    max_sm_mhz: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    slowdown_c: float | None = None  # where the hardware lowers the clocks
    rounds: tuple[LoadRound, ...] = ()

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

    source: str  # "host", "GPU:0"
    destination: str
    host_memory: str = ""  # "pinned", "pageable"; empty between GPUs, and where the driver did not tell
    copied_bytes: int = 0  # at a time
    copies: int = 0
    gb_per_s: float | None = None  # 10^9 bytes a second
    mismatches: int = 0  # words of 8 bytes that arrived changed
    pcie_generation: int | None = None  # of the GPU's link meanwhile, the highest seen
    pcie_width: int | None = None
    error: str = ""


class Load(Fact, frozen=True):
    """The load that `--level deep` and `--level soak` put on the GPUs, all of them at once."""

    level: Level
    seconds: float = 0.0
    gpus: tuple[LoadedGpu, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    transfers_attempt: Attempt | None = None
    sampling: Attempt | None = None  # of NVML, meanwhile
    sampling_error: str = ""
    interrupted: bool = False  # by the user: what is missing was not reached

    @property
    def loaded(self) -> tuple[LoadedGpu, ...]:
        """The GPUs that a load was put on."""
        return tuple(gpu for gpu in self.gpus if not gpu.untouched)
