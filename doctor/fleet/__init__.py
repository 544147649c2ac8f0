"""Many machines: the report of each node, and the comparison of all nodes."""
