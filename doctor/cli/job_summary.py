"""The job summary of GitHub Actions: Markdown, appended to the file that $GITHUB_STEP_SUMMARY names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor.cli.output import note
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import append_whole

if TYPE_CHECKING:
    from tfgpu_doctor.model import Severity
    from tfgpu_doctor.model.report import Report

# The maximum for a step; GitHub shows no larger summary:
# https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
_LARGEST_BYTES = 1 << 20


def add_job_summary(report: Report, fail_level: Severity = "error") -> None:
    """Add the report if GitHub provides a file for it; a failure to write it does not change the verdict."""
    path = Host().environment.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return
    from tfgpu_doctor.render.markdown_page import render_markdown

    try:
        append_whole(path, f"{render_markdown(report, fail_level)}\n".encode(), _LARGEST_BYTES)
    except OSError as error:
        note(f"no job summary: $GITHUB_STEP_SUMMARY ({path}) cannot be written: {error.strerror or error}")
    except ValueError as error:  # an invalid path
        note(f"no job summary: $GITHUB_STEP_SUMMARY is not a valid path: {error}")
