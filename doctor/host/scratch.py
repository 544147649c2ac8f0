"""A temporary folder for one run."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder that is removed afterwards. Raises OSError if none can be created."""
    with tempfile.TemporaryDirectory(prefix="tfgpu-doctor-") as folder:
        yield folder


def make_links(folder: str, targets: Mapping[str, str]) -> None:
    """Create a folder with links of these names. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    for name, target in targets.items():
        os.symlink(target, os.path.join(folder, name))
