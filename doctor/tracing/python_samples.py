"""What the program's own Python did while it was recorded: stacks of its main thread, taken by the recorder."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.tracing.intervals import Interval, union

FILE = "python_samples.json"
_FRAMEWORK = re.compile(r"[/\\](tensorflow|keras|tf_keras|tensorflow_core|wrapt)[/\\]")
_INSTALLED = re.compile(
    r"([/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^<(?!string>|stdin>|ipython)|[/\\]Lib[/\\])"
)
# What py_function, generators and Keras' datasets call, on threads of the input pipeline.
_PIPELINE = re.compile(r"(script_ops|from_generator_op|py_dataset_adapter|data_adapter|data_utils)\.py$")
_INNER = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")  # named by the function around them
# What Keras and TensorFlow do besides steps: the function, and what the path of its module holds.
_BESIDES = {
    "evaluate": "train",
    "predict": "train",
    "save": "/",
    "save_model": "/",
    "save_weights": "/",
    "write": "/checkpoint/",
}
_WRAPPERS = ("error_handler",)  # around the methods of a model
_PARTS, _EVEN = 5, 0.5  # of the recording; of the share in all of it, so much at least is in each part
_LOOKS, _MOST, _NEARLY_ALL = 10, 0.9, 0.97  # of a validation nearly all: steps of fit may be among the calls
_HALF_MS = 10.0  # looks come every 10 ms or later

Frame = tuple[str, int, str]


class _Document(msgspec.Struct):
    began_ns: int
    every_s: float
    samples: list[tuple[int, list[Frame], list[list[Frame]]]]


@dataclass(frozen=True)
class Sample:
    """A look at the main thread, in ms since the profile began: its stack, and those of other threads, innermost first."""

    at: float
    main: tuple[Frame, ...]
    others: tuple[tuple[Frame, ...], ...]


def read_samples(content: bytes, origin_ns: int, began_ns: int) -> list[Sample]:
    """Read the recorder's file, for a profile whose first event is at `origin_ns` after its begin. msgspec.DecodeError."""
    document = decode_json(content, _Document)
    zero = (began_ns or document.began_ns) + origin_ns
    return [
        Sample((at - zero) / 1e6, tuple(main), tuple(tuple(each) for each in others))
        for at, main, others in document.samples
    ]


def of_framework(frame: Frame) -> bool:
    """Whether a place is TensorFlow's or Keras'."""
    return bool(_FRAMEWORK.search(frame[0]))


def of_user(stack: tuple[Frame, ...]) -> Frame | None:
    """The user's function, if what runs is the user's or what it called; None if it is TensorFlow's or Keras'.

    Below Keras it is the function that Keras called (a callback), else the innermost.
    """
    innermost = entered = None
    for frame in stack:
        if _FRAMEWORK.search(frame[0]):
            return entered
        if not _INSTALLED.search(frame[0]) and frame[2] not in _INNER:
            innermost, entered = innermost or frame, frame
    return innermost


def of_pipeline(stack: Sequence[Frame]) -> bool:
    """Whether TensorFlow or Keras called it: Python's threading did not start its thread, or their data code is in it."""
    return not stack[-1][0].endswith("threading.py") or any(_PIPELINE.search(file) for file, _, _ in stack)


def in_callback(stack: tuple[Frame, ...]) -> bool:
    """Whether Keras called this as a callback."""
    return any("callback" in file.rpartition("/")[2].lower() and _FRAMEWORK.search(file) for file, _, _ in stack)


def besides_steps(stack: tuple[Frame, ...]) -> Frame | None:
    """The place that names what a main thread does which is no step; None if it is at one, or if nobody can tell.

    A callback of Keras, the saving of a model, an evaluation or a prediction by Keras, and code that is the user's alone.
    """
    if in_callback(stack):
        loop = max(place for place, frame in enumerate(stack) if in_callback((frame,)))  # Keras', over all callbacks
        return _called_back(stack) or stack[max(0, loop - 1)]
    for place in reversed(range(len(stack))):
        if _is_besides(stack[place]):
            caller = next((each for each in stack[place + 1 :] if each[2] not in _WRAPPERS), stack[place])
            return caller if _is_own(caller) else stack[place]
    return None if any(map(of_framework, stack)) else of_user(stack)


def own_frames(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The places of a stack that are the program's own."""
    return tuple(frame for frame in stack if _is_own(frame))


def looks_besides_steps(folder: str) -> tuple[int, int]:
    """How many looks of the recording in a folder found the main thread at no step, of how many; none if it has no looks."""
    try:
        document = decode_json(Files().read_bytes(os.path.join(folder, FILE)), _Document)
    except (OSError, RecursionError, UnicodeDecodeError, msgspec.DecodeError):
        return 0, 0
    return sum(besides_steps(tuple(main)) is not None for _, main, _ in document.samples), len(document.samples)


def _is_besides(frame: Frame) -> bool:
    path, _, name = frame
    return of_framework(frame) and name in _BESIDES and _BESIDES[name] in path.replace(os.sep, "/")


def _is_evaluate(frame: Frame) -> bool:
    return frame[2] == "evaluate" and _is_besides(frame)


def _is_own(frame: Frame) -> bool:
    return not (of_framework(frame) or _INSTALLED.search(frame[0]) or frame[2] in _INNER)


@dataclass(frozen=True)
class HostWork:
    """What the samples within some time show: the share of the user's own code, of callbacks, and the most frequent places."""

    samples: int
    user: float
    callback: float
    places: tuple[tuple[str, float], ...]


def host_work(samples: list[Sample], times: list[Interval]) -> HostWork:
    """Look at the samples that lie within the host's time; shares are of 1."""
    within = [sample for sample, inside in zip(samples, _inside(samples, times), strict=True) if inside]
    mine = [(frame, sample) for sample in within if (frame := of_user(sample.main))]
    count = max(1, len(within))
    places = named([frame for frame, _ in mine])
    return HostWork(
        len(within), len(mine) / count, sum(in_callback(sample.main) for _, sample in mine) / count,
        tuple((name, number / count) for name, number in places),
    )  # fmt: skip


def pipeline_places(samples: list[Sample], times: list[Interval]) -> list[tuple[str, float]]:
    """The user's places in which the pipeline's threads are while the program waits for input, and their shares of 1."""
    found: list[Frame] = []
    looked = 0
    for sample, inside in zip(samples, _inside(samples, times), strict=True):
        if inside:
            looked += 1
            found += {frame[::2]: frame for stack in sample.others if (frame := _of_pipeline(stack))}.values()
    return [(name, number / looked) for name, number in named(found)] if looked else []


def python_elsewhere(samples: list[Sample]) -> list[Interval]:
    """The time around looks that found the user's code on a thread of the pipeline; threads of the program's own are none."""
    return union(_around(sample) for sample in samples if any(map(_of_pipeline, sample.others)))


def _of_pipeline(stack: tuple[Frame, ...]) -> Frame | None:
    return of_user(stack) if stack and of_pipeline(stack) else None


def python_of_program(samples: list[Sample]) -> list[Interval]:
    """The time around looks that found the user's own code on the main thread."""
    return union(_around(sample) for sample in samples if of_user(sample.main))


def _around(sample: Sample) -> Interval:
    return (sample.at - _HALF_MS, sample.at + _HALF_MS)


def evaluates(samples: list[Sample], calls: list[Interval]) -> str:
    """Return "evaluate" if the looks within some calls found Keras' evaluate, and "fit" if fit had called it to validate.

    Empty if the calls are something else, a callback's evaluation among them, or if there are too few looks.
    """
    stacks = [sample.main for sample, inside in zip(samples, _inside(samples, calls), strict=True) if inside]
    asked = [stack for stack in stacks if not in_callback(stack) and any(map(_is_evaluate, stack))]
    in_fit = any(of_framework(frame) and frame[2] == "fit" for stack in asked for frame in stack)
    if len(stacks) < _LOOKS or len(asked) < (_NEARLY_ALL if in_fit else _MOST) * len(stacks):
        return ""
    return "fit" if in_fit else "evaluate"


def callbacks(samples: list[Sample], times: list[Interval]) -> list[str]:
    """The user's functions that TensorFlow or Keras called within some time, whatever they called themselves."""
    within = [sample for sample, inside in zip(samples, _inside(samples, times), strict=True) if inside]
    frames = [frame for sample in within if (frame := _called_back(sample.main))]
    return [name for name, _ in named(frames)]


def work_besides(samples: list[Sample], window: Interval, busy: list[Interval]) -> HostWork | None:
    """What the looks within the steps' time say of callbacks, and of predictions and the like by Keras, in each of the steps.

    None if they are not in each. They count with all that they ask of TensorFlow, but for the time in which a GPU is `busy`:
    they may wait for the step itself there.
    """
    looks = [sample for sample, inside in zip(samples, _inside(samples, [window]), strict=True) if inside]
    waited = _inside(looks, busy)
    found = [None if other else _asks(sample.main) for sample, other in zip(looks, waited, strict=True)]
    share = sum(frame is not None for frame in found) / max(1, len(found))
    size = len(found) // _PARTS
    parts = [found[place * size : (place + 1) * size] for place in range(_PARTS)]
    even = size > 0 and all(sum(frame is not None for frame in part) >= _EVEN * share * size for part in parts)
    if not even or share == 0.0:
        return None
    places = named([frame for frame in found if frame])
    called = sum(frame is not None and in_callback(look.main) for frame, look in zip(found, looks, strict=True))
    shares = tuple((name, number / len(found)) for name, number in places)
    return HostWork(len(found), share, called / len(found), shares)


def _asks(stack: tuple[Frame, ...]) -> Frame | None:
    """The user's place which has Keras do something that is no step; None if there is none."""
    if in_callback(stack):
        return _called_back(stack)
    return besides_steps(stack) if any(map(_is_besides, stack)) else None


def _called_back(stack: tuple[Frame, ...]) -> Frame | None:
    """The outermost of the user's frames below TensorFlow's or Keras'."""
    below = False
    for frame in reversed(stack):
        if _FRAMEWORK.search(frame[0]):
            below = True
        elif below and not _INSTALLED.search(frame[0]):
            return frame
    return None


def named(frames: list[Frame]) -> list[tuple[str, int]]:
    """The most frequent functions, `load (train.py:31)` with the line where they mostly are, and how often."""
    functions: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for file, line, name in frames:
        functions[file, name][line] += 1
    first = sorted(functions.items(), key=lambda each: -each[1].total())[:3]
    return [
        (f"{name} ({os.path.basename(file)}:{lines.most_common(1)[0][0]})", lines.total())
        for (file, name), lines in first
    ]


def _inside(samples: list[Sample], times: list[Interval]) -> list[bool]:
    """Whether each sample lies in a union; both are in the order of time."""
    found, place = [], 0
    for sample in samples:
        while place < len(times) and times[place][1] < sample.at:
            place += 1
        found.append(place < len(times) and times[place][0] <= sample.at)
    return found
