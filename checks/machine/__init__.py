"""Checks of the machine itself: system, limits, CPUs, memory, buses."""
