"""Facts of real machines from what their tools printed: the parts of tools/read_captures.py."""
