"""Examine a machine: the probes, the programs that they run in child processes, and a model of the dynamic loader."""
