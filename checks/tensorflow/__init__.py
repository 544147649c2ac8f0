"""Checks for the installed TensorFlow and its use of the GPUs."""
