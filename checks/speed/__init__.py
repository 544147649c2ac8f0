"""Checks for the results of the perf suites."""
