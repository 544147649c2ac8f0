"""Checks of the stress test."""
