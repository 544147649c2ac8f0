"""A profile of a million events: how much memory its reading takes, and how large its page becomes."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import made_trace
import pytest
from doctor_command import clean_environment
from made_trace import MadeEvent, MadeLine, MadePlane

EVENTS = 1_000_000
MOST_KIB = 300 * 1000 * 1000 // 1024
MOST_BYTES_OF_PAGE = 2_000_000

EXAMINE = """
import pathlib, resource, sys
from tfgpu_doctor.tracing.command import examined, render
report, drawing = examined(sys.argv[1])
pathlib.Path(sys.argv[2]).write_text(render(report, None, drawing, "html"), "utf-8")
print(report.verdict, report.events, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def planes() -> list[MadePlane]:
    """A training whose steps run many operations on several threads, and whose pipeline handles single elements."""
    found = made_trace.training(
        steps=500, step_ms=20.0, compute_ms=6.0, input_ms=12.0, stage="Iterator::Root::Prefetch"
    )
    host = found[0]
    stages = ["Iterator::Root::Prefetch::BatchV2", "Iterator::Root::Prefetch::BatchV2::Map"]
    host.lines.append(MadeLine("tf_data_iterator_resource/3", number=3))
    host.lines += [MadeLine(f"tf_Compute/{number}", number=number) for number in range(4, 8)]
    left = EVENTS - sum(len(line.events) for line in host.lines)
    per_step = left // 501
    for step in range(501):
        at = 20.0 * step
        host.lines[2].events.append(MadeEvent(stages[0], at, 11.9))
        elements = per_step // 2
        host.lines[2].events += [
            MadeEvent(stages[1], at + 11.8 * each / elements, 11.0 / elements) for each in range(elements)
        ]
        operations = per_step - elements - 1
        for each in range(operations):
            host.lines[3 + each % 4].events.append(
                MadeEvent(f"layer_{each % 300}/MatMul:MatMul", at + 12.3 + 5.9 * each / operations, 5.0 / operations)
            )
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss has another unit, or is not there")
def test_a_million_events(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path, planes())
    # A shell between the two: what a process takes before it becomes another program counts, too, and pytest is large.
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", EXAMINE, str(tmp_path), str(tmp_path / "page.html")],
        capture_output=True, text=True, check=False, env=clean_environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    verdict, events, peak_kib = done.stdout.split()
    assert verdict.startswith("input_")
    assert int(events) >= 0.99 * EVENTS
    assert int(peak_kib) <= MOST_KIB
    page = (tmp_path / "page.html").read_bytes()
    assert b"Input pipeline" in page
    assert len(page) < MOST_BYTES_OF_PAGE
