"""Checks of containers, pods and batch jobs."""
