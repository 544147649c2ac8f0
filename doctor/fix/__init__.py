"""Repair: what mends a cause, carried out inside the target environment, checked, and undone again."""
