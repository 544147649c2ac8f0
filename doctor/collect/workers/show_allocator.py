"""Say which file the function malloc of this process comes from (Linux)."""

from __future__ import annotations

import ctypes
import json
import sys


def file_at(address: int) -> str:
    """The file that is mapped at an address; empty if none is, or if it cannot be read."""
    try:
        with open("/proc/self/maps", errors="replace") as maps:
            for line in maps:
                fields = line.split(None, 5)
                first, _, end = fields[0].partition("-")
                if int(first, 16) <= address < int(end, 16):
                    return fields[5].strip() if len(fields) == 6 else ""
    except (OSError, ValueError):
        pass
    return ""


def main() -> None:
    try:
        address = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value or 0
    except (OSError, AttributeError, TypeError):
        address = 0
    sys.stdout.write(json.dumps({"malloc": file_at(address)}) + "\n")


if __name__ == "__main__":
    main()
