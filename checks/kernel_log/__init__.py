"""Checks of what the kernel's log says."""
