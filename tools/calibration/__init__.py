"""The parts of tools/calibrate_bench.py: simulated noise, the engine on a simulated clock, and candidates for its interval."""

from __future__ import annotations

import os

# Before numpy: the products here are too small for several threads, which only wait for each other on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
