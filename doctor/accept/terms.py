"""What a profile may ask of a machine: every key, with its type, meaning and default. docs/profiles.md is made from it."""

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
Factor = Annotated[float, Meta(gt=0, examples=[2.5])]
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(GiB|MiB|GB|MB)")
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "GB": 10**9, "MB": 10**6}


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of a profile."""


class Checks(_Table, frozen=True, kw_only=True):
    """Which checks count."""

    select: Annotated[
        tuple[str, ...],
        Meta(description="the checks that count, by id or by the letters ids begin with; all of them where it is empty",
             examples=[["DRV", "GPU004"]]),
    ] = ()  # fmt: skip
    ignore: Annotated[tuple[str, ...], Meta(description="checks that do not count", examples=[["MEM005"]])] = ()
    require: Annotated[
        tuple[str, ...],
        Meta(description="checks that must pass: one that is skipped fails the acceptance", examples=[["LOD001", "LOD003"]]),
    ] = ()  # fmt: skip


class Allowed(_Table, frozen=True, kw_only=True):
    """A finding that is known, and accepted until a day."""

    check: Annotated[str, Meta(description="the check whose finding is allowed", examples=["HLT005"])]
    cause: Annotated[
        str, Meta(description="only its findings of this cause", examples=["gpu_thermal_or_power_throttling"])
    ] = ""
    reason: Annotated[str, Meta(min_length=1, description="why", examples=["the rack feeds 300 W a board"])]
    expires: Annotated[
        dt.date, Meta(description="the last day; after it the finding counts again", examples=["2027-03-31"])
    ]


class Profile(_Table, frozen=True, kw_only=True):
    """All that is asked of a machine."""

    about: Annotated[
        str, Meta(description="one line for `accept profiles`", examples=["the render nodes of hall 2"])
    ] = ""
    extends: Annotated[
        str,
        Meta(description="the profile whose keys hold where this one says nothing: a shipped one by name, or a file, "
             "relative to this one", examples=["server"]),
    ] = ""  # fmt: skip
    level: Annotated[
        Level, Meta(description="how far the machine is examined, see [levels](levels.md)", examples=["deep"])
    ] = "standard"
    minutes: Annotated[float, Meta(ge=1, description='how long `level = "soak"` lasts', examples=[30])] = 10.0
    fail_level: Annotated[Severity, Meta(description="findings count from here on", examples=["warning"])] = "error"
    gpus: Annotated[
        int | str,
        Meta(description="how many GPUs TensorFlow lists: a number, or a range; 0 for a machine that computes on its processor",
             examples=[8, ">=1"]),
    ] = ">=1"  # fmt: skip
    models: Annotated[
        tuple[str, ...],
        Meta(description="names that the GPUs may have, `*` stands for anything; \"NVIDIA\" in front and case do not matter",
             examples=[["H100*", "H200"]]),
    ] = ()  # fmt: skip
    gpu_memory: Annotated[
        str, Meta(description="the memory that each GPU has at least, in GiB, MiB, GB or MB", examples=["79 GiB"])
    ] = ""
    driver: Annotated[str, Meta(description="a range of driver versions", examples=[">=550.54,<600"])] = ""
    tensorflow: Annotated[str, Meta(description="a range of TensorFlow versions", examples=[">=2.16,<2.22"])] = ""
    suites: Annotated[
        tuple[str, ...],
        Meta(description="the [perf suites](guide.md#benchmarks) to run; each must measure something",
             examples=[["device_placement", "training"]]),
    ] = ()  # fmt: skip
    budget: Annotated[str, Meta(description="the time that all suites have together, or `full`", examples=["5m"])] = (
        "60s"
    )
    checks: Annotated[Checks, Meta(description="which checks count")] = Checks()
    speed_ups: Annotated[
        dict[str, Factor],
        Meta(description="how many times as fast the one side of a comparison must be, by `suite/comparison`, or "
             "`suite` for all: the whole 95 % interval must lie there", examples=[{"device_placement/gpu[matmul]": 5}]),
    ] = {}  # fmt: skip
    peak_fractions: Annotated[
        dict[Precision, Share],
        Meta(description="the share of its model's peak that every GPU reaches in matrix products; needs `level` deep or soak",
             examples=[{"float16": 0.5}]),
    ] = {}  # fmt: skip
    metric_fractions: Annotated[
        dict[str, Share],
        Meta(description="the share of what the hardware can do that a metric of a suite reaches, by `suite/figure`, or "
             "`suite` for all", examples=[{"device_placement/copy in the device": 0.8}]),
    ] = {}  # fmt: skip
    allowed: Annotated[
        tuple[Allowed, ...],
        Meta(description="findings that are known and accepted until a day; they add up along `extends`"),
    ] = ()  # fmt: skip

    @property
    def without_gpu(self) -> bool:
        """Whether the machine is to compute on its processor."""
        return gpu_range(self.gpus) == "==0"


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A profile with all that it extends, and where each key that it sets comes from ("gpus", "speed-ups.pipeline")."""

    name: str
    chain: tuple[str, ...]  # its own name first, what it extends after it
    digest: str  # SHA-256 of the canonical JSON of `profile`
    profile: Profile
    sources: dict[str, str]

    def source(self, key: str) -> str:
        """Which profile asks for it; what none asks for is asked of every machine."""
        return self.sources.get(key, "always")


def bytes_of(size: str) -> int | None:
    """Bytes of "16 GiB" or "80GB"; None where it is no size."""
    found = _SIZE.fullmatch(size.strip())
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else None


def gpu_range(gpus: int | str) -> str:
    """The number of GPUs as a range: 8 is "==8"."""
    return f"=={gpus}" if isinstance(gpus, int) else gpus
