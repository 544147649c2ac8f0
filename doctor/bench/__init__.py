"""Comparisons: two ways to do one thing, measured against each other, judged, kept and compared."""
