"""Run pytest over the perf suites. Its arguments are pytest's; it dies with the doctor, and works in an empty folder."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile


def main() -> None:
    try:
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (OSError, AttributeError):
        pass
    del sys.path[0]  # this program's folder, whose modules are no business of pytest's
    import pytest

    # pytest-benchmark makes a folder for its storage where it is started.
    with tempfile.TemporaryDirectory(prefix="tfgpu-doctor-") as folder:
        os.chdir(folder)
        code = int(pytest.main(sys.argv[1:]))
        os.chdir("/")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread of TensorFlow's that hangs at the end must not hold up what is known


if __name__ == "__main__":
    main()
