"""Run pytest over the perf suites. Its arguments are pytest's; it ends with the doctor, and runs in an empty folder."""

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
    del sys.path[0]  # this program's folder, whose modules must not be visible to pytest
    import pytest

    # pytest-benchmark creates its storage folder in the working folder.
    with tempfile.TemporaryDirectory(prefix="tfgpu-doctor-") as folder:
        os.chdir(folder)
        code = int(pytest.main(sys.argv[1:]))
        os.chdir("/")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a TensorFlow thread that hangs at exit must not delay the results


if __name__ == "__main__":
    main()
