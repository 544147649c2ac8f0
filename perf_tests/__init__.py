"""The pytest-benchmark suites: proof, on this machine, that the GPU path beats the CPU."""
