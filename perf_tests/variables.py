"""Environment variables and an exit code for the communication between the doctor and a run of the suites."""

from __future__ import annotations

FACTS_VARIABLE = "TFGPU_DOCTOR_FACTS"  # a record of this machine, so that the run does not examine it again
START_AGAIN = 75  # exit code if the GPU stopped responding to this process: the remaining tests need a new one
# JSON: by the name of each GPU that others use ("GPU:0"), the signs of it; null: it is not known who uses them.
BUSY_VARIABLE = "TFGPU_DOCTOR_BUSY"
ALTHOUGH_BUSY_VARIABLE = "TFGPU_DOCTOR_EVEN_IF_BUSY"  # set: these GPUs are measured all the same
COMPILES_VARIABLE = "TFGPU_DOCTOR_COMPILES"  # set: the driver compiles a GPU's kernels first, for many minutes
JOURNAL_VARIABLE = "TFGPU_DOCTOR_JOURNAL"  # where the run writes what it measures, line by line
