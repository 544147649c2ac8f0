"""Checks of NVIDIA's driver."""
