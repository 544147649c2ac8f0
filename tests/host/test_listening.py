"""The socket on which programs answer: what is asked of it while this process may open no more files."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, socket
from tfgpu_doctor.host.listening import Listener
listener = Listener()
client = socket.socket(socket.AF_UNIX)
client.connect(listener._path)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
first_free = os.dup(0)
os.close(first_free)
resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
listener.accept(0.01)
without = len(listener.talks)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
listener.accept(60.0)
print(without, len(listener.talks))
listener.close()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is that of Linux")
def test_a_connection_waits_until_files_may_be_opened_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == ("0 1\n", "")
