"""A folder with a profile, read and judged at once."""

from __future__ import annotations

from tfgpu_doctor.tracing.examine import examine
from tfgpu_doctor.tracing.reading import find_file, read_profile
from tfgpu_doctor.tracing.result import TraceReport, make_report


def judge_profile(path: str, name: str) -> TraceReport:
    """Return the report on what lies at a path; `name` is what it calls the program. Raises Unreadable."""
    profile = read_profile(find_file(path))
    return make_report(profile, examine(profile), name)
