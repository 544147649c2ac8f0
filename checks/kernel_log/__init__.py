"""Checks of the kernel log."""
