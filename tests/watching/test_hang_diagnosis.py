"""Why a program stands still: what is said of stacks and threads."""

from __future__ import annotations

import pytest

from tfgpu_doctor.watching.agent import Frame, Look, Stack
from tfgpu_doctor.watching.hang_diagnosis import HangEvidence, diagnose_hang
from tfgpu_doctor.watching.hang_examination import native_functions
from tfgpu_doctor.watching.outside import main_thread
from tfgpu_doctor.watching.thread_states import ThreadState

TF = "/env/lib/python3.12/site-packages/tensorflow/python/eager/execute.py"
KERAS = "/env/lib/python3.12/site-packages/keras/src/trainers/trainer.py"
ITERATOR = "/env/lib/python3.12/site-packages/tensorflow/python/data/ops/iterator_ops.py"
SERVER = "/env/lib/python3.12/site-packages/tensorflow/python/training/server_lib.py"
SELECT = "/usr/lib/python3.12/selectors.py"
SUBPROCESS = "/usr/lib/python3.12/subprocess.py"
ASYNCIO = "/usr/lib/python3.12/asyncio/base_events.py"
THREADING = "/usr/lib/python3.12/threading.py"
MODULE: Frame = ("/home/me/train.py", 90, "<module>")
IN_TENSORFLOW: Stack = ((TF, 53, "quick_execute"), (KERAS, 300, "fit"), MODULE)

SCRIPT_OPS = "/env/lib/python3.12/site-packages/tensorflow/python/ops/script_ops.py"
PY_FUNCTION: Stack = ((THREADING, 5, "wait"), ("/home/me/train.py", 31, "load"), (SCRIPT_OPS, 145, "__call__"))
OWN_THREAD: Stack = ((THREADING, 5, "wait"), ("/home/me/train.py", 70, "upload"), (THREADING, 900, "_bootstrap"))
TRAINS: Stack = (
    (THREADING, 5, "wait"), ("/home/me/train.py", 40, "on_epoch_end"), (KERAS, 3, "fit"), ("/home/me/train.py", 9, "train"),
    (THREADING, 900, "_bootstrap"),
)  # fmt: skip
TRAINS_INSIDE: Stack = (
    (TF, 53, "quick_execute"),
    (KERAS, 300, "fit"),
    ("/home/me/train.py", 9, "train"),
    (THREADING, 900, "_bootstrap"),
)
SHUTDOWN: Stack = ((THREADING, 1, "wait"), (THREADING, 2, "_shutdown"))
JOIN: Stack = ((THREADING, 3, "join"), MODULE)
HOROVOD = "/env/lib/python3.12/site-packages/horovod/tensorflow/mpi_ops.py"
IN_HOROVOD: Stack = ((HOROVOD, 95, "_allreduce"), ("/home/me/train.py", 50, "train"), MODULE)


def look(stack: Stack, others: tuple[Stack, ...] = (), workers: int = 0) -> Look:
    return Look(1.0, stack, "k", others, workers, own_thread=11)


def main(**more: object) -> ThreadState:
    return ThreadState(tid=10, name="python", **{"state": "S", "syscall": "futex", **more})  # type: ignore[arg-type]


RECORDER = ThreadState(tid=11, name="python", state="S", syscall="recvfrom", file="socket:[7]")
DESTRUCTOR = ["syscall (libc.so.6)", "tensorflow::data::IteratorResource::~IteratorResource (libtensorflow_cc.so.2)"]


@pytest.mark.parametrize(
    ("seen", "kind", "words"),
    [
        (HangEvidence(look(IN_TENSORFLOW), 0, [main(state="T")]), "stopped", "SIGSTOP"),
        (HangEvidence(look(IN_TENSORFLOW), 0, [main(state="t")]), "stopped", "a debugger holds it"),
        (HangEvidence(look(IN_TENSORFLOW), 9, [main()], over="ValueError: no"), "exit", "it died of ValueError: no"),
        (HangEvidence(look(IN_TENSORFLOW), 9, [main()], native=DESTRUCTOR), "exit", "IteratorResource::~IteratorResource"),
        (HangEvidence(look(((THREADING, 1, "wait"), (THREADING, 2, "_shutdown"))), 0, [main()]), "exit", "_shutdown (threading.py:2)"),
        (
            HangEvidence(look(IN_TENSORFLOW), 0, [main(), ThreadState(tid=12, state="D", syscall="ioctl", file="/dev/nvidia0")]),
            "driver", "ioctl on /dev/nvidia0",
        ),
        (
            HangEvidence(look((("/home/me/train.py", 31, "rows"), MODULE)), 0, [main(syscall="read", file="/data/fifo")]),
            "read", "the main thread is in read of /data/fifo, called by rows (train.py:31)",
        ),
        (
            HangEvidence(look(IN_TENSORFLOW, ((("/home/me/train.py", 7, "load"),),)), 0,
                 [main(), RECORDER, ThreadState(tid=13, name="python", state="S", syscall="read", file="/data/fifo")]),
            "read", "called by load (train.py:7)",
        ),
        (
            HangEvidence(look(IN_TENSORFLOW, ((("/home/me/train.py", 7, "load"),),)), 0, [main(), RECORDER]),
            "input", "another thread is in load (train.py:7)",
        ),
        (
            HangEvidence(look(((ITERATOR, 9, "_next_internal"), MODULE)), 0, [main(), RECORDER]), "input", "_next_internal",
        ),
        (HangEvidence(look(IN_TENSORFLOW, (), workers=2), 0, [main(), RECORDER]), "collective", "TF_CONFIG names 2 workers"),
        (
            HangEvidence(look(((THREADING, 5, "wait"), ("/home/me/train.py", 40, "on_epoch_end"), (KERAS, 3, "fit"), MODULE)), 0, [main()]),
            "python", "on_epoch_end (train.py:40), in wait (threading.py:5)",
        ),
        (HangEvidence(look(((SERVER, 9, "join"), MODULE)), 0, [main(), RECORDER]), "", ""),
        (HangEvidence(look(((SELECT, 9, "select"), (ASYNCIO, 1, "_run_once"), MODULE)), 0, [main(), RECORDER]), "", ""),
        (HangEvidence(look(((SELECT, 9, "select"), (SUBPROCESS, 2, "communicate"), MODULE)), 0, [main(), RECORDER]), "python",
         "<module> (train.py:90), in select (selectors.py:9)"),
        (HangEvidence(look(IN_TENSORFLOW), 0, [main(), RECORDER]), "unknown", "quick_execute (execute.py:53)"),
        (HangEvidence(look((), ((("/home/me/train.py", 7, "load"),),), workers=2), 0, [main(), RECORDER]), "unknown", ""),
        (
            HangEvidence(look(IN_TENSORFLOW, ((("/home/me/train.py", 31, "load"),),), workers=2), 0, [main(), RECORDER]),
            "input", "another thread is in load (train.py:31)",
        ),
        (
            HangEvidence(look(IN_TENSORFLOW, (PY_FUNCTION,), workers=2), 0, [main(), RECORDER]), "input", "load (train.py:31)",
        ),
        (  # a thread that the program started for something else
            HangEvidence(look(IN_TENSORFLOW, (OWN_THREAD,), workers=2), 0, [main(), RECORDER]),
            "collective", "TF_CONFIG names 2 workers",
        ),
        (
            HangEvidence(look(IN_TENSORFLOW, (OWN_THREAD,)), 0, [main(), RECORDER]),
            "unknown", "a thread that the program started is in upload (train.py:70)",
        ),
        (
            HangEvidence(look(IN_TENSORFLOW, (OWN_THREAD,)), 0, [main()], native=["ncclAllReduce (libnccl.so.2)"]),
            "collective", "ncclAllReduce",
        ),
        (HangEvidence(look(IN_HOROVOD), 0, [main(), RECORDER], job=("HOROVOD_SIZE", 4)), "collective", "HOROVOD_SIZE says 4"),
        (HangEvidence(look(IN_HOROVOD), 0, [main(), RECORDER]), "collective", "_allreduce (mpi_ops.py:95)"),
        (
            HangEvidence(look(IN_TENSORFLOW), 0, [main(), RECORDER], job=("OMPI_COMM_WORLD_SIZE", 4)),
            "collective", "OMPI_COMM_WORLD_SIZE says 4",
        ),
        (
            HangEvidence(look(IN_TENSORFLOW, (PY_FUNCTION,)), 0, [main(), RECORDER], job=("SLURM_NTASKS", 8)),
            "input", "load (train.py:31)",
        ),
        (
            HangEvidence(look(((THREADING, 5, "wait"), ("/home/me/train.py", 40, "on_epoch_end"), (KERAS, 3, "fit"), MODULE)), 0,
                 [main()], job=("SLURM_NTASKS", 8)),
            "python", "on_epoch_end (train.py:40)",
        ),
        (HangEvidence(look(IN_TENSORFLOW), 0, [main()], held_gpus=4, native=["ncclGroupEnd (libnccl.so.2)"]), "collective", "holds memory on 4 GPUs"),
        (HangEvidence(look(IN_TENSORFLOW), 0, [main()], held_gpus=4), "unknown", ""),
        (HangEvidence(None, 12, [main()]), "unknown", "native code holds Python's lock"),
        (HangEvidence(look(SHUTDOWN, (TRAINS,)), 0, [main()]), "python", "the thread that trains is in on_epoch_end (train.py:40)"),
        (HangEvidence(look(JOIN, (OWN_THREAD, TRAINS)), 0, [main()]), "python", "the thread that trains is in on_epoch_end (train.py:40)"),
        (HangEvidence(look(SHUTDOWN, (TRAINS_INSIDE, PY_FUNCTION)), 0, [main()]), "input", "load (train.py:31)"),
        (HangEvidence(look(SHUTDOWN, (TRAINS_INSIDE,)), 0, [main()]), "unknown", "the thread that trains is in quick_execute (execute.py:53)"),
        (
            HangEvidence(look(SHUTDOWN, (TRAINS,)), 0, [main(), ThreadState(tid=12, name="python", state="S", syscall="read", file="/data/fifo")]),
            "read", "called by on_epoch_end (train.py:40)",
        ),
        (HangEvidence(look(SHUTDOWN, (OWN_THREAD,)), 0, [main()]), "exit", "a thread of the program still runs: upload (train.py:70)"),
        (HangEvidence(look(SHUTDOWN, (OWN_THREAD,)), 0, [main()], stepped=True), "python", "the thread that trains is in upload (train.py:70)"),
        (HangEvidence(look(JOIN, (PY_FUNCTION,)), 0, [main()]), "python", "the main thread is in <module> (train.py:90)"),
        (HangEvidence(look(SHUTDOWN, (TRAINS,)), 0, [main()], over=""), "exit", ""),
        (HangEvidence(look((*IN_TENSORFLOW[:2], *[(KERAS, 1, "call")] * 38)), 0, [main()]), "unknown", ""),  # its begin is cut off
        (HangEvidence(None, 0, [main()], unable="no py-spy"), "", "no py-spy"),
        (HangEvidence(None, 0, [main(syscall="read", file="socket:[7]")], unable="no py-spy"), "", ""),
        (HangEvidence(None, 0, [main(syscall="read", file="/dev/pts/0")], unable="no py-spy"), "", ""),
        (HangEvidence(None, 0, [main(syscall="read", file="/data/fifo")], unable="no py-spy"), "read", "no py-spy"),
        (HangEvidence(look(IN_TENSORFLOW), 0, [main()], native=["ncclAllReduce (libnccl.so.2)"]), "collective", "ncclAllReduce"),
    ],
)  # fmt: skip
def test_the_kind_and_its_evidence(seen: HangEvidence, kind: str, words: str) -> None:
    standing = diagnose_hang(seen)
    assert (standing.kind, words in " ".join(standing.evidence)) == (kind, True), standing


def test_the_native_stack_of_the_main_thread_is_read() -> None:
    dump = (
        'Process 7: python train.py\nPython v3.12.1\n\nThread 7 (idle): "MainThread"\n'
        "    syscall (libc.so.6)\n    tensorflow::data::IteratorResource::~IteratorResource (libtensorflow_cc.so.2)\n"
        '    <module> (train.py:4)\nThread 9 (idle): "Thread-1"\n    other (libc.so.6)\n'
    )
    functions = [
        "syscall (libc.so.6)", "tensorflow::data::IteratorResource::~IteratorResource (libtensorflow_cc.so.2)",
        "<module> (train.py:4)",
    ]  # fmt: skip
    assert native_functions(dump, 7) == functions
    assert native_functions(dump.replace(': "MainThread"', ""), 7) == functions  # a program without threading


def test_the_main_thread_of_py_spy_is_found_without_its_name() -> None:
    frame = {"name": "wait_long", "filename": "<string>", "line": 3}
    other = {"name": "load", "filename": "/home/me/train.py", "line": 7}
    cases: list[tuple[list[dict[str, object]], int | None]] = [
        ([{"thread_name": None, "os_thread_id": 10, "frames": [frame]}, {"thread_name": None, "os_thread_id": 12, "frames": [other]}], 0),
        ([{"thread_name": "load", "os_thread_id": None, "frames": [other]}, {"thread_name": "MainThread", "os_thread_id": None, "frames": [frame]}], 1),
        ([{"thread_name": None, "os_thread_id": None, "frames": [frame]}], 0),
        ([{"thread_name": None, "frames": [frame]}, {"thread_name": None, "frames": [other]}], None),
    ]  # fmt: skip
    for threads, expected in cases:
        found = main_thread(threads, 10)
        assert found is (None if expected is None else threads[expected])
