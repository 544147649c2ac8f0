"""Checks for the environment of the process and the GPUs that are visible to it."""
