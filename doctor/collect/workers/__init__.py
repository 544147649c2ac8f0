"""Programs that run in a child process, most of them inside the target's interpreter.

Each program is one file that uses only the standard library, runs on Python 3.8 to 3.14, and is started by its path.
It writes JSON objects, one per line, to its original standard output; the caller merges them in order.
`{"phase": ...}` names the next step, so that a crash or a timeout can be attributed to it.
"""
