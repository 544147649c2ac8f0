"""Checks for the Python environment and its packages."""
