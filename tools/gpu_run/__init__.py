"""What tools/record_gpu.py runs on a machine with an NVIDIA GPU, and how it keeps the results."""
