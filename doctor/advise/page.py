"""Render the advice as text and as JSON."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.advise.advise import Advice, Rejected
from tfgpu_doctor.advise.installing import ABOUT_UV
from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.render.json_document import as_json

_WIDTH = 110
_HOW = {"native": "machine code for this GPU", "ptx": "PTX, compiled at the first start", "unknown": ""}


def render_advice_json(advice: Advice) -> str:
    """Return the document of `tfgpu-doctor advise --format json`."""
    release = advice.release
    document: dict[str, Any] = {
        "schema": 2,
        "target": _spec(advice.spec),
        "release": release.version if release else None,
        "kernels": advice.kernels,
        "minimum_driver": advice.minimum_driver or None,
        "commands": advice.commands,
        "notes": advice.notes,
        "newer": [
            {"release": each.release, "reasons": [dataclasses.asdict(one) for one in each.obstacles]}
            for each in advice.newer
        ],
        "lifts": [dataclasses.asdict(lift) for lift in advice.lifts],
        "alternatives": [dataclasses.asdict(way) for way in advice.alternatives],
    }
    return as_json(document)


def render_advice(advice: Advice, *, verbose: bool = False) -> str:
    """Return the advice as text: the release, its commands, the obstacles to newer ones, the changes that allow them."""
    parts = [subject(advice.spec), *_verdict(advice)]
    if advice.newer:
        parts.append(
            "\n".join(
                [
                    "Why no newer release works:" if advice.release else "Why no release works:",
                    *_rejected(advice, verbose),
                ]
            )
        )
    if advice.lifts:
        parts.append("\n".join(["Changes that allow a newer release:", *_lifts(advice)]))
    for way in advice.alternatives:
        lines = [_item(f"{way.text} ({way.source})"), *(f"      {command}" for command in way.commands)]
        parts.append("\n".join(lines))
    return clean("\n\n".join(parts)) + "\n"


def subject(spec: TargetSpec) -> str:
    """Return the machine that the advice is for, on one line."""
    gpu = spec.gpu
    words = [
        f"{gpu.name} (compute capability {gpu.compute_capability})" if gpu else spec.board or "any GPU",
        f"driver {spec.driver}" if spec.driver else "any driver",
        f"Python {spec.python}" if spec.python else "any Python",
        f"{spec.os} on {spec.architecture}",
        f"glibc {spec.glibc}" if spec.glibc else "",
    ]
    return " · ".join(word for word in words if word)


def _spec(spec: TargetSpec) -> dict[str, Any]:
    fields = dataclasses.asdict(spec)
    return {name: value if value != "" else None for name, value in fields.items()}


def _verdict(advice: Advice) -> Iterator[str]:
    release = advice.release
    if release is None:
        yield "No TensorFlow release from PyPI works here without changes."
        return
    wheels = release.wheels_for(advice.spec.wheels_os, advice.spec.architecture)
    assert wheels is not None
    how = [_HOW.get(advice.kernels, ""), f"CUDA {wheels.cuda}, cuDNN {wheels.cudnn}"]
    how += [f"driver {advice.minimum_driver} or newer"] if advice.minimum_driver else []
    yield f"TensorFlow {release.version}: {', '.join(word for word in how if word)}"
    for text in advice.notes:
        yield textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    yield "\n".join(f"    {command}" for command in advice.commands)


def _lifts(advice: Advice) -> Iterator[str]:
    """Yield the changes; if no release works now, add the commands to run after each change."""
    for lift in advice.lifts:
        yield _item(f"{lift.change}: TensorFlow {lift.release}")
        if advice.release is None:
            yield from (f"      {command}" for command in lift.commands)
    if advice.release is None and any(each.startswith("uv venv ") for lift in advice.lifts for each in lift.commands):
        yield textwrap.fill(ABOUT_UV, _WIDTH)


def _rejected(advice: Advice, verbose: bool) -> Iterator[str]:
    """Yield one line for each run of consecutive releases that have the same reasons."""
    for _, group in itertools.groupby(advice.newer, key=lambda each: each.release if verbose else _reasons(each)):
        together = list(group)
        last, first = together[0].release, together[-1].release
        names = last if len(together) == 1 else f"{first} to {last}"
        yield _item(f"{names}: {_reasons(together[0])}")


def _reasons(rejected: Rejected) -> str:
    return "; ".join(each.text for each in rejected.obstacles)


def _item(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent="  • ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
