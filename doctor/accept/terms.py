"""The requirements that a profile may contain: every key, with its type, meaning and default. Source of docs/profiles.md."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.facts.stress import Level

Precision = Literal["float32", "tf32", "float16", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "float16", "bfloat16")
Share = Annotated[float, Meta(gt=0, le=1, examples=[0.5])]
Limit = Annotated[str, Meta(examples=[">= 24 GB/s"])]
Spread = Annotated[str, Meta(examples=["<= 5 %"])]
Factor = Annotated[float, Meta(gt=0, examples=[2.5])]
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(GiB|MiB|GB|MB)")
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "GB": 10**9, "MB": 10**6}


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of a profile."""


class Checks(_Table, frozen=True, kw_only=True):
    """The checks that count."""

    select: Annotated[
        tuple[str, ...],
        Meta(description="the checks that count, by id or by the letters that ids begin with; all checks if empty",
             examples=[["DRV", "GPU004"]]),
    ] = ()  # fmt: skip
    ignore: Annotated[tuple[str, ...], Meta(description="checks that do not count", examples=[["MEM005"]])] = ()
    require: Annotated[
        tuple[str, ...],
        Meta(description="checks that must pass: one that is skipped fails the acceptance", examples=[["LOD001", "LOD003"]]),
    ] = ()  # fmt: skip


class Allowed(_Table, frozen=True, kw_only=True):
    """A known finding that is accepted until a date."""

    check: Annotated[str, Meta(description="the check whose finding is allowed", examples=["HLT005"])]
    cause: Annotated[
        str, Meta(description="allow only findings with this cause", examples=["gpu_thermal_or_power_throttling"])
    ] = ""
    reason: Annotated[
        str, Meta(min_length=1, description="why it is allowed", examples=["the rack feeds 300 W a board"])
    ]
    expires: Annotated[
        dt.date, Meta(description="the last day; afterwards, the finding counts again", examples=["2027-03-31"])
    ]


class Profile(_Table, frozen=True, kw_only=True):
    """All requirements of a machine."""

    about: Annotated[
        str, Meta(description="a line of text for `accept profiles`", examples=["the render nodes of hall 2"])
    ] = ""
    extends: Annotated[
        str,
        Meta(description="the profile whose keys apply unless this one sets them: the name of a shipped profile, or a file, "
             "relative to this one", examples=["server"]),
    ] = ""  # fmt: skip
    level: Annotated[
        Level, Meta(description="the level of the examination, see [levels](levels.md)", examples=["deep"])
    ] = "standard"
    minutes: Annotated[
        float, Meta(ge=1, description='how long each GPU is under load at `level = "soak"`', examples=[30])
    ] = 10.0
    fail_level: Annotated[
        Severity, Meta(description="findings of at least this severity count", examples=["warning"])
    ] = "error"
    gpus: Annotated[
        int | str,
        Meta(description="how many GPUs TensorFlow lists: a number, or a range; 0 for a machine that computes on its CPU",
             examples=[8, ">=1"]),
    ] = ">=1"  # fmt: skip
    models: Annotated[
        tuple[str, ...],
        Meta(description="names that the GPUs may have; `*` matches any text; case and a leading \"NVIDIA\" are ignored",
             examples=[["H100*", "H200"]]),
    ] = ()  # fmt: skip
    gpu_memory: Annotated[
        str, Meta(description="the minimum memory of each GPU, in GiB, MiB, GB or MB", examples=["79 GiB"])
    ] = ""
    driver: Annotated[str, Meta(description="a range of driver versions", examples=[">=550.54,<600"])] = ""
    tensorflow: Annotated[str, Meta(description="a range of TensorFlow versions", examples=[">=2.16,<2.22"])] = ""
    suites: Annotated[
        tuple[str, ...],
        Meta(description="the [perf suites](guide.md#benchmarks) to run; each must measure something",
             examples=[["device_placement", "training"]]),
    ] = ()  # fmt: skip
    suites_of_several_gpus: Annotated[
        tuple[str, ...],
        Meta(description="suites that also run if the machine has two GPUs or more", examples=[["mirrored_strategy"]]),
    ] = ()  # fmt: skip
    suites_of_several_nodes: Annotated[
        tuple[str, ...],
        Meta(description="suites that also run in a job across several nodes", examples=[["multi_worker"]]),
    ] = ()  # fmt: skip
    budget: Annotated[str, Meta(description="the time limit for all suites together, or `full`", examples=["5m"])] = (
        "2m"
    )
    checks: Annotated[Checks, Meta(description="the checks that count")] = Checks()
    speed_ups: Annotated[
        dict[str, Factor],
        Meta(description="how many times as fast as the baseline the candidate must be, by `suite/comparison`, or "
             "`suite` for all: the whole 95 % interval must reach it", examples=[{"device_placement/gpu[matmul]": 5}]),
    ] = {}  # fmt: skip
    peak_fractions: Annotated[
        dict[Precision, Share],
        Meta(description="the share of its model's peak that every GPU reaches in matrix products; requires `level` deep or soak",
             examples=[{"float16": 0.5}]),
    ] = {}  # fmt: skip
    reference_fractions: Annotated[
        dict[str, Share],
        Meta(description="the share of what healthy GPUs of its model [reach](#references) that every GPU reaches, by name of "
             "what the stress test measures; requires `level` deep or soak", examples=[{"float16": 0.75}]),
    ] = {}  # fmt: skip
    metrics: Annotated[
        dict[str, Limit],
        Meta(description="the least (`>=`) or the most (`<=`) in units, by name of what the stress test measures, on every GPU, "
             "or by `suite/metric`", examples=[{"host-to-device": ">= 24 GB/s"}]),
    ] = {}  # fmt: skip
    spreads: Annotated[
        dict[str, Spread],
        Meta(description="by how much the slowest GPU of the machine may be slower than the fastest, by name of what the stress "
             "test measures", examples=[{"float16": "<= 5 %"}]),
    ] = {}  # fmt: skip
    metric_fractions: Annotated[
        dict[str, Share],
        Meta(description="the share of the hardware limit that a metric of a suite reaches, by `suite/metric`, or "
             "`suite` for all", examples=[{"device_placement/copy in the device": 0.8}]),
    ] = {}  # fmt: skip
    allowed: Annotated[
        tuple[Allowed, ...],
        Meta(description="known findings that are accepted until a date; `extends` adds its own"),
    ] = ()  # fmt: skip

    @property
    def all_suites(self) -> tuple[str, ...]:
        """The suites that run on any machine, and those that run on some."""
        return (*self.suites, *self.suites_of_several_gpus, *self.suites_of_several_nodes)

    @property
    def without_gpu(self) -> bool:
        """Whether the machine computes on its CPU."""
        return gpu_range(self.gpus) == "==0"


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A profile with all that it extends, and the source of each key that it sets ("gpus", "speed-ups.pipeline")."""

    name: str
    chain: tuple[str, ...]  # its own name first, then those that it extends
    digest: str  # SHA-256 of the canonical JSON of `profile`
    profile: Profile
    sources: dict[str, str]

    def source(self, key: str) -> str:
        """Return the profile that sets the key; "always" for a requirement of every machine."""
        return self.sources.get(key, "always")


def bytes_of(size: str) -> int | None:
    """Return the bytes of "16 GiB" or "80GB"; None if it is not a size."""
    found = _SIZE.fullmatch(size.strip())
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else None


def gpu_range(gpus: int | str) -> str:
    """Return the number of GPUs as a range: 8 is "==8"."""
    return f"=={gpus}" if isinstance(gpus, int) else gpus
