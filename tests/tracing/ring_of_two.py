"""A training of two processes that add up large gradients over TCP, in steps that compute little: `python ring_of_two.py`.

The first process starts the second. Nothing here knows of profiles.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import tensorflow as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    if "TF_CONFIG" in os.environ:
        threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    else:
        start_other(seconds)
    train_step = ring_step()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        train_step(tf.ones((8, 8)))
    os._exit(0)  # the other worker may wait for a reduction that does not come any more


def start_other(seconds: float) -> None:
    """Start the second worker. -E: what watches the first process keeps out of it."""
    workers = [f"localhost:{port}" for port in free_ports(2)]
    configs = [json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": at}}) for at in (0, 1)]
    argv = [sys.executable, "-E", __file__, "--seconds", str(seconds)]
    subprocess.Popen(argv, env={**os.environ, "TF_CONFIG": configs[1]})
    os.environ["TF_CONFIG"] = configs[0]


def free_ports(count: int) -> list[int]:
    """Below those that the kernel gives away (ip_local_port_range): TensorFlow takes them only seconds later."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("localhost", port)):
            found += [port] if port not in found else []
    return found


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def ring_step() -> Callable[[tf.Tensor], tf.Tensor]:
    """The step: its gradients are a little work, and 16 MB to add up."""
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    with strategy.scope():
        weights = [tf.Variable(tf.random.normal((1000, 1000))) for _ in range(4)]

    def one(rows: tf.Tensor) -> tf.Tensor:
        slopes = [each * tf.reduce_mean(rows) for each in weights]
        together = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, slopes)
        return tf.add_n([each[0, 0] for each in together])

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor) -> tf.Tensor:
        return strategy.run(one, args=(rows,))

    return train_step  # type: ignore[no-any-return, unused-ignore]


if __name__ == "__main__":
    main()
