"""Find the TensorFlow release that fits a machine: pure functions of the target and the tables."""
