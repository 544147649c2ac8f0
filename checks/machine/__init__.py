"""Checks of the machine itself: system, limits, processors, memory, buses."""
