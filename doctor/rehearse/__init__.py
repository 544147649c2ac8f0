"""A rehearsal: run the target's real TensorFlow against a simulated driver, on a machine without a GPU."""
