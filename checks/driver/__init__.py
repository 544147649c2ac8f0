"""Checks of the NVIDIA driver."""
