"""Examine a machine: probes, the programs that they run in children, and what the dynamic loader would do."""
