"""A rehearsal: the target's real TensorFlow against a simulated driver, on a machine that has no GPU."""
