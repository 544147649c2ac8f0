"""Comparisons of a candidate with a baseline: measure, judge, save, and compare with earlier runs."""
