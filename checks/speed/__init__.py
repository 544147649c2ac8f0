"""Checks of the perf suites."""
