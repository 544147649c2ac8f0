"""A recording judged by a process of its own: in the user's process it would hold Python's lock while the training needs it."""

from __future__ import annotations

import sys

import msgspec

from tfgpu_doctor.cli.output import WRONG_USAGE
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.tracing import TraceReport, Unreadable, judge_profile

_DEADLINE_S = 120.0


def judge_apart(path: str, name: str) -> TraceReport:
    """The report on what lies at a path, by `tfgpu-doctor trace`; by this process if that fails. Raises Unreadable."""
    argv = [sys.executable or "python", "-m", "tfgpu_doctor", "trace", path, "--format", "json"]
    done = Host().run(argv, deadline_s=_DEADLINE_S)
    if done.exit_code == WRONG_USAGE and done.stderr.strip():
        raise Unreadable(done.stderr.strip().splitlines()[-1].rpartition("error: ")[2])
    try:
        return msgspec.structs.replace(decode_json(done.stdout, TraceReport), file=name)
    except msgspec.DecodeError:
        return judge_profile(path, name)
