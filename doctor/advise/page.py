"""Render the advice as text and as JSON."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from tfgpu_doctor.advise.advise import Advice
from tfgpu_doctor.advise.fitting import Obstacle
from tfgpu_doctor.advise.installing import ABOUT_UV
from tfgpu_doctor.advise.target_spec import Gpu, TargetSpec
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
        "last_driver_branch": advice.last_branch or None,
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
    why = _why(advice, verbose)
    ways = [
        "\n".join([_item(f"{way.text} ({way.source})"), *(f"      {command}" for command in way.commands)])
        for way in advice.alternatives
    ]
    lifts = "\n".join([f"Changes that allow a {'newer ' * bool(advice.release)}release:", *_lifts(advice)])
    parts = [subject(advice.spec), *_verdict(advice)]
    parts += [why] if why and advice.release else []
    parts += [lifts] if advice.lifts else []
    parts += ["\n".join(["Other ways:" if advice.lifts else "What you can do:", *ways])] if ways else []
    parts += [why] if why and not advice.release else []  # what to do comes first
    return clean("\n\n".join(parts)) + "\n"


def subject(spec: TargetSpec) -> str:
    """Return the machine that the advice is for, on one line."""
    gpu = spec.gpu
    words = [
        _gpu(gpu) if gpu else spec.board or "any GPU",
        f"driver {spec.driver}" if spec.driver else "any driver",
        f"Python {spec.python}" if spec.python else "any Python",
        f"{spec.os} on {spec.architecture}",
        f"glibc {spec.glibc}" if spec.glibc else "",
    ]
    return " · ".join(word for word in words if word)


def _gpu(gpu: Gpu) -> str:
    is_named_so = gpu.name.endswith(f"compute capability {gpu.compute_capability}")
    return gpu.name if is_named_so else f"{gpu.name} (compute capability {gpu.compute_capability})"


def _spec(spec: TargetSpec) -> dict[str, Any]:
    fields = dataclasses.asdict(spec)
    return {name: value if value != "" else None for name, value in fields.items()}


def _verdict(advice: Advice) -> Iterator[str]:
    release = advice.release
    if release is None:
        yield "No TensorFlow release from 2.4 on works here without changes."
        return
    wheels = release.wheels_for(advice.spec.wheels_os, advice.spec.architecture)
    assert wheels is not None
    how = [_HOW.get(advice.kernels, ""), f"CUDA {wheels.cuda}, cuDNN {wheels.cudnn}"]
    until = f", up to branch {advice.last_branch}" if advice.last_branch else ""
    how += [f"driver {advice.minimum_driver} or newer{until}"] if advice.minimum_driver else []
    yield f"TensorFlow {release.version}: {', '.join(word for word in how if word)}"
    for text in advice.notes:
        yield textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    yield "\n".join(f"    {command}" for command in advice.commands)


def _why(advice: Advice, verbose: bool) -> str:
    if not advice.newer:
        return ""
    title = "Why no newer release works:" if advice.release else "Why no release works:"
    return "\n".join([title, *_rejected(advice, verbose)])


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
    if verbose:
        yield from (_item(f"{each.release}: {_reasons(each.obstacles)}") for each in advice.newer)
        return
    for reasons, group in itertools.groupby(advice.newer, key=lambda each: _reasons(_decisive(each.obstacles))):
        together = list(group)
        last, first = together[0].release, together[-1].release
        yield _item(f"{last if len(together) == 1 else f'{first} to {last}'}: {reasons}")


def _decisive(obstacles: Sequence[Obstacle]) -> Sequence[Obstacle]:
    """The obstacles that no other Python, driver or glibc removes, where there is one: the others do not matter then."""
    return [each for each in obstacles if each.kind in ("system", "gpu")] or obstacles


def _reasons(obstacles: Sequence[Obstacle]) -> str:
    return "; ".join(each.text for each in obstacles)


def _item(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent="  • ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
