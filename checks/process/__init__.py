"""Checks for the process's environment and the GPUs that are visible to it."""
