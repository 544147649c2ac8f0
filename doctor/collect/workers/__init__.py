"""Programs that run in a child process, most of them inside the target's interpreter.

Each is one file of the standard library alone, fit for Python 3.8 to 3.14, started by its path.
It writes JSON objects, one a line, to the standard output that it found; the caller merges them in order.
`{"phase": ...}` says what it is about to do, so that a crash or a deadline can be placed.
"""
