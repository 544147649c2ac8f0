"""Open each given path for reading and writing, and report the result of each. Opening may block: hence a child."""

from __future__ import annotations

import errno
import json
import os
import sys


def main() -> None:
    for path in sys.argv[1:]:
        sys.stdout.write(json.dumps({"phase": "opening " + path}) + "\n")
        sys.stdout.flush()
        try:
            os.close(os.open(path, os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)))
            error = ""
        except OSError as problem:
            error = errno.errorcode.get(problem.errno or 0, str(problem))
        sys.stdout.write(json.dumps({"opened": {path: error}}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
