"""The pytest-benchmark suites: measure on this machine whether the GPU is faster than the CPU."""
