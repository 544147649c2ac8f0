"""Checks of the TensorFlow that is installed, and what it does with the GPUs."""
