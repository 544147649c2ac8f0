"""The folder of this interpreter's environment, and the folders that pip installs into."""

from __future__ import annotations

import json
import os
import sys
import sysconfig


def main() -> None:
    paths = sysconfig.get_paths()
    answer = {
        "prefix": sys.prefix,
        "virtual": sys.prefix != sys.base_prefix,
        "conda": os.path.isdir(os.path.join(sys.prefix, "conda-meta")),
        "paths": {name: paths[name] for name in ("purelib", "platlib", "scripts", "include", "data") if name in paths},
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
