"""Which TensorFlow release fits a machine: pure functions of a situation and the tables."""
