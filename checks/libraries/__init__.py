"""Checks of the CUDA libraries that TensorFlow opens."""
