"""Checks for the results of the stress test."""
