"""Why a program stands still: what is said of stacks and threads."""

from __future__ import annotations

import pytest

from tfgpu_doctor.watching.hanging import native_functions
from tfgpu_doctor.watching.standing import Seen, why_standing
from tfgpu_doctor.watching.thread_states import ThreadState
from tfgpu_doctor.watching.voice import Frame, Look, Stack

TF = "/env/lib/python3.12/site-packages/tensorflow/python/eager/execute.py"
KERAS = "/env/lib/python3.12/site-packages/keras/src/trainers/trainer.py"
ITERATOR = "/env/lib/python3.12/site-packages/tensorflow/python/data/ops/iterator_ops.py"
SERVER = "/env/lib/python3.12/site-packages/tensorflow/python/training/server_lib.py"
SELECT = "/usr/lib/python3.12/selectors.py"
ASYNCIO = "/usr/lib/python3.12/asyncio/base_events.py"
THREADING = "/usr/lib/python3.12/threading.py"
MODULE: Frame = ("/home/me/train.py", 90, "<module>")
IN_TENSORFLOW: Stack = ((TF, 53, "quick_execute"), (KERAS, 300, "fit"), MODULE)


def look(stack: Stack, others: tuple[Stack, ...] = (), workers: int = 0) -> Look:
    return Look(1.0, stack, "k", others, workers, own_thread=11)


def main(**more: object) -> ThreadState:
    return ThreadState(tid=10, name="python", **{"state": "S", "syscall": "futex", **more})  # type: ignore[arg-type]


RECORDER = ThreadState(tid=11, name="python", state="S", syscall="recvfrom", file="socket:[7]")
DESTRUCTOR = ["syscall (libc.so.6)", "tensorflow::data::IteratorResource::~IteratorResource (libtensorflow_cc.so.2)"]


@pytest.mark.parametrize(
    ("seen", "kind", "words"),
    [
        (Seen(look(IN_TENSORFLOW), 0, [main(state="T")]), "stopped", "SIGSTOP"),
        (Seen(look(IN_TENSORFLOW), 0, [main(state="t")]), "stopped", "a debugger holds it"),
        (Seen(look(IN_TENSORFLOW), 9, [main()], over="ValueError: no"), "exit", "it died of ValueError: no"),
        (Seen(look(IN_TENSORFLOW), 9, [main()], native=DESTRUCTOR), "exit", "IteratorResource::~IteratorResource"),
        (Seen(look(((THREADING, 1, "wait"), (THREADING, 2, "_shutdown"))), 0, [main()]), "exit", "_shutdown (threading.py:2)"),
        (
            Seen(look(IN_TENSORFLOW), 0, [main(), ThreadState(tid=12, state="D", syscall="ioctl", file="/dev/nvidia0")]),
            "driver", "ioctl on /dev/nvidia0",
        ),
        (
            Seen(look((("/home/me/train.py", 31, "rows"), MODULE)), 0, [main(syscall="read", file="/data/fifo")]),
            "read", "the main thread is in read of /data/fifo, called by rows (train.py:31)",
        ),
        (
            Seen(look(IN_TENSORFLOW, ((("/home/me/train.py", 7, "load"),),)), 0,
                 [main(), RECORDER, ThreadState(tid=13, name="python", state="S", syscall="read", file="/data/fifo")]),
            "read", "called by load (train.py:7)",
        ),
        (
            Seen(look(IN_TENSORFLOW, ((("/home/me/train.py", 7, "load"),),)), 0, [main(), RECORDER]),
            "input", "another thread is in load (train.py:7)",
        ),
        (
            Seen(look(((ITERATOR, 9, "_next_internal"), MODULE)), 0, [main(), RECORDER]), "input", "_next_internal",
        ),
        (Seen(look(IN_TENSORFLOW, (), workers=2), 0, [main(), RECORDER]), "collective", "TF_CONFIG names 2 workers"),
        (
            Seen(look(((THREADING, 5, "wait"), ("/home/me/train.py", 40, "on_epoch_end"), (KERAS, 3, "fit"), MODULE)), 0, [main()]),
            "python", "on_epoch_end (train.py:40), in wait (threading.py:5)",
        ),
        (Seen(look(((SERVER, 9, "join"), MODULE)), 0, [main(), RECORDER]), "", ""),
        (Seen(look(((SELECT, 9, "select"), (ASYNCIO, 1, "_run_once"), MODULE)), 0, [main(), RECORDER]), "", ""),
        (Seen(look(IN_TENSORFLOW), 0, [main(), RECORDER]), "unknown", "quick_execute (execute.py:53)"),
        (Seen(None, 12, [main()]), "unknown", "native code holds Python's lock"),
        (Seen(look(IN_TENSORFLOW), 0, [main()], native=["ncclAllReduce (libnccl.so.2)"]), "collective", "ncclAllReduce"),
    ],
)  # fmt: skip
def test_the_kind_and_its_evidence(seen: Seen, kind: str, words: str) -> None:
    standing = why_standing(seen)
    assert (standing.kind, words in " ".join(standing.evidence)) == (kind, True), standing


def test_the_native_stack_of_the_main_thread_is_read() -> None:
    dump = (
        'Process 7: python train.py\nPython v3.12.1\n\nThread 7 (idle): "MainThread"\n'
        "    syscall (libc.so.6)\n    tensorflow::data::IteratorResource::~IteratorResource (libtensorflow_cc.so.2)\n"
        '    <module> (train.py:4)\nThread 9 (idle): "Thread-1"\n    other (libc.so.6)\n'
    )
    assert native_functions(dump) == [
        "syscall (libc.so.6)", "tensorflow::data::IteratorResource::~IteratorResource (libtensorflow_cc.so.2)",
        "<module> (train.py:4)",
    ]  # fmt: skip
