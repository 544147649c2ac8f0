"""Environment variables and an exit code for the communication between the doctor and a run of the suites."""

from __future__ import annotations

FACTS_VARIABLE = "TFGPU_DOCTOR_FACTS"  # a record of this machine, so that the run does not examine it again
START_AGAIN = 75  # exit code if the GPU stopped responding to this process: the remaining tests need a new one
JOURNAL_VARIABLE = "TFGPU_DOCTOR_JOURNAL"  # where the run writes what it measures, line by line
