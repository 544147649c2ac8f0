"""Checks for containers, pods and batch jobs."""
