"""Ray's errors go on for pages: the reason that a row of the fleet's report gives is what they come to."""

from __future__ import annotations

import pytest

from tfgpu_doctor.collect.workers.ray_driver import LONGEST_REASON, short

# What Ray 2.60 raises where pip finds no such file, shortened in the middle.
NOT_INSTALLED = """Failed to set up runtime environment.
[Node 192.0.2.2] Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/ray/_private/runtime_env/agent/runtime_env_agent.py", line 561, in _create
    runtime_env_context = await asyncio.wait_for(
                          ^^^^^^^^^^^^^^^^^^^^^^^
ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] failed with the following details.
Command '['/tmp/ray/session/virtualenv/bin/python', '-m', 'pip', 'install', '-r', '/tmp/ray/session/requirements.txt']' returned \
non-zero exit status 1.
Last 50 lines of stdout:
    WARNING: Requirement '/tmp/no_such-1.0-py3-none-any.whl' looks like a filename, but the file does not exist
    Processing /tmp/no_such-1.0-py3-none-any.whl (from -r /tmp/ray/session/requirements.txt (line 1))
    ERROR: Could not install packages due to an OSError: [Errno 2] No such file or directory: '/tmp/no_such-1.0-py3-none-any.whl'
"""
# A task that raised, as Ray shows it.
RAISED = """ray::examine() (pid=4021, ip=10.0.0.7)
  File "/venv/lib/python3.11/site-packages/tfgpu_doctor/collect/workers/ray_task.py", line 40, in examine
    os.mkdir(folder)
OSError: [Errno 28] No space left on device: '/tmp/x'
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            NOT_INSTALLED,
            "Failed to set up runtime environment. ERROR: Could not install packages due to an OSError: [Errno 2] No such file "
            "or directory: '/tmp/no_such-1.0-py3-none-any.whl'",
        ),
        (RAISED, "ray::examine() (pid=4021, ip=10.0.0.7) OSError: [Errno 28] No space left on device: '/tmp/x'"),
        ("", "RuntimeError"),
        ("  indented alone", "  indented alone"),
    ],
    ids=["pip", "task", "empty", "indented"],
)
def test_what_it_comes_to(text: str, expected: str) -> None:
    assert short(RuntimeError(text)) == expected


def test_it_has_an_end() -> None:
    assert len(short(RuntimeError("x" * 10_000))) == LONGEST_REASON
