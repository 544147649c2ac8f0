"""Checks for the CUDA libraries that TensorFlow opens."""
