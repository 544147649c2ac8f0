"""Many machines: what each node reported, and the comparison of all of them."""
