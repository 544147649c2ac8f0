"""Why a program makes no step: from its Python stacks, its threads in the kernel, and native stacks where py-spy is there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfgpu_doctor.tracing import of_pipeline, of_user, own_frames
from tfgpu_doctor.watching.agent import Look, Stack
from tfgpu_doctor.watching.thread_states import ThreadState

_BEGINS = ("<module>", "_run_module_as_main")  # the outermost function of a running program
_CUT = 40  # frames of the recorder's stacks: those of a deeper one have no outermost function
_READS = ("read", "pread64", "readv", "recvfrom", "recvmsg", "openat", "flock")
_PLUMBING = ("pipe:", "socket:", "anon_inode:", "/dev/null", "/memfd:")  # of the process's own threads, mostly
_ITERATORS = re.compile(r"(iterator_ops|dataset_adapter|data_adapter|input_lib)")
_FRAMEWORK = re.compile(r"[\\/](tensorflow|keras|tf_keras)[\\/]")
_THREADS = re.compile(r"([\\/]threading|concurrent[\\/]futures[\\/]_base)\.py$")
_AWAITS = ("join", "_shutdown", "result", "result_iterator")  # functions of these modules that wait for another thread
_MAIN = "the main thread"
_HOROVOD = re.compile(r"[\\/]horovod[\\/]")
_DEEP = 12  # frames
_SERVES = re.compile(r"(server_lib|socketserver|base_events|selector_events)\.py$")  # waits for requests
_NATIVE = (  # functions of TensorFlow on a native stack, and the kind that they show
    (re.compile(r"~?IteratorResource|::~Iterator|IteratorBase"), "input"),
    (re.compile(r"Collective|[Nn]ccl"), "collective"),
    (re.compile(r"\(libcuda\.so|\(libnvidia"), "driver"),
)
_DESTRUCTOR = re.compile(r"[\w:]*IteratorResource::~IteratorResource|~Iterator\b")
_SHOWN = 3


@dataclass(frozen=True)
class HangEvidence:
    """What was seen of a process that makes no step."""

    look: Look | None  # the newest; None if it never answered
    unanswered_s: float  # for how long it has not answered a look
    states: Sequence[ThreadState]
    over: str | None = None  # the program is over: its exception, or ""
    native: Sequence[str] = ()  # functions of the main thread, innermost first
    job: tuple[str, int] = ("", 0)  # a variable that says how many processes the job has
    held_gpus: int = 0  # GPUs on which the program holds memory
    unable: str = ""  # why nobody can look at its Python
    stepped: bool = False  # steps were recorded while the main thread stood as it stands now
    whose: str = _MAIN  # the thread of `look.stack`, in words


@dataclass
class Diagnosis:
    """The kind of a hang, the words for its sentence, and the evidence.

    An empty kind: it waits for requests, which is no hang, or nobody can know whether it hangs.
    """

    kind: str
    words: dict[str, str] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)


def diagnose_hang(seen: HangEvidence) -> Diagnosis:
    """Judge what was seen. The first kind that has its own evidence counts."""
    seen = _at_training(seen)
    evidence = [*_native_words(seen.native), *([seen.unable] if seen.unable else [])]
    judges = (
        _stopped, _exit, _driver, _serves, _read, _pipeline, _collective, _native, _input, _python, _job,
    )  # fmt: skip
    for judge in judges:
        if found := judge(seen):
            found.evidence += evidence
            return found
    if seen.look is None and seen.unanswered_s == 0:
        return Diagnosis("", {}, evidence)  # a program that waits for requests looks the same
    words = []
    if seen.look and seen.look.stack:
        words.append(f"{seen.whose} is in {in_words(seen.look.stack[:1])}, called from {_called_from(seen.look.stack)}")
        if place := _place_elsewhere(seen.look.others or ()):
            words.append(f"a thread that the program started is in {place}")
    if seen.unanswered_s > 0:
        words.append(
            f"its Python has not answered for {seen.unanswered_s:.0f} s: native code holds Python's lock (the GIL)"
        )
    return Diagnosis("unknown", {}, [*words, *evidence])


def _at_training(seen: HangEvidence) -> HangEvidence:
    """With the stack of the thread that trains in place of the main thread's, if that only waits for other threads."""
    look = seen.look
    if look is None or seen.over is not None or seen.unanswered_s > 0:
        return seen
    if not any(_THREADS.search(file) and name in _AWAITS for file, _, name in look.stack[:_DEEP]):
        return seen
    threads = [each for each in look.others or () if each and own_frames(each) and not of_pipeline(each)]
    found = next(filter(_trains, threads), threads[0] if threads and seen.stepped else None)
    if found is None:
        return seen
    others = tuple(each for each in look.others or () if each is not found)
    return replace(seen, look=replace(look, stack=found, others=others), whose="the thread that trains")


def _trains(stack: Stack) -> bool:
    """Whether the program's own code called TensorFlow or Keras in this thread."""
    mine = own_frames(stack)
    return bool(mine) and any(_FRAMEWORK.search(file) for file, _, _ in stack[: stack.index(mine[-1])])


def _stopped(seen: HangEvidence) -> Diagnosis | None:
    main = seen.states[0] if seen.states else None
    if main is None or main.state not in ("T", "t"):
        return None
    why = "a debugger holds it" if main.state == "t" else "it got SIGSTOP or the like"
    return Diagnosis("stopped", {}, [f"its state is {main.state}: {why}"])


def _exit(seen: HangEvidence) -> Diagnosis | None:
    """The program is over: it said so, or its main thread is in nothing that the program called."""
    stack = seen.look.stack if seen.look else ()
    others = (seen.look.others if seen.look else None) or ()
    destructor = next((name for name in seen.native if _DESTRUCTOR.search(name)), "")
    whole = 0 < len(stack) < _CUT and seen.whose == _MAIN
    late = whole and stack[-1][2] not in _BEGINS and seen.unanswered_s == 0
    if seen.over is None and not late and not (destructor and seen.unanswered_s > 0):
        return None
    evidence = []
    if seen.over:
        evidence.append(f"it died of {seen.over}")
    if late:
        place = of_user(stack)
        evidence.append(f"at the end the main thread waits in {in_words((place,) if place else stack[-1:])}")
        if elsewhere := _place_elsewhere(others):
            evidence.append(f"a thread of the program still runs: {elsewhere}")
    if destructor:
        evidence.append(
            f"TensorFlow's destructor {destructor} waits for the pipeline's Python, and holds Python's lock"
        )
    return Diagnosis("exit", {}, evidence or ["its Python has ended"])


def _driver(seen: HangEvidence) -> Diagnosis | None:
    for each in seen.states:
        if each.state == "D" and each.file.startswith("/dev/nvidia"):
            where = f"thread {each.tid} ({each.name}) is in {each.syscall} on {each.file}, state D"
            return Diagnosis("driver", {}, [where])
    return None


def _serves(seen: HangEvidence) -> Diagnosis | None:
    """A parameter server, a dispatcher of tf.data, a kernel of a notebook."""
    stack = seen.look.stack if seen.look and seen.unanswered_s == 0 else ()
    return Diagnosis("") if any(_SERVES.search(file) for file, _, _ in stack[:3]) else None


def _read(seen: HangEvidence) -> Diagnosis | None:
    """The main thread, or a thread with the user's Python, reads what gives nothing; sockets only on the main thread."""
    own = seen.look.own_thread if seen.look else 0
    others: Sequence[Stack] = (seen.look.others or ()) if seen.look else ()
    if seen.look and seen.whose != _MAIN:
        others = (seen.look.stack, *others)
    elsewhere = any(of_user(stack) for stack in others)
    for at, each in enumerate(seen.states):
        if each.tid == own or each.syscall not in _READS or not each.file:
            continue
        if seen.unable and each.file.startswith((*_PLUMBING, "/dev/")):
            continue  # it may wait for requests
        if at and (not elsewhere or each.file.startswith(_PLUMBING)):
            continue
        place = _place(seen.look.stack if not at and seen.look else ())
        if at and seen.look:
            place = _place_elsewhere(others)
        words = {"what": each.file, "place": place}
        return Diagnosis("read", words, [f"{'the main thread' if not at else each.name} is in {each.syscall} of {each.file}"
                                        + (f", called by {place}" if place else "")])  # fmt: skip
    return None


def _pipeline(seen: HangEvidence) -> Diagnosis | None:
    """A function of the pipeline that has not returned; threads that the program started for other work say less."""
    look = seen.look
    if look is None or not look.stack or of_user(look.stack):
        return None
    place = _place_elsewhere([each for each in look.others or () if of_pipeline(each)])
    return _waits_for(place) if place else None


def _collective(seen: HangEvidence) -> Diagnosis | None:
    """The main thread is in TensorFlow, which knows of other workers, or in Horovod."""
    look = seen.look
    if look is None or not look.stack:
        return None
    horovod = next((frame for frame in look.stack[:_DEEP] if _HOROVOD.search(frame[0])), None)
    if horovod is None and (look.workers < 2 or of_user(look.stack)):
        return None
    told = [f"TF_CONFIG names {look.workers} workers"] if look.workers > 1 else _job_words(seen)
    where = f"{seen.whose} waits in {in_words((horovod,) if horovod else look.stack[:1])}"
    return Diagnosis("collective", {}, [", and ".join([*told, where])])


def _job(seen: HangEvidence) -> Diagnosis | None:
    """It is one of several processes, and nothing else tells for what it waits in TensorFlow: a hint."""
    look = seen.look
    if look is None or not look.stack or of_user(look.stack) or seen.unanswered_s > 0 or not seen.job[0]:
        return None
    where = f"{seen.whose} waits in {in_words(look.stack[:1])}, and nothing else tells for what"
    return Diagnosis("collective", {}, [*_job_words(seen), where])


def _job_words(seen: HangEvidence) -> list[str]:
    name, count = seen.job
    return [f"{name} says {count} processes"] if name else []


def _native(seen: HangEvidence) -> Diagnosis | None:
    """What the native stack of the main thread shows."""
    for pattern, kind in _NATIVE:
        if hit := next((name for name in seen.native if pattern.search(name)), None):
            evidence = [f"the main thread is in {hit}"]
            if kind == "collective":
                evidence += _job_words(seen)
                evidence += [f"it holds memory on {seen.held_gpus} GPUs"] if seen.held_gpus > 1 else []
            return Diagnosis(kind, {"place": "the input pipeline", "what": ""}, evidence)
    return None


def _input(seen: HangEvidence) -> Diagnosis | None:
    look = seen.look
    if look is None or not look.stack or of_user(look.stack):
        return None
    if any(_ITERATORS.search(file) for file, _, _ in look.stack[:_DEEP]):
        return Diagnosis(
            "input", {"place": "the input pipeline"}, [f"{seen.whose} waits in {in_words(look.stack[:1])}"]
        )
    return None


def _waits_for(place: str) -> Diagnosis:
    return Diagnosis("input", {"place": place}, [f"another thread is in {place} meanwhile"])


def _python(seen: HangEvidence) -> Diagnosis | None:
    place = _place(seen.look.stack) if seen.look and seen.unanswered_s == 0 else ""
    return Diagnosis("python", {"place": place}, [f"{seen.whose} is in {place}"]) if place else None


def _place(stack: Stack) -> str:
    """The user's function that waits, and what of Python's own it called."""
    mine = of_user(stack)
    if mine is None:
        return ""
    called = [] if mine == stack[0] else [f", in {in_words(stack[:1])}"]
    return in_words((mine,)) + "".join(called)


def _place_elsewhere(others: Sequence[Stack]) -> str:
    return next((place for stack in others if (place := _place(stack))), "")


def _called_from(stack: Stack) -> str:
    mine = next((frame for frame in stack if "site-packages" not in frame[0]), stack[-1])
    return in_words((mine,))


def in_words(frames: Sequence[tuple[str, int, str]]) -> str:
    """Name a frame: `load (train.py:31)`."""
    file, line, name = frames[0]
    return f"{name} ({os.path.basename(file)}:{line})"


def _native_words(native: Sequence[str]) -> list[str]:
    return [f"native stack: {' ← '.join(native[:_SHOWN])}"] if native else []
