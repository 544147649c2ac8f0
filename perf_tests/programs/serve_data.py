"""Run a tf.data service, a dispatcher and one worker, until standard input ends."""

from __future__ import annotations

import json
import os
import sys

from tfgpu_doctor.perf_tests.importing import without_collection


def main() -> None:
    """Report the address of the dispatcher."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not mix with the responses
    with without_collection():
        import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.partition("://")[2]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    print(json.dumps({"target": dispatcher.target, "pid": os.getpid()}), file=answers, flush=True)
    sys.stdin.read()
    del worker  # it serves until it is deleted
    os._exit(0)


if __name__ == "__main__":
    main()
