"""Checks of the Python environment and the packages in it."""
