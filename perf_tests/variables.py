"""The variables by which the doctor tells a run of the suites what it knows."""

from __future__ import annotations

FACTS_VARIABLE = "TFGPU_DOCTOR_FACTS"  # a record of this machine, so that it need not be examined again
START_AGAIN = 75  # the exit code of a run whose GPU answers no more in this process: the rest needs a new one
JOURNAL_VARIABLE = "TFGPU_DOCTOR_JOURNAL"  # where the run writes what it measures, line by line
