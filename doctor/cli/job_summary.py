"""The summary of a job of GitHub Actions: Markdown, added to the file that $GITHUB_STEP_SUMMARY names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor.cli.output import note
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import append_whole

if TYPE_CHECKING:
    from tfgpu_doctor.model.report import Report

# What GitHub takes for a step; above it, it shows none:
# https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
_LARGEST_BYTES = 1 << 20


def add_job_summary(report: Report) -> None:
    """Add the report where GitHub asks for one; that it cannot be written changes nothing about the verdict."""
    path = Host().environment.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return
    from tfgpu_doctor.render.markdown_page import render_markdown

    try:
        append_whole(path, f"{render_markdown(report)}\n".encode(), _LARGEST_BYTES)
    except OSError as error:
        note(f"no job summary: $GITHUB_STEP_SUMMARY ({path}) cannot be written: {error.strerror or error}")
    except ValueError as error:  # a path that no file can have
        note(f"no job summary: $GITHUB_STEP_SUMMARY names no file: {error}")
